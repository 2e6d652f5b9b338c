"""Plain gradient flow for `ReLUNetwork` and `KnotNetwork`: DOP853 between located events, for any data.

Between events the gates are frozen and the flow is smooth; every accepted step is searched for gate changes
at the nodes of its interpolant, the first change is located by Brent's method, and the integration starts
afresh there. O(m·n·d) per evaluation: the reference of faster flows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import DOP853
from scipy.optimize import brentq

from shallowflow.arrays import Floats
from shallowflow.dynamics.engines.gates import Gates, Trained
from shallowflow.dynamics.flow_recorder import Segments
from shallowflow.dynamics.nodes import lobatto_nodes
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import flatten, unflatten
from shallowflow.models.networks import OUTER_LAYER

NODES = 8
STUCK = 200


class DenseFlow:
    """Follow θ' = −rates·∇L(θ), one accepted step or one event at a time."""

    name = "dense"

    def __init__(
        self, network: Trained, gates: Gates, speed: float, epsilon: float, tolerance: float, stop: float
    ) -> None:
        self.template, self.gates, self.tolerance = network, gates, tolerance
        self.time, self.theta = 0.0, flatten(network)
        self.rates = np.concatenate(
            [
                np.full(values.size, speed if name in OUTER_LAYER else speed * epsilon)
                for name, values in network.parameters.items()
            ]
        )
        self._stop, self._slowest = stop, np.inf
        self._evaluations, self._idle, self._step, self._failed = 0, 0, 0.0, False

    def verdict(self) -> Outcome | None:
        """Return why the flow cannot go on, or None while it can."""
        if self._failed:
            return Outcome(
                "stalled",
                f"the integrator found no step at t = {self.time:.6g}.",
                "a larger tolerance, or another initial network.",
            )
        if self._idle > STUCK:
            return Outcome(
                "stalled",
                f"gates change again and again at t = {self.time:.6g}.",
                "a smaller tolerance; the solution may not be unique from here on.",
            )
        if self._slowest <= self._stop:
            return Outcome("converged", f"the gradient fell to {self._slowest:.3g} at t = {self.time:.6g}.")
        return None

    def statistics(self) -> dict[str, float | int | str]:
        """Return the number of evaluations of the gradient."""
        return {"evaluations": self._evaluations}

    def network(self, theta: Floats) -> Trained:
        """Return the network with parameters θ."""
        network = unflatten(self.template, theta)
        assert isinstance(network, Trained)
        return network

    def velocity(self, _: float, theta: Floats) -> Floats:
        """Return −rates·∇L with the present gates."""
        self._evaluations += 1
        network = self.network(theta)
        covector = self.gates.covector(network)
        gradient = network.pullback(self.gates.inputs, covector, self.gates.values(covector))
        flat: Floats = np.concatenate([gradient[name].ravel() for name in network.PARAMETERS])
        return -self.rates * flat

    def advance(self, until: float) -> Segments:
        """Advance by one accepted step, or to the first event in it."""
        solver = DOP853(
            self.velocity,
            self.time,
            self.theta,
            until,
            rtol=self.tolerance,
            atol=self.tolerance * max(float(np.abs(self.theta).max()), 1e-300),
            first_step=min(self._step, until - self.time) or None,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            self._failed = True
            return Segments(np.array([self.time]), np.empty((0, NODES, self.theta.size)), [])
        self._step = float(solver.h_abs)
        segments = self._cut(solver.dense_output(), float(solver.t))
        if self._stop > 0:
            self._slowest = float(np.linalg.norm(self.velocity(self.time, self.theta) / self.rates))
        return segments

    def _cut(self, dense: Callable[[float], Floats], end: float) -> Segments:
        """Return the step up to its first gate change, and make that change."""
        start, events = self.time, list[Event]()
        found = self._first_change(dense, start, end)
        end = end if found is None else found[0]
        network = self.gates.onto_faces(self.network(np.asarray(dense(end))))
        if found is not None:
            network, changes = self.gates.settle(network, found[1])
            events = [Event(end, kind, found[1], k) for kind, k in changes]
        self._idle = self._idle + 1 if end - start <= 1e-14 * max(end, 1e-300) else 0
        nodes = start + (end - start) * lobatto_nodes(NODES)
        values = np.array([dense(t) for t in nodes])
        values[0] = self.theta
        values[-1] = flatten(network)
        self.time, self.theta = end, values[-1]
        return Segments(np.array([start, end]), values[None], events)

    def _first_change(
        self, dense: Callable[[float], Floats], start: float, end: float
    ) -> tuple[float, int] | None:
        """Return (time, neuron) of the first gate change in (start, end], or None."""

        def margins(t: float) -> Floats:
            return self.gates.margins(self.network(np.asarray(dense(t))))

        before = start
        for t in (start + (end - start) * lobatto_nodes(NODES))[1:]:
            if (margins(t) < 0).any():
                return self._locate(margins, before, float(t))
            before = float(t)
        return None

    def _locate(self, margins: Callable[[float], Floats], before: float, after: float) -> tuple[float, int]:
        """Locate the first zero of the smallest margin in [before, after]; the time returned is after it."""

        def smallest(t: float) -> float:
            return float(margins(t).min())

        if smallest(before) < 0:
            after = before
        else:
            root = float(brentq(smallest, before, after, xtol=1e-15 * max(after, 1e-300), rtol=1e-15))
            after = self._just_after(smallest, root, after)
        return after, int(np.argmin(margins(after).min(axis=1)))

    @staticmethod
    def _just_after(smallest: Callable[[float], float], root: float, after: float) -> float:
        """Return a time at or just after the root at which the sign has changed."""
        width = 1e-15 * max(abs(after), 1e-300)
        while root < after and smallest(root) >= 0:
            root, width = min(root + width, after), 2 * width
        return root
