"""Plain gradient flow of kinks: a Runge–Kutta method between located events, for a `KnotNetwork` and every
loss; and the two-timescale limit of a `KnotNetwork` or a `ReLUNetwork` on data.

Between events the signs of `gates` are frozen and the flow is smooth; every accepted step is searched for
changes at the nodes of its interpolant, the first change is located by Brent's method, and the integration
starts afresh there. O(m·n·d) per evaluation: the reference of faster flows. After `CALM` steps without an
event LSODA takes over, whose steps do not shrink where the flow is stiff.

In the limit the inner layer flows, u' = −∂L/∂u (a*(u), u) with a*(u) of least squares and minimum norm
(envelope theorem, [two_timescale] Remark 1). ⟨w_j, ∂L/∂w_j⟩ = a_j ∂L/∂a_j = 0 there: neurons keep their
norms, and one at zero stays. Where the rank of the features changes a*(u) may jump, and the flow with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.integrate import DOP853, LSODA
from scipy.optimize import brentq

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.alternating import distinct_points, minimum_norm_outer
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Path, Piece, Rows, Statistics, Stop, flatten, unflatten
from shallowflow.dynamics.engines.gates import Gates, Trained, nothing
from shallowflow.dynamics.engines.smooth_flow import layer_rates, order_eight
from shallowflow.dynamics.engines.wall_flow import WallLog
from shallowflow.models.networks import OUTER_LAYER, KnotNetwork, ReLUNetwork

NODES = 8
STUCK = 200
CALM = 60
RANK = 1e-10
"""Singular values of the features below this share of the largest count as 0."""
SAME = 1e-14
"""Unit vectors that differ by less in every coordinate are one."""


class DenseFlow:
    """Follow θ' = −rates·∇L(θ), one accepted step or one event at a time."""

    name = "dense"

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, task: Task) -> None:
        network = task.network
        assert isinstance(network, Trained)
        self._template, self._measure = network, task.measure
        self._tolerance, self._stop = task.tolerance, task.stop
        self._rates = self.rates(task)
        self._evaluations = self._idle = self._segments = self._events = self._two_valued = 0
        self.gates = Gates(network, task.dataset, task.loss, task.tolerance)
        start = self.best(network)
        self._ahead = self.gates.start(start)
        self._time, self._theta, self._step = 0.0, flatten(self.best(start)), 0.0
        self._solver: DOP853 | LSODA | None = None
        self._calm = 0
        self._count(self._ahead)

    def statistics(self) -> Statistics:
        """Return the numbers of evaluations of the gradient, of steps and of events."""
        return {
            "evaluations": self._evaluations,
            "two-valued": self._two_valued,
            "segments": self._segments,
            "events": self._events,
        }

    def _count(self, log: WallLog) -> None:
        self._events += len(log.neurons)
        self._two_valued += len(np.unique(log.neurons[log.kinds > 0]))

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self.network())

    def network(self) -> Trained:
        """Return the present network."""
        return self.whole(unflatten(self._template, self._theta))

    def rates(self, task: Task) -> Floats:
        """Return the speed of every parameter."""
        return layer_rates(task.network, task.speed, task.epsilon)

    def best(self, network: Trained) -> Trained:
        """Return the network that a state stands for: itself."""
        return network

    def whole(self, network: Trained) -> Trained:
        """Return the network as it is shown: itself."""
        return network

    def named(self, log: WallLog) -> WallLog:
        """Return a log with the neurons of the network that is shown."""
        return log

    def _at(self, theta: Floats) -> Trained:
        return self.best(unflatten(self._template, theta))

    def path(self, times: Floats, rows: Rows) -> Polynomials[Trained]:
        """Return the polynomials of these steps."""
        return Polynomials(self.network(), times, **rows)

    def velocity(self, _: float, theta: Floats) -> Floats:
        """Return −rates·∇L with the present signs."""
        self._evaluations += 1
        gradient = self.gates.gradient(self._at(theta))
        flat: Floats = np.concatenate([gradient[name].ravel() for name in self._template.PARAMETERS])
        return -self._rates * flat

    def _begin(self, until: float) -> DOP853 | LSODA:
        """Return a solver that starts from the present state."""
        span = self.velocity, self._time, self._theta, until
        if self._calm > CALM:
            size = max(float(np.abs(self._theta).max()), 1e-300)
            return LSODA(*span, rtol=self._tolerance, atol=self._tolerance * size)
        first = min(self._step, until - self._time) or None
        return order_eight(*span, tolerance=self._tolerance, first_step=first)

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by one accepted step, or to the first event in it."""
        solver = self._solver
        if solver is None or solver.t_bound != until:
            solver = self._begin(until)
        solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            return Piece(np.array([self._time]), stop=Stop("no step", {"time": self._time}))
        if isinstance(solver, DOP853):
            self._step = float(solver.h_abs)
        end = float(solver.t)
        piece = self._cut(solver.dense_output(), end, rows)
        self._calm = self._calm + 1 if self._time == end else 0
        going = self._time == end and self._calm > CALM and isinstance(solver, LSODA)
        self._solver = solver if going else None
        if self._idle > STUCK:
            return replace(piece, stop=Stop("gates chatter", {"time": self._time}))
        if self._stop > 0:
            norm = float(
                np.linalg.norm(
                    self.velocity(self._time, self._theta) / np.where(self._rates > 0, self._rates, 1.0)
                )
            )
            if norm <= self._stop:
                return replace(piece, stop=Stop("small gradient", {"norm": norm, "time": self._time}))
        return piece

    def _cut(self, dense: Callable[[float], Floats], end: float, rows: bool) -> Piece:
        """Return the step up to its first change, and make that change."""
        start, log = self._time, self._ahead
        found = self._first_change(dense, start, end)
        if found is not None:
            end = found[0]
        network = self.best(self.gates.onto_walls(unflatten(self._template, np.asarray(dense(end)))))
        for neuron in self.gates.due(network, found[1]) if found is not None else ():
            network, changes = self.gates.settle(network, neuron, end)
            self._count(changes)
            log = log.then(changes)
        network = self.best(network)
        self._idle = self._idle + 1 if end - start <= 1e-14 * max(end, 1e-300) else 0
        self._segments, passed, kept = self._segments + 1, end > start, dict[str, Any]()
        if rows:
            inside = start + (end - start) * lobatto_nodes(NODES)[1:-1]
            ends = unflatten(self._template, self._theta), network
            between = [self._at(np.asarray(dense(t))) for t in inside]
            values = [flatten(self.whole(now)) for now in (ends[0], *between, ends[1])]
            kept = {"values": np.array(values)[None] if passed else np.array(values)[None][:0]}
        self._time, self._theta, self._ahead = end, flatten(network), nothing()
        log = self.named(log)
        return Piece(
            np.array([start, end]) if passed else np.array([start]),
            rows=kept | self.gates.names.rests(log),
            events=lambda most: self.gates.names.name(log, most),
        )

    def _first_change(
        self, dense: Callable[[float], Floats], start: float, end: float
    ) -> tuple[float, int] | None:
        """Return (time, neuron) of the first change in (start, end], or None."""
        whole = self._at if self.gates.sliding else lambda theta: unflatten(self._template, theta)

        def margins(t: float) -> Floats:
            return self.gates.margins(whole(np.asarray(dense(t))))

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


class LimitFlow(DenseFlow):
    """θ = (u, a*(u)): whatever a state says of the outer layer, it is that of least squares.

    ReLU neurons of one direction are one neuron here, as long as it lasts: with norms ν_i the minimum norm
    gives them outer weights in proportion to ν_i, and they turn alike. So they are followed as one, of norm
    √(Σν_i²): apart they would be torn apart by rounding, since a*(u) has no limit where they meet.
    """

    name = "limit"

    def __init__(self, task: Task) -> None:
        self._targets, network = task.dataset.targets, task.network
        self._points = distinct_points(task.dataset) if isinstance(network, KnotNetwork) else None
        self._owners, self._shares = np.arange(network.width), np.ones(network.width)
        if isinstance(network, ReLUNetwork):
            self._owners, self._shares, inner = merged(network.inner)
            network = ReLUNetwork(inner, np.zeros(len(inner)), network.slope, network.scale)
        super().__init__(replace(task, network=network))

    def rates(self, task: Task) -> Floats:
        """Return the speed of every parameter: the outer layer has none of its own."""
        return np.concatenate(
            [
                np.full(values.size, 0.0 if name in OUTER_LAYER else task.speed)
                for name, values in task.network.parameters.items()
            ]
        )

    def best(self, network: Trained) -> Trained:
        """Return the network with the outer layer of least squares."""
        if self._points is not None:
            assert isinstance(network, KnotNetwork)
            return network.moved({"outer": minimum_norm_outer(network.knots, self._points)})
        outer = np.linalg.lstsq(self.gates.features(network), self._targets, rcond=RANK)[0]
        return network.moved({"outer": np.asarray(outer, np.float64)})

    def whole(self, network: Trained) -> Trained:
        """Return the network with all neurons of a direction."""
        if isinstance(network, KnotNetwork):
            return network
        inner = self._shares[:, None] * network.inner[self._owners]
        return network.moved({"inner": inner, "outer": self._shares * network.outer[self._owners]})

    def named(self, log: WallLog) -> WallLog:
        """Return a log with all neurons of a direction."""
        rows, members = np.nonzero(log.neurons[:, None] == self._owners)
        columns = [column[rows] for column in log.columns]
        return WallLog([columns[0], members, *columns[2:]])


def merged(inner: Floats) -> tuple[Ints, Floats, Floats]:
    """Return which neuron stands for each (m,), its share in it (m,), and those: one per direction (M, d)."""
    lengths = np.linalg.norm(inner, axis=1)
    units = inner / np.where(lengths > 0, lengths, 1.0)[:, None]
    owners, firsts = np.empty(len(inner), np.int64), list[int]()
    for j, unit in enumerate(units):
        same = [k for k, i in enumerate(firsts) if np.abs(units[i] - unit).max(initial=0.0) < SAME]
        owners[j] = same[0] if same else len(firsts)
        if not same:
            firsts.append(j)
    alone = np.bincount(owners) == 1
    sizes = np.where(alone, lengths[firsts], np.sqrt(np.bincount(owners, lengths**2)))
    shares = np.divide(lengths, sizes[owners], out=np.ones(len(inner)), where=sizes[owners] > 0)
    return owners, shares, np.where(alone[:, None], inner[firsts], sizes[:, None] * units[firsts])
