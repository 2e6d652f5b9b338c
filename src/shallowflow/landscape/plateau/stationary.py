"""Stationary points of the flow: the system (3.4), its regression lines, traps, networks built to be at rest.

[plateau] Lemma 3.4: (b, c) is stationary iff on every block f(μ_l) = ȳ_l (where u_l > 0, c_l ≠ 0) and
c_1 + … + c_l = the slope of the block's regression line (where u_l > 1).

If all coefficients are non-zero this is right. With c_l = 0 it is, as printed, neither sufficient (it leaves
the mean of U_l free, but f(μ_l) ≠ ȳ_l moves c_l) nor necessary (one neuron with b = 0, c = 0 is at rest on
the data (1, 2), (2, −1), whose regression line is not flat). The proof sets such neurons aside; carried
through, that gives what is computed here: without the neurons of c_j = 0 the blocks merge; (3.4) must hold on
the merged blocks, and every idle neuron needs ċ_j = −Σ_k Loss_k relu(x_k − b_j) = 0 of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, Ints, frozen, increasing, numbers, public, same_length, vector
from shallowflow.data.dataset import Dataset, sort_data
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.floors import (
    Blocks,
    blocks,
    blocks_of,
    check_line,
    check_univariate,
    seen_from,
)
from shallowflow.landscape.plateau.levels import reduced_rate_matrix
from shallowflow.models.networks import KnotNetwork


@dataclass(frozen=True, eq=False)
class Stationarity:
    """The defects of (3.4): all zero iff the network is a stationary point of the flow (3.1).

    blocks: of the neurons with c ≠ 0; interpolation (n' + 1,): f(μ_l) − ȳ_l; slope (n' + 1,): A_l − slope_l,
    entry l for U_l, 0 where (3.4) has no equation (U_0, empty blocks, equal inputs); idle: for each live
    neuron with c_j = 0, the mean of Loss_k relu(x_k − b_j) over the points that it sees; gradient: ‖∇L‖ of
    the loss ½Σ.
    """

    blocks: Blocks
    interpolation: Floats
    slope: Floats
    idle: Floats
    gradient: float

    def __repr__(self) -> str:
        return f"Stationarity(mean square {self.value:.4g}, largest defect {self.largest:.4g})"

    @cached_property
    def defects(self) -> Floats:
        """The defects of all equations, (number of equations,)."""
        means = self.interpolation[1:][self.blocks.counts[1:] > 0]
        slopes = self.slope[1:][self.blocks.s_xx[1:] > 0]
        return frozen(np.concatenate([means, slopes, self.idle]))

    @property
    def value(self) -> float:
        """The mean square of the defects, as in [plateau] Fig. 7c: stop when it is small enough."""
        return float(np.mean(self.defects**2)) if self.defects.size else 0.0

    @property
    def largest(self) -> float:
        """The largest defect in absolute value."""
        return float(np.max(np.abs(self.defects), initial=0.0))


@public
def stationarity(network: KnotNetwork, dataset: Dataset) -> Stationarity:
    """Return the defects of (3.4), in O((n + m) log(n + m)); `.value` is a stopping rule.

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [2.0, 1.0, 2.0, 3.0])
    >>> stationarity(KnotNetwork([0.0], [1.0]), data).value
    0.0
    >>> stationarity(KnotNetwork([0.0], [3.0]), data).slope
    array([0., 2.])
    """
    check_univariate(network, dataset)
    busy = network.outer != 0
    knots = network.knots[busy]
    data = sort_data(dataset)
    found = blocks_of(knots, network.outer[busy], data, seen_from(knots, data.inputs))
    above = np.arange(len(found.counts)) > 0
    sums, moments, sizes = _pulls(network.knots, found)
    idle = ~busy & (sizes > 0)
    return Stationarity(
        found,
        frozen(np.where(above, found.mean_residuals, 0.0)),
        frozen(np.where(above, found.slope_residuals, 0.0)),
        frozen(moments[idle] / sizes[idle]),
        float(np.hypot(np.linalg.norm(network.outer * sums), np.linalg.norm(moments))),
    )


def _pulls(knots: Floats, found: Blocks) -> tuple[Floats, Floats, Ints]:
    """Return Σ Loss_k and Σ Loss_k (x_k − b) over x_k > b, and how many these are, for each knot b.

    −c times the first and the second are the gradient of ½Σ in (b, c).
    """
    x = found.inputs
    first = np.searchsorted(x, seen_from(knots, x), side="right")
    sums = np.append(np.cumsum(found.residuals[::-1])[::-1], 0.0)
    moments = np.append(np.cumsum((found.residuals * (x - x[-1]))[::-1])[::-1], 0.0)
    return sums[first], moments[first] + (x[-1] - knots) * sums[first], len(x) - first


@public
def macroscopic_data(network: KnotNetwork, dataset: Dataset) -> Dataset:
    """Return a smaller data set with the averages of (3.4): at most two points for each block U_l, l ≥ 1.

    One point (μ_l, ȳ_l) where all inputs are equal, else two on the block's regression line, as far from μ_l
    on either side as both sides have data. Equilibria with this pattern are the same ([plateau] §3.2, after
    Lemma 3.4).

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [9.0, 1.0, 3.0, 2.0])
    >>> macroscopic_data(KnotNetwork([0.5], [1.0]), data).targets
    array([1.5, 2.5])
    """
    found = blocks(network, dataset)
    points = list[tuple[float, float]]()
    for block in np.flatnonzero(found.counts[1:]) + 1:
        x = found.inputs[found.borders[block] : found.borders[block + 1]]
        mean, height = float(found.means[block]), float(found.target_means[block])
        reach = min(mean - float(x[0]), float(x[-1]) - mean) if found.s_xx[block] > 0 else 0.0
        for side in (-1.0, 1.0) if reach > 0 else (0.0,):
            points.append((mean + side * reach, height + side * reach * float(found.slopes[block])))
    if not points:
        raise InvalidInputError("network: no data point activates a neuron: there are no averages")
    table = np.array(points)
    return Dataset(table[:, :1], table[:, 1], name=f"averages of {dataset.name}" if dataset.name else "")


@dataclass(frozen=True, eq=False)
class RegressionLines:
    """Thm 3.5: on each block the neuron's line c_l (x − b_l) beside the line fitted to what is left to it.

    Entry l − 1 of each array (n,) is for U_l, neurons sorted by knots. slopes, intercepts: the least-squares
    line of (x, ŷ), x ∈ U_l, ŷ = y − Σ_{j<l} c_j relu(x − b_j); NaN in an empty block; where all inputs are
    equal, the line of least norm through them. neuron_slopes = c_l, neuron_intercepts = −c_l b_l. shifts:
    the theorem's α_l where all inputs are equal (the neuron's line is the fitted one plus α (x − μ)), else
    NaN.
    defects: the largest difference of the two lines on the block's points (0 in an empty block).
    """

    slopes: Floats
    intercepts: Floats
    neuron_slopes: Floats
    neuron_intercepts: Floats
    shifts: Floats
    defects: Floats


@public
def regression_lines(network: KnotNetwork, dataset: Dataset) -> RegressionLines:
    """Return the lines of Thm 3.5; at a stationary point with c_l ≠ 0 their defects are all zero.

    The neurons 1, …, l − 1 are affine on U_l, so the fitted line is the block's own regression line minus
    theirs, and the difference of the two lines is Π_V Loss on U_l. For a block of one point x the theorem's
    c_l = α + xŷ/(1 + x²), b_l c_l = αx − ŷ/(1 + x²) says that the neuron's line passes through (x, ŷ).
    """
    found = blocks(network, dataset)
    sloped = found.s_xx[1:] > 0
    left_means = found.outer * (found.means[1:] - found.knots) - found.mean_residuals[1:]
    least_norm = found.means[1:] * left_means / (1.0 + found.means[1:] ** 2)
    slopes = np.where(sloped, found.slopes[1:] - found.partial_sums[:-1], least_norm)
    fitted = left_means - slopes * found.means[1:]
    shifts = np.where(sloped, np.nan, found.outer - slopes)
    filled = found.counts[1:] > 0
    last = len(found.inputs) - 1
    ends = np.minimum(np.stack([found.borders[1:-1], np.maximum(found.borders[2:] - 1, 0)]), last)
    arms = np.where(filled, found.inputs[ends] - found.means[1:], 0.0)
    differences = np.abs(found.mean_residuals[1:] + found.slope_residuals[1:] * arms).max(axis=0)
    own = found.outer.copy(), -found.outer * found.knots
    arrays = (slopes, fitted, *own, shifts, np.where(filled, differences, 0.0))
    return RegressionLines(*(frozen(array) for array in arrays))


@dataclass(frozen=True)
class Trap:
    """Whether a network provably never leaves its stage: radius < gap.

    radius: no parameter moves further than this, in the Euclidean norm of all of them, if the pattern
    stays (∞: no bound); gap: the distance from a live knot to the nearest data point.
    """

    radius: float
    gap: float

    @property
    def holds(self) -> bool:
        """Whether the knots cannot reach a data point."""
        return self.radius < self.gap


@public
def trap(network: KnotNetwork, dataset: Dataset) -> Trap:
    """Return a bound on all future movement of the flow, which can prove that a stage is the last one.

    This makes the hypothesis of [plateau] Thm 3.3, a pattern that never changes, checkable at one network; it
    is ours. As long as the pattern lasts, d‖z‖/dt ≤ −s‖θ̇‖ with s the rank(V)-th singular value of M, so the
    path from here is no longer than ‖z‖/s. M depends on θ = (b, c) linearly through D_u L [D_c, −D_b]; within
    a distance ρ, s falls by at most κρ, κ = ‖D_u L‖. So a radius with ‖z‖ ≤ ρ (s − κρ) is never left:
    ρ = 2‖z‖/(s + √(s² − 4κ‖z‖)) if 4κ‖z‖ ≤ s². If ρ < gap no knot meets a data point, the loss tends to Q₀
    and the parameters converge. Holds for ½Σ and ½·mean alike (time is rescaled, the path is not).
    """
    found = blocks(network, dataset)
    knots, first = found.knots[: found.live], found.borders[1:-1][: found.live]
    left = np.where(first > 0, knots - found.inputs[np.maximum(first - 1, 0)], np.inf)
    gap = float(np.min(np.minimum(left, found.inputs[first] - knots), initial=np.inf))
    size = float(np.linalg.norm(found.coordinates))
    if size == 0 or found.rank == 0:
        return Trap(0.0, gap)
    smallest = float(np.linalg.svd(reduced_rate_matrix(found), compute_uv=False)[-1])
    filled = np.flatnonzero(found.counts[1:] > 0)
    seen = filled[:, None] >= np.arange(found.live)
    kappa = float(np.linalg.norm(np.sqrt(found.counts[1:][filled, None]) * seen, 2))
    room = smallest**2 - 4.0 * kappa * size
    radius = 2.0 * size / (smallest + np.sqrt(room)) if room >= 0 else np.inf
    return Trap(float(radius), gap)


@dataclass(frozen=True)
class _Line:
    """x ↦ height + slope (x − centre)."""

    centre: float
    height: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.height + self.slope * (x - self.centre)


@public
def fully_trained(cuts: ArrayLike, dataset: Dataset) -> KnotNetwork:
    """Return a network at a stationary point of the flow: regression lines glued by extra neurons, Prop. F.1.

    cuts: (k,) the borders of a partition of the line, or the knots of a network (in any order, possibly
    none); the data in each (cut, next cut] get their own least-squares line. Where all inputs of a piece are
    equal, the line that changes the preceding one least, of least norm in (slope, intercept). Pieces without
    data are dropped; N remaining pieces take at most 2N neurons.

    Two knots p < q in the gap before the first point z of a piece lead from the preceding line g to the new
    line h: the network follows g up to p, h from q on. One knot is enough where the two lines meet in
    between. As in the proof, p is the middle of the gap; but q lies halfway from p to z, whereas Lemma F.2
    puts it on z itself. There z would not activate the second neuron (x > b), whose gradient would be the
    residual at z, in general not zero: the printed construction is not stationary under (3.1). (The lemma's
    "b" is its d.)

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [1.0, 1.0, 3.0, 2.0])
    >>> fully_trained([1.5], data)(data.inputs).round(12)
    array([1., 1., 3., 2.])
    """
    check_line(dataset)
    borders = np.sort(numbers(cuts, "cuts", 1, allow_empty=True))
    found = blocks_of(borders, np.zeros_like(borders), sort_data(dataset))
    knots: list[float] = []
    outer: list[float] = []
    before = _Line(float(found.inputs[0]), 0.0, 0.0)
    for block in np.flatnonzero(found.counts):
        start = int(found.borders[block])
        z = float(found.inputs[start])
        left = float(found.inputs[start - 1]) if start else z - _mean_gap(found.inputs)
        line = _line(found, int(block), before)
        for knot, change in _bridge(before, line, left, z):
            knots.append(knot)
            outer.append(change)
        before = line
    if not knots:
        return KnotNetwork([float(found.inputs[0])], [0.0])
    return KnotNetwork(knots, outer)


def _mean_gap(inputs: Floats) -> float:
    """Return the mean distance of neighbouring inputs, or more if that is tiny: the first ε is free."""
    mean, size = float(inputs[-1] - inputs[0]) / max(len(inputs) - 1, 1), max(1.0, abs(float(inputs[0])))
    return mean if mean > 1e-6 * size else size


def _line(found: Blocks, block: int, before: _Line) -> _Line:
    """Return the least-squares line of a block; the least change of `before` where inputs are all equal."""
    centre, height = float(found.means[block]), float(found.target_means[block])
    if found.s_xx[block] > 0:
        return _Line(centre, height, float(found.slopes[block]))
    change = centre * (height - before(centre)) / (1.0 + centre**2)
    return _Line(centre, height, before.slope + change)


def _bridge(before: _Line, line: _Line, left: float, z: float) -> Iterator[tuple[float, float]]:
    """Yield the knots in (left, z) and the changes of slope there that lead from one line to the next."""
    p = left + 0.5 * (z - left)
    q = p + 0.5 * (z - p)
    if not left < p < q < z:
        raise InvalidInputError(
            f"cuts: no room for knots between the inputs {left!r} and {z!r}; merge the pieces there"
        )
    low, high = line(p) - before(p), line(z) - before(z)
    turn = line.slope - before.slope
    if low == 0 and high == 0:
        return
    if (low <= 0 < high) or (high < 0 <= low):
        crossing = z - high / turn
        if p <= crossing < z:
            yield crossing, turn
            return
    middle = (line(q) - before(p)) / (q - p)
    yield p, middle - before.slope
    yield q, line.slope - middle


@public
def to_knots(inner: ArrayLike, bias: ArrayLike, outer: ArrayLike, interval: ArrayLike) -> KnotNetwork:
    """Return a network of knots that equals Σ_j outer_j relu(inner_j x + bias_j) on an interval, Prop. 2.1.

    inner, bias, outer: (n,); interval: (left, right), the data's, say. Outside it the two may differ.
    A ReLU network on data with a bias coordinate has inner = W[:, 0], bias = W[:, 1]. The function is kept,
    the parameters are not: levels, rates and stages of the two differ (`pattern_level` takes any network).

    By w > 0: relu(wx + b) = w relu(x + b/w). By w < 0, β = b/|w| > left: with x' = x − left, β' = β − left,
    relu(β' − x') = relu(x' − β') − 2 relu(x') + relu(x' + β'); nothing if β ≤ left. By w = 0, b > 0:
    b = relu(x' + b) − relu(x'). The neurons at `left` are one. (The proof's relu(wx + b) =
    |w| relu(sign(w)(x + b/|w|)) should read |w| relu(sign(w) x + b/|w|).)

    Examples
    --------
    >>> net = to_knots([-2.0], [1.0], [3.0], (0.0, 1.0))  # 3 relu(1 − 2x)
    >>> net([0.0, 0.25, 0.5, 1.0])
    array([3. , 1.5, 0. , 0. ])
    """
    w, b, c = vector(inner, "inner"), vector(bias, "bias"), vector(outer, "outer")
    same_length(w, b, "inner, bias")
    same_length(w, c, "inner, outer")
    ends = increasing(interval, "interval")
    if len(ends) != 2:
        raise InvalidInputError(f"interval: must be (left, right), got {len(ends)} numbers")
    left = float(ends[0])

    up, down, level = w > 0, w < 0, (w == 0) & (b > 0)
    turning = -b[down] / w[down]
    seen = turning > left
    turning, strength = turning[seen], (c * np.abs(w))[down][seen]
    at_left = -2.0 * float(strength.sum()) - float(c[level].sum())
    knots = np.concatenate([-b[up] / w[up], turning, 2.0 * left - turning, left - b[level], [left]])
    changes = np.concatenate([(c * w)[up], strength, strength, c[level], [at_left]])
    if at_left == 0 and len(knots) > 1:
        knots, changes = knots[:-1], changes[:-1]
    return KnotNetwork(knots, changes)
