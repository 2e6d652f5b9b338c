"""The motion of a Heaviside network between two events: closed forms, else an integration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.limits.heaviside_state import Standing
from shallowflow.dynamics.limits.jump_pair import EdgePair, JumpPair
from shallowflow.lobatto import lobatto_nodes

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
