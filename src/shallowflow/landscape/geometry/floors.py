"""While the pattern of activity stands: blocks of data between knots, and floors that the loss cannot pass.

**Activation blocks**, [plateau] (3.2), (3.3): the data between two consecutive knots, with their statistics.
Sort the n neurons of f(x) = Σ_j c_j relu(x − b_j) by their knots, b_1 ≤ … ≤ b_n. A data point x activates
neuron j iff x > b_j, so the block U_l = {x : b_l < x ≤ b_{l+1}} holds the points that activate exactly the
neurons 1, …, l; U_0 = {x ≤ b_1} activates none, and U_n reaches to the right end. (A point within rounding
of a knot rests on it, see `activity`: it does not activate it.) On U_l the network is the straight line
f(x) = f(b_l) + A_l (x − b_l), A_l = c_1 + … + c_l.

Everything that the theory says about a stage of training needs the data through the block statistics only.
They are computed in two passes about the first point of each block, so that neither a far-away origin nor a
narrow block costs digits, and a block of equal inputs has S_xx = 0 exactly.

Differences to the paper, which has x_1 < … < x_m: inputs may repeat. What the paper says of blocks with
u_l = 1 then holds for blocks whose inputs are all equal (S_xx = 0).

**Floors**: the least loss that can be reached; and what a loss is made of. With gates S⁺ (1 active, γ
inactive, 0 resting) and for a set J of neurons,

    pattern floor   ½ mean (y − Π_V y)²,  V = Σ_{j∈J} {S⁺_j ∘ Xv : v ⊥ x_k for all k on which j rests}
    feature floor   the same with V = span{S⁺_j ∘ X w_j}: only the outer layer moves
    cone floor      with the pattern *and* the signs of a standing, in the plane: a_j w_j ∈ sign(a_j)·C_j

Outputs on the data are sums of S⁺_j ∘ X(a_j w_j), so L ≥ feature ≥ pattern and L ≥ cone ≥ pattern. If no a_j
is 0, V is the range of the tangent kernel: the pattern floor is where the frozen kernel ends. It is [plateau]
Thm 3.1's Q₀, in any dimension. A floor of rank n is no floor: the pattern can interpolate.

`pattern_level` is the pattern floor of a flow, for any ReLU network in any dimension. A univariate network
with a bias coordinate keeps its own V: `to_knots` would give it functions that its parameters cannot reach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints, frozen, public, shown
from shallowflow.data.dataset import Dataset, SortedData, checked_dataset, sort_data
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Kinked, Neurons, Resting, neurons_of, resting_ends
from shallowflow.landscape.geometry.tangent import RANK, free_directions
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, ReLUNetwork


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks U_0, …, U_n of a network with n neurons on m data points.

    Neurons, sorted: order (n,) with knots = network.knots[order], outer likewise. Data, sorted: data_order
    (m,) with inputs = dataset.inputs[data_order, 0], targets likewise. Block l holds the sorted data
    borders[l]:borders[l + 1]; borders (n + 2,). Statistics (n + 1,), entry l for U_l: means μ_l,
    target_means ȳ_l (NaN in an empty block), s_xx = Σ(x − μ)², s_xy, s_yy, and residual_squares, the sum of
    squares that the block's own regression line leaves (0 in an empty block).
    """

    order: Ints
    knots: Floats
    outer: Floats
    data_order: Ints
    inputs: Floats
    targets: Floats
    borders: Ints
    means: Floats
    target_means: Floats
    s_xx: Floats
    s_xy: Floats
    s_yy: Floats
    residual_squares: Floats

    def __post_init__(self) -> None:
        for name, array in self.__dict__.items():
            self.__dict__[name] = frozen(array) if isinstance(array, np.ndarray) else array

    def __repr__(self) -> str:
        return f"Blocks({self.width} neurons, {self.live} live, {len(self.inputs)} data points)"

    @property
    def width(self) -> int:
        """The number of neurons n."""
        return len(self.knots)

    @cached_property
    def counts(self) -> Ints:
        """u_l, the number of data points in U_l, (n + 1,)."""
        return frozen(np.diff(self.borders))

    @cached_property
    def sigmas(self) -> Floats:
        """σ_l of (3.3), (n + 1,); 0 in an empty block."""
        return frozen(np.sqrt(self.s_xx / np.maximum(self.counts, 1)))

    @cached_property
    def slopes(self) -> Floats:
        """The slope of each block's regression line, (n + 1,); NaN in an empty block.

        Where all inputs are equal, the line of least norm through (μ, ȳ), slope μȳ/(1 + μ²), Lemma D.1.
        """
        least_norm = self.means * self.target_means / (1.0 + self.means**2)
        return frozen(np.divide(self.s_xy, self.s_xx, out=least_norm, where=self.s_xx > 0))

    @cached_property
    def intercepts(self) -> Floats:
        """ȳ_l − slope_l μ_l, (n + 1,); NaN in an empty block."""
        return frozen(self.target_means - self.slopes * self.means)

    @cached_property
    def rank(self) -> int:
        """dim V = 2n − 2 n⁽⁰⁾ − n⁽¹⁾ (Lemma A.1): one for each non-empty U_l, l ≥ 1, one more if S_xx > 0."""
        return int(np.sum(self.counts[1:] > 0) + np.sum(self.s_xx[1:] > 0))

    @cached_property
    def live(self) -> int:
        """The number of neurons that some data point activates: the first `live` ones in the order."""
        return int(np.sum(self.borders[1:-1] < len(self.inputs)))

    @cached_property
    def dead(self) -> Bools:
        """Whether each neuron, in the network's own order, is dead (b_j ≥ x_m), (n,)."""
        dead = np.zeros(self.width, dtype=np.bool_)
        dead[self.order[self.live :]] = True
        return frozen(dead)

    @cached_property
    def partial_sums(self) -> Floats:
        """A_l = c_1 + … + c_l, the network's slope on U_l, (n + 1,); A_0 = 0."""
        return frozen(np.concatenate([[0.0], np.cumsum(self.outer)]))

    @cached_property
    def labels(self) -> Ints:
        """The number l of the block of every sorted data point, (m,)."""
        return frozen(np.repeat(np.arange(self.width + 1), self.counts))

    @cached_property
    def residuals(self) -> Floats:
        """f(x_k) − y_k at the sorted data, (m,), in O(n + m)."""
        return frozen(self._lines(self.labels, self.inputs) - self.targets)

    @cached_property
    def mean_residuals(self) -> Floats:
        """f(μ_l) − ȳ_l, (n + 1,); 0 in an empty block."""
        values = self._lines(np.arange(self.width + 1), self.means)
        return frozen(np.where(self.counts > 0, values - self.target_means, 0.0))

    def _lines(self, labels: Ints, points: Floats) -> Floats:
        """Return f(b_l) + A_l (x − b_l) at points x of blocks l, summed from knot to knot."""
        rises = self.partial_sums[1:-1] * np.diff(self.knots)
        heights = np.concatenate([[0.0, 0.0], np.cumsum(rises)])[: self.width + 1]
        origins = np.concatenate([[0.0], self.knots])
        return np.asarray(heights[labels] + self.partial_sums[labels] * (points - origins[labels]))

    @cached_property
    def slope_residuals(self) -> Floats:
        """A_l − slope_l, (n + 1,); 0 where S_xx = 0."""
        return frozen(np.where(self.s_xx > 0, self.partial_sums - self.slopes, 0.0))

    @cached_property
    def coordinates(self) -> Floats:
        """Φ̄ᵀ Loss, the residual in the orthonormal basis ê/‖ê‖ of V, (2n,), [plateau] App. A.

        Entries √u_l (f(μ_l) − ȳ_l), then √S_xx (A_l − slope_l), l = 1, …, n; 0 where a basis vector is 0.
        """
        means = np.sqrt(self.counts) * self.mean_residuals
        slopes = np.sqrt(self.s_xx) * self.slope_residuals
        return frozen(np.concatenate([means[1:], slopes[1:]]))

    @cached_property
    def missed_squares(self) -> float:
        """Σ_{U_0} y² + Σ_{l≥1} (residual squares of U_l's line): 2 Q₀ for ½Σ, [plateau] Thm 3.1."""
        silent = self.targets[: self.borders[1]]
        return float(silent @ silent) + float(self.residual_squares[1:].sum())

    def members(self, block: int) -> Ints:
        """Return the indices into the data set of the points of U_block."""
        return self.data_order[self.borders[block] : self.borders[block + 1]]

    def moved(self, network: KnotNetwork) -> Blocks:
        """Return the same blocks with the neurons of another network of the same activation pattern."""
        order = np.argsort(network.knots, kind="stable")
        return replace(self, order=order, knots=network.knots[order], outer=network.outer[order])


@public
def blocks(network: KnotNetwork, dataset: Dataset) -> Blocks:
    """Return the activation blocks of a network on univariate data, in O((n + m) log(n + m)).

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [4.0]], [5.0, 1.0, 2.0, 3.0])
    >>> found = blocks(KnotNetwork([2.0, 0.5], [1.0, 1.0]), data)
    >>> found.counts, found.means, found.members(1)
    (array([1, 2, 1]), array([0. , 1.5, 4. ]), array([1, 2]))
    """
    check_univariate(network, dataset)
    data = sort_data(dataset)
    return blocks_of(network.knots, network.outer, data, seen_from(network.knots, data.inputs))


def seen_from(knots: Floats, inputs: Floats) -> Floats:
    """Return up to where inputs (m,) do not activate the knots: those that rest on one do not either."""
    return resting_ends(knots, float(np.max(np.abs(inputs))))[1]


def check_univariate(network: KnotNetwork, dataset: Dataset) -> None:
    """Refuse what is not a network of knots with data on the line."""
    if not isinstance(network, KnotNetwork):
        raise InvalidInputError(
            f"network: must be a KnotNetwork, got {shown(type(network).__name__)}; landscape.pattern_level "
            "gives the level of any ReLU network (to_knots keeps its function, but not its levels)"
        )
    check_line(dataset)


def check_line(dataset: Dataset) -> None:
    """Refuse data that do not lie on the line."""
    if dataset.dimension != 1:
        raise InvalidInputError(f"dataset: must have one input coordinate, got {dataset.dimension}")


def blocks_of(knots: Floats, outer: Floats, data: SortedData, ends: Floats | None = None) -> Blocks:
    """Return the blocks of (possibly no) knots; ends: inputs up to these do not activate the knots.

    By default the knots themselves.
    """
    order = np.argsort(knots, kind="stable")
    data_order, inputs, targets = data
    inner = np.searchsorted(inputs, (knots if ends is None else ends)[order], side="right")
    borders = np.concatenate([[0], inner, [len(inputs)]]).astype(np.int64)
    statistics = _statistics(inputs, targets, borders)
    return Blocks(order, knots[order], outer[order], data_order, inputs, targets, borders, *statistics)


def _statistics(x: Floats, y: Floats, borders: Ints) -> tuple[Floats, ...]:
    """Return means, target_means, s_xx, s_xy, s_yy, residual_squares of the blocks of sorted data."""
    counts = np.diff(borders)
    filled = counts > 0
    starts, sizes = borders[:-1][filled], counts[filled]

    def total(values: Floats) -> Floats:
        return np.add.reduceat(values, starts)

    def centred(values: Floats) -> tuple[Floats, Floats]:
        # Offsets from the block's first point carry no digits of the origin; their mean is exact to those.
        offsets = values - np.repeat(values[starts], sizes)
        mean_offsets = total(offsets) / sizes
        return values[starts] + mean_offsets, offsets - np.repeat(mean_offsets, sizes)

    def everywhere(values: Floats, empty: float) -> Floats:
        out = np.full(len(counts), empty)
        out[filled] = values
        return out

    mean_x, dx = centred(x)
    mean_y, dy = centred(y)
    s_xx, s_xy, s_yy = total(dx * dx), total(dx * dy), total(dy * dy)
    slope = np.divide(s_xy, s_xx, out=np.zeros_like(s_xx), where=s_xx > 0)
    left = dy - np.repeat(slope, sizes) * dx
    means = tuple(everywhere(values, np.nan) for values in (mean_x, mean_y))
    return means + tuple(everywhere(values, 0.0) for values in (s_xx, s_xy, s_yy, total(left**2)))


EXTRA = 10
"""Columns beyond n that random sums need."""


@dataclass(frozen=True)
class Floor:
    """A level of the loss, and the rank of what can be reached."""

    level: float
    rank: int
    size: int

    @property
    def interpolates(self) -> bool:
        """Whether everything can be reached: there is no floor."""
        return self.rank >= self.size


@dataclass(frozen=True)
class Floors:
    """The floors of a set of neurons; cone is None beyond the plane."""

    feature: Floor
    pattern: Floor
    cone: float | None = None


@public
def floors(
    network: Kinked,
    dataset: Dataset,
    loss: SquareLoss | None = None,
    *,
    resting: Resting | None = None,
) -> Floors:
    """Return the feature, pattern and (in the plane) cone floor of a network.

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["three_points"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), data, until=200.0)
    >>> found = floors(run.final, data)
    >>> round(float(run.losses[-1]), 6), round(found.pattern.level, 6), found.pattern.rank
    (0.087521, 0.087521, 2)
    """
    square = _square(loss)
    neurons = neurons_of(network, dataset, resting)
    weight = square.weight(dataset.size)
    cone = cone_floor(neurons, dataset.targets, weight) if neurons.inputs.shape[1] == 2 else None
    return Floors(
        feature_floor(neurons, dataset.targets, weight),
        pattern_floor(neurons, dataset.targets, weight),
        cone,
    )


def _square(loss: object) -> SquareLoss:
    if loss is None:
        return SquareLoss()
    if not isinstance(loss, SquareLoss):
        raise InvalidInputError(f"loss: a floor is that of a SquareLoss, got {loss}")
    return loss


def feature_floor(neurons: Neurons, targets: Floats, weight: float, which: Bools | None = None) -> Floor:
    """Return the least loss if only the outer weights of the chosen neurons (m,) move and the others are
    gone."""
    chosen = np.ones(len(neurons.outer), np.bool_) if which is None else which
    return level_of(neurons.features[:, chosen], targets, weight)


def pattern_floor(neurons: Neurons, targets: Floats, weight: float, which: Bools | None = None) -> Floor:
    """Return the least loss of the chosen neurons (m,) alone while their pattern stands."""
    return level_of(pattern_span(neurons, which), targets, weight)


def pattern_span(neurons: Neurons, which: Bools | None = None, held: Bools | None = None) -> Floats:
    """Return vectors (n, k) that span V: d or fewer for each pattern among the chosen neurons.

    held: (m, n) the pairs at whose points a neuron is held, by default all that rest.
    """
    chosen = np.ones(len(neurons.outer), np.bool_) if which is None else which
    inputs, filled = neurons.inputs, neurons.filled
    fixed = (neurons.signs == 0) & filled if held is None else held & filled
    parts = [np.empty((len(inputs), 0))]
    rows = np.column_stack([neurons.signs[chosen], fixed[chosen]])
    for row in np.unique(rows, axis=0):
        pattern, on = np.split(row, 2)
        gates = np.where(pattern > 0, 1.0, np.where(pattern < 0, neurons.slope, 0.0))
        if gates.any():
            parts.append(gates[:, None] * (inputs @ free_directions(inputs[on > 0])))
    return np.hstack(parts)


def level_of(columns: Floats, targets: Floats, weight: float) -> Floor:
    """Return ½·weight times the square distance of the targets (n,) to the span of columns (n, k)."""
    from scipy.linalg import qr

    lengths = np.linalg.norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    left, rank = targets, 0
    if columns.shape[1] > 2 * len(targets):
        # Random sums of the columns, some more than n of them, span the same space and cost less to factor.
        mixed = np.random.default_rng(0).standard_normal((columns.shape[1], len(targets) + EXTRA))
        columns = columns @ mixed
    if columns.shape[1]:
        basis, corner, _ = qr(columns, mode="economic", pivoting=True, check_finite=False)
        rank = int(np.sum(np.abs(np.diagonal(corner)) > RANK))
        for _ in range(2):
            left = left - basis[:, :rank] @ (basis[:, :rank].T @ left)
    level = 0.0 if rank >= len(targets) else 0.5 * weight * float(left @ left)
    return Floor(level, rank, len(targets))


def cone_floor(neurons: Neurons, targets: Floats, weight: float) -> float:
    """Return the least loss while pattern and signs of a stand, in the plane: non-negative least squares on
    rays.

    A cone of the plane is spanned by its extreme rays, which are orthogonal to data points.
    """
    from scipy.optimize import nnls

    inputs = neurons.inputs[neurons.filled]
    units = inputs / np.linalg.norm(inputs, axis=1)[:, None]
    across = np.column_stack([-units[:, 1], units[:, 0]])
    candidates = np.unique(np.vstack([across, -across]).round(14), axis=0)
    products = candidates @ units.T
    products[np.abs(products) <= 1e-12] = 0.0
    columns = []
    keys = np.column_stack([neurons.signs, np.sign(neurons.outer).astype(np.int8)])
    for key, first in zip(*np.unique(keys, axis=0, return_index=True), strict=True):
        pattern, side = key[:-1][neurons.filled], key[-1]
        allowed = np.all(pattern * products >= 0, axis=1) & np.all(products[:, pattern == 0] == 0, axis=1)
        # Its own direction is inside: it stands in where a cone is a half-plane or more.
        rays = np.vstack([candidates[allowed], neurons.inner[first]])
        gates = np.where(key[:-1] > 0, 1.0, np.where(key[:-1] < 0, neurons.slope, 0.0))
        columns.append(side * gates[:, None] * (neurons.inputs @ rays.T))
    matrix = np.hstack(columns)
    matrix = matrix[:, np.any(matrix != 0, axis=0)]
    rest = (
        nnls(matrix / np.linalg.norm(matrix, axis=0), targets)[1]
        if matrix.shape[1]
        else np.linalg.norm(targets)
    )
    return 0.5 * weight * float(rest) ** 2


@dataclass(frozen=True)
class Anatomy:
    """What a loss is made of: four parts that add up to it.

    outer: what solving the outer layer would take away; turning: what the awake neurons could take away by
    turning within their pattern; dormant: what dormant neurons could, by growing; pattern: what is left until
    some neuron crosses a data point. interpolates: whether the pattern of all neurons can fit everything.
    """

    outer: float
    turning: float
    dormant: float
    pattern: float
    interpolates: bool

    @property
    def total(self) -> float:
        """The loss."""
        return self.outer + self.turning + self.dormant + self.pattern

    @property
    def shares(self) -> dict[str, float]:
        """The parts as shares of the loss, by name."""
        parts = {name: getattr(self, name) for name in ("outer", "turning", "dormant", "pattern")}
        return {name: part / self.total if self.total > 0 else 0.0 for name, part in parts.items()}


def anatomy(value: float, feature: Floor, awake: Floor, every: Floor) -> Anatomy:
    """Return the parts of a loss `value`: from it to feature(awake), to pattern(awake), to pattern(all), to
    0.

    Without the dormant neurons the feature floor may lie a little above the loss; it is cut there.
    """
    solved = min(value, feature.level)
    turned = min(solved, awake.level)
    least = min(turned, every.level)
    return Anatomy(value - solved, solved - turned, turned - least, least, every.interpolates)


ReLUs = ReLUNetwork | LogScaledNetwork | KnotNetwork


@public
def pattern_level(
    network: ReLUs, dataset: Dataset, loss: SquareLoss | None = None, *, resting: Resting | None = None
) -> float:
    """Return the level that no flow of the network gets below while its pattern of activity lasts.

    loss: ½·mean of squares by default, or `SquareLoss("sum")`; resting: pairs (neurons, points) that a flow
    holds on their hyperplanes, `trajectory.resting(t)`: such a neuron only moves with ⟨w_j, x_k⟩ = 0. For a
    `KnotNetwork` without such pairs this is `plateau_level`.

    Examples
    --------
    >>> x = np.linspace(-1.0, 1.0, 21)
    >>> data = Dataset(x[:, None], 1.0 + x**2).with_bias()
    >>> network = ReLUNetwork([[-1.0, 0.05]], [1.0])  # silent for x ≥ 0.05: these points stay where they are
    >>> round(pattern_level(network, data, SquareLoss("sum")), 4)
    10.1596
    """
    square = SquareLoss() if loss is None else loss
    if not isinstance(square, SquareLoss):
        raise InvalidInputError(f"loss: a level is that of a SquareLoss, got {square}")
    targets = checked_dataset(dataset).targets
    if isinstance(network, KnotNetwork) and resting is None:
        return 0.5 * square.weight(dataset.size) * blocks(network, dataset).missed_squares
    return level_of(held_span(network, dataset, resting), targets, square.weight(dataset.size)).level


def held_span(network: ReLUs, dataset: Dataset, resting: Resting | None = None) -> Floats:
    """Return vectors (n, k) that span V, only the pairs of `resting` being held on their hyperplanes.

    (`floors` takes every pair at rounding level for held.)
    """
    neurons = neurons_of(network, dataset, resting)
    held = np.zeros(neurons.signs.shape, dtype=np.bool_)
    if resting is not None:
        held[resting] = True
    return pattern_span(neurons, held=held)
