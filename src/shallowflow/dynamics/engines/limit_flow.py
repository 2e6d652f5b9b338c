"""Engines of the two-timescale limit beyond one dimension: on data with events, and in independent parts.

`LimitFlow`: the inner layer of a `ReLUNetwork` or a `KnotNetwork` flows on data, u' = −∂L/∂u (a*(u), u) with
a*(u) of least squares and minimum norm (envelope theorem, [two_timescale] Remark 1); gates, sliding and
events are those of `DenseFlow`. Where the rank of the features changes a*(u) may jump, and the flow with it.

`ProductFlow`: an additive network against an additive target is one limit per coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.alternating import dense_outer, distinct_points, minimum_norm_outer
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, flatten, unflatten
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.engines.dense_flow import DenseFlow, Trained
from shallowflow.models.networks import AdditiveStepNetwork, KnotNetwork, StepNetwork
from shallowflow.models.relu import OUTER_LAYER

NODES = 8


class LimitFlow(DenseFlow):
    """θ = (u, a*(u)): whatever a state says of the outer layer, it is that of least squares."""

    name = "limit"

    def __init__(self, task: Task) -> None:
        self._best = best_on_data(task)
        super().__init__(task)
        still = np.concatenate(
            [np.full(values.size, name in OUTER_LAYER) for name, values in task.network.parameters.items()]
        )
        self._rates = np.where(still, 0.0, task.speed)
        self._theta = self.kept(self._theta)

    def at(self, theta: Floats) -> Trained:
        """Return the network of a state, its outer layer of least squares."""
        network: Trained = self._best(unflatten(self._template, theta))
        return network

    def kept(self, theta: Floats) -> Floats:
        """Return (u, a*(u))."""
        return flatten(self.at(theta))


def best_on_data(task: Task) -> Callable[[Any], Any]:
    """Return network → the same with the outer layer of least squares on the data, of minimum norm."""
    dataset = task.dataset
    if isinstance(task.network, KnotNetwork):
        points = distinct_points(dataset)
        return lambda network: network.moved({"outer": minimum_norm_outer(network.knots, points)})
    return lambda network: network.moved(dense_outer(network, dataset.inputs, dataset.targets))


class ProductFlow:
    """The limit of an additive network from those of its coordinates: `follow(until)` returns them."""

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(
        self,
        network: AdditiveStepNetwork,
        follow: Callable[[], list[Trajectory[StepNetwork]]],
        measure: Callable[[AdditiveStepNetwork], float],
    ) -> None:
        self._template, self._measure, self._parts = network, measure, follow()
        self.name = str(self._parts[0].statistics["engine"])
        self._time, self._segments = 0.0, 0
        self._knots = np.unique(np.concatenate([part.path.times for part in self._parts]))
        width, numbered = network.width, list[Event]()
        for k, part in enumerate(self._parts):
            # A neuron of coordinate k is number j·d + k, in the order of `positions`.
            numbered += [Event(e.time, e.kind, e.neuron * len(self._parts) + k, e.point) for e in part.events]
        assert width == self._parts[0].final.width
        self._events = sorted(numbered, key=lambda event: event.time)

    def _theta(self, time: float) -> Floats:
        """Return (positions, outer, offset) at a time."""
        now = [part(min(time, float(part.path.times[-1]))) for part in self._parts]
        offset = sum(float(part.offset) for part in now)
        positions = np.column_stack([part.positions for part in now])
        outer = np.column_stack([part.outer for part in now])
        return np.concatenate([positions.ravel(), outer.ravel(), [offset]])

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance to the next end of a step of some coordinate, or to `until`."""
        start, ahead = self._time, self._knots[self._knots > self._time]
        end = min(until, float(ahead[0])) if ahead.size else until
        # Open inside the step: at an event the coordinates are those before it on the left.
        nodes = start + (end - start) * lobatto_nodes(NODES)
        nodes[-1] -= 1e-13 * (end - start)
        values = np.array([self._theta(float(time)) for time in nodes]) if rows else None
        self._time, self._segments = end, self._segments + 1
        found = [event for event in self._events if start < event.time <= end]
        ends = [part.outcome for part in self._parts if not part.outcome.ok]
        late = not ahead.size and bool(ends)
        return Piece(
            np.array([start, end]),
            rows={} if values is None else {"values": values[None]},
            events=lambda most: found[:most],
            stop=Stop("no step", {"time": start}) if late else None,
        )

    def loss(self) -> float:
        """Return ½∫(f − f*)² of the present network."""
        return self._measure(self.network())

    def network(self) -> AdditiveStepNetwork:
        """Return the present network."""
        return unflatten(self._template, self._theta(self._time))

    def path(self, times: Floats, rows: Rows) -> Polynomials[AdditiveStepNetwork]:
        """Return the polynomials of these steps."""
        return Polynomials(self._template, times, rows["values"])

    def statistics(self) -> Statistics:
        """Return the numbers of coordinates, steps and events."""
        return {"coordinates": len(self._parts), "segments": self._segments, "events": len(self._events)}
