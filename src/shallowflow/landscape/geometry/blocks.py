"""Activation blocks: the data between two consecutive knots, with their statistics, [plateau] (3.2), (3.3).

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints, frozen, public, shown
from shallowflow.data.dataset import Dataset, SortedData, sort_data
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import resting_ends
from shallowflow.models.networks import KnotNetwork


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
