"""One step of the stiff integrator for the flow inside a stage, in O(width).

The method is Rodas5P (``rodas5p``, where the formulas are). Its linear systems (1/(hγ) I − J) U = r with the
exact Jacobian J of the stage's flow are solved by ``knot_riccati``: no Newton iteration, no matrix.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.knot_blocks import FloatArray, IntArray
from shallowflow.kernels.knot_riccati import factorize, solve
from shallowflow.kernels.knot_stage import velocity
from shallowflow.kernels.rodas5p import COUPLING, DENSE_WEIGHTS, GAMMA, STAGE_WEIGHTS, STAGES


@njit(cache=True, error_model="numpy")
def _combine(
    base: FloatArray,
    weights: FloatArray,
    factor: float,
    stages: FloatArray,
    count: int,
    live: int,
    out: FloatArray,
) -> None:
    """out = base + factor · Σ_{i < count} weights_i U_i; ``out`` may be ``base``."""
    for row in range(2):
        for j in range(live):
            out[row, j] = base[row, j]
        for i in range(count):
            weight = factor * weights[i]
            for j in range(live):
                out[row, j] += weight * stages[i, row, j]


@njit(cache=True, error_model="numpy")
def attempt_step(
    state: FloatArray,
    start_velocity: FloatArray,
    start_force: FloatArray,
    layout: IntArray,
    blocks: FloatArray,
    live: int,
    rates: tuple[float, float],
    h: float,
    factors: FloatArray,
    stages: FloatArray,
    new: FloatArray,
    sums: FloatArray,
) -> bool:
    """Try one step of length h: end state into ``new`` (2, n), the U_i into ``stages`` (8, 2, n).

    Returns False, without a result, if 1/(hγ) I − J is not positive definite in the metric of the rates,
    that is if h is more than 1/γ times the time scale of an unstable direction: an L-stable method would
    silently damp that direction. ``sums`` (2, n) and ``factors`` (n, 11) are overwritten.
    """
    kappa = 1.0 / (h * GAMMA)
    if not factorize(state, layout, blocks, live, start_force, (kappa / rates[0], kappa / rates[1]), factors):
        return False
    for row in range(2):
        for j in range(live):
            stages[0, row, j] = start_velocity[row, j]
    solve(state, blocks, live, rates, factors, stages[0])
    for i in range(1, STAGES):
        _combine(state, STAGE_WEIGHTS[i], 1.0, stages, i, live, new)
        velocity(new, layout, blocks, live, rates, sums, stages[i])
        _combine(stages[i], COUPLING[i], 1.0 / h, stages, i, live, stages[i])
        solve(state, blocks, live, rates, factors, stages[i])
    for row in range(2):
        for j in range(live):
            new[row, j] += stages[STAGES - 1, row, j]
    return True


@njit(cache=True, error_model="numpy")
def error_norm(
    state: FloatArray, new: FloatArray, stages: FloatArray, live: int, tolerances: tuple[float, float]
) -> float:
    """Root mean square of U_8 / (atol + rtol max(|θ_0|, |θ_1|)), live neurons; tolerances = (rtol, atol)."""
    total = 0.0
    for row in range(2):
        for j in range(live):
            scale = tolerances[1] + tolerances[0] * max(abs(state[row, j]), abs(new[row, j]))
            total += (stages[STAGES - 1, row, j] / scale) ** 2
    return float(np.sqrt(total / max(2 * live, 1)))


@njit(cache=True, error_model="numpy")
def dense_coefficients(stages: FloatArray, live: int, dense: FloatArray) -> None:
    """Coefficients k_1, k_2, k_3 of the step's interpolant into ``dense`` (3, 2, n)."""
    for i in range(3):
        for row in range(2):
            for j in range(live):
                dense[i, row, j] = 0.0
        _combine(dense[i], DENSE_WEIGHTS[i], 1.0, stages, stages.shape[0], live, dense[i])


@njit(cache=True, error_model="numpy")
def interpolate(
    state: FloatArray, new: FloatArray, dense: FloatArray, live: int, s: float, out: FloatArray
) -> None:
    """State at the fraction 0 ≤ s ≤ 1 of the step into ``out`` (2, n)."""
    for row in range(2):
        for j in range(live):
            bend = dense[0, row, j] + s * (dense[1, row, j] + s * dense[2, row, j])
            out[row, j] = (1.0 - s) * state[row, j] + s * (new[row, j] + (1.0 - s) * bend)
