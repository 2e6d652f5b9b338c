"""Group initialisation: the flow of [weak_interaction] Prop. 2 and Thm 2 in closed form, corrected.

Orthonormal inputs in p groups of k_j, n in all; neuron j is active on group j alone, with the sign s_j of all
its labels. Let ρ be the norm of z = (⟨w_j, x_i⟩)_i over its group, Y that of the labels, D = Y/√k their root
mean square, g the cosine between |y| and z. |a|² − ρ² = δ never changes: δ = 0 is the case of the proof of
Prop. 2; (9) as printed has |a| = ‖w‖, and δ is the square of what w has off its group. With α = ρg and
β = ρ√(1 − g²), the parts of z along the labels and across, the flow at speed p is

    α' = (a/n)(Y − aα/p),   β' = −a²β/(np),   a' = (Yα − aρ²/p)/n.

Ours: E = exp((2/np)∫a²) makes it linear. A = α√E, B = a√E and β₀ = β√E satisfy, with ω = Y/n, ε = δ/(np),

    A' = ωB,   B' = ωA + εB,   E = (AB + M)/(pY),   M' = εM + ωβ₀²,   M(0) = pY − a₀ρ₀g₀,

so that A and B are sums of e^{λ₊t} and e^{λ₋t}, λ± = ε/2 ± √(ε²/4 + ω²), and M is one exponential. The
residual is Y·M/(AB + M) along the labels and Y·Bβ₀/(AB + M) across: no cancellation, however small it is. All
is scaled by e^{−2λ₊t}, for n as large as 10¹⁰⁰. For δ = 0, g = tanh(ωt + artanh g₀).

The print has c = 2√kD/n in (53), twice the rate ω of its own (52); therefore (53), (55), (67),
(71)–(74) are wrong unless g₀ = 1. In the limit n → ∞ at fixed p and fixed shares κ_j = k_j/n, with time in
units of t_n = √(np) ln(np)/4, group j is learnt at 1/(√(κ_j p) D_j), and from L^j = (1 − ε)D²/2 to εD²/2 it
takes the time (2/(√(κ_j p) D)) ln C(ε)/ln(np),

    C(ε) = (1 − √ε)√(1 − ε) / (√ε (1 − √(1 − ε)))

(printed: 1/(2D), ln n, and a C that contains D). These need ρ₀ fixed: L^j starts at D²/2 in the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, frozen, numbers, positive, probability, vector
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

    labels: D_j > 0; alignments: g_j(0) in [0, 1]; norms: ρ_j(0) > 0; sizes: k_j, which add up to n (default:
    equal); excess: δ_j = a_j² − ρ_j² ≥ 0 (default: 0). n may be as large as 1e100.

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
    sizes: Floats
    excess: Floats

    def __init__(
        self,
        size: float,
        labels: ArrayLike,
        alignments: ArrayLike,
        norms: ArrayLike,
        *,
        sizes: ArrayLike | None = None,
        excess: ArrayLike | None = None,
    ) -> None:
        fields = self.__dict__
        fields["size"] = positive(size, "size")
        fields["labels"] = vector(labels, "labels")
        fields["alignments"] = vector(alignments, "alignments")
        fields["norms"] = vector(norms, "norms")
        equal = np.full(self.width, self.size / self.width)
        fields["sizes"] = frozen(equal) if sizes is None else vector(sizes, "sizes")
        fields["excess"] = frozen(np.zeros(self.width)) if excess is None else vector(excess, "excess")
        self._check()

    def _check(self) -> None:
        """Refuse arrays of other lengths or ranges."""
        for name in ("alignments", "norms", "sizes", "excess"):
            if len(getattr(self, name)) != len(self.labels):
                raise InvalidInputError(
                    f"{name}: must have one entry per group, got {len(getattr(self, name))} for "
                    f"{len(self.labels)}"
                )
        if self.size < self.width:
            raise InvalidInputError(
                f"size: must be at least the number {self.width} of groups, got {self.size:g}"
            )
        if np.any(self.labels <= 0) or np.any(self.norms <= 0):
            raise InvalidInputError("labels, norms: must be > 0, got an entry that is not")
        if np.any(self.alignments < 0) or np.any(self.alignments > 1):
            raise InvalidInputError(f"alignments: must lie in [0, 1], got {self.alignments}")
        if np.any(self.sizes < 1) or not np.isclose(self.sizes.sum(), self.size, rtol=1e-12, atol=0.0):
            raise InvalidInputError(f"sizes: must be >= 1 and add up to {self.size:g}, got {self.sizes}")
        if np.any(self.excess < 0):
            raise InvalidInputError(f"excess: must be >= 0, got {self.excess}")

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
        """c_j = 2√(k_j) D_j/n, for equal groups 2D_j/√(np)."""
        rates: Floats = 2 * self._lengths / self.size
        return rates

    def alignment(self, times: ArrayLike) -> Floats:
        """Return g_j at the times, (…, p)."""
        now = self._moment(times)
        values: Floats = now.along / np.hypot(now.along, self._across * now.down)
        return values

    def square_norms(self, times: ArrayLike) -> Floats:
        """Return ρ_j² at the times, (…, p)."""
        now = self._moment(times)
        squares: Floats = (now.along**2 + (self._across * now.down) ** 2) * self.width * self._lengths
        return squares / now.total

    def group_losses(self, times: ArrayLike) -> Floats:
        """Return L^j, ½·mean of squared residuals over group j, at the times, (…, p)."""
        now = self._moment(times)
        left, side = now.missing * now.fading, now.outer * self._across * now.down
        values: Floats = 0.5 * self.labels**2 * (left**2 + side**2) / now.total**2
        return values

    def loss(self, times: ArrayLike) -> Floats:
        """Return L = Σ_j (k_j/n) L^j at the times."""
        return self._mean(self.group_losses(times))

    def curvature(self, times: ArrayLike) -> Floats:
        """Return μ = −L'/L at the times: the local PL curvature (5) in the paper's clock (speed p).

        μ = Σ_j (a_j²‖r_j‖² + ⟨z_j, r_j⟩²)/(n² p L), r_j the residual on group j, ‖r_j‖² = 2k_j L^j.

        Examples
        --------
        >>> flow = GroupFlow(1e16, [1.0], [1.0], [1.0])
        >>> (1e8 * flow.curvature(flow.unit * np.array([0.5, 1.0, 1.5]))).round(2)
        array([0., 2., 4.])
        """
        now, across = self._moment(times), self._across
        # Residuals times one power of e for all groups: a ratio must not be lost where the loss underflows.
        slowest = np.where(across > 0, self._slow, 2 * self._root).min() * now.time
        left = now.missing * np.exp(slowest - 2 * self._root * now.time)
        side = now.outer * across * np.exp(slowest - self._slow * now.time)
        squares = (self._lengths / now.total) ** 2 * (left**2 + side**2)
        # a² = B²/E and ⟨z, r⟩ = α r∥ − β·aβ/p, with E = (AB + M)/(pY).
        growth = self.width * self._lengths / now.total
        outer = now.outer**2 * growth
        inner = np.sqrt(growth) * self._lengths / now.total
        along = inner * (now.along * left - across * now.down * side)
        pulled: Floats = 2.0 * np.sum(outer * squares + along**2, axis=-1)
        return np.asarray(pulled / (self.size * self.width * np.sum(squares, axis=-1)))

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
        """Return the leading term of the windows, 0 < ε < ½, Thm 2 corrected: (2/(√(κ_j p) D_j)) ln C/ln(np).

        For equal groups κ_j p = 1.
        """
        epsilon = _below_half(epsilon)
        root, other = np.sqrt(epsilon), np.sqrt(1 - epsilon)
        ratio = (1 - root) * other / (root * (1 - other))
        values: Floats = 2 * self.limit_transitions * np.log(ratio) / np.log(self._product)
        return values

    @property
    def limit_transitions(self) -> Floats:
        """1/(√(κ_j p) D_j) with κ_j = k_j/n, in units of t_n: where L_∞ jumps; for equal groups 1/D_j."""
        shares = self.sizes / self.size * self.width
        transitions: Floats = 1.0 / (np.sqrt(shares) * self.labels)
        return transitions

    def limit_loss(self, times: ArrayLike) -> Floats:
        """Return L_∞ at times in units of t_n: Σ over groups not yet learnt of κ_j D_j²/2."""
        moments = numbers(times, "times", None)
        waiting = moments[..., None] < self.limit_transitions
        return self._mean(np.where(waiting, 0.5 * self.labels**2, 0.0))

    def _mean(self, values: Floats) -> Floats:
        """Return the mean over samples of values per group, (…, p)."""
        mean: Floats = values @ (self.sizes / self.size)
        return mean

    @property
    def _lengths(self) -> Floats:
        """Y_j = √(k_j) D_j."""
        lengths: Floats = np.sqrt(self.sizes) * self.labels
        return lengths

    @property
    def _across(self) -> Floats:
        """β₀ = ρ₀√(1 − g₀²)."""
        across: Floats = self.norms * np.sqrt((1 - self.alignments) * (1 + self.alignments))
        return across

    @property
    def _drift(self) -> Floats:
        """ε_j = δ_j/(np)."""
        drift: Floats = self.excess / (self.size * self.width)
        return drift

    @property
    def _root(self) -> Floats:
        """√(ε²/4 + ω²)."""
        root: Floats = np.hypot(0.5 * self._drift, self._lengths / self.size)
        return root

    @property
    def _slow(self) -> Floats:
        """λ₊ = ε/2 + √(ε²/4 + ω²)."""
        slow: Floats = 0.5 * self._drift + self._root
        return slow

    def _at(self, moments: Floats) -> Floats:
        """Return L^j at a moment of its own for each group, (p,)."""
        return np.diagonal(self.group_losses(moments)).copy()

    def _moment(self, times: ArrayLike) -> _Moment:
        """Return A, B, M and AB + M at the times, scaled as `_Moment` says."""
        moments = numbers(times, "times", None)
        if np.any(moments < 0):
            raise InvalidInputError(f"times: must be >= 0, got {np.min(moments):g}")
        time = moments[..., None]
        omega, epsilon, fast = self._lengths / self.size, self._drift, self._slow
        first, start = self.norms * self.alignments, np.sqrt(self.norms**2 + self.excess)
        # (A, B) = up (ω, λ₊) e^{λ₊t} + what is left of the start, e^{λ₋t}; λ₊λ₋ = −ω².
        up = (start + omega * first / fast) / (2 * self._root)
        grown, fading = -np.expm1(-2 * self._root * time), np.exp(-2 * self._root * time)
        along, outer = omega * up * grown + first * fading, fast * up * grown + start * fading
        # (1 − e^{−εt})/ε, which is t for ε = 0.
        passed = -np.expm1(-epsilon * time) / np.where(epsilon > 0, epsilon, 1.0) + time * (epsilon == 0)
        missing = self.width * self._lengths - start * first + omega * self._across**2 * passed
        total = along * outer + missing * fading
        return _Moment(time, along, outer, missing, total, np.exp(-fast * time), fading)


class _Moment(NamedTuple):
    """Times (…, 1); then, each (…, p): A e^{−λ₊t}, B e^{−λ₊t}, M e^{−εt}, (AB + M) e^{−2λ₊t}, e^{−λ₊t} and
    e^{(ε − 2λ₊)t}, the factor between the scales of M and AB + M.
    """

    time: Floats
    along: Floats
    outer: Floats
    missing: Floats
    total: Floats
    down: Floats
    fading: Floats


def _below_half(epsilon: float) -> float:
    share = probability(epsilon, "epsilon")
    if share >= 0.5:
        raise InvalidInputError(f"epsilon: must lie in (0, 1/2), got {share:g}")
    return share


def group_flow(network: ReLUNetwork, dataset: Dataset) -> GroupFlow:
    """Return the closed form for a network with group initialisation on orthonormal inputs.

    Each sample must be active for one neuron only, of the sign of its label, and each neuron on a sample;
    |a_j| must be at least the norm of w_j on its group, as in (9), where it is ‖w_j‖; the output factor 1/m.
    Then this is the flow at speed m.
    """
    check_relu_problem(network, dataset)
    width, size = network.width, dataset.size
    check_orthonormal(dataset, "group_flow")
    active = activity(network, dataset.inputs) > 0
    z = np.where(active, network.preactivations(dataset.inputs), 0.0)
    if np.any(active.sum(axis=0) != 1) or not np.all(active.any(axis=1)):
        raise InvalidInputError(
            "network: every sample must be active for one neuron, and every neuron on a sample, "
            f"got {active.sum(axis=0).min()} to {active.sum(axis=0).max()} active neurons per sample"
        )
    if np.any(active & (network.outer[:, None] * dataset.targets <= 0)):
        raise InvalidInputError("network: neurons must have the sign of their labels, got one that has not")
    norms = np.linalg.norm(z, axis=1)
    if np.any(np.abs(network.outer) < (1 - BALANCED) * norms):
        raise InvalidInputError(
            "network: |outer| must be at least the norm of the neuron on its group, got less"
        )
    if network.slope or not np.isclose(network.scale * width, 1.0):
        raise InvalidInputError(
            f"network: needs slope 0 and scale 1/width, got {network.slope:g} and {network.scale:g}"
        )
    balanced = np.abs(np.abs(network.outer) - norms) <= BALANCED * norms
    excess = np.where(balanced, 0.0, network.outer**2 - norms**2)
    sizes = active.sum(axis=1).astype(np.float64)
    labels = np.abs(dataset.targets) * active
    lengths = np.linalg.norm(labels, axis=1)
    cosines = np.minimum(np.einsum("ji,ji->j", labels, z) / (lengths * norms), 1.0)
    return GroupFlow(size, lengths / np.sqrt(sizes), cosines, norms, sizes=sizes, excess=excess)
