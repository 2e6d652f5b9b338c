"""Exact coordinate descent over the knots: each in turn to its best continuous place between its neighbours.

Not in [plateau]; ours. Going right, knot k sees the forward message of knot k − 1, renewed just now, and the
backward message of knot k + 1, still valid since nothing right of k has moved: `knot_split.best_place` gives
the exact minimiser of the loss over b_{k−1} < b_k < b_{k+1}, all other knots fixed and all coefficients free.
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
from shallowflow.kernels.anls import place_knot
from shallowflow.kernels.anls_moves import Chain, cost_around, new_chain
from shallowflow.kernels.chain import (
    COST,
    backward_message,
    closing_cost,
    forward_message,
    store_message,
)
from shallowflow.kernels.chain_blocks import Block, Data, block_of, load_block, zero_block
from shallowflow.kernels.knot_split import (
    best_place,
    data_between,
    left_limit,
    left_part,
    new_suffixes,
    right_part,
)

LEAST_GAIN = 1e-12
HOPEFUL = 8.0
"""Sweeps with a goal go on while they lack at most this many times what the last one gained."""


@njit(cache=True)
def cost_beside(
    k: int, place: float, left: Block, right: Block, end: float, chain: Chain, free_left: int
) -> float:
    """Cost of the blocks `left` and `right` of knot k, were it at `place`, and of the meeting there."""
    cost = cost_around(k, place, left, right, end, chain)
    return cost + left[5] if k == 0 and free_left == 0 else cost


@njit(cache=True)
def settle_knot(k: int, data: Data, chain: Chain, free_left: int, least: float, suffixes: Floats) -> bool:
    """Move knot k to its best place between its neighbours if that gains over `least`; whether it did."""
    x, end = data[0], data[0][-1]
    knots, starts, blocks, forward, backward = chain
    first, stop = data_between(k - 1, k + 1, starts, x.size)
    a = min(left_limit(k, knots, x), knots[k])
    c = knots[k + 1] if k + 1 < knots.size else end
    left, right = left_part(k, knots, forward, free_left), right_part(k + 1, knots, backward)
    place, start, cost = best_place(data, first, stop, a, c, left, right, suffixes)
    now = cost_beside(k, knots[k], load_block(blocks, k), load_block(blocks, k + 1), end, chain, free_left)
    if not cost < now - least:
        return False
    left = zero_block(data, start) if k == 0 and free_left == 0 else block_of(data, first, start)
    right = block_of(data, start, stop)
    if not cost_beside(k, place, left, right, end, chain, free_left) < now - least:
        return False
    place_knot(k, place, start, data, chain, free_left)
    return True


@njit(cache=True)
def settle_window(
    lo: int, hi: int, step: int, data: Data, chain: Chain, free_left: int, least: float, suffixes: Floats
) -> int:
    """Settle the knots lo…hi, rightwards (`step` 1) or leftwards (−1), renewing messages; how many moved."""
    knots, _, blocks, forward, backward = chain
    moved = 0
    for i in range(hi - lo + 1):
        k = lo + i if step > 0 else hi - i
        if settle_knot(k, data, chain, free_left, least, suffixes):
            moved += 1
        if step > 0:
            store_message(forward, k, forward_message(k, knots, blocks, forward, free_left))
        else:
            store_message(backward, k, backward_message(k, knots, data[0][-1], blocks, backward))
    return moved


@njit(cache=True)
def renew_messages(end: float, chain: Chain, free_left: int) -> float:
    """Renew all messages of a chain whose blocks are right; the loss, bit for bit that of `chain.fit`."""
    knots, _, blocks, forward, backward = chain
    n = knots.size
    for k in range(n):
        store_message(forward, k, forward_message(k, knots, blocks, forward, free_left))
    for k in range(n - 1, -1, -1):
        store_message(backward, k, backward_message(k, knots, end, blocks, backward))
    loss = closing_cost(blocks, forward, backward)
    for k in range(n):
        loss += forward[k, COST]
    return loss


@njit(cache=True)
def settle(
    knots: Floats,
    x: Floats,
    y: Floats,
    w: Floats,
    free_left: int,
    windows: Ints,
    max_sweeps: int,
    tolerance: float,
    goal: float,
) -> tuple[Floats, Floats]:
    """Sweeps over windows of knots, all others fixed, until one gains at most `tolerance` of the loss.

    Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`;
    `windows` (r, 2), first and last index of knots that may move, window after window in every sweep;
    `goal`, a loss: sweeps stop early when it is out of reach (∞: never). Returns the knots (n,), sorted, and
    the strictly decreasing losses before and after each sweep, each Σ w_i (f(x_i) − y_i)².
    """
    data = (x, y, w)
    chain = new_chain(knots, data, free_left)
    live = chain[0]
    suffixes = new_suffixes(x.size)
    losses = np.empty(max_sweeps + 1)
    losses[0] = loss = renew_messages(x[-1], chain, free_left)
    final, sweeps = knots.copy(), 0
    while sweeps < max_sweeps:
        moved, new = 0, loss
        for row in range(windows.shape[0]):
            lo, hi, least = windows[row, 0], min(windows[row, 1], live.size - 1), LEAST_GAIN * loss
            for step in (1, -1):
                moved += settle_window(lo, hi, step, data, chain, free_left, least, suffixes)
            new = renew_messages(x[-1], chain, free_left)
        if moved == 0 or not new < loss:
            break
        gain, loss = loss - new, new
        for k in range(live.size):
            final[k] = live[k]
        sweeps += 1
        losses[sweeps] = loss
        if gain <= tolerance * (loss + gain) or loss - goal > HOPEFUL * gain:
            break
    return final, losses[: sweeps + 1]


def sweep(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, max_sweeps: int, tolerance: float
) -> tuple[Floats, Floats]:
    """Exact coordinate descent over all live knots, right and left again; results as those of `settle`.

    A sweep costs O(m + n). Dead knots (≥ x_m) stay. To go on, call it again with the knots it returned.
    """
    windows = np.array([[0, np.searchsorted(knots, x[-1]) - 1]])
    return settle(knots, x, y, w, free_left, windows, max_sweeps, tolerance, inf)
