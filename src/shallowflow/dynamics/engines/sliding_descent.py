"""Descent of a `ReLUNetwork` on inputs of the plane whose chattering neurons slide: not exact, but O(step).

See `kernels.cones.sliding`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.protocol import Piece, Statistics
from shallowflow.dynamics.engines.cones import ConeDescent
from shallowflow.dynamics.outcome import Event
from shallowflow.dynamics.problem import Task

if TYPE_CHECKING:
    from shallowflow.kernels.cones.sliding import Sliding


class SlidingDescent(ConeDescent):
    """Descent by cones, but a neuron that would cross a data point's line to and fro slides along it.

    Such neurons make one group per ray and sign of the outer weight, at a cost that does not grow with their
    number. The error against descent is of the order of the step. When the outer weight of a sliding neuron
    changes its sign the solution is two-valued: a hash of the neuron's index draws one branch, and an event
    says so.
    """

    name = "sliding"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones.sliding import new_sliding

        super().__init__(task)
        self._measure = task.measure
        self._sliding: Sliding = new_sliding(len(self._problem[0].owners) - 1)

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self.network())

    def advance(self, until: float, rows: bool) -> Piece:
        """Make the steps up to `until`; two-valued events are listed (the first, if there are very many)."""
        from shallowflow.kernels.cones.sliding import TWO_VALUED

        before = int(self._sliding.counts[TWO_VALUED])
        piece = super().advance(until, rows)
        found = self._sliding.events
        listed = found[before : min(self._sliding.counts[TWO_VALUED], len(found))]
        return replace(piece, events=lambda most: [self._event(*row) for row in listed[:most]])

    def _event(self, number: int, neuron: int, wall: int) -> Event:
        normal = self._problem[0].normals[wall]
        return Event(number * self.tick, "two-valued", int(neuron), self._point(normal))

    def _point(self, normal: Floats) -> int:
        """Return the first data point on a wall's line."""
        sizes = np.hypot(self._inputs[:, 0], self._inputs[:, 1])
        across = np.abs(self._inputs[:, 0] * normal[1] - self._inputs[:, 1] * normal[0])
        return int(np.argmin(np.where(sizes > 0, across / np.where(sizes > 0, sizes, 1.0), np.inf)))

    def statistics(self) -> Statistics:
        """Return the counts of `ConeDescent`, and how many neurons slid, were released, or rest at w = 0."""
        from shallowflow.kernels.cones import sliding as kernel

        counts = self._sliding.counts
        return {
            **super().statistics(),
            "sliding neurons": int(counts[kernel.SLIDING]),
            "most sliding neurons": int(counts[kernel.MOST_SLIDING]),
            "slides": int(counts[kernel.SLIDES]),
            "releases": int(counts[kernel.RELEASES]),
            "two-valued": int(counts[kernel.TWO_VALUED]),
            "neurons at rest": int(counts[kernel.RESTING]),
        }
