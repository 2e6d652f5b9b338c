"""The best place of one knot between two others, over all continuous positions, in one pass over the data.

Not in [plateau]; ours. A knot b splits the data between its neighbours a < c into a left and a right part,
each under a line of its own. What the chain (`chain`) says about f(a), the message (ρ v − τ)², is one more
point of the left part: at a, of height τ/ρ and weight ρ²; likewise at c. So each part is a block in the sense
of `chain_blocks`, grown from its outer end point by point. It has W points, centre (x̄, ȳ), spread S_xx, slope
s = S_xy / S_xx and rest Q. Its line costs Q + W (height − ȳ)² + S_xx (slope − s)², and if both lines are to
meet at b, the least total is

    Q_l + Q_r + δ(b)² / V(b),     δ(b) = ȳ_l + s_l (b − x̄_l) − ȳ_r − s_r (b − x̄_r),
                                   V(b) = 1/W_l + (b − x̄_l)² / S_l + 1/W_r + (b − x̄_r)² / S_r.

While b passes no datum only δ and V change. δ is linear, V quadratic, so δ²/V has one minimum, δ = 0, and
one maximum: the best place in a gap between two data is where the lines cross, if they do so there, and
otherwise an end of the gap, a datum. A part whose slope is open (S = 0) meets the other anywhere.
Q_l + Q_r is a lower bound for the gap, which rules out most of them.

Infinite weights are exact constraints: W = ∞ ties the left line to (a, 0), and W = S = ∞ is the zero line
left of the first knot. Blocks only grow here, so nothing is subtracted.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.chain import RHO, TAU
from shallowflow.kernels.chain_blocks import Block, Data, empty_block, load_block, store_block

Place = tuple[float, int, float]
"""A position, the number of data ≤ it, and the cost of what lies between the neighbours with a knot there."""


@njit(cache=True)
def grown(block: Block, x: float, y: float, w: float) -> Block:
    """`block` with one more point of weight w at (x, y); W or S_xx may be infinite."""
    weight, mean_x, mean_y, sxx, sxy, rest = block
    if weight == 0.0:
        return w, x, y, 0.0, 0.0, 0.0
    dx, dy = x - mean_x, y - mean_y
    inverse = 1.0 / w + 1.0 / weight
    if sxx > 0.0:
        error = dy - sxy / sxx * dx
        rest += error * error / (inverse + dx * dx / sxx)
    elif dx == 0.0:
        rest += dy * dy / inverse
    share = w / (weight + w)
    return (
        weight + w,
        mean_x + share * dx,
        mean_y + share * dy,
        sxx + dx * dx / inverse,
        sxy + dx * dy / inverse,
        rest,
    )


@njit(cache=True)
def message_point(place: float, rho: float, tau: float) -> Block:
    """The message (ρ v − τ)² on f(place) as a block of one point; ρ = ∞ says f(place) = 0."""
    if rho == inf:
        return inf, place, 0.0, 0.0, 0.0, 0.0
    if rho * rho == 0.0:
        return empty_block()
    return rho * rho, place, tau / rho, 0.0, 0.0, 0.0


@njit(cache=True)
def left_part(k: int, knots: Floats, forward: Floats, free_left: int) -> Block:
    """What is known left of the data that follow knot k − 1: its message, a free line, or the zero line."""
    if k > 0:
        return message_point(knots[k - 1], forward[k - 1, RHO], forward[k - 1, TAU])
    if free_left:
        return empty_block()
    return inf, 0.0, 0.0, inf, 0.0, 0.0


@njit(cache=True)
def right_part(k: int, knots: Floats, backward: Floats) -> Block:
    """What is known right of the data before knot k: its message, or nothing behind the last knot."""
    if k < knots.size:
        return message_point(knots[k], backward[k, RHO], backward[k, TAU])
    return empty_block()


@njit(cache=True)
def gap_place(left: Block, right: Block, lo: float, hi: float) -> tuple[float, float]:
    """The best place in [lo, hi) and its cost beyond Q_l + Q_r; `hi` itself is the next gap's `lo`."""
    _, left_x, left_y, left_s, left_sxy, _ = left
    _, right_x, right_y, right_s, right_sxy, _ = right
    if left_s == 0.0 or right_s == 0.0:
        middle = 0.5 * (lo + hi)
        return middle, 0.0 if lo < middle < hi else inf
    left_slope, right_slope = left_sxy / left_s, right_sxy / right_s
    at_lo = left_y - right_y + left_slope * (lo - left_x) - right_slope * (lo - right_x)
    at_hi = left_y - right_y + left_slope * (hi - left_x) - right_slope * (hi - right_x)
    if at_lo * at_hi < 0.0:
        return lo + (hi - lo) * (at_lo / (at_lo - at_hi)), 0.0
    spread = 1.0 / left[0] + 1.0 / right[0]
    spread += (lo - left_x) * (lo - left_x) / left_s + (lo - right_x) * (lo - right_x) / right_s
    return lo, at_lo * at_lo / spread


@njit(cache=True)
def best_place(
    data: Data, first: int, stop: int, a: float, c: float, left: Block, right: Block, suffixes: Floats
) -> Place:
    """The best place between a and c for one knot, given the data first ≤ i < stop between them.

    Symbols: `data` = (x, y, w), each (m,); `left`, `right` what is known at the outer ends; `suffixes`
    scratch of at least stop − first + 1 rows (·, 6). The place is a only if that is no knot but a limit (and
    the zero line ends there). Places where one side would know nothing are left out: a knot there is of no
    use. Without any place left the cost is ∞.
    """
    x, y, w = data
    store_block(suffixes, stop - first, right)
    for i in range(stop - 1, first - 1, -1):
        right = grown(right, x[i], y[i], w[i])
        store_block(suffixes, i - first, right)
    place, start, cost = a, -1, inf
    for i in range(first, stop + 1):
        if i > first:
            left = grown(left, x[i - 1], y[i - 1], w[i - 1])
        if left[5] >= cost:
            break
        row = i - first
        bound = left[5] + suffixes[row, 5]
        if bound >= cost or left[0] == 0.0 or suffixes[row, 0] == 0.0:
            continue
        lo, hi = x[i - 1] if i > first else a, x[i] if i < stop else c
        candidate, extra = gap_place(left, load_block(suffixes, row), lo, hi)
        if bound + extra < cost and lo <= candidate < hi:
            place, start, cost = candidate, i, bound + extra
    return place, start, cost


@njit(cache=True)
def left_limit(k: int, knots: Floats, x: Floats) -> float:
    """The knot before knot k; the first one may go as far left of the data as these are long."""
    if k > 0:
        return float(knots[k - 1])
    span = x[-1] - x[0]
    return float(x[0] - (span if span > 0.0 else 1.0))


@njit(cache=True)
def data_between(before: int, after: int, starts: Ints, m: int) -> tuple[int, int]:
    """The data first ≤ i < stop between the knots `before` and `after` (−1 and n: the ends)."""
    first = starts[before] if before >= 0 else 0
    stop = starts[after] if after < starts.size else m
    return first, stop


@njit(cache=True)
def new_suffixes(m: int) -> Floats:
    """Scratch for `best_place` on up to m data, (m + 1, 6)."""
    return np.empty((m + 1, 6))
