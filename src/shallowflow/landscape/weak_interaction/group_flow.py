"""Group initialisation: the flow of [weak_interaction] Prop. 2 and Thm 2 in closed form, corrected.

Orthonormal inputs in p groups of k = n/p; neuron j is active on group j alone, a_j = s_j ρ_j with ρ_j the
norm of (⟨w_j, x_i⟩)_i over its group and s_j the sign of all its labels. Let D be the root mean square of
the group's labels and g the cosine between their absolute values and the preactivations. The flow at speed p,

    ρ' = (ρ/n)(√k D g − ρ²/p),   g' = ω(1 − g²),   ω = √k D/n,

has g = tanh(ωt + artanh g₀), and with c = 2ω, N = (cosh ωt + g₀ sinh ωt)² and I = ∫₀ᵗ N,

    ρ² = ρ₀² N / (1 + 2ρ₀² I/(np)),   L^j = ½[(D − ψ)² + 2Dψ(1 − g)],   ψ = ρ²/(p√k).

To keep relative accuracy when the loss is tiny, and range when n is huge, these are evaluated as

    D − ψ = ψ M/N,  M = p√k D/ρ₀² + cI − N,  1 − g = (1 − g₀²)/(N(1 + g)),

where the exponentials of cI − N cancel by hand, and everything is scaled by e^{−ct}.

The print has c = 2√kD/n in (53), twice the rate ω of its own (52); therefore (53), (55), (67),
(71)–(74) are wrong unless g₀ = 1. In the limit n → ∞ at fixed p, with time in units of
t_n = √(np) ln(np)/4, group j is learnt at 1/D_j, and from L^j = (1 − ε)D²/2 to εD²/2 it takes the time
(2/D) ln C(ε)/ln(np),

    C(ε) = (1 − √ε)√(1 − ε) / (√ε (1 − √(1 − ε)))

(printed: 1/(2D), ln n, and a C that contains D). These need ρ₀ fixed: L^j starts at D²/2 in the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, numbers, positive, probability, vector
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity, check_relu_problem
from shallowflow.landscape.geometry.orthonormal import check_orthonormal
from shallowflow.models.networks import ReLUNetwork

BALANCED = 1e-6
"""Relative difference of |a_j| and the norm over its group up to which the closed form is taken."""
BISECTIONS = 60
"""Halvings of a bracket: to the last bit."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class GroupFlow(FrozenArrays):
    """The closed form for p groups of n samples in all; every array has one entry per group.

    labels: D_j > 0; alignments: g_j(0) in [0, 1]; norms: ρ_j(0) > 0. n may be as large as 1e100.

    Examples
    --------
    >>> flow = GroupFlow(1e100, [1.0, 2.0], [1.0, 0.5], [1.0, 1.0])
    >>> flow.loss(flow.unit * np.array([0.0, 0.7, 2.0])).round(3)
    array([1.25, 0.25, 0.  ])
    """

    size: float
    labels: Floats
    alignments: Floats
    norms: Floats

    def __init__(self, size: float, labels: ArrayLike, alignments: ArrayLike, norms: ArrayLike) -> None:
        fields = self.__dict__
        fields["size"] = positive(size, "size")
        fields["labels"] = vector(labels, "labels")
        fields["alignments"] = vector(alignments, "alignments")
        fields["norms"] = vector(norms, "norms")
        for name in ("alignments", "norms"):
            if len(fields[name]) != len(self.labels):
                raise InvalidInputError(
                    f"{name}: must have one entry per group, got {len(fields[name])} for {len(self.labels)}"
                )
        if self.size < self.width:
            raise InvalidInputError(
                f"size: must be at least the number {self.width} of groups, got {self.size:g}"
            )
        if np.any(self.labels <= 0) or np.any(self.norms <= 0):
            raise InvalidInputError("labels, norms: must be > 0, got an entry that is not")
        if np.any(self.alignments < 0) or np.any(self.alignments > 1):
            raise InvalidInputError(f"alignments: must lie in [0, 1], got {self.alignments}")

    @property
    def width(self) -> int:
        """The number p of groups and neurons."""
        return len(self.labels)

    @property
    def unit(self) -> float:
        """t_n = √(np) ln(np)/4, the unit of time in Thm 2."""
        return float(np.sqrt(self._product) * np.log(self._product) / 4)

    @property
    def _product(self) -> float:
        """np > 1, of which Thm 2 takes the logarithm."""
        product = self.size * self.width
        if product <= 1:
            raise InvalidInputError(
                "size: the unit of time √(np) ln(np)/4 needs more than one sample, got one"
            )
        return product

    @property
    def rates(self) -> Floats:
        """c_j = 2√k D_j/n = 2D_j/√(np)."""
        rates: Floats = 2 * self.labels / np.sqrt(self.size * self.width)
        return rates

    def alignment(self, times: ArrayLike) -> Floats:
        """Return g_j at the times, (…, p)."""
        ct = self._phases(times)
        grown, both = -np.expm1(-ct), 1 + np.exp(-ct)
        values: Floats = (grown + self.alignments * both) / (both + self.alignments * grown)
        return values

    def square_norms(self, times: ArrayLike) -> Floats:
        """Return ρ_j² at the times, (…, p)."""
        return self._shares(times)[0] * self._full_norm

    def group_losses(self, times: ArrayLike) -> Floats:
        """Return L^j, ½·mean of squared residuals over group j, at the times, (…, p)."""
        share, missing, misaligned = self._shares(times)
        values: Floats = 0.5 * self.labels**2 * (missing**2 + 2 * share * misaligned)
        return values

    def loss(self, times: ArrayLike) -> Floats:
        """Return L = (1/p) Σ_j L^j at the times."""
        mean: Floats = np.mean(self.group_losses(times), axis=-1)
        return mean

    def transition_times(self, level: float) -> Floats:
        """Return the times t_j at which L^j = level·D_j²/2, 0 < level < 1, (p,); 0 where it starts lower."""
        level = probability(level, "level")
        goal = 0.5 * level * self.labels**2
        low, high = np.zeros(self.width), 1.0 / self.rates
        while np.any(above := self._at(high) > goal):
            high = np.where(above, 2 * high, high)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            above = self._at(middle) > goal
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(self._at(np.zeros(self.width)) <= goal, 0.0, high)

    def windows(self, epsilon: float) -> Floats:
        """Return [t_j(ε) − t_j(1 − ε)]/t_n, 0 < ε < ½: how long each transition takes, (p,)."""
        epsilon = _below_half(epsilon)
        lengths: Floats = self.transition_times(epsilon) - self.transition_times(1 - epsilon)
        return lengths / self.unit

    def limit_windows(self, epsilon: float) -> Floats:
        """Return the leading term (2/D_j) ln C(ε)/ln(np) of the windows, 0 < ε < ½, Thm 2 corrected."""
        epsilon = _below_half(epsilon)
        root, other = np.sqrt(epsilon), np.sqrt(1 - epsilon)
        ratio = (1 - root) * other / (root * (1 - other))
        values: Floats = 2 / self.labels * np.log(ratio) / np.log(self._product)
        return values

    @property
    def limit_transitions(self) -> Floats:
        """1/D_j, in units of t_n: where L_∞ jumps."""
        return 1.0 / self.labels

    def limit_loss(self, times: ArrayLike) -> Floats:
        """Return L_∞ at times in units of t_n: Σ over groups not yet learnt of D_j²/(2p)."""
        moments = numbers(times, "times", None)
        waiting = moments[..., None] < self.limit_transitions
        values: Floats = np.mean(np.where(waiting, 0.5 * self.labels**2, 0.0), axis=-1)
        return values

    @property
    def _full_norm(self) -> Floats:
        """p√k D_j, the limit of ρ_j²."""
        full: Floats = np.sqrt(self.size * self.width) * self.labels
        return full

    def _phases(self, times: ArrayLike) -> Floats:
        moments = numbers(times, "times", None)
        if np.any(moments < 0):
            raise InvalidInputError(f"times: must be >= 0, got {np.min(moments):g}")
        phases: Floats = moments[..., None] * self.rates
        return phases

    def _at(self, moments: Floats) -> Floats:
        """Return L^j at a moment of its own for each group, (p,)."""
        return np.diagonal(self.group_losses(moments)).copy()

    def _shares(self, times: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return ψ/D, 1 − ψ/D and 1 − g, each to relative accuracy."""
        ct, g0 = self._phases(times), self.alignments
        e = np.exp(-ct)
        up, across, down = (1 + g0) ** 2, 1 - g0**2, (1 - g0) ** 2
        grown = 0.25 * (up + 2 * across * e + down * e * e)  # N e^{−ct}
        start = self._full_norm / self.norms**2
        rest = 0.25 * (2 * g0**2 - 4 * g0 - 2 - 2 * down * e + 2 * across * ct)  # cI − N
        missing = start + rest  # M
        total = grown + missing * e
        misaligned = across * e / (grown * (1 + self.alignment(times)))
        return grown / total, missing * e / total, misaligned


def _below_half(epsilon: float) -> float:
    share = probability(epsilon, "epsilon")
    if share >= 0.5:
        raise InvalidInputError(f"epsilon: must lie in (0, 1/2), got {share:g}")
    return share


def group_flow(network: ReLUNetwork, dataset: Dataset) -> GroupFlow:
    """Return the closed form for a network with group initialisation on orthonormal inputs.

    Groups must be equally large; each sample must be active for one neuron only, of the sign of its label;
    |a_j| must be the norm of w_j on its group; the output factor 1/m. Then this is the flow at speed m.
    """
    check_relu_problem(network, dataset)
    width, size = network.width, dataset.size
    check_orthonormal(dataset, "group_flow")
    active = activity(network, dataset.inputs) > 0
    z = np.where(active, network.preactivations(dataset.inputs), 0.0)
    if np.any(active.sum(axis=0) != 1) or np.any(active.sum(axis=1) != size // width) or size % width:
        raise InvalidInputError(
            "network: every sample must be active for one neuron, and every neuron for size/width samples, "
            f"got {active.sum(axis=0).min()} to {active.sum(axis=0).max()} active neurons per sample"
        )
    if np.any(active & (network.outer[:, None] * dataset.targets <= 0)):
        raise InvalidInputError("network: neurons must have the sign of their labels, got one that has not")
    norms = np.linalg.norm(z, axis=1)
    if np.any(np.abs(np.abs(network.outer) - norms) > BALANCED * norms):
        raise InvalidInputError("network: |outer| must be the norm of the neuron on its group, got another")
    if network.slope or not np.isclose(network.scale * width, 1.0):
        raise InvalidInputError(
            f"network: needs slope 0 and scale 1/width, got {network.slope:g} and {network.scale:g}"
        )
    labels = np.abs(dataset.targets) * active
    lengths = np.linalg.norm(labels, axis=1)
    cosines = np.minimum(np.einsum("ji,ji->j", labels, z) / (lengths * norms), 1.0)
    return GroupFlow(size, lengths / np.sqrt(size // width), cosines, norms)
