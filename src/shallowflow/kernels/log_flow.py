"""Gradient flow of a ReLU network on orthonormal data, at any scale: plateaus leapt, jumps stepped.

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

from shallowflow.kernels.log_adaptive import adaptive_step
from shallowflow.kernels.log_classes import classify, small_log_norm
from shallowflow.kernels.log_leap import FloatArray, IntArray, leap
from shallowflow.kernels.log_step import STAGES, BoolArray, step, velocity

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
