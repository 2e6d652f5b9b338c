"""Gates: which data point is on for which neuron, and what happens when one changes.

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

from collections.abc import Mapping

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.landscape.geometry.subgradient import minimal_gates, unbounded_gate
from shallowflow.models.loss import Loss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

Trained = ReLUNetwork | KnotNetwork
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
                values[free] = minimal_gates(*self._parts(values, covector, free), self.slope)
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
