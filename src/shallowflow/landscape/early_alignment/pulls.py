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

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Bools, Floats, FrozenArrays, positive, public, unit_interval, vector
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Signs, gates_of, signs_of, unbounded_gates
from shallowflow.landscape.geometry.cones import LIMIT, Cones, cones, span_of
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
    def lengths(self) -> Floats:
        """‖x_k‖, (n,)."""
        return np.asarray(np.linalg.norm(self.inputs, axis=1))

    @cached_property
    def scale(self) -> float:
        """Σ_k |g_k| ‖x_k‖: no subgradient is longer."""
        return float(np.abs(self.strengths) @ self.lengths)

    def pattern(self, direction: Floats, tolerance: float = ON) -> Signs:
        """Return A(w) (n,): zero where |⟨w, x_k⟩| ≤ tolerance·‖w‖‖x_k‖."""
        return signs_of(self.inputs @ direction, self.lengths * np.linalg.norm(direction), tolerance)

    def known(self, pattern: Signs) -> Floats:
        """Return D̃_u = Σ_{u_k ≠ 0} (1 or γ) g_k x_k, (d,)."""
        gates = np.where(pattern > 0, 1.0, self.slope) * (pattern != 0)
        return np.asarray((gates * self.strengths) @ self.inputs)

    def minimal(self, pattern: Signs) -> tuple[Floats, Floats]:
        """Return D_u (d,) and its gates η on the zeros of the pattern, (number of zeros,)."""
        shortest, gates = self._shortest(self.known(pattern)[None], pattern == 0)
        return shortest[0], gates[0]

    def _shortest(self, known: Floats, zeros: Bools) -> tuple[Floats, Floats]:
        """Return D_u (F, d) and the gates (F, zeros) of patterns with the same zeros, known: D̃_u (F, d)."""
        gates = np.zeros((len(known), int(zeros.sum())))
        if zeros.any():
            parts = self.strengths[zeros, None] * self.inputs[zeros]
            # Inside the box the unconstrained minimiser is the answer, and cheaper than a bounded solver.
            gates = unbounded_gates(known.T, parts).T
            for face in np.flatnonzero(np.any((gates < self.slope) | (gates > 1.0), axis=1)):
                gates[face] = gates_of(known[face], parts, self.slope)
            known = known + gates @ parts
        rounding = np.linalg.norm(known, axis=1, keepdims=True) <= ZERO * self.scale
        return np.where(rounding, 0.0, known), gates

    def minimal_all(self, patterns: Signs) -> Floats:
        """Return D_u for every row of patterns (F, n), as (F, d)."""
        gates = np.where(patterns > 0, 1.0, self.slope) * (patterns != 0)
        shortest: Floats = (gates * self.strengths) @ self.inputs
        # Faces on the same hyperplanes share one factorisation.
        kinds, which = np.unique(patterns == 0, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        for zeros, faces in zip(kinds, np.split(order, np.cumsum(np.bincount(which.ravel()))), strict=False):
            shortest[faces] = self._shortest(shortest[faces], zeros)[0]
        return shortest

    def value(self, direction: Floats) -> float:
        """Return G(w) = Σ_k g_k σ(⟨w, x_k⟩)."""
        z = self.inputs @ direction
        return float(self.strengths @ np.maximum(z, self.slope * z))


@public
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


@public
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

    def exponent(self, norm: float) -> float:
        """Return ε‖D‖/D_max, the power of λ by which the misalignment with an extremal vector vanishes."""
        return self.epsilon * norm / self.d_max

    def misalignment(self, init_scale: float, norm: float, *, positive: bool = False) -> float:
        """Return the promised ‖D‖ − ⟨D, w/a⟩ at τ for an extremal vector of norm ‖D‖, at most 2‖D‖."""
        log = self.log_constant_positive if positive else self.log_constant
        log += self.exponent(norm) * np.log(init_scale)
        return float(np.exp(min(log, np.log(2.0 * norm))))


@public
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
    check_exponents(epsilon, alpha_0)
    dataset = span_of(dataset).dataset
    arrangement, found = cones(dataset, limit=limit), pull(dataset, loss, slope)
    shortest = found.minimal_all(arrangement.patterns)
    return alignment_constants(found, arrangement, shortest, loss).threshold(epsilon, alpha_0)


def check_exponents(epsilon: float, alpha_0: float) -> None:
    """Refuse an ε outside (0, 1/3) or an α₀ outside (0, 1]."""
    if not 0 < positive(epsilon, "epsilon") < 1 / 3:
        raise InvalidInputError(f"epsilon: must lie in (0, 1/3), got {epsilon:g}")
    if not 0 < positive(alpha_0, "alpha_0") <= 1:
        raise InvalidInputError(f"alpha_0: must lie in (0, 1], got {alpha_0:g}")


@dataclass(frozen=True)
class AlignmentConstants:
    """What `AlignmentThreshold` needs of the data, whatever ε and α₀.

    total: Σ_k ‖x_k‖² times the Lipschitz constant of g; fixed: the smallest |g_k|/‖x_k‖ over that constant.
    """

    d_max: float
    d_min: float
    alpha_plus: float
    alpha_minus: float
    delta_0: float
    total: float
    fixed: float

    def threshold(self, epsilon: float, alpha_0: float) -> AlignmentThreshold:
        """Return λ* and the constants of (37) and (40) for these ε and α₀."""
        alpha, least = min(self.alpha_plus, self.alpha_minus), self.d_min
        room = min(alpha**2 / 8 * least, alpha_0**2 / 4 * least, self.delta_0)
        room = room / self.total if self.total > 0 else np.inf
        scale = min(1.0, float(min(room, self.fixed)) ** (1 / (2 - 4 * epsilon)))
        logs = [
            _log_constant(self.d_max, least, a, self.total, p)
            for a, p in ((min(alpha, alpha_0), 4.0), (alpha, 2.0))
        ]
        angles = self.alpha_plus, self.alpha_minus
        return AlignmentThreshold(scale, epsilon, alpha_0, self.d_max, least, *angles, self.delta_0, *logs)


def alignment_constants(
    found: Pull, arrangement: Cones, shortest: Floats, loss: Loss | None = None
) -> AlignmentConstants:
    """Return the constants of App. D, given all activation cones and their D_u (F, d)."""
    size = len(found.inputs)
    square = SquareLoss() if loss is None else loss
    lipschitz = square.weight(size) if isinstance(square, SquareLoss) else 1.0 / size
    norms = np.linalg.norm(shortest, axis=1)
    moving = norms > 0
    origin = float(np.linalg.norm(found.minimal(np.zeros(size, np.int8))[0]))
    filled = found.lengths > 0
    return AlignmentConstants(
        d_max=float(np.max(norms, initial=origin)),
        d_min=float(np.min(np.append(norms[moving], origin if origin > 0 else np.inf))),
        alpha_plus=_misaligned(found, arrangement, shortest, 1),
        alpha_minus=_misaligned(found, arrangement, shortest, -1),
        delta_0=_stability(found, arrangement.patterns[moving], shortest[moving]),
        total=lipschitz * float(found.lengths @ found.lengths),
        fixed=float(
            np.min(np.abs(found.strengths[filled]) / lipschitz / found.lengths[filled], initial=np.inf)
        ),
    )


def _log_constant(d_max: float, d_min: float, alpha: float, total: float, power: float) -> float:
    """Return ln c of (37) for power = 4, of (40) for power = 2."""
    if alpha <= 0 or d_max <= 0:
        return np.inf
    front = np.log(4 * d_max / alpha**2 if power == 4 else d_max)
    exponent = power * d_max**2 / (d_min * alpha) ** 2 + np.sqrt(2 * total / d_max) / math.e
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
    sizes = found.lengths
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


def still_but_alive(found: Pull, patterns: Signs, shortest: Floats) -> Bools:
    """Return which patterns (F, n) have D_u = 0 by coincidence, some gate being open: Lemma 11 forbids it."""
    open_gates = np.where(patterns > 0, 1.0, found.slope) * (patterns != 0) != 0
    return np.asarray(~shortest.any(axis=1) & np.any(open_gates, axis=1))
