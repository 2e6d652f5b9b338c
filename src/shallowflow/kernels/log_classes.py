"""Which points move and which neurons feel them, on orthonormal data: see ``log_flow``.

Neurons meet only in the residuals r_k = y_k − Σ_j s_j e^{2ρ_j} g_jk, and most residuals stand still most of
the time. Every point is one of

- untouched: all neurons active on it are small, e^{2ρ_j} < tiny·min|y|, so that r_k = y_k;
- settled: |r_k| ≤ tiny·max|y|, and no neuron that still grows can disturb it: r_k = 0. A growing neuron j
  cannot if it is small, or if its share stays negligible at its largest possible norm A, |f_jk| A ≤
  tiny·max|y| (f_jk is constant while r_k = 0);
- moving: all others.

A neuron with a moving point is *live*.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.log_leap import FloatArray
from shallowflow.kernels.log_step import BoolArray


@njit(cache=True)
def small_log_norm(targets: FloatArray, tiny: float) -> float:
    """Return the ρ below which a neuron is small: e^{2ρ} = tiny·(smallest non-zero |y_k|)."""
    smallest = np.inf
    for y in targets:
        if y != 0.0:
            smallest = min(smallest, abs(y))
    return 0.5 * np.log(tiny * smallest) if smallest < np.inf else 0.0


@njit(cache=True)
def classify(
    rho: FloatArray,
    g: FloatArray,
    signs: FloatArray,
    targets: FloatArray,
    tiny: float,
    residual: FloatArray,
    fixed: BoolArray,
    live: BoolArray,
) -> int:
    """Decide which points move (return their number) and which neurons are live; fill ``residual``."""
    m, n = g.shape
    small = small_log_norm(targets, tiny)
    weights = signs * np.exp(2.0 * rho)
    bound = tiny * np.max(np.abs(targets))
    settled = np.zeros(n, np.bool_)
    for k in range(n):
        touched = False
        for j in range(m):
            touched = touched or (g[j, k] > 0.0 and rho[j] >= small)
        value = _residual_at(k, g, weights, targets) if touched else targets[k]
        settled[k] = touched and abs(value) <= bound
        fixed[k] = settled[k] or not touched
        residual[k] = 0.0 if settled[k] else value
    changed = True
    while changed:
        changed = False
        for j in range(m):
            if rho[j] >= small and _grows(g[j], settled, residual):
                changed = (
                    _unsettle(j, rho[j], g, weights, targets, bound, settled, residual, fixed) or changed
                )
    for j in range(m):
        live[j] = False
        for k in range(n):
            live[j] = live[j] or (g[j, k] > 0.0 and not fixed[k])
    return int(n - np.sum(fixed))


@njit(cache=True)
def _residual_at(k: int, g: FloatArray, weights: FloatArray, targets: FloatArray) -> float:
    value = float(targets[k])
    for j in range(len(weights)):
        if g[j, k] > 0.0:
            value -= weights[j] * g[j, k]
    return value


@njit(cache=True)
def _grows(row: FloatArray, settled: BoolArray, residual: FloatArray) -> bool:
    """Whether a neuron is active on a point that is not fitted."""
    grows = False
    for k in range(len(row)):
        grows = grows or (row[k] > 0.0 and not settled[k] and residual[k] != 0.0)
    return grows


@njit(cache=True)
def _unsettle(
    j: int,
    log_norm: float,
    g: FloatArray,
    weights: FloatArray,
    targets: FloatArray,
    bound: float,
    settled: BoolArray,
    residual: FloatArray,
    fixed: BoolArray,
) -> bool:
    """Let the settled points move that a growing neuron j may disturb; return whether there are any."""
    share = np.exp(log_norm) * 2.0 * np.sqrt(np.sqrt(np.sum(targets * targets)))
    found = False
    for k in range(len(targets)):
        if settled[k] and g[j, k] * share > bound:
            settled[k], fixed[k], found = False, False, True
            residual[k] = _residual_at(k, g, weights, targets)
    return found
