"""Centred statistics of any run of sorted data points in O(log size), without cancellation.

Between two neighbouring knots a knot network f(x) = Σ_j c_j relu(x − b_j) is one straight line, so all that
its training dynamics needs to know about the points in between (the set U_l of Ainsworth & Shin 2020
[plateau], (3.2)) is six numbers, the *summary* of the block:

===========  =================================================================
``COUNT``    u, the number of points
``CENTRE``   μ, the mean of x (3.3)
``MEAN``     ȳ, the mean of y (3.3)
``SPREAD``   S = Σ (x − μ)²
``SLOPE``    a, the slope of the block's regression line (0 if S = 0)
``SCATTER``  Q, the residual sum of squares of the block's regression line
===========  =================================================================

For any line v + A (x − μ) the residuals r of the block then satisfy

    Σ r = u (v − ȳ),     Σ r (x − μ) = S (A − a),     Σ r² = u (v − ȳ)² + S (A − a)² + Q.

Differences of prefix sums would lose these numbers, since a block is narrow beside its distance from the
origin. So summaries are merged pairwise, in a segment tree. With w = u₁u₂/u, δ = μ₂ − μ₁, η = ȳ₂ − ȳ₁,

    S = S₁ + S₂ + w δ²,     S a = S₁ a₁ + S₂ a₂ + w δ η,
    Q = Q₁ + Q₂ + S₁ (a − a₁)² + S₂ (a − a₂)² + w (a δ − η)².

Points with equal x form one *location*, a leaf of the tree: a knot meets all of them at once.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

COUNT, CENTRE, MEAN, SPREAD, SLOPE, SCATTER = 0, 1, 2, 3, 4, 5


@njit(cache=True, error_model="numpy")
def absorb(summary: FloatArray, other: FloatArray) -> None:
    """Merge the summary ``other`` (6,) into ``summary`` (6,) in place (formulas in the module docstring)."""
    if other[COUNT] == 0.0:
        return
    if summary[COUNT] == 0.0:
        for row in range(6):
            summary[row] = other[row]
        return
    total = summary[COUNT] + other[COUNT]
    share = other[COUNT] / total
    weight = summary[COUNT] * share
    gap_x = other[CENTRE] - summary[CENTRE]
    gap_y = other[MEAN] - summary[MEAN]
    spread = summary[SPREAD] + other[SPREAD] + weight * gap_x * gap_x
    moment = summary[SPREAD] * summary[SLOPE] + other[SPREAD] * other[SLOPE] + weight * gap_x * gap_y
    slope = moment / spread if spread > 0.0 else 0.0
    turn, other_turn, jump = slope - summary[SLOPE], slope - other[SLOPE], slope * gap_x - gap_y
    summary[SCATTER] += (
        other[SCATTER]
        + summary[SPREAD] * turn * turn
        + other[SPREAD] * other_turn * other_turn
        + weight * jump * jump
    )
    summary[COUNT] = total
    summary[CENTRE] += share * gap_x
    summary[MEAN] += share * gap_y
    summary[SPREAD] = spread
    summary[SLOPE] = slope


@njit(cache=True, error_model="numpy")
def summarize(x_sorted: FloatArray, y_sorted: FloatArray) -> tuple[IntArray, FloatArray]:
    """Locations of the data and the segment tree of their summaries.

    ``x_sorted`` (size,) non-decreasing, ``y_sorted`` (size,) in the same order. Returns ``starts``
    (places,), the index of the first data point of every distinct x, and ``tree`` (2·places, 6): row
    ``places + k`` summarizes location k, row i merges rows 2i and 2i + 1, row 0 is unused (zero).
    """
    size = x_sorted.size
    places = 0
    for i in range(size):
        if i == 0 or x_sorted[i] != x_sorted[i - 1]:
            places += 1
    starts = np.empty(places, np.int64)
    tree = np.zeros((2 * places, 6))
    point = np.zeros(6)
    place = -1
    for i in range(size):
        if i == 0 or x_sorted[i] != x_sorted[i - 1]:
            place += 1
            starts[place] = i
        point[COUNT], point[CENTRE], point[MEAN] = 1.0, x_sorted[i], y_sorted[i]
        absorb(tree[places + place], point)
    for node in range(places - 1, 0, -1):
        absorb(tree[node], tree[2 * node])
        absorb(tree[node], tree[2 * node + 1])
    return starts, tree


@njit(cache=True, error_model="numpy")
def block_statistics(tree: FloatArray, first: int, last: int, summary: FloatArray) -> None:
    """Write into ``summary`` (6,) the summary of the locations first ≤ k < last; an empty run gives zeros."""
    places = tree.shape[0] // 2
    for row in range(6):
        summary[row] = 0.0
    left, right = first + places, last + places
    while left < right:
        if left & 1:
            absorb(summary, tree[left])
            left += 1
        if right & 1:
            right -= 1
            absorb(summary, tree[right])
        left >>= 1
        right >>= 1
