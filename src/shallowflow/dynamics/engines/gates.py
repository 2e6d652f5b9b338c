"""On which side of the walls of the data neurons with kinks are, and by which rule that changes.

Samples on one line through the origin share a wall (`kernels.walls.arrangement`; of a `KnotNetwork`: equal
inputs), so that repeated, collinear and opposite inputs are decided together, and inputs at the origin not at
all. A sign (j, w) is ±1 for the side of wall w on which neuron j is, or 0: it slides along it. With c_k =
∂L/∂h_k, x_k = s_k ρ_k e_w (of a `KnotNetwork`: s = ρ = 1, e = −1) and γ the leaky slope,

    D_j = Σ_w (F_w + σ_jw C_w) e_w,   F_w = ½(1 + γ) Σ_k s_k ρ_k c_k,   C_w = ½(1 − γ) Σ_k ρ_k c_k,
    dz_jw/dt = −outer_j ⟨D_j, e_w⟩ (times positive factors),   σ = ±1, or of least ‖D_j‖ where it slides.

At z_jw = 0 the one-sided velocities decide (Filippov), by the rule of `kernels.walls.settle`: a wall with
outer_j C_w > 0 attracts, and is crossed or holds the neuron until |σ| > 1; one with outer_j C_w < 0 is
crossed by a neuron that arrives. A neuron that is on it, because it starts there or because its outer weight
has changed sign while it slid, may leave to both sides: its future is two-valued, and a hash of its number
draws the side.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.wall_flow import WallEvents, WallLog
from shallowflow.kernels.walls.arrangement import Problem, Samples, arrange
from shallowflow.landscape.geometry.activity import Meeting
from shallowflow.models.loss import Loss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork

Trained = ReLUNetwork | KnotNetwork
Signs = NDArray[np.int8]
ROUNDING = 1e-13
"""A preactivation is zero when it is below this share of the neuron's size."""
GRAZE = 10.0
"""Tolerances within which a neuron that has just left a wall may stray back by errors of the integrator."""


class Gates:
    """On which side of every wall each neuron is, (m, W), and the rules by which that changes."""

    def __init__(self, network: Trained, dataset: Dataset, loss: Loss, tolerance: float) -> None:
        self.tolerance, self.loss, self.slope = tolerance, loss, float(network.slope)
        self._targets, self._scale = dataset.targets, 1.0
        if isinstance(network, ReLUNetwork):
            self.normals, self._samples, self._kept = arrange(dataset.inputs, dataset.targets)
            self._places, self._scale = np.zeros(len(self.normals)), float(network.scale)
        else:
            self._places, walls = np.unique(dataset.inputs[:, 0], return_inverse=True)
            self.normals, self._kept = -np.ones((len(self._places), 1)), np.arange(dataset.size)
            ones = np.ones(dataset.size)
            self._samples = Samples(walls.astype(np.int64), ones, ones, dataset.targets)
        problem = Problem(self.normals, self._samples, 0, self._scale, self.slope, 1.0, 0, 0.0)
        self.names = WallEvents(problem, self._kept)
        z = self.distances(network)
        near, still = np.abs(z) <= self._rounding(network), self._sizes(network) == 0
        self.signs: Signs = np.where(still, -1, np.where(near, 0, np.sign(z))).astype(np.int8)
        # The sign of the outer weight with which a neuron slides; walls that a neuron has just left.
        self._ways = np.zeros(network.width)
        self._grazing = np.zeros(z.shape, np.bool_)

    def distances(self, network: Trained) -> Floats:
        """Return z (m, W): ⟨w_j, e_w⟩, or how far a point lies to the right of a knot."""
        if isinstance(network, KnotNetwork):
            away: Floats = self._places - network.knots[:, None]
            return away
        return network.inner @ self.normals.T

    def _sizes(self, network: Trained) -> Floats:
        """Return the size (m, W) against which a distance is measured; 0 for a neuron that never moves."""
        if isinstance(network, KnotNetwork):
            largest = float(np.abs(self._places).max()) or 1.0
            return np.abs(network.knots)[:, None] + np.full(len(self._places), largest, np.float64)
        lengths = np.linalg.norm(network.inner, axis=1)[:, None]
        return np.broadcast_to(lengths, (network.width, len(self.normals)))

    def _rounding(self, network: Trained) -> Floats:
        """Return the size below which z_jw is rounding, (m, W)."""
        return ROUNDING * self._sizes(network)

    def forces(self, network: Trained) -> tuple[Floats, Floats]:
        """Return F and C (W,), with the prediction continued smoothly by the present signs."""
        walls, sides, lengths, _ = self._samples
        predictions = self.features(network) @ network.outer
        pulls = self._scale * lengths * self.loss.slopes(predictions, self._targets)[self._kept]
        count = len(self.normals)
        mean, jump = (np.asarray(np.bincount(walls, f, count), np.float64) for f in (sides * pulls, pulls))
        return 0.5 * (1.0 + self.slope) * mean, 0.5 * (1.0 - self.slope) * jump

    def features(self, network: Trained) -> Floats:
        """Return Φ (n, m), f = Φ·outer at the samples, continued smoothly by the present signs."""
        walls, sides, lengths, _ = self._samples
        z, signs = self.distances(network)[:, walls], self.signs[:, walls] * sides
        found = np.zeros((len(self._targets), network.width))
        gates = np.where(signs > 0, 1.0, np.where(signs < 0, self.slope, 0.0))
        found[self._kept] = (self._scale * lengths * sides * gates * z).T
        return found

    def multipliers(self, mean: Floats, jump: Floats) -> Floats:
        """Return σ (m, W): ±1, and for a sliding neuron what keeps it on its walls."""
        found = self.signs.astype(np.float64)
        for j in np.unique(np.nonzero(self.signs == 0)[0]):
            sliding = self.signs[j] == 0
            known = (mean + found[j] * jump) @ self.normals
            found[j, sliding] = np.linalg.lstsq((jump[:, None] * self.normals)[sliding].T, -known)[0]
        return found

    def gradient(self, network: Trained) -> dict[str, Floats]:
        """Return the gradient in both layers with the present signs."""
        mean, jump = self.forces(network)
        pulls = mean + self.multipliers(mean, jump) * jump
        inner = network.outer[:, None] * (pulls @ self.normals)
        outer = np.sum(self.distances(network) * np.where(self.signs == 0, 0.0, pulls), axis=1)
        return {"outer": outer} | (
            {"knots": inner[:, 0]} if isinstance(network, KnotNetwork) else {"inner": inner}
        )

    @property
    def sliding(self) -> bool:
        """Whether a neuron slides."""
        return bool((self.signs == 0).any())

    def margins(self, network: Trained) -> Floats:
        """Return how far every sign is from a change, (m, W + 1): negative where it has already changed.

        The last column is that of the outer weights of sliding neurons. Without a sliding neuron the outer
        weights do not count. A neuron at zero never moves: its margins are infinite.
        """
        sizes = self._sizes(network)
        still = sizes == 0
        slack = np.where(self._grazing, GRAZE * self.tolerance, ROUNDING) * sizes
        margins = np.where(still, np.inf, self.signs * self.distances(network) + slack)
        turns = np.full(network.width, np.inf)
        slides = self.signs == 0
        if slides.any():
            mean, jump = self.forces(network)
            margins = np.where(slides, self._slack(network, self.multipliers(mean, jump), jump), margins)
            rows = slides.any(axis=1)
            rest = ROUNDING * np.abs(network.outer).max()
            way, outer = self._ways[rows], network.outer[rows]
            turns[rows] = rest + np.where(way == 0, -np.abs(outer), way * outer)
        return np.column_stack([margins, turns])

    def due(self, network: Trained, first: int) -> list[int]:
        """Return the neurons to be settled with the first: those that meet a wall with it, but for rounding.

        Equal neurons would else part there.
        """
        near = (self.signs != 0) & (self.signs * self.distances(network) <= 4 * self._rounding(network))
        near &= self._sizes(network) > 0
        return [first, *(j for j in np.flatnonzero(near.any(axis=1)).tolist() if j != first)]

    def _slack(self, network: Trained, multipliers: Floats, jump: Floats) -> Floats:
        """Return how far sliding neurons (m, W) are from release, as a speed: negative for who must go.

        σ beyond [−1, 1] by δ means that the neuron is pulled off at the speed δ·|outer_j C_w|. It is released
        when that speed exceeds what the integrator errs; otherwise a neuron that slides into an equilibrium,
        where all forces vanish, would be released and caught again at every step.
        """
        beyond = (np.abs(multipliers) - 1.0) * np.abs(np.outer(network.outer, jump))
        slack: Floats = 10 * self.tolerance * self._sizes(network) - beyond
        return slack

    def start(self, network: Trained) -> WallLog:
        """Settle every neuron that starts on walls; return what they do."""
        whole = nothing()
        for j in np.unique(np.nonzero(self.signs == 0)[0]).tolist():
            log = self.settle(network, j, 0.0)[1]
            seen = (log.after == 0) | (log.kinds > 0)
            whole = whole.then(WallLog([column[seen] for column in log.columns]))
        return whole

    def settle(self, network: Trained, j: int, time: float) -> tuple[Trained, WallLog]:
        """Decide every wall of neuron j that is at its limit.

        Return the network with the neuron put exactly onto the walls that it met, and what has changed (at
        time 0, where it starts on walls: all of them).
        """
        mean, jump = self.forces(network)
        before, all_values = self.signs[j].copy(), self.multipliers(mean, jump)
        way = float(np.sign(network.outer[j]))
        kept_way = time > 0 and way == self._ways[j]
        slack = self._slack(network, all_values, jump)[j]
        staying = (before == 0) & (slack >= 0) & kept_way
        near = before * self.distances(network)[j] <= 4 * self._rounding(network)[j]
        at_limit = ~staying & ((before == 0) | near)
        # A neuron whose outer weight is zero goes the way that the weight is about to take.
        outer = float(network.outer[j]) or -float(self.gradient(network)["outer"][j])
        meeting = Meeting(self.normals, mean, jump, outer, at_limit | staying)
        first = meeting.first_signs(j, before, all_values[j])
        signs, two_valued = meeting.settled(first, before)
        self.signs[j], self._ways[j], self._grazing[j] = signs, way, (at_limit | staying) & (signs != 0)
        changed = np.flatnonzero((signs != before) | (at_limit & (time == 0)))
        log = self._log(j, changed, (time, before, two_valued))
        return self._put(network, {j: at_limit | staying}), log

    def _log(self, j: int, walls: Ints, what: tuple[float, Signs, Bools]) -> WallLog:
        """Return the changes of one neuron in the columns of a `WallLog`."""
        time, before, two_valued = what
        now = self.signs[j]
        active = np.any(now[self._samples.walls] * self._samples.sides > 0) or np.any(now == 0)
        many = len(walls)
        return WallLog(
            [
                np.full(many, time),
                np.full(many, j),
                walls,
                before[walls].astype(np.int64),
                now[walls].astype(np.int64),
                two_valued[walls].astype(np.int64),
                np.full(many, not active and self.slope == 0),
                np.full(many, False),
            ]
        )

    def onto_walls(self, network: Trained) -> Trained:
        """Return the network with every sliding neuron put exactly onto its walls; note who has left them."""
        self._grazing &= np.abs(self.distances(network)) <= 2 * GRAZE * self.tolerance * self._sizes(network)
        sliding = np.unique(np.nonzero(self.signs == 0)[0])
        return self._put(network, {int(j): self.signs[j] == 0 for j in sliding})

    def _put(self, network: Trained, faces: Mapping[int, Bools]) -> Trained:
        """Return the network with the given neurons moved the shortest way onto the given walls."""
        if not faces:
            return network
        if isinstance(network, KnotNetwork):
            knots = network.knots.copy()
            for j, walls in faces.items():
                knots[j] = self._places[np.argmax(walls)]
            return network.moved({"knots": knots})
        inner = network.inner.copy()
        for j, walls in faces.items():
            normals = self.normals[walls]
            inner[j] -= np.linalg.pinv(normals) @ (normals @ inner[j])
        return network.moved({"inner": inner})


def nothing() -> WallLog:
    """Return a log without changes."""
    return WallLog([np.empty(0, dtype) for dtype in (float, int, int, int, int, int, bool, bool)])
