"""What pulls at a neuron of a small network, and how small is small: [early_alignment] §3 and App. D.

With g_k = −∂L/∂h_k at the present predictions (at zero for a small network; 1/n is part of g_k), slope γ
and a sign pattern u, the neuron's subgradient set is 𝔇_u = {Σ_k η_k g_k x_k : η_k = 1 | γ | ∈ [γ, 1] where
u_k is 1 | −1 | 0}, D_u its element of least norm, and G(w) = ⟨w, D(w)⟩ = Σ_k g_k σ(⟨w, x_k⟩).

The constants of App. D, and where we differ from what is printed there:

- (25) prints 𝔇_u ∩ A⁻¹(u) = ∅ for α_{min,−} too. Cones with D_u ∈ −A⁻¹(u) would then make it zero; the
  proof of Thm 1 and of Lemma 9 needs 𝔇_u ∩ −A⁻¹(u) = ∅, which is what we use. The cones with D_u ∈ A⁻¹(u)
  count: the proof needs the lower bound when a neuron enters them.
- Cosines enter (24) squared, as if positive; we take max(0, ·), the bound that the proof uses.
- λ* depends on ε as well (its exponent), and λ < 1 is needed so that τ > 0: the threshold is capped at 1.
- (ii) of Thms 1 and 3 says that D(w, 0) is extremal (or zero) at τ. The proofs have this from a time t₂ on
  and call the case τ < t₂ trivial, as the O(·) may then be large; but where the neurons are does not follow
  then.
- 1/n stands for the Lipschitz constant of g_k; it is 1 for `SquareLoss("sum")`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Bools, Floats, FrozenArrays, positive, unit_interval, vector
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.arrangement import Signs
from shallowflow.landscape.cones import LIMIT, Cones, cones
from shallowflow.landscape.subgradient import minimal_gates
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

ZERO = 1e-12
"""Relative size below which a scalar product or a gradient is rounding."""

ON = 1e-9
"""A neuron lies on a data hyperplane if the cosine of the angle to its normal is below this."""


@dataclass(frozen=True, eq=False, repr=False)
class Pull(FrozenArrays):
    """What pulls at a neuron: inputs (n, d), strengths g (n,) and the leaky slope γ."""

    inputs: Floats
    strengths: Floats
    slope: float

    @cached_property
    def scale(self) -> float:
        """Σ_k |g_k| ‖x_k‖: no subgradient is longer."""
        return float(np.abs(self.strengths) @ np.linalg.norm(self.inputs, axis=1))

    def pattern(self, direction: Floats, tolerance: float = ON) -> Signs:
        """Return A(w) (n,): zero where |⟨w, x_k⟩| ≤ tolerance·‖w‖‖x_k‖."""
        values = self.inputs @ direction
        sizes = np.linalg.norm(self.inputs, axis=1) * np.linalg.norm(direction)
        return np.where(np.abs(values) <= tolerance * sizes, 0, np.sign(values)).astype(np.int8)

    def known(self, pattern: Signs) -> Floats:
        """Return D̃_u = Σ_{u_k ≠ 0} (1 or γ) g_k x_k, (d,)."""
        gates = np.where(pattern > 0, 1.0, self.slope) * (pattern != 0)
        return np.asarray((gates * self.strengths) @ self.inputs)

    def minimal(self, pattern: Signs) -> tuple[Floats, Floats]:
        """Return D_u (d,) and its gates η on the zeros of the pattern, (number of zeros,)."""
        known, zeros = self.known(pattern), pattern == 0
        if not zeros.any():
            return known, np.zeros(0)
        parts = self.strengths[zeros, None] * self.inputs[zeros]
        # Inside the box the unconstrained minimiser is the answer, and cheaper than a bounded solver.
        gates = np.linalg.lstsq(parts.T, -known, rcond=ON)[0]
        if np.any(gates < self.slope) or np.any(gates > 1.0):
            gates = minimal_gates(known, parts, self.slope)
        shortest = known + gates @ parts
        return np.where(np.linalg.norm(shortest) <= ZERO * self.scale, 0.0, shortest), gates

    def minimal_all(self, patterns: Signs) -> Floats:
        """Return D_u for every row of patterns (F, n), as (F, d)."""
        gates = np.where(patterns > 0, 1.0, self.slope) * (patterns != 0)
        shortest: Floats = (gates * self.strengths) @ self.inputs
        shortest[np.linalg.norm(shortest, axis=1) <= ZERO * self.scale] = 0.0
        for face in np.flatnonzero(np.any(patterns == 0, axis=1)):
            shortest[face] = self.minimal(patterns[face])[0]
        return shortest

    def value(self, direction: Floats) -> float:
        """Return G(w) = Σ_k g_k σ(⟨w, x_k⟩)."""
        z = self.inputs @ direction
        return float(self.strengths @ np.maximum(z, self.slope * z))


def pull(
    dataset: Dataset, loss: Loss | None = None, slope: float = 0.0, *, network: ReLUNetwork | None = None
) -> Pull:
    """Return what pulls at a neuron: g_k = −∂L/∂h_k at output zero, or at the outputs of `network`.

    loss: ½·mean of squares by default, for which g_k = (y_k − h_k)/n.

    Examples
    --------
    >>> pull(Dataset([[1.0], [2.0]], [1.0, 3.0])).strengths
    array([0.5, 1.5])
    """
    loss = SquareLoss() if loss is None else loss
    loss.check(dataset.targets)
    predictions = np.zeros(dataset.size) if network is None else network(dataset.inputs)
    return Pull(dataset.inputs, -loss.slopes(predictions, dataset.targets), unit_interval(slope, "slope"))


def minimal_subgradient(
    direction: ArrayLike,
    dataset: Dataset,
    *,
    loss: Loss | None = None,
    slope: float = 0.0,
    network: ReLUNetwork | None = None,
) -> Floats:
    """Return D(w, θ) (d,), the element of least norm of 𝔇(w, θ), [early_alignment] §2.1; θ = 0 by default.

    Examples
    --------
    >>> minimal_subgradient([1.0, 0.0], Dataset([[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0]))
    array([1., 0.])
    """
    w = vector(direction, "direction")
    if len(w) != dataset.dimension:
        raise InvalidInputError(f"direction: must have {dataset.dimension} entries, got {len(w)}")
    found = pull(dataset, loss, slope, network=network)
    return found.minimal(found.pattern(w))[0]


@dataclass(frozen=True)
class AlignmentThreshold:
    """How small a network must start for Thm 1, and what then holds; the constants (21)–(25) of the data.

    scale: λ* (22), capped at 1; d_max, d_min: the largest ‖D_u‖ and the smallest non-zero one; alpha_plus,
    alpha_minus: α_{min,±}; delta_0: (21); log_constant: the logarithm of c (37), which bounds the
    misalignment by c·λ^(ε‖D‖/D_max) at τ (it may be far beyond what a float can hold);
    log_constant_positive: that of (40), for neurons under Condition 2.
    """

    scale: float
    epsilon: float
    alpha_0: float
    d_max: float
    d_min: float
    alpha_plus: float
    alpha_minus: float
    delta_0: float
    log_constant: float
    log_constant_positive: float

    @property
    def alpha_min(self) -> float:
        """min(α_{min,+}, α_{min,−})."""
        return min(self.alpha_plus, self.alpha_minus)

    def arrival(self, *, positive: bool = False) -> float:
        """Return t₂, from which on neurons are proven to be in the cone of an extremal vector, or dead.

        t₂ = 4 D_max/(D_min² min(α_min, α₀)²) under Condition 1, and 2 D_max/(D_min² α_min²) under Condition 2
        (`positive`); of use if t₂ ≤ τ.
        """
        speed = self.d_min * (self.alpha_min if positive else min(self.alpha_min, self.alpha_0))
        return (2.0 if positive else 4.0) * self.d_max / speed**2 if speed > 0 else np.inf

    def time(self, init_scale: float) -> float:
        """Return τ = −ε ln λ / D_max, the end of the alignment phase; 0 if λ ≥ 1, ∞ if nothing pulls."""
        if init_scale >= 1:
            return 0.0
        return float(-self.epsilon * np.log(init_scale) / self.d_max) if self.d_max > 0 else np.inf

    def misalignment(self, init_scale: float, norm: float, *, positive: bool = False) -> float:
        """Return the promised ‖D‖ − ⟨D, w/a⟩ at τ for an extremal vector of norm ‖D‖, at most 2‖D‖."""
        log = self.log_constant_positive if positive else self.log_constant
        log += self.epsilon * norm / self.d_max * np.log(init_scale)
        return float(np.exp(min(log, np.log(2.0 * norm))))


def alignment_threshold(
    dataset: Dataset,
    loss: Loss | None = None,
    slope: float = 0.0,
    *,
    epsilon: float = 0.25,
    alpha_0: float = 0.1,
    limit: int = LIMIT,
) -> AlignmentThreshold:
    """Return λ* of Thm 1 with all constants of App. D; Thm 3 uses alpha_0 = 1.

    epsilon: ε ∈ (0, 1/3) of the theorem; alpha_0: the α₀ of Condition 1, in (0, 1]; limit: on the number of
    faces. λ* = 0 where a constant of App. D vanishes (data not in general position).

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> found = alignment_threshold(three_points())
    >>> round(found.d_max, 4), 0 < found.scale < 1
    (0.715, True)
    """
    arrangement = cones(dataset, limit=limit)
    return alignment_threshold_of(dataset, arrangement, loss, slope, epsilon=epsilon, alpha_0=alpha_0)


def alignment_threshold_of(
    dataset: Dataset,
    arrangement: Cones,
    loss: Loss | None = None,
    slope: float = 0.0,
    *,
    epsilon: float = 0.25,
    alpha_0: float = 0.1,
) -> AlignmentThreshold:
    """Return `alignment_threshold`, given all activation cones."""
    check_exponents(epsilon, alpha_0)
    loss = SquareLoss() if loss is None else loss
    found = pull(dataset, loss, slope)
    lipschitz = loss.weight(dataset.size) if isinstance(loss, SquareLoss) else 1.0 / dataset.size
    return _threshold(found, arrangement, lipschitz, epsilon, alpha_0)


def check_exponents(epsilon: float, alpha_0: float) -> None:
    """Refuse an ε outside (0, 1/3) or an α₀ outside (0, 1]."""
    if not 0 < positive(epsilon, "epsilon") < 1 / 3:
        raise InvalidInputError(f"epsilon: must lie in (0, 1/3), got {epsilon:g}")
    if not 0 < positive(alpha_0, "alpha_0") <= 1:
        raise InvalidInputError(f"alpha_0: must lie in (0, 1], got {alpha_0:g}")


def _threshold(
    found: Pull, arrangement: Cones, lipschitz: float, epsilon: float, alpha_0: float
) -> AlignmentThreshold:
    shortest = found.minimal_all(arrangement.patterns)
    norms = np.linalg.norm(shortest, axis=1)
    moving = norms > 0
    origin = float(np.linalg.norm(found.minimal(np.zeros(len(found.inputs), np.int8))[0]))
    d_max = float(np.max(norms, initial=origin))
    d_min = float(np.min(np.append(norms[moving], origin if origin > 0 else np.inf)))
    plus = _misaligned(found, arrangement, shortest, 1)
    minus = _misaligned(found, arrangement, shortest, -1)
    delta = _stability(found, arrangement.patterns[moving], shortest[moving])
    sizes = np.linalg.norm(found.inputs, axis=1)
    total = lipschitz * float(sizes @ sizes)
    alpha = min(plus, minus)
    room = min(alpha**2 / 8 * d_min, alpha_0**2 / 4 * d_min, delta) / total if total > 0 else np.inf
    filled = sizes > 0
    fixed = np.min(np.abs(found.strengths[filled]) / lipschitz / sizes[filled], initial=np.inf)
    scale = min(1.0, float(min(room, fixed)) ** (1 / (2 - 4 * epsilon)))
    logs = [_log_constant(d_max, d_min, a, total, p) for a, p in ((min(alpha, alpha_0), 4.0), (alpha, 2.0))]
    return AlignmentThreshold(scale, epsilon, alpha_0, d_max, d_min, plus, minus, delta, *logs)


def _log_constant(d_max: float, d_min: float, alpha: float, total: float, power: float) -> float:
    """Return ln c of (37) for power = 4, of (40) for power = 2."""
    if alpha <= 0 or d_max <= 0:
        return np.inf
    front = np.log(4 * d_max / alpha**2 if power == 4 else d_max)
    exponent = power * d_max**2 / (d_min * alpha) ** 2 + np.sqrt(2 * total / d_max) / np.e
    return float(np.logaddexp(front + exponent, 0.5 * np.log(2 * d_max * total)))


def _misaligned(found: Pull, arrangement: Cones, shortest: Floats, sign: int) -> float:
    """Return α_{min,±}: over the cones with ±D_u outside them, the sine of the least angle to ±D_u.

    That sine is the distance of ±D_u/‖D_u‖ to the closure of the cone, a non-negative least-squares problem
    in its generators (1 where the angle is not acute).
    """
    from scipy.optimize import nnls

    smallest = 1.0
    for face in np.flatnonzero(shortest.any(axis=1)):
        target = sign * shortest[face] / np.linalg.norm(shortest[face])
        rays = arrangement.generators(int(face))
        if len(rays) and not np.array_equal(found.pattern(target), arrangement.patterns[face]):
            smallest = min(smallest, float(nnls(rays.T, target)[1]))
    return smallest if smallest > ON else 0.0


def _stability(found: Pull, patterns: Signs, shortest: Floats) -> float:
    """Return δ₀ (21): how far the extremal vectors are from losing their pattern."""
    smallest = np.inf
    sizes = np.linalg.norm(found.inputs, axis=1)
    for pattern, gradient in zip(patterns, shortest, strict=True):
        if not is_extremal(found, pattern, gradient):
            continue
        off, on = pattern != 0, (pattern == 0) & (sizes > 0)
        smallest = min(smallest, float(np.min(np.abs(found.inputs[off] @ gradient) / sizes[off])))
        if on.any():
            gates = found.minimal(pattern)[1][on[pattern == 0]]
            spread = np.linalg.svd(found.strengths[on, None] * found.inputs[on], compute_uv=False)
            least = float(spread[-1]) if len(spread) == np.sum(on) else 0.0
            smallest = min(smallest, least * float(np.min(np.minimum(gates - found.slope, 1.0 - gates))))
    return max(smallest, 0.0)


def is_extremal(found: Pull, pattern: Signs, gradient: Floats) -> bool:
    """Whether D_u is an extremal vector: D_u ≠ 0 and A(D_u) = ±u, [early_alignment] Def. 1 with (17)."""
    if not gradient.any():
        return False
    own = found.pattern(gradient)
    return bool(np.array_equal(own, pattern) or np.array_equal(own, -pattern))


def still_but_alive(found: Pull, patterns: Signs) -> Bools:
    """Return which patterns (F, n) have D_u = 0 by coincidence, some gate being open: Lemma 11 forbids it."""
    still = ~found.minimal_all(patterns).any(axis=1)
    open_gates = np.where(patterns > 0, 1.0, found.slope) * (patterns != 0) != 0
    return np.asarray(still & np.any(open_gates, axis=1))
