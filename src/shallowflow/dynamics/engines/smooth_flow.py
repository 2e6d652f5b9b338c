"""Flows without events: an adaptive Runge–Kutta method of order 8, or LSODA where the flow is stiff."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import DOP853, LSODA

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.flow_recorder import Segments
from shallowflow.dynamics.nodes import lobatto_nodes
from shallowflow.dynamics.outcome import Outcome
from shallowflow.dynamics.path import flatten, unflatten
from shallowflow.models.loss import Loss
from shallowflow.models.networks import OUTER_LAYER, Network

NODES = 8

Field = Callable[[Floats], Floats]


class SmoothFlow:
    """Follow y' = −rates·gradient(y), one accepted step at a time; `expand` turns y into θ for the record."""

    def __init__(
        self,
        start: Floats,
        gradient: Field,
        rates: Floats,
        *,
        tolerance: float,
        stop: float,
        expand: Field | None = None,
        stiff: bool = False,
    ) -> None:
        self.name = "stiff" if stiff else "smooth"
        self.time, self.state = 0.0, start
        self._gradient, self._rates, self._expand = gradient, rates, expand
        self._tolerance, self._stop, self._stiff = tolerance, stop, stiff
        self._solver: DOP853 | LSODA | None = None
        self._evaluations, self._slowest, self._failed = 0, np.inf, False

    def _velocity(self, _: float, y: Floats) -> Floats:
        self._evaluations += 1
        return -self._rates * self._gradient(y)

    def _begin(self, until: float) -> DOP853 | LSODA:
        tolerances = {
            "rtol": self._tolerance,
            "atol": self._tolerance * max(float(np.abs(self.state).max()), 1.0),
        }
        method = LSODA if self._stiff else DOP853
        return method(self._velocity, self.time, self.state, until, **tolerances)

    def advance(self, until: float) -> Segments:
        """Advance by one accepted step."""
        if self._solver is None:
            self._solver = self._begin(until)
        solver = self._solver
        with np.errstate(over="ignore", invalid="ignore"):
            solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            self._failed = True
            size = self.state.size if self._expand is None else self._expand(self.state).size
            return Segments(np.array([self.time]), np.empty((0, NODES, size)), [])
        start, end = self.time, float(solver.t)
        dense = solver.dense_output()
        values = np.array([dense(start + share * (end - start)) for share in lobatto_nodes(NODES)])
        values[0], values[-1] = self.state, solver.y
        self.time, self.state = end, solver.y.copy()
        if self._stop > 0:
            self._slowest = float(np.linalg.norm(self._gradient(self.state)))
        if self._expand is not None:
            values = np.array([self._expand(y) for y in values])
        return Segments(np.array([start, end]), values[None], [])

    def verdict(self) -> Outcome | None:
        """Return why the flow cannot go on, or None while it can."""
        if self._failed:
            return Outcome(
                "stalled",
                f"the integrator found no step at t = {self.time:.6g}.",
                "a larger tolerance, or another initial network.",
            )
        if self._slowest <= self._stop:
            return Outcome("converged", f"the gradient fell to {self._slowest:.3g} at t = {self.time:.6g}.")
        return None

    def statistics(self) -> dict[str, float | int | str]:
        """Return the number of evaluations of the gradient."""
        return {"evaluations": self._evaluations}


def layer_rates(network: Network, speed: float, epsilon: float) -> Floats:
    """Return the speed of every parameter: `speed` in the outer layer, speed·epsilon in the inner one."""
    return np.concatenate(
        [
            np.full(values.size, speed if name in OUTER_LAYER else speed * epsilon)
            for name, values in network.parameters.items()
        ]
    )


def sample_flow(
    network: Network,
    dataset: Dataset,
    loss: Loss,
    speed: float,
    epsilon: float,
    tolerance: float,
    stop: float,
) -> SmoothFlow:
    """Return the flow of a network with smooth activations on a data set."""

    def gradient(theta: Floats) -> Floats:
        now = unflatten(network, theta)
        parts = now.pullback(dataset.inputs, loss.slopes(now.predict(dataset.inputs), dataset.targets))
        return np.concatenate([np.ravel(parts[name]) for name in network.PARAMETERS])

    rates = layer_rates(network, speed, epsilon)
    return SmoothFlow(flatten(network), gradient, rates, tolerance=tolerance, stop=stop)
