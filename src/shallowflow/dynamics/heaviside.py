"""The two-timescale limit with η = 0, from event to event, and when it reaches the jumps.

With η = 0 and a = a*(u) the network is c_k = mean of f* on (u_k, u_{k+1}), u_0 = 0, u_{m+1} = 1, and

    u_k' = −½[(f*(u_k) − c_{k−1})² − (f*(u_k) − c_k)²]      [two_timescale, (5) with η = 0].

A neuron is free, with the piece of the target that it lies on, or held at a jump (both one-sided velocities
point to the jump). An interval that contains no jump has c_k = f* and its ends feel nothing from it; a
stretch of intervals with jumps, linked by free neurons, moves together.

A jump between two free neurons that touch no other jump moves by the closed form of `JumpPair`; so does
one between the edge of [0, 1] and such a neuron. What is left (several jumps in one interval, a neuron
between two jumps, a held neuron beside an interval with a jump) is integrated at nearly full precision, and
events in it are located to rounding. Events: a neuron reaches a jump and stays (`hit`) or goes on (`pass`),
a held neuron is let go (`release`). No two neurons meet, except at a jump from equal distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints, shown
from shallowflow.data.dataset import PiecewiseConstant
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes, lobatto_weights
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, unflatten
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import check_steps, step_loss
from shallowflow.landscape.two_timescale.step_classes import (
    EdgePair,
    JumpPair,
    fewest_per_piece,
    times_by_neighbours,
)
from shallowflow.models.networks import StepNetwork

TOLERANCES = {"rtol": 1e-12, "atol": 1e-14}
PROBES, HALVINGS = 9, 200
NODES, PATH_ERROR, DEEPEST = 8, 1e-10, 40
STUCK = 1000

Motion = Callable[[float], Floats]
"""τ → sorted positions (m,)."""


@dataclass(frozen=True, eq=False)
class Standing:
    """One epoch's discrete state: for each sorted neuron its piece of the target, and its jump if held (−1).

    v: the jumps inside (0, 1); f: values, one more; piece: (m,), of a held neuron the one left of its jump.
    """

    v: Floats
    f: Floats
    piece: Ints
    held: Ints

    @property
    def right_piece(self) -> Ints:
        """The piece just right of every neuron."""
        return np.where(self.held >= 0, self.piece + 1, self.piece)

    @property
    def slack(self) -> float:
        """The velocity below which a held neuron is not pulled off: rounding."""
        return 1e-13 * float(np.max(np.abs(self.f), initial=1.0)) ** 2

    def ends(self) -> tuple[Ints, Ints]:
        """Return the first and the last piece of every interval k = 0, …, m."""
        first = np.concatenate([[0], self.right_piece])
        last = np.concatenate([self.piece, [len(self.f) - 1]])
        return first, last

    def plateaus(self, u: Floats) -> Floats:
        """Return c (m + 1,); lengths are signed, so that c continues smoothly beyond an event."""
        first, last = self.ends()
        edges = np.concatenate([[0.0], u, [1.0]])
        c = self.f[first].copy()
        for k in np.flatnonzero(last > first):
            points = np.concatenate([[edges[k]], self.v[first[k] : last[k]], [edges[k + 1]]])
            values, lengths = self.f[first[k] : last[k] + 1], np.diff(points)
            total = lengths.sum()
            # An interval that shrank to the jump itself: both ends came at once, from equal distances.
            c[k] = values @ lengths / total if total > 0 else 0.5 * (values[0] + values[-1])
        return c

    def velocities(self, c: Floats) -> Floats:
        """Return u' (m,), zero for held neurons."""
        speed = one_sided(self.f[self.piece], c)
        return np.where(self.held >= 0, 0.0, speed)

    def held_velocities(self, c: Floats) -> tuple[Floats, Floats]:
        """Return the one-sided velocities (m,) left and right of a held neuron's jump."""
        return one_sided(self.f[self.piece], c), one_sided(self.f[self.right_piece], c)

    def mixed(self) -> Bools:
        """Return which intervals (m + 1,) contain a jump."""
        first, last = self.ends()
        return np.asarray(last > first)

    def stretches(self) -> list[tuple[int, int]]:
        """Return (first, last) of every stretch of mixed intervals linked by free neurons."""
        mixed, found = self.mixed(), list[tuple[int, int]]()
        for k in np.flatnonzero(mixed):
            if found and found[-1][1] == k - 1 and self.held[k - 1] < 0:
                found[-1] = (found[-1][0], int(k))
            else:
                found.append((int(k), int(k)))
        return found


def one_sided(values: Floats, c: Floats) -> Floats:
    """Return −½[(f − c_{k−1})² − (f − c_k)²] for every neuron, given f there."""
    speeds: Floats = 0.5 * ((values - c[1:]) ** 2 - (values - c[:-1]) ** 2)
    return speeds


def standing(u: Floats, target: PiecewiseConstant) -> Standing:
    """Return the state of sorted positions in [0, 1]; neurons exactly at a jump are first taken as held."""
    inside = (target.breakpoints > 0) & (target.breakpoints < 1)
    v = target.breakpoints[inside]
    first = int(np.sum(target.breakpoints <= 0))
    f = target.values[first : first + len(v) + 1]
    piece = np.searchsorted(v, u, side="left")
    at_jump = (piece < len(v)) & (v[np.minimum(piece, len(v) - 1)] == u) if len(v) else np.zeros(len(u), bool)
    held = np.where(at_jump, piece, -1)
    return Standing(v, f, piece.astype(np.int64), held.astype(np.int64))


@dataclass(frozen=True)
class ClosedForm:
    """One jump at v with the neurons `left` (−1: the edge 0) and `right` (−1: the edge 1) beside it."""

    pair: JumpPair | EdgePair
    v: float
    jump: int
    left: int
    right: int

    @property
    def hitting_time(self) -> float:
        """When the first neuron reaches the jump, from the start of the epoch."""
        return self.pair.hitting_time

    @property
    def struck(self) -> list[tuple[int, int]]:
        """(neuron, jump) of what reaches the jump then: both neurons if they start at equal distances."""
        if isinstance(self.pair, EdgePair):
            return [(max(self.left, self.right), self.jump)]
        hits = [(self.left, self.jump)] if self.pair.left <= self.pair.right else []
        return hits + ([(self.right, self.jump)] if self.pair.right <= self.pair.left else [])

    def place(self, u: Floats, time: float) -> None:
        """Write the positions at a time after the start of the epoch into u (m,)."""
        if isinstance(self.pair, JumpPair):
            left, right = self.pair.at(time)
            u[self.left], u[self.right] = self.v - left, self.v + right
        elif self.left >= 0:
            u[self.left] = self.v - self.pair.at(time)
        else:
            u[self.right] = self.v + self.pair.at(time)


def closed_form(stretch: tuple[int, int], u: Floats, state: Standing) -> ClosedForm | None:
    """Return the closed form of a stretch of mixed intervals, or None if it has none."""
    first, last = state.ends()
    k = stretch[0]
    if stretch[1] != k or last[k] - first[k] != 1:
        return None
    left, right = k - 1, k if k < len(u) else -1
    if (left >= 0 and state.held[left] >= 0) or (right >= 0 and state.held[right] >= 0):
        return None
    jump = int(first[k])
    v, squared = float(state.v[jump]), float(state.f[jump + 1] - state.f[jump]) ** 2
    if left < 0:
        return ClosedForm(EdgePair(v, float(u[right]) - v, squared), v, jump, -1, right)
    if right < 0:
        return ClosedForm(EdgePair(1.0 - v, v - float(u[left]), squared), v, jump, left, -1)
    pair = JumpPair(v - float(u[left]), float(u[right]) - v, squared)
    return ClosedForm(pair, v, jump, left, right)


class Integration:
    """The free neurons of the other stretches, up to their first event or to `until`; callable."""

    def __init__(
        self, u: Floats, state: Standing, stretches: list[tuple[int, int]], start: float, until: float
    ) -> None:
        from scipy.integrate import DOP853

        self._u, self._state = u, state
        beside = np.unique(
            [j for first, last in stretches for j in range(first - 1, last + 1) if 0 <= j < len(u)]
        )
        self._free = np.array([j for j in beside if state.held[j] < 0], dtype=np.int64)
        self._holding = np.array([j for j in beside if state.held[j] >= 0], dtype=np.int64)
        self._steps: list[tuple[float, Callable[[float], Floats]]] = []
        self.start, self.end, self.struck = start, until, list[tuple[int, int]]()
        if until <= start or len(self._free) == 0:
            return
        solver = DOP853(self._velocity, start, u[self._free], until, **TOLERANCES)
        while solver.status == "running":
            before = solver.t
            solver.step()
            self._steps.append((float(solver.t), solver.dense_output()))
            if self._find_event(float(before), float(solver.t)):
                return

    def __call__(self, time: float) -> Floats:
        """Return the sorted positions (m,)."""
        now = self._u.copy()
        if self._steps:
            index = int(np.searchsorted([end for end, _ in self._steps], time))
            now[self._free] = self._steps[min(index, len(self._steps) - 1)][1](time)
        return now

    def _velocity(self, _: float, y: Floats) -> Floats:
        u = self._u.copy()
        u[self._free] = y
        return self._state.velocities(self._state.plateaus(u))[self._free]

    def _margins(self, time: float) -> Floats:
        """Return how far free neurons are from the jumps beside them, and held ones from release."""
        u, v, state = self(time), self._state.v, self._state
        piece = state.piece[self._free]
        walls = np.concatenate([[-np.inf], v, [np.inf]])
        left, right = state.held_velocities(state.plateaus(u))
        slack = state.slack
        return np.concatenate(
            [
                u[self._free] - walls[piece],
                walls[piece + 1] - u[self._free],
                left[self._holding] + slack,
                slack - right[self._holding],
            ]
        )

    def _find_event(self, before: float, after: float) -> bool:
        """Look for the first event in a step; end there and say who reached which jump."""
        low = before
        for high in (before + (after - before) * lobatto_nodes(PROBES))[1:]:
            if (self._margins(float(high)) < 0).any():
                break
            low = float(high)
        else:
            return False
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if (self._margins(middle) < 0).any():
                high = middle
            else:
                low = middle
        self.end = float(high)
        crossed, size = self._margins(self.end) < 0, len(self._free)
        for i in np.flatnonzero(crossed[: 2 * size]):
            j = int(self._free[i % size])
            self.struck.append((j, int(self._state.piece[j]) - (1 if i < size else 0)))
        return True


class HeavisideFlow:
    """Follow the sorted positions u(τ); θ is (positions, outer, offset) with a = a*(u)."""

    name = "events"
    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, network: StepNetwork, target: PiecewiseConstant) -> None:
        self._template, self._target = network, target
        self.order = np.argsort(network.positions, kind="stable")
        self._time, self.u = 0.0, network.positions[self.order]
        self.state = standing(self.u, target)
        self._closed = self._integrated = self._idle = self._segments = self._events = 0
        self._let_go()

    def theta(self, u: Floats, state: Standing) -> Floats:
        """Return (positions, outer, offset) of sorted positions, in the order of the network."""
        c = state.plateaus(u)
        positions, outer = np.empty(len(u)), np.empty(len(u))
        positions[self.order], outer[self.order] = u, np.diff(c)
        return np.concatenate([positions, outer, c[:1]])

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance to the next event, or to `until`."""
        start, state = self._time, self.state
        motion, end, struck = self._epoch(until)
        times, values = self._path(motion, state, start, end)
        self.u, self._time = motion(end), end
        events = self._settle(struck, end)
        passed = end > start
        self._idle = 0 if passed else self._idle + 1
        self._segments, self._events = self._segments + len(values), self._events + len(events)
        return Piece(
            times if passed else times[:1],
            rows={"values": values if passed else values[:0]},
            events=lambda most: events[:most],
            stop=Stop("events repeat", {"time": end}) if self._idle > STUCK else None,
        )

    def network(self) -> StepNetwork:
        """Return the present network."""
        return unflatten(self._template, self.theta(self.u, self.state))

    def loss(self) -> float:
        """Return ½∫(f − f*)² of the present network."""
        return step_loss(self.network(), self._target)

    def path(self, times: Floats, rows: Rows) -> Polynomials[StepNetwork]:
        """Return the polynomials of these steps."""
        return Polynomials(self._template, times, rows["values"])

    def statistics(self) -> Statistics:
        """Return how many stretches of jumps moved by the closed form, and how many were integrated."""
        return {
            "closed forms": self._closed,
            "integrated": self._integrated,
            "segments": self._segments,
            "events": self._events,
        }

    def _epoch(self, until: float) -> tuple[Motion, float, list[tuple[int, int]]]:
        """Return the motion from now on, the time of its first event, and (neuron, jump) of the hits."""
        start, u, state = self._time, self.u, self.state
        pairs, rest = list[ClosedForm](), list[tuple[int, int]]()
        for stretch in state.stretches():
            solved = closed_form(stretch, u, state)
            if solved is None:
                rest.append(stretch)
            else:
                pairs.append(solved)
        self._closed, self._integrated = self._closed + len(pairs), self._integrated + len(rest)
        end = min([until, *(start + pair.hitting_time for pair in pairs)])
        integration = Integration(u, state, rest, start, end) if rest else None
        struck = list[tuple[int, int]]()
        if integration is not None:
            end, struck = integration.end, integration.struck
        struck += [hit for pair in pairs if start + pair.hitting_time <= end for hit in pair.struck]

        def motion(time: float) -> Floats:
            now = u.copy() if integration is None else integration(time)
            for pair in pairs:
                pair.place(now, time - start)
            return now

        return motion, end, struck

    def _settle(self, struck: list[tuple[int, int]], time: float) -> list[Event]:
        """Put the neurons that reached a jump onto it, and let go all that are pulled off theirs."""
        piece, held = self.state.piece.copy(), self.state.held.copy()
        for j, jump in struck:
            self.u[j], piece[j], held[j] = self.state.v[jump], jump, jump
        self.state = replace(self.state, piece=piece, held=held)
        released = self._let_go()
        events = [
            Event(time, "pass" if (j, jump) in released else "hit", int(self.order[j]), jump)
            for j, jump in struck
        ]
        return events + [
            Event(time, "release", int(self.order[j]), jump)
            for j, jump in released
            if (j, jump) not in struck
        ]

    def _let_go(self) -> list[tuple[int, int]]:
        """Release held neurons that are pulled off, the one pulled most first; return (neuron, jump)."""
        released = list[tuple[int, int]]()
        while True:
            left, right = self.state.held_velocities(self.state.plateaus(self.u))
            slack = self.state.slack
            loose = (self.state.held >= 0) & ((left < -slack) | (right > slack))
            if not loose.any():
                return released
            j = int(np.argmax(np.where(loose, np.maximum(-left, right), -np.inf)))
            jump, piece, held = int(self.state.held[j]), self.state.piece.copy(), self.state.held.copy()
            piece[j], held[j] = (jump + 1 if right[j] > -left[j] else jump), -1
            self.state = replace(self.state, piece=piece, held=held)
            released.append((j, jump))

    def _path(self, motion: Motion, state: Standing, start: float, end: float) -> tuple[Floats, Floats]:
        """Return times and Lobatto values of θ, halved until the interpolant is right to `PATH_ERROR`."""
        nodes = lobatto_nodes(NODES)
        done: list[tuple[float, Floats]] = []
        waiting = [(start, end, 0)]
        while waiting:
            a, b, depth = waiting.pop()
            values = np.array([self.theta(motion(a + share * (b - a)), state) for share in nodes])
            worst = 0.0
            for share in (0.11, 0.5, 0.83):
                exact = self.theta(motion(a + share * (b - a)), state)
                worst = max(worst, float(np.abs(lobatto_weights(share, NODES) @ values - exact).max()))
            scale = max(1.0, float(np.abs(values).max()))
            if worst <= PATH_ERROR * scale or depth >= DEEPEST:
                done.append((b, values))
            else:
                middle = 0.5 * (a + b)
                waiting += [(middle, b, depth + 1), (a, middle, depth + 1)]
        return np.array([start, *(b for b, _ in done)]), np.array([values for _, values in done])


HORIZON = 100.0
"""Of the event-driven limit, in units of 8/s², the longest that a neuron between two others takes."""


def hitting_times(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return when the two-timescale limit with η = 0 reaches each jump for good (n − 1,), ∞ if it does not.

    By the closed form where at least two neurons lie on every piece, [two_timescale] (7), or there is one
    jump; otherwise by the event-driven limit, followed to τ = 800/s² with s the smallest jump: then ∞ means
    that no neuron is held at the jump by that time. Jumps outside (0, 1) have ∞.

    Examples
    --------
    >>> target = PiecewiseConstant([0.5], [0.0, 1.0])
    >>> hitting_times(StepNetwork([0.3, 0.6], [0.0, 0.0]), target).round(4)
    array([0.3201])
    >>> stuck = PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 0.0])  # all on the last piece: App. D.1
    >>> hitting_times(StepNetwork([0.65, 0.75, 0.85], [0.0] * 3), stuck)
    array([inf, inf])
    """
    check_steps(network, target)
    inside = (target.breakpoints > 0) & (target.breakpoints < 1) & (target.jumps != 0)
    lone = inside.sum() == 1 and np.any((network.positions > 0) & (network.positions < 1))
    if not inside.any():
        return np.full(len(inside), np.inf)
    if lone or (inside.all() and fewest_per_piece(network.positions, target) >= 2):
        return times_by_neighbours(network.positions, target)
    return _by_events(network, target, inside)


def _by_events(network: StepNetwork, target: PiecewiseConstant, inside: Bools) -> Floats:
    """Return the last time at which a neuron came to each jump and stayed, by the event-driven limit."""
    if np.any((network.positions < 0) | (network.positions > 1)):
        raise InvalidInputError(
            f"network: positions must lie in [0, 1] for the limit, got {shown(network.positions)}"
        )
    chosen = PiecewiseConstant(
        target.breakpoints[inside],
        target.values[np.append(np.flatnonzero(inside), np.flatnonzero(inside)[-1] + 1)],
    )
    engine = HeavisideFlow(StepNetwork(network.positions, np.zeros(network.width)), chosen)
    now, until = 0.0, HORIZON * 8.0 / float(np.min(np.abs(chosen.jumps))) ** 2
    # A neuron that starts at a jump is held there from the start, unless an event says otherwise.
    held = [{int(j): 0.0 for j in np.flatnonzero(network.positions == v)} for v in chosen.breakpoints]
    while now < until:
        piece = engine.advance(until, rows=False)
        now = float(piece.times[-1])
        for event in piece.events(2 * network.width):
            if event.kind == "hit":
                held[event.point][event.neuron] = event.time
            else:
                held[event.point].pop(event.neuron, None)
        if piece.stop is not None:
            break
    times = np.full(len(target.breakpoints), np.inf)
    times[np.flatnonzero(inside)] = [min(one.values(), default=np.inf) for one in held]
    return times
