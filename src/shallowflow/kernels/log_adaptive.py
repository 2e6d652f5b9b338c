"""One accepted step of the live neurons, as long as its error and the first coordinate to reach zero allow.

See ``log_flow``. A step is stable for h·λ ≤ 4 with λ ≤ 2·rate·Σ_live e^{2ρ_j}, the bound on the curvature of
the live part.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.log_leap import FloatArray
from shallowflow.kernels.log_step import STAGES, BoolArray, error_norm, step, velocity

STABLE = 4.0
LOCATIONS = 60


@njit(cache=True)
def adaptive_step(
    state: FloatArray,
    on: BoolArray,
    sign: FloatArray,
    targets: FloatArray,
    residual: FloatArray,
    fixed: BoolArray,
    rate: float,
    h: float,
    longest: float,
    tolerance: float,
    work: FloatArray,
) -> tuple[float, float, int]:
    """Make one accepted step, at most `longest`; return (its length, the next h, rejections).

    The state is overwritten by the end of the step. A length of 0 means that no step was found, −1 that
    the state is not finite.
    """
    stages = np.empty((STAGES + 1, *state.shape))
    new = np.empty_like(state)
    velocity(state, on, sign, targets, residual, fixed, rate, work, stages[0])
    curvature = 2.0 * rate * np.sum(np.exp(2.0 * state[:, 0]))
    cap = STABLE / curvature if curvature > 0.0 else np.inf
    if h <= 0.0:
        h = 0.1 / max(np.max(np.abs(stages[0])), curvature)
    shortest, rejected = 1e-15 * longest, 0
    while True:
        tried = min(h, cap, longest)
        step(state, on, sign, targets, residual, fixed, rate, tried, work, stages, new)
        error = error_norm(stages, tried, tolerance)
        if not np.isfinite(error):
            error = 1e10
        if error <= 1.0:
            break
        rejected += 1
        h = tried * max(0.2, 0.9 * error**-0.125)
        if h <= shortest:
            return (0.0 if np.isfinite(np.sum(state)) else -1.0), h, rejected
    grown = tried * (5.0 if error == 0.0 else min(5.0, max(0.2, 0.9 * error**-0.125)))
    # A step cut short by an end or an event says nothing against the longer one that was planned.
    h = max(grown, h) if tried < h else grown
    if _lowest(new, on) < -tolerance:
        tried = _shorten(state, on, sign, targets, residual, fixed, rate, tried, tolerance, work, stages, new)
    state[:] = new
    return tried, h, rejected


@njit(cache=True)
def _lowest(state: FloatArray, on: BoolArray) -> float:
    """Return the smallest active coordinate."""
    low = np.inf
    for j in range(on.shape[0]):
        for k in range(on.shape[1]):
            if on[j, k]:
                low = min(low, state[j, k + 1])
    return low


@njit(cache=True)
def _shorten(
    state: FloatArray,
    on: BoolArray,
    sign: FloatArray,
    targets: FloatArray,
    residual: FloatArray,
    fixed: BoolArray,
    rate: float,
    h: float,
    slack: float,
    work: FloatArray,
    stages: FloatArray,
    new: FloatArray,
) -> float:
    """Shorten a step that took coordinates below −slack: the first of them ends in [−slack, slack]."""
    low_h, high_h = 0.0, h
    low, high = state.copy(), new.copy()
    for trial in range(LOCATIONS):
        chosen = high_h
        for j in range(on.shape[0]):
            for k in range(on.shape[1]):
                if on[j, k] and high[j, k + 1] < -slack:
                    share = low[j, k + 1] / (low[j, k + 1] - high[j, k + 1])
                    chosen = min(chosen, low_h + share * (high_h - low_h))
        if trial % 3 == 2:
            chosen = 0.5 * (low_h + high_h)
        step(state, on, sign, targets, residual, fixed, rate, chosen, work, stages, new)
        if _lowest(new, on) < -slack:
            high_h = chosen
            high[:] = new
            continue
        near = False
        for j in range(on.shape[0]):
            for k in range(on.shape[1]):
                if on[j, k] and high[j, k + 1] < -slack and new[j, k + 1] <= slack:
                    near = True
                    new[j, k + 1] = 0.0
        if near:
            return chosen
        low_h = chosen
        low[:] = new
    step(state, on, sign, targets, residual, fixed, rate, high_h, work, stages, new)
    return high_h
