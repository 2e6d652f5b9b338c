"""Where small networks end: balance, saddle or local minimum, and the way to the least-squares line.

a_j² − ‖w_j‖² is conserved by the flow, [early_alignment] Lemma 1. Neurons with |a_j| ≥ ‖w_j‖ keep the sign
of a_j.

[early_alignment] §5 argues that the limit of Thm 4 is a saddle if it has zero neurons (balanced start), and a
local minimum if every neuron is dominated. For a loss that is convex and smooth in the predictions, and any
network, there is an exact criterion. With g_k = −∂L/∂h_k and G_θ(w) = Σ_k g_k σ(⟨w, x_k⟩), convexity gives

    L(θ + δ) − L(θ) ≥ −Σ_j [(a_j + δa_j) G_θ(w_j + δw_j) − a_j G_θ(w_j)],

with equality up to the square of the change of h; and G_θ(w_j + v) = G_θ(w_j) + G'_θ(w_j; v) exactly for
small v. So θ is a local minimum iff every neuron has G_θ(w_j) = 0 and

    a_j G'_θ(w_j; v) ≤ 0 for all v,   or, if a_j = 0,   G'_θ(w_j; v) = 0 for all v.

On the three points we saw no neuron of a balanced start tend to zero: before it does, a negative neuron
comes to rest among the dead or the fully active ones, so that these runs end in local minima too.

A zero neuron has G'_θ(0; v) = G_θ(v): it can lower the loss as soon as G_θ does not vanish identically.

**Data on which small networks end in the least-squares line**: [early_alignment] Assumptions 3 to 6.

K is the set of extreme points, those that some w ≠ 0 with ⟨w, x_k'⟩ ≥ 0 for all k' has on its border; β* the
least-squares estimator, r_k = (y_k − ⟨β*, x_k⟩)/n and G*(w) = Σ_k r_k relu(⟨w, x_k⟩).

Assumption 6 made finite. A pattern is mixed if it has both signs (then it has them on K already). δ_u may
be as small as we like, so (1) is about those k ∈ K with u_k ≠ 0 whose hyperplane the closure of the cone
touches:

    (1)  u_k ⟨D̃_u, x_k⟩ + Σ_{l: u_l = 0} min(0, u_k r_l ⟨x_l, x_k⟩) > 0;
    (2)  G*(w) > 0 for every w with a mixed pattern,

where by linearity one w inside each mixed face will do, as on rays with one sign G* = ±⟨Σ r_k x_k, w⟩ = 0.

Lemma 8 says that Assumption 3 with η < 1/6 implies Assumptions 4, 5 and 6. Its proof of 5 takes y_1² + y_2²
+ y_3² for at most η² + (1 + η)² (it is at most η² + 2(1 + η)²) and squares the lower bound of y_k‖x_k‖²;
Assumption 5 does fail for some such data, for instance x = (−0.84, 1), (−0.16, 1.16), (0.84, 1.16), y = 1,
0.16, 1.16. So all of them are checked.

**Where a small network stands** on its way to that line: the quantities of Lemmas 4 to 7.

[early_alignment] §4.1, with θ⁰ the start, D* = (1/n)Σ y_k x_k and β* the least-squares estimator:

    𝓘: neurons with a_i⁰ > 0 that some data point activates at the start; 𝓝: those with a_i⁰ < 0; the rest
    never moves.

In phase 3 all of 𝓘 is active on all points and acts as β = Σ_𝓘 a_i w_i. Where nothing else moves,

    dβ/dt = M (1/n) Xᵀ(y − Xβ),   M = Σ_𝓘 (a_i² I + w_i w_iᵀ),

so that L − L(β*) falls like exp(−2ρt) in the end, ρ the least eigenvalue of M XᵀX/n. Lemma 21's constant, for
all of phase 3, takes a part of M only: Σ_𝓘 a_i² ≥ ‖β*‖ up to what is small. Phase 1 ends at −ε ln λ/D_max
(`largest_pull`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, positive, public
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.extremal import steepest
from shallowflow.landscape.early_alignment.pulls import ZERO, Pull, pull
from shallowflow.landscape.geometry.activity import Signs, activity, check_relu, check_relu_problem, signs_of
from shallowflow.landscape.geometry.cones import LIMIT, SAME, Cones, cones, span_of
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork

ROUNDING = 1e-12
"""Share of a_j² + ‖w_j‖² below which a difference of the two is rounding."""

BALANCES = ("balanced", "dominated", "unbalanced")


@dataclass(frozen=True, eq=False, repr=False)
class Balance(FrozenArrays):
    """values (m,): a_j² − ‖w_j‖²; signs (m,): 0 where that is rounding, else ±1."""

    values: Floats
    signs: Signs

    @property
    def kinds(self) -> tuple[str, ...]:
        """For each neuron "balanced" (|a| = ‖w‖), "dominated" (|a| > ‖w‖) or "unbalanced" (|a| < ‖w‖)."""
        return tuple(BALANCES[sign] for sign in self.signs)

    @property
    def kind(self) -> str:
        """The kind of all neurons: "unbalanced" if one is, "mixed" if some are balanced, some dominated."""
        if np.any(self.signs < 0):
            return "unbalanced"
        if np.all(self.signs == self.signs[0]):
            return BALANCES[self.signs[0]]
        return "mixed"

    @property
    def keeps_signs(self) -> bool:
        """Whether (4) holds, |a_j| ≥ ‖w_j‖ for all j, so that no outer weight changes its sign."""
        return not np.any(self.signs < 0)


@public
def balance(network: ReLUNetwork) -> Balance:
    """Return a_j² − ‖w_j‖² for every neuron, with its classification, [early_alignment] (4) and Lemma 1.

    Examples
    --------
    >>> balance(ReLUNetwork([[3.0, 4.0], [0.0, 1.0]], [-5.0, 2.0])).kinds
    ('balanced', 'dominated')
    """
    check_relu(network)
    outer, inner = network.outer**2, np.einsum("jd,jd->j", network.inner, network.inner)
    values = outer - inner
    return Balance(values, signs_of(values, outer + inner, ROUNDING))


def init_scale(network: ReLUNetwork) -> float:
    """Return λ = √(scale·Σ_j a_j²), the smallest scale of (3) for which (5) holds at this width.

    Examples
    --------
    >>> init_scale(ReLUNetwork([[0.1], [0.1]], [0.3, -0.4]))
    0.5
    """
    return float(np.sqrt(network.scale) * np.linalg.norm(network.outer))


@dataclass(frozen=True, eq=False, repr=False)
class Nature(FrozenArrays):
    """What a network is for its loss: kind "local minimum", "saddle" or "not stationary".

    gradient: the largest part of the (least-norm) gradient, max_j(‖a_j D_j‖, |⟨w_j, D_j⟩|); zero_neurons:
    how many neurons vanish. For a saddle, `neuron` moved along `direction` (d,) lowers the loss, at the
    rate `rate` per unit of |a_j| and of its movement (first order if a_j ≠ 0, second order if a_j = 0);
    else −1.
    """

    kind: str
    gradient: float
    zero_neurons: int
    neuron: int
    direction: Floats
    rate: float


@public
def nature(
    network: ReLUNetwork, dataset: Dataset, *, loss: Loss | None = None, tolerance: float = 1e-6
) -> Nature:
    """Return whether a stationary network is a saddle or a local minimum of the loss (see the module).

    tolerance: relative. A gradient this small beside U times the size of the largest neuron vanishes, U =
    Σ_k |∂₁ℓ(0, y_k)| ‖x_k‖; a rate of descent counts above this share of U; a neuron this close to a data
    hyperplane (in angle) lies on it. A neuron is zero below the rounding of the largest, 2.2·10⁻¹⁶ of it:
    one that started small and stayed is none.

    Examples
    --------
    >>> data = Dataset([[1.0], [-1.0]], [1.0, 1.0])
    >>> nature(ReLUNetwork([[1.0], [0.0]], [1.0, 0.0]), data).kind
    'saddle'
    >>> nature(ReLUNetwork([[1.0], [-1.0]], [1.0, 1.0]), data).kind
    'local minimum'
    """
    check_relu(network)
    tolerance = positive(tolerance, "tolerance")
    here = pull(dataset, loss, network.slope, network=network)
    unit = pull(dataset, loss, network.slope).scale
    sizes = np.hypot(np.linalg.norm(network.inner, axis=1), np.abs(network.outer))
    largest = float(sizes.max())
    vanishing = float(np.finfo(float).eps) * largest
    inner = np.where(sizes[:, None] <= vanishing, 0.0, network.inner)
    outer = np.where(np.abs(network.outer) <= vanishing, 0.0, network.outer)
    zeros = int(np.sum(sizes <= vanishing))
    patterns = np.array([here.pattern(w, tolerance) for w in inner])
    gradient = _gradient(here, inner, outer, patterns)
    found = (-1, np.zeros(dataset.dimension), 0.0)
    if gradient > tolerance * unit * largest:
        return Nature("not stationary", gradient, zeros, *found)
    neuron, direction, rate = _descent(here, outer, patterns)
    if rate <= tolerance * unit:
        return Nature("local minimum", gradient, zeros, *found)
    return Nature("saddle", gradient, zeros, neuron, direction, rate)


def _gradient(here: Pull, inner: Floats, outer: Floats, patterns: Signs) -> float:
    """Return the largest ‖a_j D_j‖ or |⟨w_j, D_j⟩|, D_j the minimal-norm subgradient of neuron j."""
    shortest = here.minimal_all(patterns)
    moves = np.abs(outer) * np.linalg.norm(shortest, axis=1)
    turns = np.abs(np.einsum("jd,jd->j", inner, shortest))
    return float(max(moves.max(), turns.max()))


def _descent(here: Pull, outer: Floats, patterns: Signs) -> tuple[int, Floats, float]:
    """Return the neuron, direction and rate by which the loss can be lowered (rate 0: not at all)."""
    best = (-1, np.zeros(here.inputs.shape[1]), 0.0)
    seen: set[tuple[bytes, float]] = set()
    for j, pattern in enumerate(patterns):
        key = (pattern.tobytes(), float(np.sign(outer[j])))
        if key in seen:
            continue
        seen.add(key)
        for sign in (1, -1) if outer[j] == 0 else (int(np.sign(outer[j])),):
            rate, direction = steepest(here, pattern, sign)
            if rate > best[2]:
                best = (j, direction, rate)
    return best


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """β* = (XᵀX)⁻¹Xᵀy (d,) and its loss ½·mean (⟨β*, x_k⟩ − y_k)²."""

    coefficients: Floats
    loss: float


@public
def least_squares(dataset: Dataset) -> LeastSquares:
    """Return the linear least-squares fit (of minimal norm if the inputs do not determine it).

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> round(least_squares(three_points()).loss, 7)
    0.0875214
    """
    coefficients: Floats = np.linalg.lstsq(dataset.inputs, dataset.targets)[0].astype(np.float64)
    residual = dataset.inputs @ coefficients - dataset.targets
    return LeastSquares(coefficients, 0.5 * float(np.mean(residual**2)))


@dataclass(frozen=True)
class SpuriousConditions:
    """The margins of Assumptions 3 to 6: each assumption holds iff its margins are positive.

    eta: the smallest η of Assumption 3 (∞ if none; Thm 2 needs η < 1/6); extreme: K. Assumption 4:
    correlation, the smallest ⟨x_k, x_k'⟩; target, the smallest y_k; general, whether n ≥ d points are in
    general position. Assumption 5: dominance, the smallest y_k‖x_k‖² − ‖y‖ √Σ_{k'≠k}⟨x_k', x_k⟩² over K.
    Assumption 6: above, the smallest y_k − ⟨β*, x_k⟩ over K; inward, the smallest left side of (1); worse,
    the smallest G*(w)/‖w‖ of (2) (at one w inside each cone). Rounding counts as zero; ∞ where there is
    nothing to check.
    """

    eta: float
    extreme: tuple[int, ...]
    correlation: float
    target: float
    general: bool
    dominance: float
    above: float
    inward: float
    worse: float

    @property
    def assumption_3(self) -> bool:
        """Whether Assumption 3 holds with η < 1/6."""
        return self.eta < 1 / 6

    @property
    def assumption_4(self) -> bool:
        """Whether Assumption 4 holds."""
        return self.correlation > 0 and self.target > 0 and self.general

    @property
    def assumption_5(self) -> bool:
        """Whether Assumption 5 holds."""
        return self.dominance > 0

    @property
    def assumption_6(self) -> bool:
        """Whether Assumption 6 holds."""
        return min(self.above, self.inward, self.worse) > 0


@public
def spurious_conditions(dataset: Dataset, *, limit: int = LIMIT) -> SpuriousConditions:
    """Return the margins of Assumptions 3 to 6; limit: on the number of activation cones.

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> found = spurious_conditions(three_points())
    >>> found.extreme, found.assumption_4, found.assumption_5, found.assumption_6
    ((0, 2), True, False, True)
    """
    dataset = span_of(dataset).dataset
    arrangement = cones(dataset, limit=limit)
    inputs, targets = dataset.inputs, dataset.targets
    products = inputs @ inputs.T
    correlation, target = positivity(dataset)
    extreme = _extreme_points(arrangement)
    residuals = (targets - inputs @ least_squares(dataset).coefficients) / dataset.size
    size = float(np.abs(targets) @ np.linalg.norm(inputs, axis=1)) / dataset.size
    rounding = np.abs(residuals) * dataset.size <= ZERO * float(np.max(np.abs(targets)))
    found = Pull(inputs, np.where(rounding, 0.0, residuals), 0.0)
    mixed = np.flatnonzero(
        np.any(arrangement.patterns > 0, axis=1) & np.any(arrangement.patterns < 0, axis=1)
    )
    others = np.sqrt(np.maximum(np.sum(products**2, axis=1) - np.diag(products) ** 2, 0.0))
    dominance = targets * np.diag(products) - np.linalg.norm(targets) * others
    return SpuriousConditions(
        eta=smallest_eta(dataset),
        extreme=tuple(int(k) for k in extreme),
        correlation=correlation,
        target=target,
        general=arrangement.general and dataset.size >= dataset.dimension,
        dominance=float(np.min(dominance[extreme], initial=np.inf)),
        above=dataset.size * float(np.min(found.strengths[extreme], initial=np.inf)),
        inward=_inward(found, arrangement, mixed, extreme),
        worse=_positive_part([found.value(arrangement.directions[face]) for face in mixed], ZERO * size),
    )


def positivity(dataset: Dataset) -> tuple[float, float]:
    """Return the smallest ⟨x_k, x_k'⟩ and the smallest y_k: Assumption 4 needs both to be positive."""
    return float(np.min(dataset.inputs @ dataset.inputs.T)), float(np.min(dataset.targets))


def _positive_part(values: list[float], rounding: float) -> float:
    """Return the smallest value, 0 if it is rounding, ∞ if there is none."""
    smallest = min(values, default=np.inf)
    return 0.0 if abs(smallest) <= rounding else smallest


def _extreme_points(arrangement: Cones) -> Ints:
    """Return K: the zeros of the patterns that are ≥ 0 and not identically zero (a zero w is excluded)."""
    patterns = arrangement.patterns[np.all(arrangement.patterns >= 0, axis=1)]
    return np.asarray(np.flatnonzero(np.any(patterns == 0, axis=0)))


def _inward(found: Pull, arrangement: Cones, mixed: Ints, extreme: Ints) -> float:
    """Return the smallest left side of (1) over mixed cones u and the k ∈ K whose hyperplane they touch."""
    products = found.inputs @ found.inputs.T
    on_rays = np.abs(arrangement.rays @ found.inputs.T) <= SAME * np.linalg.norm(found.inputs, axis=1)
    values: list[float] = []
    for face in mixed:
        pattern = arrangement.patterns[face].astype(np.float64)
        members = arrangement.members[arrangement.starts[face] : arrangement.starts[face + 1]]
        touched = extreme[(pattern[extreme] != 0) & np.any(on_rays[members][:, extreme], axis=0)]
        weighted = pattern[touched, None] * products[touched] * found.strengths
        free = np.minimum(weighted[:, pattern == 0], 0.0).sum(axis=1)
        values += (weighted[:, pattern > 0].sum(axis=1) + free).tolist()
    return _positive_part(values, ZERO * found.scale * float(np.max(np.diag(products), initial=0.0)))


def smallest_eta(dataset: Dataset) -> float:
    """Return the smallest η with which three points satisfy Assumption 3, in any order; ∞ if there is none.

    Examples
    --------
    >>> round(smallest_eta(Dataset([[-0.9, 1.0], [0.05, 1.0], [0.95, 1.0]], [1.0, 0.1, 1.02])), 12)
    0.1
    """
    if dataset.inputs.shape != (3, 2):
        return np.inf
    order = np.argsort(dataset.inputs[:, 0])
    (first, left), (second, middle), (third, right) = dataset.inputs[order]
    y_1, y_2, y_3 = dataset.targets[order]
    if not (first > -1 and third < 1 and y_2 > 0 and min(left, right, y_1, y_3) >= 1):
        return np.inf
    sides = (first + 1, left - 1, y_1 - 1, 1 - third, right - 1, y_3 - 1)
    return float(max(*sides, abs(second), abs(middle - 1), y_2))


DIRECTIONS, KEPT, ROUNDS = 4000, 60, 5
"""Random starts of the search for D_max, how many directions go on, and how often they follow their pull."""
BEYOND = 1e-6
"""A direction is mirrored at a hyperplane so much further than onto it, relatively."""


@dataclass(frozen=True)
class PhaseState:
    """A network beside its start; ∞, −∞ or 0 where a set of neurons is empty.

    aligned: the least ⟨D*, w_i/a_i⟩/‖D*‖ over 𝓘 (Lemma 4.1); growth: the largest a_i/a_i⁰ over 𝓘; shrinkage:
    the largest a_i/a_i⁰ over 𝓝 (Lemmas 4.2, 5.4, 6); moved: the largest change of a parameter of the rest
    (Lemma 4.3); spread: 1 − the least cosine between two neurons of 𝓘 and their sum, weighted by a_i (Lemma
    5.3); correlation: the least ⟨w_i/a_i, x_k⟩ over 𝓘 and all points (Lemmas 5.2, 6); size: Σ_𝓘 a_i² (Lemma
    5.1); distance: ‖β* − Σ_𝓘 a_i w_i‖/‖β*‖ (Lemmas 6, 7).
    """

    aligned: float
    growth: float
    shrinkage: float
    moved: float
    spread: float
    correlation: float
    size: float
    distance: float


@public
def phase_state(network: ReLUNetwork, start: ReLUNetwork, dataset: Dataset) -> PhaseState:
    """Return how far a network has come from its start, in the quantities of Lemmas 4 to 7.

    Examples
    --------
    >>> data = Dataset([[-0.5, 1.0], [0.5, 1.0]], [1.0, 1.0])
    >>> start = ReLUNetwork([[0.0, 0.1], [0.1, 0.0]], [0.1, -0.1])
    >>> state = phase_state(ReLUNetwork([[0.0, 1.0], [0.05, 0.0]], [1.0, -0.05]), start, data)
    >>> round(state.distance, 6), round(state.shrinkage, 6)
    (0.0, 0.5)
    """
    check_relu_problem(network, dataset)
    check_relu_problem(start, dataset)
    if network.width != start.width:
        raise InvalidInputError(f"start: must have width {network.width}, got {start.width}")
    seen = np.any(activity(start, dataset.inputs) > 0, axis=1)
    positive, negative = seen & (start.outer > 0), seen & (start.outer < 0)
    rest = ~(positive | negative)
    pull = dataset.targets @ dataset.inputs / dataset.size
    inner, outer = network.inner[positive], network.outer[positive]
    with np.errstate(divide="ignore", invalid="ignore"):
        units = inner / outer[:, None]
    lengths = np.linalg.norm(inner, axis=1)
    total = outer @ inner
    cosines = inner @ total / np.maximum(lengths * np.linalg.norm(total), np.finfo(float).tiny)
    line = least_squares(dataset).coefficients
    moves = (np.abs(network.inner - start.inner)[rest], np.abs(network.outer - start.outer)[rest])
    return PhaseState(
        aligned=float(np.min(units @ pull, initial=np.inf)) / float(np.linalg.norm(pull)),
        growth=float(np.max(outer / start.outer[positive], initial=-np.inf)),
        shrinkage=float(np.max(network.outer[negative] / start.outer[negative], initial=-np.inf)),
        moved=max(float(np.max(one, initial=0.0)) for one in moves),
        spread=1.0 - float(np.min(cosines, initial=1.0)),
        correlation=float(np.min(units @ dataset.inputs.T, initial=np.inf)),
        size=network.scale * float(outer @ outer),
        distance=float(np.linalg.norm(line - network.scale * total) / np.linalg.norm(line)),
    )


@public
def pl_constant(dataset: Dataset) -> float:
    """Return σ_min(H)‖β*‖, H = XᵀX/n: in phase 3 ‖∇L‖² is at least this times L − L(β*), for small λ.

    So L − L(β*) falls at this rate at least, [early_alignment] Lemma 21 (L: ½·mean).

    Examples
    --------
    >>> pl_constant(Dataset([[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0]))
    2.5
    """
    sizes = np.linalg.svd(dataset.inputs, compute_uv=False)
    least = float(sizes[-1]) ** 2 / dataset.size if dataset.size >= dataset.dimension else 0.0
    return least * float(np.linalg.norm(least_squares(dataset).coefficients))


@public
def local_rate(network: ReLUNetwork, dataset: Dataset) -> float:
    """Return 2ρ, the rate at which L (½·mean) falls to the line's loss near it; see the module.

    Counted are the neurons that are active on all data points.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> local_rate(ReLUNetwork([[1.0, 1.0]], [1.0]), data)  # M = I + 1 1ᵀ, XᵀX/n = I/2
    1.0
    """
    check_relu_problem(network, dataset)
    whole = np.all(activity(network, dataset.inputs) > 0, axis=1)
    inner, outer = network.inner[whole], network.outer[whole]
    metric = network.scale * (float(outer @ outer) * np.eye(dataset.dimension) + inner.T @ inner)
    # M^½ (XᵀX/n) M^½ has the eigenvalues of M XᵀX/n: those of the squares of singular values of X M^½.
    root = np.linalg.cholesky(metric) if whole.any() else np.zeros_like(metric)
    sizes = np.linalg.svd(dataset.inputs @ root, compute_uv=False)
    return 2.0 * float(sizes[-1]) ** 2 / dataset.size if dataset.size >= dataset.dimension else 0.0


class LargestPull(NamedTuple):
    """D_max, the largest ‖D_u‖ over all activation cones; complete: False where a search found it (D_max may
    be larger)."""

    value: float
    complete: bool


@public
def largest_pull(
    dataset: Dataset, loss: Loss | None = None, slope: float = 0.0, *, limit: int = LIMIT
) -> LargestPull:
    """Return D_max = max_w ‖D(w, 0)‖ of Thm 1: by listing the cones, or by a search where they are too many.

    The search begins at random directions, at the inputs and their opposites, follows w → ±D(w), and crosses
    from the best cones found into those beyond a data hyperplane while ‖D‖ grows.

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> found = largest_pull(three_points())
    >>> round(found.value, 4), found.complete
    (0.715, True)
    """
    space = span_of(dataset).dataset
    found = pull(space, loss, slope)
    try:
        shortest = found.minimal_all(cones(space, limit=limit).patterns)
    except InvalidInputError:
        return LargestPull(_searched(found), False)
    origin = np.linalg.norm(found.minimal(np.zeros(space.size, np.int8))[0])
    return LargestPull(float(max(np.linalg.norm(shortest, axis=1).max(initial=0.0), origin)), True)


def _searched(found: Pull) -> float:
    """Return the largest ‖D‖ found without listing cones."""
    dimension = found.inputs.shape[1]
    filled = found.inputs[found.lengths > 0]
    starts = np.random.default_rng(0).standard_normal((DIRECTIONS, dimension))
    directions = np.vstack([starts, filled, -filled])
    best = _pulled(found, directions)
    for _ in range(ROUNDS):
        ahead = _pulled(found, np.vstack([best.pulls, -best.pulls]))
        best = _larger(best, ahead)
    while True:
        z = best.directions @ filled.T / np.sum(filled**2, axis=1)
        beyond = best.directions[:, None] - (1.0 + BEYOND) * z[:, :, None] * filled[None]
        tried = _larger(best, _pulled(found, beyond.reshape(-1, dimension)))
        if not tried.norms[0] > best.norms[0] * (1.0 + ZERO):
            return float(best.norms[0])
        best = tried


class _Pulled(NamedTuple):
    """Directions (k, d), D(w) at them (k, d) and ‖D‖ (k,), the largest first."""

    directions: Floats
    pulls: Floats
    norms: Floats


def _pulled(found: Pull, directions: Floats) -> _Pulled:
    """Return the pulls at the best `KEPT` of some directions."""
    gates = np.where(directions @ found.inputs.T > 0, 1.0, found.slope)
    pulls = (gates * found.strengths) @ found.inputs
    norms = np.linalg.norm(pulls, axis=1)
    order = np.argsort(-norms, kind="stable")[:KEPT]
    return _Pulled(directions[order], pulls[order], norms[order])


def _larger(one: _Pulled, other: _Pulled) -> _Pulled:
    """Return the best `KEPT` of both."""
    parts = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    order = np.argsort(-parts[2], kind="stable")[:KEPT]
    return _Pulled(*(part[order] for part in parts))
