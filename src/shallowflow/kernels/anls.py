"""Active Neuron Least Squares [plateau, §4.3]: the best move again and again, until none helps.

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

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.anls_moves import Chain, left_target, new_chain, refresh_gains, right_target
from shallowflow.kernels.chain import COST, backward_message, closing_cost, forward_message, store_message
from shallowflow.kernels.chain_blocks import Data, block_of, store_block, zero_block
from shallowflow.kernels.segment_tree import first_at_least, new_tree, refresh_maxima, refresh_sums

PAUSED, CONVERGED, ROUNDING = 0, 1, 2
"""Why a run ended: at `max_iterations`; no move gains; or what the best move gains is lost in rounding."""
TIE = 1e-10
"""Losses that differ by less, relatively, count as equal; the first candidate wins."""
LEAST_GAIN = 1e-12
"""A run ends when the best move lowers the loss by no more than this part of it."""

Run = tuple[Floats, float, float, int, int, Ints, Ints, Floats]
"""Knots, loss before and after, number of moves, status; recorded knot indices, sides and losses."""


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
    indices, sides, losses = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity)
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
            indices[iterations], sides[iterations], losses[iterations] = k, side, loss
        iterations += 1
    final = knots.copy()
    for k in range(n):
        final[k] = live[k]
    kept = min(iterations, capacity)
    return final, initial, loss, iterations, status, indices[:kept], sides[:kept], losses[:kept]


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
    Returns the knots (n,), the loss before and after, the number of moves, the status (0 paused at
    `max_iterations`, 1 converged, 2 converged to rounding), and of the recorded moves the knot indices, the
    sides (−1 left, +1 right) and the losses after each, each (recorded,). Losses are full weighted sums of
    squares.
    """
    return _run(knots, (x, y, w), free_left, margin, max_iterations, capacity, True)
