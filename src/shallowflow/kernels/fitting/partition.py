"""The best division of sorted data into k + 1 pieces, each with a constant or a line of its own, for every k.

Dynamic programming, O(K n²): with c(i, j) the least Σ w r² of one piece over the points i … j − 1,
D_0(j) = c(0, j) and D_k(j) = min_i D_{k−1}(i) + c(i, j) (Bellman and Roth 1969, J. Am. Stat. Assoc. 64).
c comes from running sums of centred data: a difference of sums loses digits in proportion to the whole, not
to the piece, which is below 10⁻¹² of the total for the few thousand points that O(n²) allows.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

W, WX, WY, WXX, WXY, WYY = range(6)
"""Rows of the running sums."""


@njit(cache=True, **INTERNAL)
def piece_cost(sums: Floats, i: int, j: int, lines: int) -> float:
    """The least Σ w r² of the points i … j − 1 with one constant, or one line if `lines`."""
    w = sums[W, j] - sums[W, i]
    x, y = (sums[WX, j] - sums[WX, i]) / w, (sums[WY, j] - sums[WY, i]) / w
    cost = sums[WYY, j] - sums[WYY, i] - w * y * y
    if lines:
        sxx = sums[WXX, j] - sums[WXX, i] - w * x * x
        sxy = sums[WXY, j] - sums[WXY, i] - w * x * y
        if j - i > 1 and sxx > 0.0:
            cost -= sxy * sxy / sxx
        if j - i <= 2:
            cost = 0.0
    return max(cost, 0.0)


@njit(cache=True, **LEAN)
def _fill(sums: Floats, lines: int, least: int, costs: Floats, cuts: Ints) -> None:
    n = sums.shape[1] - 1
    for j in range(least, n + 1):
        costs[0, j] = piece_cost(sums, 0, j, lines)
    for k in range(1, costs.shape[0]):
        for j in range((k + 1) * least, n + 1):
            best, place = inf, -1
            # From the right: pieces that alone cost more than the best need not grow.
            for i in range(j - least, k * least - 1, -1):
                cost = piece_cost(sums, i, j, lines)
                if cost >= best:
                    break
                if costs[k - 1, i] + cost < best:
                    best, place = costs[k - 1, i] + cost, i
            costs[k, j], cuts[k, j] = best, place


def divisions(
    x: Floats, y: Floats, w: Floats, most: int, *, lines: bool, least: int = 1
) -> tuple[Floats, list[Ints]]:
    """Return the least cost (most + 1,) with 0, 1, … cuts, ∞ where there is none, and the cuts of each.

    Symbols: x strictly increasing, y, w > 0, each (n,); a cut is the number of points left of it; `least`
    points or more in every piece.
    """
    n = x.size
    x, y = x - np.average(x, weights=w), y - np.average(y, weights=w)
    sums = np.zeros((6, n + 1))
    for row, values in enumerate((w, w * x, w * y, w * x * x, w * x * y, w * y * y)):
        np.cumsum(values, out=sums[row, 1:])
    costs, cuts = np.full((most + 1, n + 1), inf), np.full((most + 1, n + 1), -1)
    _fill(sums, int(lines), least, costs, cuts)
    found = list[Ints]()
    for k in range(most + 1):
        places, j = [], n
        for level in range(k, 0, -1):
            j = int(cuts[level, j])
            if j < 0:
                break
            places.append(j)
        found.append(np.array(places[::-1], dtype=np.int64))
    return costs[:, n].copy(), found
