"""Each jump fits about half of what is left: [incremental] Theorem 3 and its App. E, with numbers.

Take the n points of one label sign and m neurons of that sign, each active on each point with probability ½,
independently (Assumption 3). What is left after u jumps depends on the set of the u neurons only, not on
their order, and for a fixed set it is Bin(n, 2^{−u}). A union bound over the C(m, u) sets, whichever of them
Algorithm 1 takes, gives Prop. 4 and Cor. 1 with exact tails instead of Chernoff's: with probability 1 − δ

    low_u ≤ (points left after u jumps) ≤ high_u   for every u ≤ m.

Jump u fits A_u = S_{u−1} ∖ S_u and adds 2√(Σ_{A_u} y²) ≤ 2 max|y| √|A_u| to ‖θ_∞‖². Of all sizes |A_u| whose
tail sums stay below high, the largest Σ √|A_u| is that of the greatest convex curve T below high (T₀ = n,
T_m = 0): √ is concave, so moving a point from a larger jump to a smaller one helps, until the tails forbid
it. Hence, in place of the two parts of Props. 5 and 6,

    ‖θ_∞‖² ≤ 2 max|y| Σ_u √(T_{u−1} − T_u)   with probability 1 − δ,

for each label sign. The paper's own constants are not legible; these are ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, Ints, count, probability, vector
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.incremental import JumpProcess


def points_left(size: int, width: int, delta: float = 0.05) -> tuple[Ints, Ints]:
    """Return bounds (width + 1,) on the points left after 0, 1, … jumps, [incremental] Prop. 4 and Cor. 1.

    Both hold together, whichever neurons jump, with probability at least 1 − δ over the start; size, width:
    points and neurons of one sign.

    Examples
    --------
    >>> low, high = points_left(10_000, 20)
    >>> low[:4], high[:4]
    (array([10000,  4808,  2313,  1096]), array([10000,  5192,  2690,  1409]))
    """
    from scipy.special import gammaln

    size, width = count(size, "size"), count(width, "width")
    jumps = np.arange(1, width + 1)
    choices = gammaln(width + 1) - gammaln(jumps + 1) - gammaln(width - jumps + 1)
    tail = np.exp(np.log(probability(delta, "delta") / (2 * width)) - choices)
    share: Floats = np.exp2(-jumps.astype(np.float64))
    high, low = _fewest(size, share, tail), size - _fewest(size, 1.0 - share, tail)
    return np.append(size, low), np.append(size, high)


def _fewest(size: int, share: Floats, tail: Floats) -> Ints:
    """Return the smallest k with P(Bin(n, share) > k) ≤ tail for every share, by halving the range of k."""
    from scipy.special import betainc

    low, high = np.full(len(share), -1, dtype=np.int64), np.full(len(share), size, dtype=np.int64)
    while np.any(high - low > 1):
        middle = np.maximum((low + high) // 2, 0)
        rare = betainc(middle + 1.0, np.maximum(size - middle, 1), share) <= tail
        low, high = np.where(rare, low, middle), np.where(rare, middle, high)
    return high


def norm_bound(targets: ArrayLike, width: int, delta: float = 0.05) -> float:
    """Return a bound on ‖θ_∞‖² of Algorithm 1 that holds with probability 1 − δ, [incremental] Theorem 3.

    targets (n,): of both signs or one; width: neurons of both signs together. Of the order max|y|·√n, and
    never above 2 Σ|y|, which one neuron per point would have.

    Examples
    --------
    >>> bound = norm_bound(np.ones(10_000), 40)
    >>> bool(bound / np.sqrt(10_000) < 7.5)
    True
    """
    y = vector(targets, "targets")
    if not np.any(y):
        raise InvalidInputError("targets: must not all be zero, got zeros only")
    sizes = [int(np.sum(sign * y > 0)) for sign in (1, -1)]
    signs = [size for size in sizes if size]
    sums = (_largest_sum(size, width, delta / len(signs)) for size in signs)
    return float(2.0 * min(np.abs(y).max() * sum(sums), np.abs(y).sum()))


def _largest_sum(size: int, width: int, delta: float) -> float:
    """Return max Σ √|A_u| over the sizes of jumps that leave no more than `points_left` allows."""
    ceiling = points_left(size, width, 2 * delta)[1].astype(np.float64)  # the lower bounds need no share
    ceiling = np.minimum.accumulate(ceiling)
    ceiling[-1] = 0.0  # all jumps are made: what was never fitted is in no jump
    corners = [0]
    for u in range(1, len(ceiling)):
        while len(corners) > 1 and _above(ceiling, corners[-2], corners[-1], u):
            corners.pop()
        corners.append(u)
    curve = np.interp(np.arange(len(ceiling)), corners, ceiling[corners])
    return float(np.sum(np.sqrt(-np.diff(curve))))


def _above(values: Floats, first: int, middle: int, last: int) -> bool:
    """Return whether a value lies on or above the chord of two others."""
    chord = values[first] + (values[last] - values[first]) * (middle - first) / (last - first)
    return bool(values[middle] >= chord)


def fitted_shares(process: JumpProcess, targets: ArrayLike) -> tuple[Floats, Ints]:
    """Return for every jump the share of the points of its sign left that it fits, and their number, (J,).

    About ½ each while many are left, [incremental] §5.

    Examples
    --------
    >>> from shallowflow.landscape.incremental import jump_process
    >>> mask = np.array([[True, False], [True, False], [False, True], [False, True]])
    >>> fitted_shares(jump_process(mask, np.array([3.0, 3.0, 2.0, 1.0])), [3.0, 3.0, 2.0, 1.0])
    (array([0.5, 1. ]), array([4, 2]))
    """
    y = vector(targets, "targets")
    left = {True: int(np.sum(y > 0)), False: int(np.sum(y < 0))}
    shares, numbers = list[float](), list[int]()
    for points in process.fitted:
        positive = bool(y[points[0]] > 0)
        numbers.append(left[positive])
        shares.append(len(points) / left[positive])
        left[positive] -= len(points)
    return np.array(shares), np.array(numbers, dtype=np.int64)
