"""Knots moved: each to its best continuous place between its neighbours, or from where it is worth least.

Not in [plateau]; ours.

**The best place of one knot** b between two others, a < c, over all continuous positions, in one pass over
the data. It splits the data between its neighbours into a left and a right part, each under a line of its
own. What the chain (`chain`) says about f(a), the message (ρ v − τ)², is one more point of the left part: at
a, of height τ/ρ and weight ρ²; likewise at c. So each part is a block in the sense of `chain`, grown
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

**Relocation.** Moves between neighbours (`anls`, sweeps, `search.polish`) end where some
stretches of the data have too many knots and others too few. Two exact prices, all other knots fixed,
O(m + n) in all:

* *removal cost* of a knot: the blocks beside it become one, between the forward message of the knot before
  and the backward message of the knot behind;
* *insertion gain* of a block: what its best split (`best_place`) saves.

Dead knots go where they gain most. Then pairs (a cheap knot, a block that gains much) are carried out:

* many at a time, some distance apart, while gain > cost: their sum is the change of the loss, nearly;
* many at a time or one by one, judged after a few sweeps only. The prices are biased against
  change: on a smooth curve with an error ε per piece, taking a knot out costs 30 ε and a new one gains
  15/16 ε at first, but either is worth 4 ε once the neighbours have moved. So between equally good places
  cost / gain is 32, and below that a pair is promising.

A change is kept only if the exact loss falls.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.anls import LEAST_GAIN
from shallowflow.kernels.fitting.chain import (
    RHO,
    TAU,
    Block,
    Chain,
    Data,
    backward_message,
    block_of,
    cost_around,
    empty_block,
    first_block,
    fit,
    forward_message,
    load_block,
    meeting_cost,
    new_chain,
    pass_block,
    place_knot,
    renew_messages,
    store_block,
    store_message,
    zero_block,
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


SETTLED_RATIO = 32.0
"""Removal cost over insertion gain of equally good places on a smooth curve, the neighbours fixed."""
REACH = 6
"""Knots on either side of a single change that settle before it is judged."""
BATCH_SWEEPS, TRIAL_SWEEPS = 4, 20
TRIAL_TOLERANCE = 1e-3
WORTHWHILE = 1e-6
"""Least relative gain for which knots are relocated; what remains is left to sweeps and polish."""
NEGLIGIBLE = 1e-28


class Prices(NamedTuple):
    """The loss Σ w_i (f(x_i) − y_i)², and what knots are worth with all others fixed.

    costs (n,): by how much the loss grows without each live knot; gains (n + 1,): by how much it falls with
    one more knot in each block, the first left of all knots; places (n + 1,): the best continuous place of
    that knot. Where none is of use the gain is 0. Prices below the rounding of the loss may come out as 0.
    """

    loss: float
    costs: Floats
    gains: Floats
    places: Floats


@njit(cache=True, **INTERNAL)
def joined_cost(before: int, after: int, data: Data, chain: Chain) -> float:
    """Cost of all data between the knots `before` and `after` under one line, and of its meeting there."""
    knots, forward, backward = chain.knots, chain.forward, chain.backward
    n = knots.size
    first, stop = data_between(before, after, chain.starts, data.x.size)
    place = knots[after] if after < n else data.x[-1]
    if before < 0 and data.free_left == 0:
        message = (inf, 0.0, zero_block(data, stop).rest)
    else:
        far, rho, tau = place, 0.0, 0.0
        if before >= 0:
            far, rho, tau = knots[before], forward[before, RHO], forward[before, TAU]
        message = pass_block(place, far, rho, tau, block_of(data, first, stop))
    if after == n:
        return message[2]
    return message[2] + meeting_cost(message[0], message[1], backward[after, RHO], backward[after, TAU])


@njit(cache=True, **LEAN)
def _fill_prices(chain: Chain, data: Data, room: tuple[Floats, Floats, Floats], suffixes: Floats) -> None:
    costs, gains, places = room
    knots, blocks, x = chain.knots, chain.blocks, data.x
    n = knots.size
    for k in range(n + 1):
        first, stop = data_between(k - 1, k, chain.starts, x.size)
        a, c = left_limit(k, knots, x), knots[k] if k < n else x[-1]
        left, right = left_part(k, chain, data), right_part(k, chain)
        places[k], _, cost = best_place(data, first, stop, a, c, left, right, suffixes)
        gains[k] = max(0.0, joined_cost(k - 1, k, data, chain) - cost)
        if k < n:
            left, right = load_block(blocks, k), load_block(blocks, k + 1)
            now = cost_beside(k, knots[k], left, right, chain, data)
            costs[k] = max(0.0, joined_cost(k - 1, k + 1, data, chain) - now)


def prices(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int) -> Prices:
    """What each live knot is worth, and what one more in each block would be, in O(m + n).

    Symbols as in `chain.fit`.
    """
    data = Data(x, y, w, free_left)
    loss, chain = new_chain(knots, data)
    n = chain.knots.size
    room = np.empty(n), np.empty(n + 1), np.empty(n + 1)
    _fill_prices(chain, data, room, new_suffixes(x.size))
    return Prices(loss, *room)


def negligible_loss(data: Data) -> float:
    """The loss below which all is rounding: the fit is exact."""
    return NEGLIGIBLE * float((data.w * data.y * data.y).sum())


def moved(knots: Floats, indices: Ints, places: Floats) -> Floats:
    """The sorted knots (n,) when those at `indices` have gone to `places`."""
    new = knots.copy()
    new[indices] = places
    new.sort()
    return new


def use_dead_knots(knots: Floats, data: Data) -> tuple[Floats, list[float]]:
    """Bring dead knots (≥ x_m) to where they gain most, one per block and pass, until none is left or helps.

    A pass takes the places of at least a tenth of its best gain, so that from no live knot at all about
    log n passes make a greedy start. Returns the sorted knots (n,) and the loss before and after each pass.
    """
    loss, costs, gains, places = prices(knots, *data)
    losses = [loss]
    while True:
        live, dead = costs.size, knots.size - costs.size
        best = np.argsort(-gains, kind="stable")[:dead]
        best = best[gains[best] > max(0.1 * gains.max(), LEAST_GAIN * loss)]
        if best.size == 0 or loss <= negligible_loss(data):
            return knots, losses
        new = moved(knots, np.arange(live, live + best.size), places[best])
        loss, costs, gains, places = prices(new, *data)
        if not loss < losses[-1]:
            return knots, losses
        knots = new
        losses.append(loss)


def distant_pairs(costs: Floats, gains: Floats, most: int, ratio: float) -> tuple[Ints, Ints]:
    """At most `most` pairs (knot out, block in) with cost < ratio · gain, cheapest and best first.

    Symbols: `costs` (n,), `gains` (n + 1,). No change is next to another, so that nearly all prices hold for
    all of them together. Returns indices of knots and of blocks, (pairs,) each.
    """
    n = costs.size
    out, into = np.argsort(costs, kind="stable"), np.argsort(-gains, kind="stable")
    taken = np.zeros(n + 3, dtype=bool)  # block b at b + 1; knot k lies between the blocks k and k + 1
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while len(pairs) < most:
        while i < n and taken[out[i] : out[i] + 4].any():
            i += 1
        if i == n:
            break
        knot = out[i]
        while j <= n and (taken[into[j] : into[j] + 3].any() or knot - 1 <= into[j] <= knot + 2):
            j += 1
        if j > n or not costs[knot] < ratio * gains[into[j]]:
            break
        pairs.append((knot, into[j]))
        taken[[knot + 1, knot + 2, into[j] + 1]] = True
    removed, blocks = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return removed, blocks


def swap_many(knots: Floats, data: Data, most: int, *, settled: bool) -> tuple[Floats, list[float]]:
    """Carry out up to `most` pairs at once; on failure a quarter of them, and so on.

    `settled` False: pairs with cost < gain, judged at once; True: promising pairs, judged after a few sweeps
    over all knots. Returns the sorted knots (n,) and the losses before and, if there was a gain, after.
    """
    loss, costs, gains, places = prices(knots, *data)
    removed, blocks = distant_pairs(costs, gains, most, SETTLED_RATIO if settled else 1.0)
    everything = np.array([[0, costs.size - 1]])
    while removed.size > 0:
        new = moved(knots, removed, places[blocks])
        if settled:
            new, losses = settle(new, data, everything, BATCH_SWEEPS, TRIAL_TOLERANCE, loss)
            value = float(losses[-1])
        else:
            value = fit(new, *data)[0]
        if value < (1.0 - WORTHWHILE) * loss:
            return new, [loss, value]
        removed, blocks = removed[: removed.size // 4], blocks[: blocks.size // 4]
    return knots, [loss]


def swap_one(knots: Floats, data: Data, width: int) -> tuple[Floats, list[float]]:
    """Try the `width` cheapest knots at the `width` best places, until one gains once both ends have settled.

    A failed search costs up to `width`² trials of O(m + n). Returns as `swap_many`.
    """
    loss, costs, gains, places = prices(knots, *data)
    out, into = np.argsort(costs, kind="stable")[:width], np.argsort(-gains, kind="stable")[:width]
    pairs = sorted((i + j, i, j) for i in range(out.size) for j in range(into.size))
    for _, i, j in pairs:
        knot, block = out[i], into[j]
        if knot <= block <= knot + 1 or gains[block] == 0.0:
            continue
        new = moved(knots, out[i : i + 1], places[block : block + 1])
        ends = np.searchsorted(new, [knots[knot], places[block]])
        windows = np.stack([np.maximum(ends - REACH, 0), np.minimum(ends + REACH, costs.size - 1)], axis=1)
        new, losses = settle(new, data, windows, TRIAL_SWEEPS, TRIAL_TOLERANCE, loss)
        if losses[-1] < (1.0 - WORTHWHILE) * loss:
            return new, [loss, float(losses[-1])]
    return knots, [loss]
