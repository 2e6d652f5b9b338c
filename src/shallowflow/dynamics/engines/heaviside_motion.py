"""Where the neurons of a Heaviside network stand: plateaus, velocities, who holds to a jump, who moves with
whom.

With η = 0 and a = a*(u) the network is c_k = mean of f* on (u_k, u_{k+1}), u_0 = 0, u_{m+1} = 1, and

    u_k' = −½[(f*(u_k) − c_{k−1})² − (f*(u_k) − c_k)²]      [two_timescale, (5) with η = 0].

A neuron is free, with the piece of the target that it lies on, or held at a jump (both one-sided velocities
point to the jump). An interval that contains no jump has c_k = f* and its ends feel nothing from it; a
stretch of intervals with jumps, linked by free neurons, moves together.

The motion of a Heaviside network between two events: closed forms, else an integration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.paths import lobatto_nodes
from shallowflow.landscape.two_timescale.step_classes import EdgePair, JumpPair


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
    def left_piece(self) -> Ints:
        """The piece just left of every neuron."""
        return self.piece

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
        last = np.concatenate([self.left_piece, [len(self.f) - 1]])
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
        return one_sided(self.f[self.left_piece], c), one_sided(self.f[self.right_piece], c)

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


TOLERANCES = {"rtol": 1e-12, "atol": 1e-14}
PROBES, HALVINGS = 9, 200


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
