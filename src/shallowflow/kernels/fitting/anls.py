"""Active Neuron Least Squares [plateau, §4]: the best move of one knot past one datum, until none helps.

**Moves** (rules 1–6, §4.2): one live knot k passes one datum x_i, to the left or to the right, keeping the
order of the knots. It lands in the middle of the two data it comes to lie between; or, if the neighbouring
knot is nearer than the second datum, in the middle of x_i and that knot; or, left of all data, at
x_1 − `margin` (the paper's 10⁻⁸). Dead knots stay, and no knot dies. (Rule 6 (ii) says "a data point and
b_k"; the neighbouring knot b_{k±1} is what makes sense and gives the seven candidates of Fig. 6.) A midpoint
that rounds to an end is no candidate.

**Gain of a move in O(1).** It changes only the blocks k and k + 1 on the two sides of the knot: one block
is passed from the forward message of knot k − 1, one from the backward message of knot k + 1, and the two
meet at the new knot. The costs of everything farther away are common to before and after, so they are left
out, and the gain keeps its digits however large the total loss is.

**An iteration** (§4.3) takes the candidate of the largest gain and restates the two blocks from their u data,
O(u). The new messages are carried away from the moved knot only until one repeats to the last bit (a block
with two or more points forgets what lies behind it by a constant factor, an empty one at once), and only the
gains that saw a changed message are computed anew. Segment trees hold the gains and the costs, so an
iteration costs the window and O(log n), whatever n.

**Segment trees.** A tree over `leaves` values is an array of 2·size floats, size the next power of two: leaf
i at size + i, the children of node j at 2j and 2j + 1, the root at 1; place 0 is free. Refreshing the leaves
lo…hi costs O(hi − lo + log size). The total loss is the root of the non-negative costs, always added up in
the same order: it depends on the leaves alone, never on their history, so no rounding error is carried along
by millions of changes.

**One tie rule.** The first move (by knot, left before right) whose loss is within 10⁻¹⁰, relatively, of the
best one's: symmetric configurations have candidates of equal loss that rounding would order. Late in a long
run all gains are smaller than that; then the first move of at least half the best gain is taken.

**Termination**: the best gain is ≤ 10⁻¹² of the loss, or the loss after the move (computed afresh) is not
smaller; that move is then undone. So recorded losses decrease strictly, and no configuration comes twice.

A run stores nothing that the knots do not determine: to go on, call it again with the knots it returned. The
result is that of one longer run, bit for bit. Sides: −1 left, +1 right.
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
    Block,
    Chain,
    Data,
    backward_message,
    block_of,
    block_with,
    block_without,
    closing_cost,
    empty_block,
    first_block,
    forward_message,
    load_block,
    meeting_cost,
    new_chain,
    pass_block,
    store_block,
    store_message,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed

PAUSED, CONVERGED, ROUNDING = 0, 1, 2
"""Why a run ended: at `max_iterations`; no move gains; or what the best move gains is lost in rounding."""
TIE = 1e-10
"""Losses that differ by less, relatively, count as equal; the first candidate wins."""
LEAST_GAIN = 1e-12
"""A run ends when the best move lowers the loss by no more than this part of it."""


def new_tree(leaves: int, value: float) -> Floats:
    """A tree for `leaves` values, every node equal to `value` (0 for sums, −∞ for maxima)."""
    size = 1
    while size < leaves:
        size *= 2
    return np.full(2 * size, value)


@njit(cache=True, **INTERNAL)
def refresh_sums(tree: Floats, lo: int, hi: int) -> None:
    """Restore the sums above the leaves lo…hi (inclusive) after they were written."""
    size = tree.size // 2
    lo, hi = (size + lo) // 2, (size + hi) // 2
    while lo > 0:
        for node in range(lo, hi + 1):
            tree[node] = tree[2 * node] + tree[2 * node + 1]
        lo, hi = lo // 2, hi // 2


@njit(cache=True, **INTERNAL)
def refresh_maxima(tree: Floats, lo: int, hi: int) -> None:
    """Restore the maxima above the leaves lo…hi (inclusive) after they were written."""
    size = tree.size // 2
    lo, hi = (size + lo) // 2, (size + hi) // 2
    while lo > 0:
        for node in range(lo, hi + 1):
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        lo, hi = lo // 2, hi // 2


@njit(cache=True, **INTERNAL)
def first_at_least(tree: Floats, threshold: float) -> int:
    """The first leaf of a tree of maxima whose value is ≥ `threshold` (≤ the root's value)."""
    size = tree.size // 2
    node = 1
    while node < size:
        node *= 2
        if tree[node] < threshold:
            node += 1
    return node - size


@njit(cache=True, **INTERNAL)
def landing(k: int, side: int, chain: Chain, x: Floats, margin: float) -> float:
    """Where knot k lands when it passes one datum on `side`; nan if no rule allows it."""
    knots, starts = chain.knots, chain.starts
    if side < 0:
        i, first = starts[k] - 1, starts[k - 1] if k > 0 else 0
        if i < first:
            return nan
        if i == first and k == 0:
            target, bound = x[0] - margin, -inf
        else:
            bound = x[i - 1] if i > first else knots[k - 1]
            target = 0.5 * (bound + x[i])
        return target if bound < target < x[i] else nan
    last = k + 1 == knots.size
    i, stop = starts[k], x.size if last else starts[k + 1]
    if i == stop or (last and i + 1 == stop):
        return nan
    bound = x[i + 1] if i + 1 < stop else knots[k + 1]
    target = 0.5 * (x[i] + bound)
    return target if x[i] < target < bound else nan


@njit(cache=True, **INTERNAL)
def blocks_after(k: int, side: int, data: Data, chain: Chain, pinned: bool) -> tuple[Block, Block]:
    """The blocks on both sides of knot k after it has passed one datum; a pinned left one stays empty."""
    starts, blocks = chain.starts, chain.blocks
    first = starts[k - 1] if k > 0 else Signed(0)
    stop = starts[k + 1] if k + 1 < starts.size else data.x.size
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


@njit(cache=True, **INTERNAL)
def cost_around(k: int, target: float, left: Block, right: Block, chain: Chain, data: Data) -> float:
    """Cost of two blocks beside knot k, were it at `target`, and of the meeting of the messages there."""
    knots, forward, backward = chain.knots, chain.forward, chain.backward
    if k > 0:
        before = pass_block(target, knots[k - 1], forward[k - 1, RHO], forward[k - 1, TAU], left)
    elif forward[0, RHO] == inf:
        before = (inf, 0.0, 0.0)
    else:
        before = pass_block(target, target, 0.0, 0.0, left)
    if k + 1 < knots.size:
        after = pass_block(target, knots[k + 1], backward[k + 1, RHO], backward[k + 1, TAU], right)
    else:
        after = pass_block(target, data.x[-1], 0.0, 0.0, right)
    return before[2] + after[2] + meeting_cost(before[0], before[1], after[0], after[1])


@njit(cache=True, **INTERNAL)
def move_gain(k: int, side: int, data: Data, chain: Chain, margin: float) -> float:
    """By how much the loss falls when knot k passes one datum on `side`; −∞ if no rule allows it."""
    target = landing(k, side, chain, data.x, margin)
    if isnan(target):
        return -inf
    forward, backward = chain.forward, chain.backward
    pinned = k == 0 and data.free_left == 0
    left, right = blocks_after(k, side, data, chain, pinned)
    now = backward[k, COST] + meeting_cost(
        forward[k, RHO], forward[k, TAU], backward[k, RHO], backward[k, TAU]
    )
    after = cost_around(k, target, left, right, chain, data)
    if pinned:
        # Under the zero line only the datum that changes sides makes a difference: w y².
        i = chain.starts[k] - 1 if side < 0 else chain.starts[k]
        alone = data.w[i] * data.y[i] * data.y[i]
        return float(now - after + alone if side < 0 else now - after - alone)
    return float(now + forward[k, COST] - after)


@njit(cache=True, **INTERNAL)
def refresh_gains(gains: Floats, lo: int, hi: int, data: Data, chain: Chain, margin: float) -> None:
    """Write the gains of the knots lo…hi (inclusive): left at 2k, right at 2k + 1 of `gains` (2n,)."""
    for move in range(2 * lo, 2 * hi + 2):
        gains[move] = move_gain(move // 2, 2 * (move % 2) - 1, data, chain, margin)


class Run(NamedTuple):
    """Knots (n,) at the end, losses before and after, number of moves, status.

    Of each recorded move, (recorded,): the knot, its side, where it lands, and the loss after it.
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


@njit(cache=True, **INTERNAL)
def place_knot(k: int, target: float, start: int, data: Data, chain: Chain) -> None:
    """Put knot k at `target`, right of `start` data, and restate the two blocks beside it."""
    starts, blocks = chain.starts, chain.blocks
    chain.knots[k], starts[k] = target, start
    stop = starts[k + 1] if k + 1 < starts.size else data.x.size
    store_block(blocks, k, block_of(data, starts[k - 1], start) if k > 0 else first_block(data, start))
    store_block(blocks, k + 1, block_of(data, start, stop))


@njit(cache=True, **INTERNAL)
def carry_messages(k: int, chain: Chain, data: Data) -> tuple[int, int]:
    """Renew the messages after a change at knot k; the first and the last knot whose message was renewed.

    On each side the two messages that pass a changed block, then onward while any bit changes. So the
    outermost one renewed did not change, and beyond it no gain does.
    """
    n, hi, lo = chain.knots.size, k - 1, k + 1
    changed = True
    while hi + 1 < n and (changed or hi < k + 1):
        hi += 1
        changed = store_message(chain.forward, hi, forward_message(hi, chain, data))
    changed = True
    while lo > 0 and (changed or lo > k - 1):
        lo -= 1
        changed = store_message(chain.backward, lo, backward_message(lo, chain, data))
    return lo, hi


@njit(cache=True, **INTERNAL)
def refresh_costs(costs: Floats, lo: int, hi: int, chain: Chain) -> None:
    """Renew the tree of costs: the forward costs of the knots lo…hi, and the closing one."""
    n, size = chain.knots.size, costs.size // 2
    for k in range(lo, hi + 1):
        costs[size + k] = chain.forward[k, COST]
    refresh_sums(costs, lo, hi)
    costs[size + n] = closing_cost(chain)
    refresh_sums(costs, n, n)


@njit(cache=True, **INTERNAL)
def chosen_move(gains: Floats, loss: float) -> int:
    """The move by the tie rule as a leaf of the gains (2k left, 2k + 1 right), or −1 if none gains."""
    best = gains[1]
    if not best > LEAST_GAIN * loss:
        return -1
    slack = min(TIE * max(loss - best, 0.0), 0.5 * best)
    return int(first_at_least(gains, best - slack))


@njit(cache=True, **LEAN)
def _run(
    chain: Chain, data: Data, margin: float, trees: tuple[Floats, Floats], most: int, log: tuple[Ints, Floats]
) -> tuple[int, int]:
    """Make up to `most` moves in place: (how many, status).

    trees: of the costs, where the losses before and after are left in the places 0 and 1, and of the gains;
    log: rows neuron, side (2, ·) and place, loss (2, ·).
    """
    knots, starts = chain.knots, chain.starts
    costs, gains = trees
    n, leaves, none = knots.size, gains[gains.size // 2 :], Signed(0)
    refresh_costs(costs, none, n - 1, chain)
    refresh_gains(leaves, none, n - 1, data, chain, margin)
    refresh_maxima(gains, none, leaves.size - 1)
    costs[0] = loss = costs[1]
    for made in range(most):
        move = chosen_move(gains, loss)
        if move < 0:
            return made, CONVERGED
        k, side = move // 2, 2 * (move % 2) - 1
        old_place, old_start = knots[k], starts[k]
        target = landing(k, side, chain, data.x, margin)
        place_knot(k, target, old_start + side, data, chain)
        lo, hi = carry_messages(k, chain, data)
        before = loss
        refresh_costs(costs, k, hi, chain)
        loss = costs[1]
        if not loss < before:
            knots[k] = old_place
            costs[1] = before
            return made, ROUNDING
        refresh_gains(leaves, lo, hi, data, chain, margin)
        refresh_maxima(gains, 2 * lo, 2 * hi + 1)
        if made < log[0].shape[1]:
            log[0][0, made], log[0][1, made] = k, side
            log[1][0, made], log[1][1, made] = target, loss
    return most, PAUSED


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
    `margin` > 0, the distance from the first datum of a knot left of all data; at most `max_iterations`
    moves, the first `capacity` recorded. Status: 0 paused at `max_iterations`, 1 converged, 2 converged to
    rounding. Losses are full weighted sums of squares.
    """
    data = Data(x, y, w, free_left)
    _, chain = new_chain(knots, data)
    n, room = chain.knots.size, (2, min(capacity, max_iterations))
    moves, landed = np.empty(room, dtype=np.int64), np.empty(room)
    costs, gains = new_tree(n + 1, 0.0), new_tree(2 * n, -inf)
    made, status = _run(chain, data, margin, (costs, gains), max_iterations, (moves, landed))
    final = np.append(chain.knots, knots[n:])
    losses = float(costs[0]), float(costs[1])
    return Run(final, *losses, made, status, *moves[:, :made], *landed[:, :made])
