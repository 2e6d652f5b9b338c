"""Networks by construction: a stationary point for any partition of the data, and the reduction to knots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, increasing, numbers, same_length, vector
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.blocks import Blocks, blocks_of, check_line, sort_data
from shallowflow.models.networks import KnotNetwork


@dataclass(frozen=True)
class _Line:
    """x ↦ height + slope (x − centre)."""

    centre: float
    height: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.height + self.slope * (x - self.centre)


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


def to_knots(inner: ArrayLike, bias: ArrayLike, outer: ArrayLike, interval: ArrayLike) -> KnotNetwork:
    """Return a network of knots that equals Σ_j outer_j relu(inner_j x + bias_j) on an interval, Prop. 2.1.

    inner, bias, outer: (n,); interval: (left, right), the data's, say. Outside it the two may differ.
    A ReLU network on data with a bias coordinate has inner = W[:, 0], bias = W[:, 1].

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
