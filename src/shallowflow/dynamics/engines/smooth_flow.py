"""Flows without events: an adaptive Runge–Kutta method of order 8, or LSODA where the flow is stiff.

`ProductFlow`: an additive network against an additive target is one limit per coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

import numpy as np
from scipy.integrate import DOP853, LSODA

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import (
    Event,
    N,
    Path,
    Piece,
    Rows,
    Statistics,
    Stop,
    flatten,
    unflatten,
)
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import OUTER_LAYER, AdditiveStepNetwork, BaseNetwork, StepNetwork

NODES = 8
FINEST, FINEST_RTOL = 1e-13, 2.3e-14
"""The finest tolerance that double precision can serve, and the finest that SciPy takes."""
SURE = 0.1
"""The share of the tolerance that order 8 gets. Where its steps lengthen its estimate is too low: 10 times at
a tolerance of 1e-8, 32 times at 1e-10 on steps of 300 random problems, errors being up to 5.8 tolerances."""
LATEST = 1e12
"""The last time, in units of the rates, that is resolved: later, steps of order one vanish in rounding."""


@dataclass(frozen=True)
class Field(Generic[N]):
    """y' = −rates·gradient(y) from `start`; θ = expand(y), or y itself; measure: network → loss."""

    template: N
    start: Floats
    rates: Floats
    gradient: Callable[[Floats], Floats]
    measure: Callable[[N], float]
    expand: Callable[[Floats], Floats] | None = None


def order_eight(
    velocity: Callable[[float, Floats], Floats],
    start: float,
    y: Floats,
    until: float,
    *,
    tolerance: float,
    first_step: float | None = None,
) -> DOP853:
    """Return a solver whose estimate of the error of a step is kept below a share `SURE` of the tolerance.

    SciPy bounds the mean square of the P numbers e_i/(atol + rtol |y_i|). With rtol = τ/√P and atol = rtol
    ‖y₀‖, y₀ at the start, that is ‖e‖ ≤ τ (‖y₀‖ + ‖y‖).
    """
    rtol = max(SURE * tolerance / np.sqrt(y.size), FINEST_RTOL)
    largest = float(np.abs(y).max())
    size = largest * float(np.linalg.norm(y / largest)) if largest > 0 else 1.0
    atol = max(rtol * size, np.finfo(float).tiny)
    return DOP853(velocity, start, y, until, rtol=rtol, atol=atol, first_step=first_step)


class SmoothFlow(Generic[N]):
    """Follow a smooth field, one accepted step at a time; ends where the gradient is at most `stop`."""

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, field: Field[N], *, tolerance: float, stop: float, stiff: bool = False) -> None:
        if tolerance < FINEST:
            raise InvalidInputError(f"tolerance: must be >= {FINEST:g}, got {tolerance:g}")
        self.name = "stiff" if stiff else "smooth"
        self._field, self._tolerance, self._stop, self._stiff = field, tolerance, stop, stiff
        self._time, self._y = 0.0, field.start
        self._solver: DOP853 | LSODA | None = None
        self._evaluations = self._segments = 0

    def _velocity(self, _: float, y: Floats) -> Floats:
        self._evaluations += 1
        return -self._field.rates * self._field.gradient(y)

    def _begin(self, until: float) -> DOP853 | LSODA:
        if until * float(self._field.rates.max()) > LATEST:
            rule = f"speed x until must be <= {LATEST:g} (a run that settles ends early with stop > 0)"
            raise InvalidInputError(f"until: {rule}, got {until * float(self._field.rates.max()):g}")
        span = self._velocity, self._time, self._y, until
        if self._stiff:
            size = max(float(np.abs(self._y).max()), 1.0)
            return LSODA(*span, rtol=self._tolerance, atol=self._tolerance * size)
        return order_eight(*span, tolerance=self._tolerance)

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by one accepted step."""
        if self._solver is None:
            self._solver = self._begin(until)
        solver, start = self._solver, self._time
        solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            return Piece(np.array([start]), stop=Stop("no step", {"time": start}))
        end, kept = float(solver.t), {}
        if rows:
            dense = solver.dense_output()
            values = np.array([dense(start + share * (end - start)) for share in lobatto_nodes(NODES)])
            values[0], values[-1] = self._y, solver.y
            expand = self._field.expand
            kept = {"values": (values if expand is None else np.array([expand(y) for y in values]))[None]}
        self._time, self._y, self._segments = end, solver.y.copy(), self._segments + 1
        stop = None
        if self._stop > 0:
            norm = float(np.linalg.norm(self._field.gradient(self._y)))
            stop = Stop("small gradient", {"norm": norm, "time": end}) if norm <= self._stop else None
        return Piece(np.array([start, end]), rows=kept, stop=stop)

    def read(self, times: Floats, networks: bool) -> tuple[Floats, list[Floats]]:
        """Return losses (k,), and θ of each where wanted, at times inside the last step."""
        assert self._solver is not None
        dense, expand = self._solver.dense_output(), self._field.expand
        values = [self._y if time == self._time else dense(time) for time in times.tolist()]
        thetas = values if expand is None else [expand(y) for y in values]
        losses = [self._field.measure(unflatten(self._field.template, theta)) for theta in thetas]
        return np.array(losses), thetas if networks else []

    def loss(self) -> float:
        """Return the present loss."""
        return self._field.measure(self.network())

    def network(self) -> N:
        """Return the present network."""
        expand = self._field.expand
        return unflatten(self._field.template, self._y if expand is None else expand(self._y))

    def path(self, times: Floats, rows: Rows) -> Polynomials[N]:
        """Return the polynomials of these steps."""
        return Polynomials(self._field.template, times, rows["values"])

    def statistics(self) -> Statistics:
        """Return the numbers of evaluations of the gradient and of steps; there are no events."""
        return {"evaluations": self._evaluations, "segments": self._segments, "events": 0}


def layer_rates(network: BaseNetwork, speed: float, epsilon: float) -> Floats:
    """Return the speed of every parameter: `speed` in the outer layer, speed·epsilon in the inner one."""
    return np.concatenate(
        [
            np.full(values.size, speed if name in OUTER_LAYER else speed * epsilon)
            for name, values in network.parameters.items()
        ]
    )


def sample_flow(task: Task) -> SmoothFlow:
    """Return the flow of a network with smooth activations on a data set."""
    network, dataset = task.network, task.dataset

    def gradient(theta: Floats) -> Floats:
        now = unflatten(network, theta)
        parts = now.pullback(dataset.inputs, task.loss.slopes(now.predict(dataset.inputs), dataset.targets))
        return np.concatenate([np.ravel(parts[name]) for name in network.PARAMETERS])

    rates = layer_rates(network, task.speed, task.epsilon)
    field = Field(network, flatten(network), rates, gradient, task.measure)
    return SmoothFlow(field, tolerance=task.tolerance, stop=task.stop)


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
