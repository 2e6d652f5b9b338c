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
"""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.chain import (
    COST,
    RHO,
    TAU,
    all_messages,
    live_starts,
    meeting_cost,
    pass_block,
)
from shallowflow.kernels.chain_blocks import (
    Block,
    Data,
    all_blocks,
    block_of,
    block_with,
    block_without,
    empty_block,
    load_block,
)

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
