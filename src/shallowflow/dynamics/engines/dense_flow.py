"""Plain gradient flow of kinks: DOP853 between located events, for a `KnotNetwork` and every loss. With the
outer layer at its optimum it is the two-timescale limit of a `ReLUNetwork`, too (`limit_flow`).

Between events the gates are frozen and the flow is smooth; every accepted step is searched for gate changes
at the nodes of its interpolant, the first change is located by Brent's method, and the integration starts
afresh there. O(m·n·d) per evaluation: the reference of faster flows.

A gate (j, k) is +1 (point k active for neuron j), −1 (inactive), or 0: the neuron slides along the point.
Between changes the flow is smooth. With c_k = ∂L/∂h_k, n_k = ∂z_k/∂(inner) (the input for a `ReLUNetwork`, −1
for a `KnotNetwork`) and γ the leaky slope,

    D_j = Σ_k η_jk c_k n_k,   η = 1 | γ | minimal-norm choice for gates + | − | 0,
    dz_jk/dt = −outer_j ⟨D_j, n_k⟩ (times positive factors).

At z_jk = 0 the one-sided velocities decide (Filippov): same sign, the neuron crosses; both pointing to the
hyperplane, it slides until the minimal-norm gate leaves [γ, 1]. They differ by a multiple of outer_j c_k, so
only outer_j c_k > 0 can hold a neuron, and what it follows is then the minimal-norm element over all the
hyperplanes on which it lies. Where outer_j c_k < 0 a neuron that arrives crosses; a sliding neuron comes
there when its outer weight changes sign, and then its future is two-valued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853
from scipy.optimize import brentq

from shallowflow.arrays import Bools, Floats
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, flatten, unflatten
from shallowflow.dynamics.engines.smooth_flow import layer_rates
from shallowflow.landscape.geometry.subgradient import gates_of, unbounded_gate
from shallowflow.models.loss import Loss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

Trained = ReLUNetwork | KnotNetwork
Signs = NDArray[np.int8]
NODES = 8
STUCK = 200
ROUNDING = 1e-13
"""A preactivation is zero when it is below this share of the neuron's size times the input's."""
ROUNDS = 4


class Gates:
    """The gate signs of a network on fixed inputs, (m, n), and the rules by which they change."""

    def __init__(
        self, network: Trained, inputs: Floats, targets: Floats, loss: Loss, tolerance: float
    ) -> None:
        self.tolerance = tolerance
        self.inputs, self.targets, self.loss = inputs, targets, loss
        self.normals = inputs if isinstance(network, ReLUNetwork) else -np.ones((len(inputs), 1))
        self.slope = network.slope
        z = network.preactivations(inputs)
        self.signs = np.where(z > self._rounding(network), 1, -1).astype(np.int8)

    def _rounding(self, network: Trained) -> Floats:
        """Return the size below which z_jk is rounding, (m, n)."""
        if isinstance(network, ReLUNetwork):
            neurons = np.maximum(np.linalg.norm(network.inner, axis=1), np.abs(network.outer))
            sizes: Floats = neurons[:, None] * np.linalg.norm(self.inputs, axis=1)
        else:
            sizes = np.abs(network.knots)[:, None] + np.abs(self.inputs[:, 0])
        return ROUNDING * sizes

    def covector(self, network: Trained) -> Floats:
        """Return ∂L/∂h_k with the prediction continued smoothly by the present gates."""
        scale = network.scale if isinstance(network, ReLUNetwork) else 1.0
        active = np.where(self.signs > 0, 1.0, self.slope) * network.preactivations(self.inputs)
        active[self.signs == 0] = 0.0
        return self.loss.slopes(scale * (network.outer @ active), self.targets)

    def values(self, covector: Floats) -> Floats:
        """Return η (m, n): 1, γ, or for a sliding neuron what keeps it on its hyperplanes."""
        values = np.where(self.signs > 0, 1.0, self.slope)
        for j in np.unique(np.nonzero(self.signs == 0)[0]):
            sliding = self.signs[j] == 0
            known, parts = self._parts(values[j], covector, sliding)
            if len(parts) == 1:
                values[j, sliding] = unbounded_gate(known, parts[0], self.slope)
            else:
                values[j, sliding] = np.linalg.lstsq(parts.T, -known)[0]
        return values

    def margins(self, network: Trained) -> Floats:
        """Return how far every gate is from a change, (m, n): negative where it has already changed."""
        margins = self.signs * network.preactivations(self.inputs) + self._rounding(network)
        if (self.signs == 0).any():
            covector = self.covector(network)
            slack = self._slack(network, covector, self.values(covector))
            margins = np.where(self.signs == 0, slack, margins)
        return margins

    def _slack(self, network: Trained, covector: Floats, values: Floats) -> Floats:
        """Return how far sliding gates (m, n) are from release, as a speed: negative for those that must go.

        η beyond [γ, 1] by δ means that the neuron is pulled off at the speed δ·|outer_j c_k|·‖n_k‖². It is
        released when that speed exceeds what the integrator errs; otherwise a neuron that slides into an
        equilibrium, where all forces vanish, would be released and caught again at every step.
        """
        beyond = np.maximum(self.slope - values, values - 1.0)
        pull = np.abs(np.outer(network.outer, covector)) * np.sum(self.normals**2, axis=1)
        slack: Floats = 10 * self.tolerance / ROUNDING * self._rounding(network) - beyond * pull
        return slack

    def settle(self, network: Trained, j: int) -> tuple[Trained, list[tuple[str, int]]]:
        """Decide every gate of neuron j that is at its limit.

        Return the network with the neuron put exactly onto the hyperplanes that it met, and the changes as
        (kind, point); none if it only touched them.
        """
        covector = self.covector(network)
        before = self.signs[j].copy()
        all_values = self.values(covector)
        staying = (before == 0) & (self._slack(network, covector, all_values)[j] >= 0)
        z = network.preactivations(self.inputs)[j]
        at_limit = ~staying & ((before == 0) | (before * z <= 4 * self._rounding(network)[j]))
        held = at_limit & (network.outer[j] * covector > 0)
        passing = at_limit & ~held
        direction = self._velocity(network, covector, j, all_values[j])
        unique = False
        for _ in range(ROUNDS):
            self.signs[j, passing] = np.where(direction[passing] > 0, 1, -1)
            values = np.where(self.signs[j] > 0, 1.0, self.slope)
            free = staying | held
            if free.any():
                values[free] = gates_of(*self._parts(values, covector, free), self.slope)
            self.signs[j, held] = np.where(values >= 1, 1, np.where(values <= self.slope, -1, 0))[held]
            direction = self._velocity(network, covector, j, values)
            unique = bool(np.all((direction[passing] > 0) == (self.signs[j, passing] > 0)))
            if unique:
                break
        changed = np.flatnonzero(self.signs[j] != before)
        events = [(self._kind(j, int(k), int(before[k]), unique and not passing[k]), int(k)) for k in changed]
        return self._put(network, {j: at_limit | staying}), events

    def onto_faces(self, network: Trained) -> Trained:
        """Return the network with every sliding neuron put exactly onto its hyperplanes."""
        sliding = np.unique(np.nonzero(self.signs == 0)[0])
        return self._put(network, {int(j): self.signs[j] == 0 for j in sliding})

    def _put(self, network: Trained, faces: Mapping[int, Bools]) -> Trained:
        """Return the network with the given neurons moved the shortest way onto the given hyperplanes."""
        if not faces:
            return network
        if isinstance(network, KnotNetwork):
            knots = network.knots.copy()
            for j, points in faces.items():
                knots[j] = self.inputs[np.argmax(points), 0]
            return network.moved({"knots": knots})
        inner = network.inner.copy()
        for j, points in faces.items():
            normals = self.normals[points]
            inner[j] -= np.linalg.pinv(normals) @ (normals @ inner[j])
        return network.moved({"inner": inner})

    def _kind(self, j: int, k: int, before: int, unique: bool) -> str:
        """Return the kind of the event that changed gate (j, k) from `before`."""
        now = int(self.signs[j, k])
        if before == 0:
            return "release" if unique else "two-valued"
        if now == 0:
            return "slide"
        if now > 0:
            return "on"
        return "death" if self.slope == 0 and np.all(self.signs[j] < 0) else "off"

    def _velocity(self, network: Trained, covector: Floats, j: int, values: Floats) -> Floats:
        """Return dz_jk/dt (n,), up to a positive factor, with the gate values (n,)."""
        velocity: Floats = -network.outer[j] * (self.normals @ ((values * covector) @ self.normals))
        return velocity

    def _parts(self, values: Floats, covector: Floats, free: Bools) -> tuple[Floats, Floats]:
        known = (values * covector * ~free) @ self.normals
        return known, covector[free, None] * self.normals[free]


class DenseFlow:
    """Follow θ' = −rates·∇L(θ), one accepted step or one event at a time."""

    name = "dense"

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, task: Task) -> None:
        network = task.network
        assert isinstance(network, Trained)
        self.gates = Gates(network, task.dataset.inputs, task.dataset.targets, task.loss, task.tolerance)
        self._template, self._measure = network, task.measure
        self._tolerance, self._stop = task.tolerance, task.stop
        self._time, self._theta = 0.0, flatten(network)
        self._rates = layer_rates(network, task.speed, task.epsilon)
        self._evaluations = self._idle = self._segments = self._events = 0
        self._step = 0.0

    def statistics(self) -> Statistics:
        """Return the numbers of evaluations of the gradient, of steps and of events."""
        return {"evaluations": self._evaluations, "segments": self._segments, "events": self._events}

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self.network())

    def network(self) -> Trained:
        """Return the present network."""
        return self.at(self._theta)

    def at(self, theta: Floats) -> Trained:
        """Return the network of a state θ."""
        return unflatten(self._template, theta)

    def kept(self, theta: Floats) -> Floats:
        """Return θ as it is kept in the path."""
        return theta

    def path(self, times: Floats, rows: Rows) -> Polynomials[Trained]:
        """Return the polynomials of these steps."""
        return Polynomials(self._template, times, **rows)

    def velocity(self, _: float, theta: Floats) -> Floats:
        """Return −rates·∇L with the present gates."""
        self._evaluations += 1
        network = self.at(theta)
        covector = self.gates.covector(network)
        gradient = network.pullback(self.gates.inputs, covector, self.gates.values(covector))
        flat: Floats = np.concatenate([gradient[name].ravel() for name in network.PARAMETERS])
        return -self._rates * flat

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by one accepted step, or to the first event in it."""
        solver = DOP853(
            self.velocity,
            self._time,
            self._theta,
            until,
            rtol=self._tolerance,
            atol=self._tolerance * max(float(np.abs(self._theta).max()), 1e-300),
            first_step=min(self._step, until - self._time) or None,
        )
        solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            return Piece(np.array([self._time]), stop=Stop("no step", {"time": self._time}))
        self._step = float(solver.h_abs)
        piece = self._cut(solver.dense_output(), float(solver.t))
        if self._idle > STUCK:
            return replace(piece, stop=Stop("gates chatter", {"time": self._time}))
        if self._stop > 0:
            norm = float(np.linalg.norm(self.velocity(self._time, self._theta) / self._rates))
            if norm <= self._stop:
                return replace(piece, stop=Stop("small gradient", {"norm": norm, "time": self._time}))
        return piece

    def _cut(self, dense: Callable[[float], Floats], end: float) -> Piece:
        """Return the step up to its first gate change, and make that change."""
        start, changes, neuron = self._time, list[tuple[str, int]](), -1
        found = self._first_change(dense, start, end)
        if found is not None:
            end, neuron = found
        network = self.gates.onto_faces(self.at(np.asarray(dense(end))))
        before = self.gates.signs[neuron].copy()
        if found is not None:
            network, changes = self.gates.settle(network, neuron)
        self._idle = self._idle + 1 if end - start <= 1e-14 * max(end, 1e-300) else 0
        self._segments, self._events = self._segments + 1, self._events + len(changes)
        values = np.array([self.kept(dense(t)) for t in start + (end - start) * lobatto_nodes(NODES)])
        values[0], values[-1] = self._theta, flatten(network)
        self._time, self._theta = end, values[-1]
        passed = end > start
        return Piece(
            np.array([start, end]) if passed else np.array([start]),
            rows={"values": values[None] if passed else values[None][:0], **self._rests(neuron, before)},
            events=lambda most: [Event(end, kind, neuron, k) for kind, k in changes[:most]],
        )

    def _rests(self, neuron: int, before: Signs) -> Rows:
        """Return the log of the points on which a neuron came to rest, and which it left, just now."""
        now = self.gates.signs[neuron]
        onto, off = np.flatnonzero((before != 0) & (now == 0)), np.flatnonzero((before == 0) & (now != 0))
        points = np.concatenate([onto, -1 - off])
        return {
            "rest_times": np.full(len(points), self._time),
            "rest_neurons": np.full(len(points), neuron),
            "rest_points": points,
        }

    def _first_change(
        self, dense: Callable[[float], Floats], start: float, end: float
    ) -> tuple[float, int] | None:
        """Return (time, neuron) of the first gate change in (start, end], or None."""

        def margins(t: float) -> Floats:
            return self.gates.margins(self.at(np.asarray(dense(t))))

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
