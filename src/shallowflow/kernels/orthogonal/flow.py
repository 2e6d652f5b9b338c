"""One accepted step of the live neurons, as long as its error and the first coordinate to reach zero allow.

See ``log_flow``. A step is stable for h·λ ≤ 4 with λ ≤ 2·rate·Σ_live e^{2ρ_j}, the bound on the curvature of
the live part.

Gradient flow of a ReLU network on orthonormal data, at any scale: plateaus leapt, jumps stepped.

Neuron j is kept as ρ_j = ln|a_j| and g_jk = ⟨w_j, x_k⟩/|a_j| on its active points (g_jk > 0; a coordinate
that reaches 0 never moves again and is set to 0). Neurons meet only in the residuals; ``log_classes`` says
which of these move. A neuron without a moving point is alone with frozen residuals and follows the closed
form of ``log_leap``; the others are *live* and advance by the explicit step of ``log_step``, its length
chosen in ``log_adaptive``. With no moving point at all, the whole network leaps until the next small neuron
stops being small: a plateau costs one leap whatever ln(1/α). Settled points of past jumps leave the system,
and with them its stiffness. All of this depends on the state alone, so that any moment between two knots is
found by one shorter step from the first of them (``replay``).
"""

import numpy as np
from numba import njit

from shallowflow.kernels.orthogonal.step import (
    STAGES,
    BoolArray,
    FloatArray,
    IntArray,
    classify,
    error_norm,
    leap,
    small_log_norm,
    step,
    velocity,
)

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


OUT_OF_ROOM, DONE, STALLED, NOT_FINITE = 0, 1, 2, 3


@njit(cache=True)
def integrate(
    rho: FloatArray,
    g: FloatArray,
    signs: FloatArray,
    targets: FloatArray,
    rate: float,
    time: float,
    until: float,
    h: float,
    tolerance: float,
    tiny: float,
    capacity: int,
) -> tuple[
    tuple[int, float, float],
    tuple[FloatArray, FloatArray, FloatArray],
    tuple[FloatArray, IntArray],
    IntArray,
]:
    """Advance (ρ, g), in place, to `until` or for `capacity` knots.

    Returns (status, time, next h); knots: times (K,), ρ (K, m), g (K, m, n); events: times (E,), neuron and
    point (E, 2); counts: leaps, steps, rejected steps, shortened steps.
    """
    m, n = g.shape
    times, path_rho, path_g = np.empty(capacity), np.empty((capacity, m)), np.empty((capacity, m, n))
    event_times, events, died = np.empty(m * n), np.empty((m * n, 2), np.int64), 0
    counts, residual, work = np.zeros(4, np.int64), np.empty(n), np.empty(n)
    fixed, live = np.empty(n, np.bool_), np.empty(m, np.bool_)
    small, status, knots = small_log_norm(targets, tiny), OUT_OF_ROOM, 0
    while knots < capacity:
        if time >= until:
            status = DONE
            break
        moving = classify(rho, g, signs, targets, tiny, residual, fixed, live)
        longest, risen = _horizon(rho, g, signs, residual, rate, live, small, until - time)
        made = longest
        index, state, on, sign = _pack(rho, g, signs, live)
        if moving > 0:
            made, h, rejected = adaptive_step(
                state, on, sign, targets, residual, fixed, rate, h, longest, tolerance, work
            )
            counts[2] += rejected
        counts[1 if moving > 0 else 0] += 1
        if made <= 0.0:
            status = STALLED if made == 0.0 else NOT_FINITE
            break
        died = _leap_others(rho, g, signs, residual, rate, live, made, time, event_times, events, died)
        if risen >= 0 and made == longest:
            rho[risen] = max(rho[risen], small)
        time = until if made == until - time else time + made
        before = died
        died = _unpack(rho, g, index, state, on, time, event_times, events, died)
        counts[3] += 1 if died > before else 0
        times[knots], path_rho[knots], path_g[knots] = time, rho, g
        knots += 1
    path = times[:knots], path_rho[:knots], path_g[:knots]
    return (status, time, h), path, (event_times[:died], events[:died]), counts


@njit(cache=True)
def replay(
    rho: FloatArray,
    g: FloatArray,
    signs: FloatArray,
    targets: FloatArray,
    rate: float,
    h: float,
    tiny: float,
) -> None:
    """Move (ρ, g), a knot, in place by h, at most up to the next knot: one step of the same kind."""
    m, n = g.shape
    residual, work = np.empty(n), np.empty(n)
    event_times, events = np.empty(m * n), np.empty((m * n, 2), np.int64)
    fixed, live = np.empty(n, np.bool_), np.empty(m, np.bool_)
    if classify(rho, g, signs, targets, tiny, residual, fixed, live) > 0:
        index, state, on, sign = _pack(rho, g, signs, live)
        stages, new = np.empty((STAGES + 1, *state.shape)), np.empty_like(state)
        velocity(state, on, sign, targets, residual, fixed, rate, work, stages[0])
        step(state, on, sign, targets, residual, fixed, rate, h, work, stages, new)
        _unpack(rho, g, index, new, on, h, event_times, events, 0)
    _leap_others(rho, g, signs, residual, rate, live, h, 0.0, event_times, events, 0)


@njit(cache=True)
def _pack(
    rho: FloatArray, g: FloatArray, signs: FloatArray, live: BoolArray
) -> tuple[IntArray, FloatArray, BoolArray, FloatArray]:
    """Return the live neurons, their state (L, n + 1), their active coordinates and their signs."""
    index = np.flatnonzero(live)
    count, n = len(index), g.shape[1]
    state, on, sign = np.empty((count, n + 1)), np.empty((count, n), np.bool_), np.empty(count)
    for i in range(count):
        j = index[i]
        state[i, 0], sign[i] = rho[j], signs[j]
        for k in range(n):
            state[i, k + 1], on[i, k] = g[j, k], g[j, k] > 0.0
    return index, state, on, sign


@njit(cache=True)
def _unpack(
    rho: FloatArray,
    g: FloatArray,
    index: IntArray,
    state: FloatArray,
    on: BoolArray,
    time: float,
    event_times: FloatArray,
    events: IntArray,
    count: int,
) -> int:
    """Write the state of the live neurons back; append coordinates that died, return their number so far."""
    for i in range(len(index)):
        j = index[i]
        rho[j] = state[i, 0]
        for k in range(g.shape[1]):
            if on[i, k] and state[i, k + 1] <= 0.0:
                event_times[count], events[count, 0], events[count, 1] = time, j, k
                count += 1
            g[j, k] = max(state[i, k + 1], 0.0) if on[i, k] else 0.0
    return count


@njit(cache=True)
def _leap_others(
    rho: FloatArray,
    g: FloatArray,
    signs: FloatArray,
    residual: FloatArray,
    rate: float,
    live: BoolArray,
    h: float,
    time: float,
    event_times: FloatArray,
    events: IntArray,
    count: int,
) -> int:
    """Move every neuron that is not live by h in closed form; append deaths, return their number so far."""
    n = g.shape[1]
    deaths, points = np.empty(n), np.empty(n, np.int64)
    for j in range(len(rho)):
        if not live[j]:
            rho[j], _, died = leap(rho[j], g[j], signs[j], residual, rate, h, -np.inf, deaths, points)
            for i in range(died):
                event_times[count], events[count, 0], events[count, 1] = time + deaths[i], j, points[i]
                count += 1
    return count


@njit(cache=True)
def _horizon(
    rho: FloatArray,
    g: FloatArray,
    signs: FloatArray,
    residual: FloatArray,
    rate: float,
    live: BoolArray,
    small: float,
    longest: float,
) -> tuple[float, int]:
    """Return the time until a small neuron is small no more, at most `longest`, and which (or −1)."""
    n = g.shape[1]
    row, deaths, points = np.empty(n), np.empty(n), np.empty(n, np.int64)
    which = -1
    for j in range(len(rho)):
        if not live[j] and rho[j] < small:
            row[:] = g[j]
            reached, taken, _ = leap(rho[j], row, signs[j], residual, rate, longest, small, deaths, points)
            if reached >= small and taken < longest:
                longest, which = taken, j
    return longest, which
