"""The search for good knots beyond [plateau]: relocation, sweeps, polish in rounds, the loss always falling.

A round does the first of these that helps:

1. dead knots go where they gain most, and many cheap knots to better places at once, then one sweep
   (`sweep`);
2. sweeps and Newton steps (`polish`), then many such exchanges at once, judged after settling;
3. one exchange at a time, out of `width`² candidates;
4. otherwise the knots settle as far as they will, and the search has converged.

The exchanges repair how many knots each stretch of the data has, which no move between neighbours can; sweeps
and polish put them right within their stretch. A round depends on nothing but the knots: a search goes on
from the knots it returned, bit for bit as if it had not stopped.

**Relocation.** Moves between neighbours (`anls`, sweeps, `polish`) end where some
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

from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.anls import CONVERGED, LEAST_GAIN, PAUSED
from shallowflow.kernels.fitting.chain import (
    RHO,
    TAU,
    Chain,
    Data,
    block_of,
    fit,
    fitted,
    load_block,
    meeting_cost,
    new_chain,
    pass_block,
    zero_block,
)
from shallowflow.kernels.fitting.sweep import (
    best_place,
    cost_beside,
    data_between,
    left_limit,
    left_part,
    new_suffixes,
    polish,
    right_part,
    settle,
    sweep,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

SETTLED_RATIO = 32.0
"""Removal cost over insertion gain of equally good places on a smooth curve, the neighbours fixed."""
REACH = 6
"""Knots on either side of a single change that settle before it is judged."""
BATCH_SWEEPS, TRIAL_SWEEPS = 4, 20
TRIAL_TOLERANCE = 1e-3
WORTHWHILE = 1e-6
"""Least relative gain for which knots are relocated; what remains is left to sweeps and polish."""
NEGLIGIBLE = 1e-28
FINAL_STEPS, FINAL_TOLERANCE = 50, 1e-6


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


def one_round(knots: Floats, data: Data, width: int) -> tuple[Floats, list[float], bool]:
    """One round: the knots (n,), the losses along it, and whether there is more to find."""
    knots, losses = use_dead_knots(knots, data)
    many = max(1, knots.size // 10)
    knots, found = swap_many(knots, data, many, settled=False)
    losses += found
    if len(found) > 1:
        knots, swept = sweep(knots, *data, 1, 0.0)
        return knots, [*losses, *swept], True
    knots, swept = sweep(knots, *data, 2, 1e-2)
    knots, polished, _ = polish(knots, *data, 20, 1e-3)
    losses += [*swept, *polished]
    if many > 3:
        knots, found = swap_many(knots, data, many // 2, settled=True)
    if len(found) == 1:
        knots, found = swap_one(knots, data, width)
    losses += found
    if len(found) > 1:
        return knots, losses, True
    knots, swept = sweep(knots, *data, FINAL_STEPS, FINAL_TOLERANCE)
    knots, polished, _ = polish(knots, *data, FINAL_STEPS, FINAL_TOLERANCE)
    return knots, [*losses, *swept, *polished], False


def improve(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, rounds: int, width: int = 10
) -> tuple[Floats, Floats, int]:
    """Search for the knots of least Σ w_i (f(x_i) − y_i)², f(x) = Σ_j c_j relu(x − b_j) [+ a free line].

    Symbols: `knots` (n,) sorted, the start (dead ones, ≥ x_m, are put to use: n times x_m is a greedy start);
    x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`; at most `rounds` rounds; the
    search ends when none of `width`² exchanges of a knot helps. Returns the sorted knots (n,), the strictly
    decreasing losses, the first that of the start, and the status (0 paused at `rounds`, 1 converged).
    """
    data = Data(x, y, w, free_left)
    losses = [fitted(knots, data).loss]
    least = negligible_loss(data)
    for _ in range(rounds):
        if losses[-1] <= least:
            return knots, np.array(losses), CONVERGED
        knots, found, more = one_round(knots, data, width)
        losses += [after for before, after in pairwise(found) if after < before]
        if not more:
            return knots, np.array(losses), CONVERGED
    return knots, np.array(losses), PAUSED
