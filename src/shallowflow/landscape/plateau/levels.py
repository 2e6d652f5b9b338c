"""Plateaus: the level that a stage of training tends to, how fast, what holds the loss up, what comes next.

While the activation pattern {u_l} is constant, the residual vector Loss = f(x) − y ∈ R^m only moves inside
V = span{ê_l^b, ê_l^c}, the functions that are affine on every block U_l, l ≥ 1, and zero on U_0 ([plateau]
Thm 3.1, Lemma A.1). So L = Q₀ + ½‖Π_V Loss‖², where

    Q₀ = ½‖Π_{V⊥} Loss‖² = ½ Σ_{l≥1} (residual squares of U_l's regression line) + ½ Σ_{U_0} y²

does not change: it is a property of the blocks, not of the coefficients. With z the coordinates of Π_V Loss,
dL/dt = −‖Mᵀz‖² for the matrix M of (A.2), whose extreme singular values bound the rate:

    ‖z(t_s)‖² exp(−2∫r_max) ≤ ‖z(t)‖² ≤ ‖z(t_s)‖² exp(−2∫r_min),   L − Q₀ = ½‖z‖².

This is what Appendix A proves. Theorem 3.1 prints exp(−∫r) without the 2: its upper bound is true but weak;
its lower bound is false (one neuron and one data point have r_min = r_max and decay exactly like exp(−2∫r)).
All of it is written for the loss ½Σ of (2.1). `plateau_level`, `rate_bounds` and `exit_condition` take ½·mean
by default, as everything here does: levels and rates then carry the factor 1/m.

**Linear stability** of a stationary point: which small changes die out, which stay, which grow.

The flow (3.1) linearised at (b, c) is −H, H the Hessian of ½Σ with the pattern held,

    H = JᵀJ + Σ_k r_k ∇²f(x_k),   ∂²f(x)/∂b_j∂c_j = −1[x > b_j],   all other second derivatives 0.

At a stationary point with c_j ≠ 0 for all living j the pulls Σ_{x_k > b_j} r_k vanish, so that H = JᵀJ and no
eigenvalue of −H is positive, as [plateau] §3.2 says; rank JᵀJ = dim V leaves 2n − dim V zeros, the centre
directions. With c_j = 0 the sentence is false: the off-diagonal entry −Σ_{x_k > b_j} r_k alone makes a
saddle.

**Causes.** Why does a loss hardly fall? While the pattern lasts the loss cannot fall below its level Q₀
([plateau] Thm 3.1, `pattern_level`); while the inner layer stays where it is, not below LSQ, the loss of the
best outer weights (4.1). So

    L = Q₀ + (LSQ − Q₀) + (L − LSQ),

three parts ≥ 0: what only a passage can remove, what the kinks can remove inside their gaps, and what the
outer weights can remove alone. The third part is a linear problem: its flow is known exactly,

    L(t) = LSQ + ½ Σ_i z_i² exp(−2 s_i² t),   A = U s Vᵀ,   z = Uᵀ(A c − y),

A (n, m) the outputs of the neurons. Where L is flat and this curve is as flat, what holds the loss up is the
conditioning of A, not the pattern. The split and the comparison are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, numbers, positive, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity
from shallowflow.landscape.geometry.floors import Blocks, blocks, pattern_level
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork


@public
def plateau_level(network: KnotNetwork, dataset: Dataset, loss: SquareLoss | None = None) -> float:
    """Return Q₀ = ½‖Π_{V⊥} Loss‖², the level that the loss tends to while the pattern lasts, Thm 3.1.

    loss: ½·mean of squares by default; `SquareLoss("sum")` for the units of the paper.

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [2.0, 0.0, 1.0, 5.0])
    >>> network = KnotNetwork([0.5], [1.0])  # ½·2² left of the knot, ½·1.5 right of it
    >>> round(plateau_level(network, data), 6), round(plateau_level(network, data, SquareLoss("sum")), 6)
    (0.6875, 2.75)
    """
    return level_of(blocks(network, dataset), loss)


def level_of(found: Blocks, loss: SquareLoss | None = None) -> float:
    """Return Q₀ of given blocks."""
    return 0.5 * _weight(loss, found) * found.missed_squares


def _weight(loss: SquareLoss | None, found: Blocks) -> float:
    """Return the factor of ½Σ: 1/m by default."""
    return (SquareLoss() if loss is None else loss).weight(len(found.targets))


@public
def projected_residual(network: KnotNetwork, dataset: Dataset) -> Floats:
    """Return Π_V Loss, (m,) in the order of the data: what training can still remove in this stage.

    On U_l, l ≥ 1: (f(μ_l) − ȳ_l) + (A_l − slope_l)(x − μ_l); on U_0: 0. Thm 3.1.
    """
    found = blocks(network, dataset)
    labels = found.labels
    centred = found.inputs - found.means[labels]
    values = found.mean_residuals[labels] + found.slope_residuals[labels] * centred
    projection = np.empty_like(values)
    projection[found.data_order] = np.where(labels > 0, values, 0.0)
    return projection


@public
def rate_matrix(network: KnotNetwork, dataset: Dataset) -> Floats:
    """Return M of (A.2), (2n, 2n), neurons sorted by their knots: dL/dt = −‖Mᵀz‖² for the loss ½Σ.

    M = [[D_u, 0], [0, D_σ]] [[L D_c, D_μ L − L D_b], [0, L]], D_u = diag √u_l, D_σ = diag √u_l σ_l, L the
    lower triangle of ones (Lemma A.2 says upper; its proof uses lower). Rows of empty blocks are zero.
    """
    found, n = blocks(network, dataset), network.width
    matrix = np.zeros((2 * n, 2 * n))
    filled = np.flatnonzero(found.counts[1:] > 0)
    sloped = np.flatnonzero(found.s_xx[1:] > 0)
    live = np.arange(found.live)
    rows = np.concatenate([filled, n + sloped])
    matrix[np.ix_(rows, np.concatenate([live, n + live]))] = reduced_rate_matrix(found)
    return matrix


def reduced_rate_matrix(found: Blocks) -> Floats:
    """Return the non-zero rows of M and the columns of its live neurons, (rank V, 2·live)."""
    filled = np.flatnonzero(found.counts[1:] > 0)
    sloped = np.flatnonzero(found.s_xx[1:] > 0)
    live = np.arange(found.live)
    knots, outer = found.knots[: found.live], found.outer[: found.live]
    ones = (filled[:, None] >= live).astype(np.float64)
    arms = (found.means[1:][filled, None] - knots) * ones
    top = np.sqrt(found.counts[1:][filled, None]) * np.hstack([ones * outer, arms])
    ones = (sloped[:, None] >= live).astype(np.float64)
    bottom = np.sqrt(found.s_xx[1:][sloped, None]) * np.hstack([np.zeros_like(ones), ones])
    return np.vstack([top, bottom])


@dataclass(frozen=True)
class RateBounds:
    """r_min ≤ −½ d/dt ln(L − Q₀) ≤ r_max at a network, and a-priori bounds lower ≤ r_min, r_max ≤ upper.

    r_min, r_max: squares of the rank(V)-th and of the largest singular value of M; rank = dim V. All are 0
    if no data point is active.
    """

    r_min: float
    r_max: float
    lower: float
    upper: float
    rank: int


@public
def rate_bounds(network: KnotNetwork, dataset: Dataset, loss: SquareLoss | None = None) -> RateBounds:
    """Return the extreme rates r_min, r_max of a stage, exactly in O(n³), and the bounds of Lemma A.2.

    loss: as in `plateau_level`. For ½Σ, with P the non-empty blocks l ≥ 1, p their number, N the live
    neurons, and D² the non-zero numbers among u_l and u_l σ_l², l ∈ P:

        r_min ≥ min D² / (4 (1 + (1 + 4 d² p²)/min_{l∈P} c_l²)),   d = max μ_l − min b_l over P,
        r_max ≤ max D² (1 + max_{j∈N} c_j² + d²) p N,              d = max μ_l − min_{j∈N} b_j.

    These are Lemma A.2's, by its own proof, with four corrections. The last term of ‖N⁻¹‖² keeps its factor
    1/min c²; d is measured from the leftmost knot, which may lie left of the data (the lemma takes
    x_m − x_1); the minimum over D counts one-point blocks, whose entry u_l = 1 is not zero; and the
    signs of the proof's last display are turned round. Each of the first three makes the printed bounds
    fail on some network. Neurons that no data point sees, and the coefficients of empty blocks, drop out.
    """
    return rates_of(blocks(network, dataset), loss)


def rates_of(found: Blocks, loss: SquareLoss | None = None) -> RateBounds:
    """Return the rates of given blocks."""
    if found.rank == 0:
        return RateBounds(0.0, 0.0, 0.0, 0.0, 0)
    weight = _weight(loss, found)
    r_min, r_max = extreme_rates(found)
    lower, upper = _lemma_a2(found)
    return RateBounds(weight * r_min, weight * r_max, weight * lower, weight * upper, found.rank)


def extreme_rates(found: Blocks, pinned: tuple[int, ...] = ()) -> tuple[float, float]:
    """Return r_min, r_max for the loss ½Σ while the knots of the `pinned` neurons are held in place.

    A knot that slides on a data point does not move (Filippov), though its coefficient does: its column of
    M in ∂/∂b is left out, and the bounds of Thm 3.1 hold with what remains. This extension is ours.
    """
    matrix = reduced_rate_matrix(found)
    moving = ~np.isin(found.order[: found.live], pinned)
    matrix = matrix[:, np.concatenate([moving, np.ones(found.live, dtype=np.bool_)])]
    if found.rank == 0:
        return 0.0, 0.0
    singular = np.linalg.svd(matrix, compute_uv=False)
    return float(singular[-1]) ** 2 if matrix.shape[1] >= found.rank else 0.0, float(singular[0]) ** 2


def _lemma_a2(found: Blocks) -> tuple[float, float]:
    """Return the corrected bounds of Lemma A.2 for the loss ½Σ."""
    filled = np.flatnonzero(found.counts[1:] > 0)
    variances = found.s_xx[1:]
    diagonal = np.concatenate([found.counts[1:][filled], variances[variances > 0]])
    outer, live = found.outer[: found.live], found.live
    furthest = float(found.means[1:][filled].max())

    reach = furthest - float(found.knots[filled].min())
    smallest = float(np.min(outer[filled] ** 2))
    inverse = 4.0 * (1.0 + (1.0 + 4.0 * (reach * len(filled)) ** 2) / smallest) if smallest > 0 else np.inf
    reach = furthest - float(found.knots[0])
    largest = (1.0 + float(np.max(outer**2)) + reach**2) * len(filled) * live
    return float(diagonal.min()) / inverse, float(diagonal.max()) * largest


@dataclass(frozen=True)
class ExitCondition:
    """Theorem 3.2 at the end of a stage, when one data point passes from one block to its neighbour.

    applies: whether exactly one point passed; point: its index in the data set (−1 if not); level_before,
    level_after: Q₀ of the two stages; component: |⟨Loss(t_s), ζ⟩|; overlap: |ζᵀψ|; removable: ‖Π_V
    Loss(t_s)‖; component_after: |⟨Loss, ψ⟩| at the passage (these four for the residuals themselves,
    whatever the loss).
    """

    applies: bool
    point: int
    level_before: float
    level_after: float
    component: float
    overlap: float
    removable: float
    component_after: float = 0.0

    @property
    def falls(self) -> bool:
        """Whether (E.1) holds at the passage, |⟨Loss, ψ⟩| < |⟨Loss, ζ⟩|: iff the level falls."""
        return self.applies and self.component_after < self.component

    @property
    def threshold(self) -> float:
        """(1 − |ζᵀψ|) |⟨Loss(t_s), ζ⟩| / ‖Π_V Loss(t_s)‖; 0 where the theorem does not apply."""
        gain = (1.0 - self.overlap) * self.component
        if not self.applies or gain <= 0:
            return 0.0
        return gain / self.removable if self.removable > 0 else np.inf

    @property
    def decay_needed(self) -> float:
        """The ∫r_min after which the next level is sure to be lower: −ln threshold, at least 0."""
        return max(0.0, -float(np.log(self.threshold))) if self.threshold > 0 else np.inf


@public
def exit_condition(
    network: KnotNetwork, after: KnotNetwork, dataset: Dataset, loss: SquareLoss | None = None
) -> ExitCondition:
    """Return Thm 3.2's condition for leaving the stage of `network` into the stage of `after`.

    If exp(−∫r_min) over the stage, which begins at `network`, is below the threshold, then the level falls:
    Q₀(t_{s+1}) < Q₀(t_s). (The theorem prints exp(−½∫r_min), twice the time that its proof needs.)

    ζ is the unit vector along the part of e_k, k the point that passed, orthogonal to V before, ψ the same
    after (Lemma E.1); a block of at most two points leaves no such part, ζ = 0, and the level cannot fall.
    Both have closed forms: with the leverage h = 1/u + (x_k − μ)²/S_xx of x_k in its block and r its
    distance to the block's regression line, ⟨Loss, ζ⟩² = r²/(1 − h) and ζᵀψ = √(1 − h)√(1 − h').
    If the first knot passes (U_0 and U_1 change) the same holds with h = 0, r = y_k in U_0.
    """
    if network.width != after.width:
        raise InvalidInputError(f"after: must have width {network.width}, got {after.width}")
    return exit_of(blocks(network, dataset), blocks(after, dataset), loss)


def exit_of(before: Blocks, then: Blocks, loss: SquareLoss | None = None) -> ExitCondition:
    """Return Thm 3.2's condition for two stages of the same network on the same data."""
    shifts = then.borders - before.borders
    changed = np.flatnonzero(shifts)
    applies = len(changed) == 1 and abs(int(shifts[changed[0]])) == 1
    point, component, overlap, after = -1, 0.0, 0.0, 0.0
    if applies:
        border = int(changed[0])
        right = int(shifts[border]) < 0  # the border moved left: the point passes into the right block
        k = int(min(before.borders[border], then.borders[border]))
        point = int(before.data_order[k])
        free, distance = _free_part(before, border - 1 if right else border, k)
        free_after, distance_after = _free_part(then, border if right else border - 1, k)
        component = abs(distance) / np.sqrt(free) if free > 0 else 0.0
        after = abs(distance_after) / np.sqrt(free_after) if free_after > 0 else 0.0
        overlap = float(np.sqrt(free * free_after))
    removable = float(np.linalg.norm(before.coordinates))
    levels = level_of(before, loss), level_of(then, loss)
    return ExitCondition(applies, point, *levels, float(component), overlap, removable, float(after))


def _free_part(found: Blocks, block: int, k: int) -> tuple[float, float]:
    """Return 1 − h and the residual of the sorted point k about its block's line; (1, y_k) in U_0."""
    if block == 0:
        return 1.0, float(found.targets[k])
    count, s_xx = int(found.counts[block]), float(found.s_xx[block])
    if count <= (2 if s_xx > 0 else 1):
        return 0.0, 0.0
    offset = float(found.inputs[k] - found.means[block])
    slope = float(found.slopes[block]) if s_xx > 0 else 0.0
    leverage = 1.0 / count + (offset**2 / s_xx if s_xx > 0 else 0.0)
    distance = float(found.targets[k] - found.target_means[block]) - slope * offset
    free = 1.0 - leverage
    # A leverage of 1 up to rounding: the point determines the line alone, and nothing of e_k is left.
    return (free, distance) if free > 1e-14 else (0.0, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Stability(FrozenArrays):
    """Eigenvalues (2n,) of the linearised flow, largest first; how many are growing, centre, decaying."""

    eigenvalues: Floats
    growing: int
    centre: int
    decaying: int

    @property
    def stable(self) -> bool:
        """Whether no small change grows (to first order)."""
        return self.growing == 0

    def __repr__(self) -> str:
        return f"Stability({self.growing} growing, {self.centre} centre, {self.decaying} decaying directions)"


@public
def stability(
    network: KnotNetwork, dataset: Dataset, loss: SquareLoss | None = None, *, tolerance: float = 1e-9
) -> Stability:
    """Return the linear stability of a stationary network, its pattern held ([plateau] §3.2); O(n² (n + m)).

    loss: ½·mean by default; tolerance: eigenvalues below this share of the largest count as zero.

    Examples
    --------
    >>> data = Dataset([[1.0], [2.0]], [2.0, -1.0])
    >>> stability(KnotNetwork([0.0], [0.0]), data)  # at rest, with c = 0: a saddle
    Stability(1 growing, 0 centre, 1 decaying directions)
    """
    square = SquareLoss() if loss is None else loss
    found, n = blocks(network, dataset), network.width
    x = found.inputs[:, None]
    gates = (np.arange(len(found.inputs))[:, None] >= found.borders[1:-1]).astype(np.float64)
    jacobian = np.hstack([-gates * found.outer, gates * (x - found.knots)])
    hessian = jacobian.T @ jacobian
    pulls = gates.T @ found.residuals
    hessian[np.arange(n), n + np.arange(n)] -= pulls
    hessian[n + np.arange(n), np.arange(n)] -= pulls
    values = np.linalg.eigvalsh(-square.weight(dataset.size) * hessian)[::-1]
    zero = positive(tolerance, "tolerance") * float(np.max(np.abs(values), initial=0.0))
    growing, decaying = int(np.sum(values > zero)), int(np.sum(values < -zero))
    return Stability(values.astype(np.float64), growing, 2 * n - growing - decaying, decaying)


@dataclass(frozen=True)
class LossParts:
    """L = pattern + places + weights: Q₀, LSQ − Q₀ and L − LSQ."""

    pattern: float
    places: float
    weights: float

    @property
    def total(self) -> float:
        """The loss."""
        return self.pattern + self.places + self.weights

    @property
    def shares(self) -> tuple[float, float, float]:
        """The parts as shares of the loss (0, 0, 0 where it vanishes)."""
        whole = self.total
        return (
            (self.pattern / whole, self.places / whole, self.weights / whole)
            if whole > 0
            else (0.0, 0.0, 0.0)
        )


@public
def loss_parts(
    network: KnotNetwork | ReLUNetwork, dataset: Dataset, loss: SquareLoss | None = None
) -> LossParts:
    """Return what of the loss belongs to the pattern, to the places of the kinks, and to the outer weights.

    loss: ½·mean of squares by default.

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [0.0, 0.0, 1.0, 2.0])
    >>> found = loss_parts(KnotNetwork([0.5], [0.0]), data)  # fits once the knot is at 1
    >>> round(found.pattern, 6), round(found.places, 6), round(found.weights, 6)
    (0.0, 0.021429, 0.603571)
    """
    square = SquareLoss() if loss is None else loss
    level = pattern_level(network, dataset, square)
    residual, free = _split(network, dataset)
    weight = 0.5 * square.weight(dataset.size)
    best = max(weight * float(residual @ residual), level)
    return LossParts(level, best - level, weight * float(np.sum(free.coordinates**2)))


@dataclass(frozen=True, eq=False)
class _Free:
    """The residual in the singular basis of A: coordinates z (r,), sizes s (r,)."""

    coordinates: Floats
    sizes: Floats


def _split(network: KnotNetwork | ReLUNetwork, dataset: Dataset) -> tuple[Floats, _Free]:
    """Return the residual that no outer weights remove, (n,), and what they do remove."""
    if not isinstance(network, KnotNetwork | ReLUNetwork):
        raise InvalidInputError(
            f"network: must be a KnotNetwork or ReLUNetwork, got {type(network).__name__}"
        )
    checked_dataset(dataset)
    z = network.preactivations(dataset.inputs).T
    slope, scale = (network.slope, network.scale) if isinstance(network, ReLUNetwork) else (0.0, 1.0)
    features = scale * np.maximum(z, slope * z)
    basis, sizes, _ = np.linalg.svd(features, full_matrices=False)
    kept = sizes > max(features.shape) * np.finfo(float).eps * sizes[0]
    residual = features @ network.outer - dataset.targets
    coordinates = basis[:, kept].T @ residual
    return residual - basis[:, kept] @ coordinates, _Free(coordinates, sizes[kept])


@public
def frozen_losses(
    network: KnotNetwork | ReLUNetwork,
    dataset: Dataset,
    times: ArrayLike,
    loss: SquareLoss | None = None,
    *,
    step: float | None = None,
) -> Floats:
    """Return the loss at times (k,) after `network` if only the outer weights move, exactly.

    step: of gradient descent, whose times are multiples of it; None is the flow.

    Examples
    --------
    >>> data = Dataset([[1.0]], [1.0])
    >>> frozen_losses(KnotNetwork([0.0], [0.0]), data, [0.0, 1.0, 100.0]).round(6)
    array([0.5     , 0.067668, 0.      ])
    """
    square = SquareLoss() if loss is None else loss
    weight = square.weight(checked_dataset(dataset).size)
    residual, free = _split(network, dataset)
    rates, moments = weight * free.sizes**2, numbers(times, "times", 1)
    if step is None:
        factors = np.exp(-rates * moments[:, None])
    else:
        factors = (1.0 - positive(step, "step") * rates) ** np.rint(moments / step)[:, None]
    return np.asarray(
        0.5 * weight * (residual @ residual + np.sum((factors * free.coordinates) ** 2, axis=1))
    )


@dataclass(frozen=True)
class Passage:
    """`neuron` meets data point `point` after `time`, if it moves on as it does now (∞, −1, −1: none)."""

    time: float
    neuron: int
    point: int


@public
def next_passage(network: KnotNetwork | ReLUNetwork, dataset: Dataset, loss: Loss | None = None) -> Passage:
    """Return which neuron of the flow meets which data point next, from gaps and present velocities.

    A first guess of when the stage of [plateau] Thm 3.1 ends: the least −z_jk/ż_jk over the pairs that
    approach each other, z_jk = ⟨w_j, x_k⟩ (x_k − b_j for knots).

    Examples
    --------
    >>> next_passage(KnotNetwork([0.5], [1.0]), Dataset([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]))
    Passage(time=0.375, neuron=0, point=0)
    """
    if not isinstance(network, KnotNetwork | ReLUNetwork):
        raise InvalidInputError(
            f"network: must be a KnotNetwork or ReLUNetwork, got {type(network).__name__}"
        )
    square = SquareLoss() if loss is None else loss
    inputs = checked_dataset(dataset).inputs
    pulls = network.pullback(inputs, -square.slopes(network.predict(inputs), dataset.targets))
    if isinstance(network, KnotNetwork):
        speeds = np.broadcast_to(-pulls["knots"][:, None], (network.width, dataset.size))
    else:
        speeds = pulls["inner"] @ inputs.T
    z, living = network.preactivations(inputs), activity(network, inputs)
    meeting = (living * speeds < 0) & np.any(living > 0, axis=1)[:, None]
    times = np.full(z.shape, np.inf)
    np.divide(-z, speeds, out=times, where=meeting)
    if not meeting.any():
        return Passage(np.inf, -1, -1)
    neuron, point = np.unravel_index(int(np.argmin(times)), times.shape)
    return Passage(float(times[neuron, point]), int(neuron), int(point))
