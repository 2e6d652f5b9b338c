"""Exact coordinate descent over the knots: each in turn to its best continuous place between its neighbours.

Not in [plateau]; ours.

**The best place of one knot** b between two others, a < c, over all continuous positions, in one pass over
the data. It splits the data between its neighbours into a left and a right part, each under a line of its
own. What the chain (`chain`) says about f(a), the message (ρ v − τ)², is one more point of the left part: at
a, of height τ/ρ and weight ρ²; likewise at c. So each part is a block in the sense of `chain_blocks`, grown
from its outer end point by point. Its line costs Q + W (height − ȳ)² + S_xx (slope − s)², s = S_xy / S_xx,
and if both lines are to meet at b, the least total is

    Q_l + Q_r + δ(b)² / V(b),     δ(b) = ȳ_l + s_l (b − x̄_l) − ȳ_r − s_r (b − x̄_r),
                                   V(b) = 1/W_l + (b − x̄_l)² / S_l + 1/W_r + (b − x̄_r)² / S_r.

While b passes no datum only δ and V change. δ is linear, V quadratic, so δ²/V has one minimum, δ = 0, and
one maximum: the best place in a gap between two data is where the lines cross, if they do so there, and
otherwise an end of the gap, a datum. A part whose slope is open (S = 0) meets the other anywhere.
Q_l + Q_r is a lower bound for the gap, which rules out most of them.

Infinite weights are exact constraints: W = ∞ ties the left line to (a, 0), and W = S = ∞ is the zero line
left of the first knot. Blocks only grow here, so nothing is subtracted.

**A sweep.** Going right, knot k sees the forward message of knot k − 1, renewed just now, and the
backward message of knot k + 1, still valid since nothing right of k has moved: `best_place` gives the
exact minimiser of the loss over b_{k−1} < b_k < b_{k+1}, all other knots fixed and all coefficients free.
Going left is the mirror image. A sweep goes right and then left; each way looks at every datum about twice,
so it costs O(m + n) (unless a crowd of knots all travels across the same data at once).

A knot moves only if the cost restated from the data (not the grown statistics that found the place) falls by
more than 10⁻¹² of the loss, and a sweep counts only if the loss computed afresh is smaller.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.anls import LEAST_GAIN, cost_around, place_knot
from shallowflow.kernels.fitting.chain import (
    RHO,
    TAU,
    Chain,
    backward_message,
    forward_message,
    new_chain,
    renew_messages,
    store_message,
)
from shallowflow.kernels.fitting.chain_blocks import (
    Block,
    Data,
    block_of,
    empty_block,
    first_block,
    load_block,
    store_block,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed

HOPEFUL = 8.0
"""Sweeps with a goal go on while they lack at most this many times what the last one gained."""
Place = tuple[float, int, float]
"""A position, the number of data ≤ it, and the cost of what lies between the neighbours with a knot there."""


@njit(cache=True, **INTERNAL)
def grown(block: Block, x: float, y: float, w: float) -> Block:
    """`block` with one more point of weight w at (x, y); W or S_xx may be infinite."""
    weight, mean_x, mean_y, sxx, sxy, rest = block
    if weight == 0.0:
        return Block(w, x, y, 0.0, 0.0, 0.0)
    dx, dy = x - mean_x, y - mean_y
    inverse = 1.0 / w + 1.0 / weight
    if sxx > 0.0:
        error = dy - sxy / sxx * dx
        rest += error * error / (inverse + dx * dx / sxx)
    elif dx == 0.0:
        rest += dy * dy / inverse
    share = w / (weight + w)
    return Block(
        weight + w,
        mean_x + share * dx,
        mean_y + share * dy,
        sxx + dx * dx / inverse,
        sxy + dx * dy / inverse,
        rest,
    )


@njit(cache=True, **INTERNAL)
def message_point(place: float, rho: float, tau: float) -> Block:
    """The message (ρ v − τ)² on f(place) as a block of one point; ρ = ∞ says f(place) = 0."""
    if rho == inf:
        return Block(inf, place, 0.0, 0.0, 0.0, 0.0)
    if rho * rho == 0.0:
        return empty_block()
    return Block(rho * rho, place, tau / rho, 0.0, 0.0, 0.0)


@njit(cache=True, **INTERNAL)
def left_part(k: int, chain: Chain, data: Data) -> Block:
    """What is known left of the data that follow knot k − 1: its message, a free line, or the zero line."""
    if k > 0:
        return message_point(chain.knots[k - 1], chain.forward[k - 1, RHO], chain.forward[k - 1, TAU])
    if data.free_left:
        return empty_block()
    return Block(inf, 0.0, 0.0, inf, 0.0, 0.0)


@njit(cache=True, **INTERNAL)
def right_part(k: int, chain: Chain) -> Block:
    """What is known right of the data before knot k: its message, or nothing behind the last knot."""
    if k < chain.knots.size:
        return message_point(chain.knots[k], chain.backward[k, RHO], chain.backward[k, TAU])
    return empty_block()


@njit(cache=True, **INTERNAL)
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


@njit(cache=True, **INTERNAL)
def best_place(
    data: Data, first: int, stop: int, a: float, c: float, left: Block, right: Block, suffixes: Floats
) -> Place:
    """The best place between a and c for one knot, given the data first ≤ i < stop between them.

    Symbols: `left`, `right` what is known at the outer ends; `suffixes` scratch of at least stop − first + 1
    rows (·, 6). The place is a only if that is no knot but a limit (and the zero line ends there). Places
    where one side would know nothing are left out: a knot there is of no use. Without any place left the
    cost is ∞.
    """
    x, y, w = data.x, data.y, data.w
    store_block(suffixes, stop - first, right)
    for i in range(stop - 1, first - 1, -1):
        right = grown(right, x[i], y[i], w[i])
        store_block(suffixes, i - first, right)
    place, start, cost = a, -1, inf
    for i in range(first, stop + 1):
        if i > first:
            left = grown(left, x[i - 1], y[i - 1], w[i - 1])
        if left.rest >= cost:
            break
        row = i - first
        bound = left.rest + suffixes[row, 5]
        if bound >= cost or left.weight == 0.0 or suffixes[row, 0] == 0.0:
            continue
        lo, hi = x[i - 1] if i > first else a, x[i] if i < stop else c
        candidate, extra = gap_place(left, load_block(suffixes, row), lo, hi)
        if bound + extra < cost and lo <= candidate < hi:
            place, start, cost = candidate, i, bound + extra
    return place, start, cost


@njit(cache=True, **INTERNAL)
def left_limit(k: int, knots: Floats, x: Floats) -> float:
    """The knot before knot k; the first one may go as far left of the data as these are long."""
    if k > 0:
        return float(knots[k - 1])
    span = x[-1] - x[0]
    return float(x[0] - (span if span > 0.0 else 1.0))


@njit(cache=True, **INTERNAL)
def data_between(before: int, after: int, starts: Ints, m: int) -> tuple[int, int]:
    """The data first ≤ i < stop between the knots `before` and `after` (−1 and n: the ends)."""
    first = starts[before] if before >= 0 else Signed(0)
    stop = starts[after] if after < starts.size else m
    return first, stop


def new_suffixes(m: int) -> Floats:
    """Scratch for `best_place` on up to m data, (m + 1, 6)."""
    return np.empty((m + 1, 6))


@njit(cache=True, **INTERNAL)
def cost_beside(k: int, place: float, left: Block, right: Block, chain: Chain, data: Data) -> float:
    """Cost of the blocks `left` and `right` of knot k, were it at `place`, and of the meeting there."""
    cost = cost_around(k, place, left, right, chain, data)
    return float(cost + left.rest if k == 0 and data.free_left == 0 else cost)


@njit(cache=True, **INTERNAL)
def settle_knot(k: int, data: Data, chain: Chain, least: float, suffixes: Floats) -> None:
    """Move knot k to its best place between its neighbours if that gains more than `least`."""
    knots, blocks, x = chain.knots, chain.blocks, data.x
    first, stop = data_between(k - 1, k + 1, chain.starts, x.size)
    a = min(left_limit(k, knots, x), knots[k])
    c = knots[k + 1] if k + 1 < knots.size else x[-1]
    left, right = left_part(k, chain, data), right_part(k + 1, chain)
    place, start, cost = best_place(data, first, stop, a, c, left, right, suffixes)
    now = cost_beside(k, knots[k], load_block(blocks, k), load_block(blocks, k + 1), chain, data)
    if not cost < now - least:
        return
    left = block_of(data, first, start) if k > 0 else first_block(data, start)
    right = block_of(data, start, stop)
    if cost_beside(k, place, left, right, chain, data) < now - least:
        place_knot(k, place, start, data, chain)


@njit(cache=True, **LEAN)
def _settle_windows(chain: Chain, data: Data, windows: Ints, loss: float, suffixes: Floats) -> float:
    """One sweep, rightwards and leftwards over each window, renewing messages; returns the loss after it."""
    new = loss
    for row in range(windows.shape[0]):
        lo, hi = windows[row, 0], min(windows[row, 1], chain.knots.size - 1)
        for i in range(2 * (hi - lo + 1)):
            rightwards = lo + i <= hi
            k = lo + i if rightwards else 2 * hi + 1 - lo - i
            settle_knot(k, data, chain, LEAST_GAIN * loss, suffixes)
            if rightwards:
                store_message(chain.forward, k, forward_message(k, chain, data))
            else:
                store_message(chain.backward, k, backward_message(k, chain, data))
        new = renew_messages(chain, data)
    return new


def settle(
    knots: Floats, data: Data, windows: Ints, max_sweeps: int, tolerance: float, goal: float
) -> tuple[Floats, Floats]:
    """Sweeps over windows of knots, all others fixed, until one gains at most `tolerance` of the loss.

    Symbols: `knots` (n,) sorted; `windows` (r, 2), first and last index of knots that may move, window after
    window in every sweep; `goal`, a loss: sweeps stop early when it is out of reach (∞: never). Returns the
    knots (n,), sorted, and the strictly decreasing losses before and after each sweep, each
    Σ w_i (f(x_i) − y_i)².
    """
    loss, chain = new_chain(knots, data)
    final, losses, suffixes = knots.copy(), [loss], new_suffixes(data.x.size)
    while len(losses) <= max_sweeps:
        new = float(_settle_windows(chain, data, windows, loss, suffixes))
        if not new < loss:
            break
        gain, loss = loss - new, new
        final[: chain.knots.size] = chain.knots
        losses.append(loss)
        if gain <= tolerance * (loss + gain) or loss - goal > HOPEFUL * gain:
            break
    return final, np.array(losses)


def sweep(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, max_sweeps: int, tolerance: float
) -> tuple[Floats, Floats]:
    """Exact coordinate descent over all live knots, right and left again; results as those of `settle`.

    A sweep costs O(m + n). Dead knots (≥ x_m) stay. To go on, call it again with the knots it returned.
    """
    windows = np.array([[0, np.searchsorted(knots, x[-1]) - 1]])
    return settle(knots, Data(x, y, w, free_left), windows, max_sweeps, tolerance, inf)
