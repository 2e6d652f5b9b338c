"""Gradient flow of a ReLU network on orthogonal data, at any scale: plateaus leapt, jumps stepped.

Inputs x_k = ν_k e_k with e orthonormal. Neuron j is kept as ρ_j = ln|a_j| and g_jk = ⟨w_j, e_k⟩/|a_j| on its
active points (g_jk > 0; a coordinate that reaches 0 never moves again and is set to 0). Neurons meet only in
the residuals (times ν_k) r_k = ν_k y_k − ν_k² Σ_j s_j e^{2ρ_j} g_jk, and most of these stand still most of
the time. With Y_k = ν_k y_k, every point is one of

- untouched: all neurons active on it are small, e^{2ρ_j} max ν² < tiny·min|Y|, so that r_k = Y_k;
- settled: |r_k| ≤ tiny·max|Y|, and no neuron that still grows can disturb it: r_k = 0. A growing neuron j
  cannot if it is small, or if its share stays negligible at its largest possible norm A, ν_k²|f_jk| A ≤
  tiny·max|Y| (f_jk is constant while r_k = 0);
- moving: all others.

A neuron with a moving point is *live*: the live ones advance by an explicit step (`step`). Every other neuron
is alone with frozen residuals and follows a closed form (`leap`). With no moving point at all, the whole
network leaps until the next small neuron stops being small: a plateau costs one leap whatever ln(1/α).
Settled points of past jumps leave the system, and with them its stiffness. All of this depends on the state
alone, so that any moment between two knots is found by one shorter step from the first of them (`replay`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.orthogonal.step import (
    Problem,
    Space,
    adaptive_step,
    leap,
    new_space,
    step,
    velocity,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

OUT_OF_ROOM, DONE, STALLED, NOT_FINITE = range(4)
LEAPS, STEPS, REJECTED, SHORTENED, KNOTS, EVENTS = range(6)
"""Places in the counts of a path."""


class Path(NamedTuple):
    """Knots: times (K,), ρ (K, m), g (K, m, n); coordinates that died: times (E,), neuron and point (E, 2).

    counts: leaps, steps, rejected steps, shortened steps, knots, events.
    """

    times: Floats
    rho: Floats
    g: Floats
    event_times: Floats
    events: Ints
    counts: Ints


class Clock(NamedTuple):
    """Where the flow is, where it shall end, and the length of the next step (0: unknown)."""

    time: float
    until: float
    h: float


def integrate(
    rho: Floats, g: Floats, problem: Problem, clock: Clock, tolerance: float, capacity: int
) -> tuple[int, Clock, Path]:
    """Advance (ρ, g), in place, to the clock's end or for `capacity` knots; return status, clock and path."""
    path = _new_path(capacity, *g.shape)
    status, clock = _integrate(rho, g, problem, new_space(*g.shape), path, clock, tolerance)
    knots, events = path.counts[KNOTS], path.counts[EVENTS]
    times, found = path.event_times[:events], path.events[:events]
    kept = Path(path.times[:knots], path.rho[:knots], path.g[:knots], times, found, path.counts)
    return status, Clock(*clock), kept


def _new_path(capacity: int, width: int, size: int) -> Path:
    knots = np.empty(capacity), np.empty((capacity, width)), np.empty((capacity, width, size))
    events = np.empty(width * size), np.empty((width * size, 2), np.int64)
    return Path(*knots, *events, np.zeros(6, np.int64))


@njit(cache=True, **LEAN)
def _integrate(
    rho: Floats, g: Floats, problem: Problem, space: Space, path: Path, clock: Clock, tolerance: float
) -> tuple[int, tuple[float, float, float]]:
    """Fill the path; return the status and the clock."""
    time, until, h = clock
    status, counts = OUT_OF_ROOM, path.counts
    while counts[KNOTS] < len(path.times):
        if time >= until:
            status = DONE
            break
        moving = classify(rho, g, problem, space)
        longest, risen = _horizon(rho, g, problem, space, until - time)
        made, live = longest, _pack(rho, g, problem, space)
        if moving > 0:
            made, h, rejected = adaptive_step(live, problem, space, h, longest, tolerance)
            counts[REJECTED] += rejected
        counts[STEPS if moving > 0 else LEAPS] += 1
        if made <= 0.0:
            status = STALLED if made == 0.0 else NOT_FINITE
            break
        _leap_others(rho, g, problem, space, path, time, made)
        if risen >= 0 and made == longest:
            rho[risen] = max(rho[risen], problem.small)
        time = until if made == until - time else time + made
        before = counts[EVENTS]
        _unpack(rho, g, live, space, path, time)
        counts[SHORTENED] += 1 if counts[EVENTS] > before else 0
        _keep(rho, g, time, path)
    return status, (time, until, h)


def replay(rho: Floats, g: Floats, problem: Problem, h: float) -> None:
    """Move (ρ, g), a knot, in place by h, at most up to the next knot: one step of the same kind."""
    _replay(rho, g, problem, new_space(*g.shape), _new_path(0, *g.shape), h)


@njit(cache=True, **LEAN)
def _replay(rho: Floats, g: Floats, problem: Problem, space: Space, path: Path, h: float) -> None:
    if classify(rho, g, problem, space) > 0:
        live = _pack(rho, g, problem, space)
        velocity(space.state, live, problem, space, space.stages[0])
        step(live, problem, space, h)
        _unpack(rho, g, live, space, path, h)
    _leap_others(rho, g, problem, space, path, 0.0, h)


@njit(cache=True, **LEAN)
def classify(rho: Floats, g: Floats, problem: Problem, space: Space) -> int:
    """Decide which points move (return their number) and which neurons are live; set the residual."""
    m, n = g.shape
    settled, fixed, residual = space.settled, space.fixed, space.residual
    for j in range(m):
        space.weights[j] = problem.signs[j] * np.exp(2.0 * rho[j])
    for k in range(n):
        touched = False
        for j in range(m):
            touched = touched or (g[j, k] > 0.0 and rho[j] >= problem.small)
        value = _residual_at(k, g, problem, space) if touched else problem.targets[k]
        settled[k] = touched and abs(value) <= problem.settled
        fixed[k] = settled[k] or not touched
        residual[k] = 0.0 if settled[k] else value
    changed = True
    while changed:
        changed = False
        for j in range(m):
            if rho[j] >= problem.small and _grows(g[j], space):
                changed = _unsettle(j, np.exp(rho[j]) * problem.reach, g, problem, space) or changed
    moving = 0
    for k in range(n):
        moving += 0 if fixed[k] else 1
    for j in range(m):
        space.live[j] = False
        for k in range(n):
            space.live[j] = space.live[j] or (g[j, k] > 0.0 and not fixed[k])
    return moving


@njit(cache=True, **INTERNAL)
def _residual_at(k: int, g: Floats, problem: Problem, space: Space) -> float:
    value: float = problem.targets[k]
    for j in range(len(g)):
        if g[j, k] > 0.0:
            value -= space.weights[j] * problem.squares[k] * g[j, k]
    return value


@njit(cache=True, **INTERNAL)
def _grows(row: Floats, space: Space) -> bool:
    """Return whether a neuron is active on a point that is not fitted."""
    grows = False
    for k in range(len(row)):
        grows = grows or (row[k] > 0.0 and not space.settled[k] and space.residual[k] != 0.0)
    return grows


@njit(cache=True, **INTERNAL)
def _unsettle(j: int, share: float, g: Floats, problem: Problem, space: Space) -> bool:
    """Let the settled points move that a growing neuron j may disturb; return whether there are any."""
    found = False
    for k in range(g.shape[1]):
        if space.settled[k] and problem.squares[k] * g[j, k] * share > problem.settled:
            space.settled[k], space.fixed[k], found = False, False, True
            space.residual[k] = _residual_at(k, g, problem, space)
    return found


@njit(cache=True, **INTERNAL)
def _horizon(rho: Floats, g: Floats, problem: Problem, space: Space, longest: float) -> tuple[float, int]:
    """Return the time until a small neuron is small no more, at most `longest`, and which (or −1)."""
    which = -1
    for j in range(len(rho)):
        if not space.live[j] and rho[j] < problem.small:
            for k in range(g.shape[1]):
                space.row[k] = g[j, k]
            factor = problem.signs[j] * problem.rate
            reached, taken, _ = leap(
                rho[j], space.row, space.residual, factor, longest, problem.small, space.deaths
            )
            if reached >= problem.small and taken < longest:
                longest, which = taken, j
    return longest, which


@njit(cache=True, **INTERNAL)
def _leap_others(
    rho: Floats, g: Floats, problem: Problem, space: Space, path: Path, time: float, h: float
) -> None:
    """Move every neuron that is not live by h in closed form, from `time` on."""
    for j in range(len(rho)):
        if not space.live[j]:
            factor = problem.signs[j] * problem.rate
            rho[j], _, died = leap(rho[j], g[j], space.residual, factor, h, -np.inf, space.deaths)
            for i in range(died):
                _note(path, time + space.deaths.times[i], j, space.deaths.points[i])


@njit(cache=True, **INTERNAL)
def _pack(rho: Floats, g: Floats, problem: Problem, space: Space) -> int:
    """Write the live neurons into the first rows of the space; return their number."""
    live = 0
    for j in range(len(rho)):
        if space.live[j]:
            space.neurons[live], space.signs[live], space.state[live, 0] = j, problem.signs[j], rho[j]
            for k in range(g.shape[1]):
                space.state[live, k + 1], space.on[live, k] = g[j, k], g[j, k] > 0.0
            live += 1
    return live


@njit(cache=True, **INTERNAL)
def _unpack(rho: Floats, g: Floats, live: int, space: Space, path: Path, time: float) -> None:
    """Write the live neurons back as they are at the end of the step, at `time`."""
    for i in range(live):
        j = space.neurons[i]
        rho[j] = space.new[i, 0]
        for k in range(g.shape[1]):
            if space.on[i, k] and space.new[i, k + 1] <= 0.0:
                _note(path, time, j, k)
            g[j, k] = max(space.new[i, k + 1], 0.0) if space.on[i, k] else 0.0


@njit(cache=True, **INTERNAL)
def _note(path: Path, time: float, neuron: int, point: int) -> None:
    """Append the death of a coordinate."""
    count = path.counts[EVENTS]
    path.event_times[count], path.events[count, 0], path.events[count, 1] = time, neuron, point
    path.counts[EVENTS] = count + 1


@njit(cache=True, **INTERNAL)
def _keep(rho: Floats, g: Floats, time: float, path: Path) -> None:
    """Append a knot."""
    knot = path.counts[KNOTS]
    path.times[knot] = time
    for j in range(len(rho)):
        path.rho[knot, j] = rho[j]
        for k in range(g.shape[1]):
            path.g[knot, j, k] = g[j, k]
    path.counts[KNOTS] = knot + 1
