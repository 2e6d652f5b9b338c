"""One explicit Runge–Kutta step for the neurons that feel a moving residual: see ``log_flow``.

State Y (L, n + 1) of the L live neurons: column 0 is ρ_j = ln|a_j|, the others g_jk = ⟨w_j, x_k⟩/|a_j|. With
s_j = sign a_j, `on` the active coordinates, r_k = y_k − Σ_j s_j e^{2ρ_j} g_jk on moving points and r_k given
on fixed ones, [incremental] (6) reads

    ρ_j' = s_j rate Σ_{k on} g_jk r_k ,      g_jk' = s_j rate r_k − g_jk ρ_j'  (k on).

The method is DOP853 (Hairer, Nørsett & Wanner 1993, II.10), with the coefficients and the error estimate of
``scipy.integrate.DOP853``. Inside a step the set `on` is kept, so that the right-hand side is smooth.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.integrate import DOP853

from shallowflow.kernels.log_leap import FloatArray

BoolArray = NDArray[np.bool_]

STAGES = 12
A = np.ascontiguousarray(DOP853.A)
B = np.ascontiguousarray(DOP853.B)
E3 = np.ascontiguousarray(DOP853.E3)
E5 = np.ascontiguousarray(DOP853.E5)


@njit(cache=True)
def velocity(
    state: FloatArray,
    on: BoolArray,
    signs: FloatArray,
    targets: FloatArray,
    residual: FloatArray,
    fixed: BoolArray,
    rate: float,
    work: FloatArray,
    out: FloatArray,
) -> None:
    """Write Y' into ``out``; ``work`` (n,) is overwritten by the residual."""
    live, n = len(state), len(targets)
    for k in range(n):
        work[k] = residual[k] if fixed[k] else targets[k]
    for j in range(live):
        weight = signs[j] * np.exp(2.0 * state[j, 0])
        if weight != 0.0:
            for k in range(n):
                if on[j, k] and not fixed[k]:
                    work[k] -= weight * state[j, k + 1]
    for j in range(live):
        factor = signs[j] * rate
        growth = 0.0
        for k in range(n):
            if on[j, k]:
                growth += state[j, k + 1] * work[k]
        growth *= factor
        out[j, 0] = growth
        for k in range(n):
            out[j, k + 1] = factor * work[k] - growth * state[j, k + 1] if on[j, k] else 0.0


@njit(cache=True)
def step(
    state: FloatArray,
    on: BoolArray,
    signs: FloatArray,
    targets: FloatArray,
    residual: FloatArray,
    fixed: BoolArray,
    rate: float,
    h: float,
    work: FloatArray,
    stages: FloatArray,
    new: FloatArray,
) -> None:
    """Make one step of length h, given ``stages[0]`` = Y'; end into ``new``, its Y' into ``stages[12]``."""
    rows, columns = state.shape
    for i in range(1, STAGES + 1):
        weights = A[i] if i < STAGES else B
        for j in range(rows):
            for k in range(columns):
                new[j, k] = state[j, k]
        for p in range(i):
            weight = h * weights[p]
            if weight != 0.0:
                for j in range(rows):
                    for k in range(columns):
                        new[j, k] += weight * stages[p, j, k]
        velocity(new, on, signs, targets, residual, fixed, rate, work, stages[i])


@njit(cache=True)
def error_norm(stages: FloatArray, h: float, tolerance: float) -> float:
    """Return the error estimate of a step over the tolerance, absolute in ρ and g; root mean per neuron."""
    rows, columns = stages.shape[1:]
    fifth, third = 0.0, 0.0
    for j in range(rows):
        for k in range(columns):
            e5, e3 = 0.0, 0.0
            for p in range(STAGES + 1):
                e5 += E5[p] * stages[p, j, k]
                e3 += E3[p] * stages[p, j, k]
            fifth += e5 * e5
            third += e3 * e3
    if fifth == 0.0 and third == 0.0:
        return 0.0
    return float(abs(h) * fifth / np.sqrt((fifth + 0.01 * third) * rows) / tolerance)
