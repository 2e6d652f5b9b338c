"""The moves of Active Neuron Least Squares: where a knot may go [plateau, §4.2], and what it gains.

Rules 1–6: one live knot k passes one datum x_i, to the left or to the right, keeping the order of the
knots. It lands in the middle of the two data it comes to lie between; or, if the neighbouring knot is
nearer than the second datum, in the middle of x_i and that knot; or, left of all data, at x_1 − `margin`
(the paper's 10⁻⁸). Dead knots stay, and no knot dies. (Rule 6 (ii) says "a data point and b_k"; the
neighbouring knot b_{k±1} is what makes sense and gives the seven candidates of Fig. 6.) A midpoint that
rounds to an end is no candidate.

**Gain of a move in O(1).** It changes only the blocks k and k + 1 on the two sides of the knot: one block
is passed from the forward message of knot k − 1, one from the backward message of knot k + 1, and the two
meet at the new knot. The costs of everything farther away are common to before and after, so they are left
out, and the gain keeps its digits however large the total loss is.

A *chain* here is the tuple (knots (n,), starts (n,), blocks (n+1, 6), forward (n, 3), backward (n, 3)) over
the live knots; `starts[j]` counts the data ≤ knot j. Sides: −1 left, +1 right.

Active Neuron Least Squares [plateau, §4.3]: the best move again and again, until none helps.

An iteration takes the candidate move (`anls_moves`) of the largest gain. Two versions make the same moves,
bit for bit:

* *full*: after a move both message sweeps and all gains are computed anew, O(n);
* *windowed*: the new messages are carried away from the moved knot only until one repeats to the last bit
  (a block with two or more points forgets what lies behind it by a constant factor, an empty one at once),
  and only the gains that saw a changed message are computed anew. Segment trees hold the gains and the
  costs, so an iteration costs the window and O(log n), whatever n.

Both: O(u) to restate the two blocks from their u data. The total loss is a sum of non-negative costs in fixed
tree order, never a running difference.

**One tie rule.** The first move (by knot, left before right) whose loss is within 10⁻¹⁰, relatively, of the
best one's: symmetric configurations have candidates of equal loss that rounding would order. Late in a long
run all gains are smaller than that; then the first move of at least half the best gain is taken.

**Termination**: the best gain is ≤ 10⁻¹² of the loss, or the loss after the move (computed afresh) is not
smaller; that move is then undone. So recorded losses decrease strictly, and no configuration comes twice.

A run stores nothing that the knots do not determine: to go on, call it again with the knots it returned. The
result is that of one longer run, bit for bit.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.chain import (
    COST,
    RHO,
    TAU,
    all_messages,
    backward_message,
    closing_cost,
    forward_message,
    live_starts,
    meeting_cost,
    pass_block,
    store_message,
)
from shallowflow.kernels.fitting.chain_blocks import (
    Block,
    Data,
    all_blocks,
    block_of,
    block_with,
    block_without,
    empty_block,
    load_block,
    store_block,
    zero_block,
)
from shallowflow.kernels.fitting.segment_tree import first_at_least, new_tree, refresh_maxima, refresh_sums

Chain = tuple[Floats, Ints, Floats, Floats, Floats]


@njit(cache=True)
def new_chain(knots: Floats, data: Data, free_left: int) -> Chain:
    """The chain of the live ones among the sorted `knots` (copied); `data` = (x, y, w), each (m,)."""
    x = data[0]
    starts = live_starts(knots, x)
    live = knots[: starts.size].copy()
    blocks = all_blocks(data, starts, free_left)
    forward, backward = all_messages(live, x[-1], blocks, free_left)
    return live, starts, blocks, forward, backward


@njit(cache=True)
def left_target(k: int, knots: Floats, starts: Ints, x: Floats, margin: float) -> float:
    """Where knot k lands when it passes one datum to the left; nan if no rule allows it."""
    i, first = starts[k] - 1, starts[k - 1] if k > 0 else 0
    if i < first:
        return nan
    if i == first and k == 0:
        target, bound = x[0] - margin, -inf
    else:
        bound = x[i - 1] if i > first else knots[k - 1]
        target = 0.5 * (bound + x[i])
    return target if bound < target < x[i] else nan


@njit(cache=True)
def right_target(k: int, knots: Floats, starts: Ints, x: Floats) -> float:
    """Where knot k lands when it passes one datum to the right; nan if no rule allows it."""
    last = k + 1 == knots.size
    i, stop = starts[k], x.size if last else starts[k + 1]
    if i == stop or (last and i + 1 == stop):
        return nan
    bound = x[i + 1] if i + 1 < stop else knots[k + 1]
    target = 0.5 * (x[i] + bound)
    return target if x[i] < target < bound else nan


@njit(cache=True)
def blocks_after(k: int, side: int, data: Data, chain: Chain, pinned: bool) -> tuple[Block, Block]:
    """The blocks on both sides of knot k after it has passed one datum; a pinned left one stays empty."""
    _, starts, blocks, _, _ = chain
    first = starts[k - 1] if k > 0 else 0
    stop = starts[k + 1] if k + 1 < starts.size else data[0].size
    border = starts[k] + side
    if side < 0:
        right = block_with(data, load_block(blocks, k + 1), border, stop, border)
        if pinned:
            return empty_block(), right
        return block_without(data, load_block(blocks, k), first, border, border), right
    right = block_without(data, load_block(blocks, k + 1), border, stop, border - 1)
    if pinned:
        return empty_block(), right
    return block_with(data, load_block(blocks, k), first, border, border - 1), right


@njit(cache=True)
def cost_around(k: int, target: float, left: Block, right: Block, end: float, chain: Chain) -> float:
    """Cost of two blocks beside knot k, were it at `target`, and of the meeting of the messages there."""
    knots, _, _, forward, backward = chain
    if k > 0:
        before = pass_block(target, knots[k - 1], forward[k - 1, RHO], forward[k - 1, TAU], left)
    elif forward[0, RHO] == inf:
        before = (inf, 0.0, 0.0)
    else:
        before = pass_block(target, target, 0.0, 0.0, left)
    if k + 1 < knots.size:
        after = pass_block(target, knots[k + 1], backward[k + 1, RHO], backward[k + 1, TAU], right)
    else:
        after = pass_block(target, end, 0.0, 0.0, right)
    return before[2] + after[2] + meeting_cost(before[0], before[1], after[0], after[1])


@njit(cache=True)
def move_gain(k: int, side: int, target: float, data: Data, chain: Chain, free_left: int) -> float:
    """By how much the loss falls when knot k passes one datum on `side` and lands at `target`; −∞ for nan."""
    if isnan(target):
        return -inf
    x, y, w = data
    _, starts, _, forward, backward = chain
    pinned = k == 0 and free_left == 0
    left, right = blocks_after(k, side, data, chain, pinned)
    now = backward[k, COST] + meeting_cost(
        forward[k, RHO], forward[k, TAU], backward[k, RHO], backward[k, TAU]
    )
    after = cost_around(k, target, left, right, x[-1], chain)
    if pinned:
        # Under the zero line only the datum that changes sides makes a difference: w y².
        i = starts[k] - 1 if side < 0 else starts[k]
        alone = w[i] * y[i] * y[i]
        return float(now - after + alone if side < 0 else now - after - alone)
    return float(now + forward[k, COST] - after)


@njit(cache=True)
def refresh_gains(
    gains: Floats, lo: int, hi: int, data: Data, chain: Chain, free_left: int, margin: float
) -> None:
    """Write the gains of the knots lo…hi (inclusive): left at 2k, right at 2k + 1 of `gains` (2n,)."""
    knots, starts, x = chain[0], chain[1], data[0]
    for k in range(lo, hi + 1):
        target = left_target(k, knots, starts, x, margin)
        gains[2 * k] = move_gain(k, -1, target, data, chain, free_left)
        target = right_target(k, knots, starts, x)
        gains[2 * k + 1] = move_gain(k, 1, target, data, chain, free_left)


@njit(cache=True)
def candidates(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, margin: float
) -> tuple[Ints, Ints, Floats, Floats]:
    """All candidate moves by the rules 1–6 of [plateau, §4.2] and the loss after each, at most 2n.

    Each loss is the minimal weighted sum of squared residuals with that knot moved, its blocks restated
    from the data. Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left` as
    in `chain.fit`; `margin` > 0, the distance from the first datum of a knot left of all data. Returns knot
    indices, sides (−1 left, +1 right), new positions and losses, by knot, left before right.
    """
    data = (x, y, w)
    chain = new_chain(knots, data, free_left)
    live, starts, _, forward, backward = chain
    n = live.size
    indices, sides = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    targets, losses = np.empty(2 * n), np.empty(2 * n)
    count = 0
    for k in range(n):
        first, stop = starts[k - 1] if k > 0 else 0, starts[k + 1] if k + 1 < n else x.size
        for side in (-1, 1):
            target = left_target(k, live, starts, x, margin) if side < 0 else right_target(k, live, starts, x)
            if isnan(target):
                continue
            border = starts[k] + side
            far = forward[:k, COST].sum() + backward[k + 1 :, COST].sum()
            if k == 0 and free_left == 0:
                left, far = empty_block(), far + (w[:border] * y[:border] ** 2).sum()
            else:
                left = block_of(data, first, border)
            right = block_of(data, border, stop)
            indices[count], sides[count], targets[count] = k, side, target
            losses[count] = far + cost_around(k, target, left, right, x[-1], chain)
            count += 1
    return indices[:count], sides[:count], targets[:count], losses[:count]


PAUSED, CONVERGED, ROUNDING = 0, 1, 2
"""Why a run ended: at `max_iterations`; no move gains; or what the best move gains is lost in rounding."""
TIE = 1e-10
"""Losses that differ by less, relatively, count as equal; the first candidate wins."""
LEAST_GAIN = 1e-12
"""A run ends when the best move lowers the loss by no more than this part of it."""


class Run(NamedTuple):
    """Knots (n,) at the end, loss before and after, number of moves, status, and the recorded moves.

    Of each recorded move: the knot, its side (−1 left, +1 right), where it lands, and the loss after it,
    (recorded,) each.
    """

    knots: Floats
    initial: float
    loss: float
    made: int
    status: int
    neurons: Ints
    sides: Ints
    places: Floats
    losses: Floats


@njit(cache=True)
def place_knot(k: int, target: float, start: int, data: Data, chain: Chain, free_left: int) -> None:
    """Put knot k at `target`, right of `start` data, and restate the two blocks beside it."""
    knots, starts, blocks, _, _ = chain
    knots[k], starts[k] = target, start
    stop = starts[k + 1] if k + 1 < starts.size else data[0].size
    if k > 0:
        store_block(blocks, k, block_of(data, starts[k - 1], start))
    else:
        store_block(blocks, 0, block_of(data, 0, start) if free_left else zero_block(data, start))
    store_block(blocks, k + 1, block_of(data, start, stop))


@njit(cache=True)
def carry_messages(k: int, end: float, chain: Chain, free_left: int, windowed: bool) -> tuple[int, int]:
    """Renew the messages after a change at knot k; the first and the last knot whose message was renewed.

    Windowed: on each side the two messages that pass a changed block, then onward while any bit changes. So
    the outermost one renewed did not change, and beyond it no gain does. Not windowed: to both ends.
    """
    knots, _, blocks, forward, backward = chain
    n = knots.size
    hi = k - 1
    changed = True
    while hi + 1 < n and (changed or hi < k + 1 or not windowed):
        hi += 1
        message = forward_message(hi, knots, blocks, forward, free_left)
        changed = store_message(forward, hi, message)
    lo = k + 1
    changed = True
    while lo > 0 and (changed or lo > k - 1 or not windowed):
        lo -= 1
        changed = store_message(backward, lo, backward_message(lo, knots, end, blocks, backward))
    return lo, hi


@njit(cache=True)
def refresh_costs(costs: Floats, lo: int, hi: int, chain: Chain) -> None:
    """Renew the tree of costs: the forward costs of the knots lo…hi, and the closing one."""
    _, _, blocks, forward, backward = chain
    n, size = forward.shape[0], costs.size // 2
    for k in range(lo, hi + 1):
        costs[size + k] = forward[k, COST]
    refresh_sums(costs, lo, hi)
    costs[size + n] = closing_cost(blocks, forward, backward)
    refresh_sums(costs, n, n)


@njit(cache=True)
def chosen_move(gains: Floats, loss: float) -> int:
    """The move by the tie rule as a leaf of the gains (2k left, 2k + 1 right), or −1 if none gains."""
    best = gains[1]
    if not best > LEAST_GAIN * loss:
        return -1
    slack = min(TIE * max(loss - best, 0.0), 0.5 * best)
    return first_at_least(gains, best - slack)


@njit(cache=True)
def _run(
    knots: Floats,
    data: Data,
    free_left: int,
    margin: float,
    max_iterations: int,
    capacity: int,
    windowed: bool,
) -> Run:
    """The iteration; arguments and results as in `run_windowed`."""
    x, end = data[0], data[0][-1]
    chain = new_chain(knots, data, free_left)
    live, starts, _, _, _ = chain
    n = live.size
    costs, gains = new_tree(n + 1, 0.0), new_tree(2 * n, -inf)
    leaves = gains[gains.size // 2 :]
    refresh_costs(costs, 0, n - 1, chain)
    refresh_gains(leaves, 0, n - 1, data, chain, free_left, margin)
    refresh_maxima(gains, 0, leaves.size - 1)
    capacity = min(capacity, max_iterations)
    indices, sides = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    places, losses = np.empty(capacity), np.empty(capacity)
    initial = loss = costs[1]
    iterations, status = 0, PAUSED
    while iterations < max_iterations:
        move = chosen_move(gains, loss)
        if move < 0:
            status = CONVERGED
            break
        k, side = move // 2, -1 if move % 2 == 0 else 1
        old_place, old_start = live[k], starts[k]
        target = left_target(k, live, starts, x, margin) if side < 0 else right_target(k, live, starts, x)
        place_knot(k, target, old_start + side, data, chain, free_left)
        lo, hi = carry_messages(k, end, chain, free_left, windowed)
        refresh_costs(costs, k, hi, chain)
        if not costs[1] < loss:
            live[k] = old_place
            status = ROUNDING
            break
        loss = costs[1]
        refresh_gains(leaves, lo, hi, data, chain, free_left, margin)
        refresh_maxima(gains, 2 * lo, 2 * hi + 1)
        if iterations < capacity:
            indices[iterations], sides[iterations] = k, side
            places[iterations], losses[iterations] = target, loss
        iterations += 1
    final = knots.copy()
    for k in range(n):
        final[k] = live[k]
    kept = min(iterations, capacity)
    moves = indices[:kept], sides[:kept]
    return Run(final, initial, loss, iterations, status, *moves, places[:kept], losses[:kept])


def run_full(
    knots: Floats,
    x: Floats,
    y: Floats,
    w: Floats,
    free_left: int,
    margin: float,
    max_iterations: int,
    capacity: int,
) -> Run:
    """ANLS with everything recomputed in every iteration; arguments and results as in `run_windowed`."""
    return _run(knots, (x, y, w), free_left, margin, max_iterations, capacity, False)


def run_windowed(
    knots: Floats,
    x: Floats,
    y: Floats,
    w: Floats,
    free_left: int,
    margin: float,
    max_iterations: int,
    capacity: int,
) -> Run:
    """Active Neuron Least Squares [plateau, §4.3]: best moves until none lowers Σ w_i (f(x_i) − y_i)².

    Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`;
    `margin` as in `anls_moves.candidates`; at most `max_iterations` moves, the first `capacity` recorded.
    Status: 0 paused at `max_iterations`, 1 converged, 2 converged to rounding. Losses are full weighted sums
    of squares.
    """
    return _run(knots, (x, y, w), free_left, margin, max_iterations, capacity, True)
