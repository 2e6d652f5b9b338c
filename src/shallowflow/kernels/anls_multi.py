"""Active Neuron Least Squares with many moves per iteration.

Not in [plateau]; ours. The candidates are those of [plateau, §4.2] (`anls_moves`), but an iteration takes
every knot whose better move gains, and gains more than those of the two knots beside it. No two of them are
neighbours, so each changes two blocks of its own; and since a block with several points passes little on, the
gains nearly add up. The loss is computed afresh. If it does not fall by at least half of the best single
gain, all moves are undone and only those of more than half, three quarters, … of the best gain are taken, in
the end the best one alone: that is the iteration of [plateau, §4.3].

An iteration costs O(n) and O(u) for each block of u data that changes. The end is a configuration where no
single candidate gains more than 10⁻¹² of the loss, as in `anls`, but in general another one.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.anls import CONVERGED, LEAST_GAIN, PAUSED, ROUNDING, place_knot
from shallowflow.kernels.anls_moves import Chain, left_target, new_chain, refresh_gains, right_target
from shallowflow.kernels.chain_blocks import Data
from shallowflow.kernels.knot_sweep import renew_messages

ATTEMPTS = 6
"""Shares 0, 1/2, 3/4, … of the best gain that are tried as the least one to take; then the best alone."""


@njit(cache=True)
def chosen_knots(gains: Floats, least: float, chosen: Bools) -> None:
    """Mark the knots (n,) that gain more than `least` and the knot before, and no less than the one behind.

    Symbols: `gains` (2n,), left moves at 2k and right moves at 2k + 1.
    """
    n = chosen.size
    before, here = -inf, max(gains[0], gains[1])
    for k in range(n):
        after = max(gains[2 * k + 2], gains[2 * k + 3]) if k + 1 < n else -inf
        chosen[k] = here > least and here > before and here >= after
        before, here = here, after


@njit(cache=True)
def make_moves(chosen: Bools, gains: Floats, margin: float, data: Data, chain: Chain, free_left: int) -> int:
    """Carry out the better move of every chosen knot (n,); how many."""
    knots, starts, x = chain[0], chain[1], data[0]
    moves = 0
    for k in range(knots.size):
        if not chosen[k]:
            continue
        if gains[2 * k] >= gains[2 * k + 1]:
            target, start = left_target(k, knots, starts, x, margin), starts[k] - 1
        else:
            target, start = right_target(k, knots, starts, x), starts[k] + 1
        place_knot(k, target, start, data, chain, free_left)
        moves += 1
    return moves


@njit(cache=True)
def iterate(
    loss: float, gains: Floats, margin: float, data: Data, chain: Chain, free_left: int
) -> tuple[float, int]:
    """One iteration: the new loss and the number of moves; 0 moves if none lowers the loss."""
    knots, starts, end = chain[0], chain[1], data[0][-1]
    old_knots, old_starts = knots.copy(), starts.copy()
    chosen = np.empty(knots.size, np.bool_)
    best, best_knot = 0.0, -1
    for k in range(knots.size):
        here = max(gains[2 * k], gains[2 * k + 1])
        if here > best:
            best, best_knot = here, k
    share = 1.0
    for attempt in range(ATTEMPTS + 1):
        if attempt < ATTEMPTS:
            chosen_knots(gains, max((1.0 - share) * best, LEAST_GAIN * loss), chosen)
        else:
            for k in range(knots.size):
                chosen[k] = k == best_knot
        moves = make_moves(chosen, gains, margin, data, chain, free_left)
        new = renew_messages(end, chain, free_left)
        if new < loss and (attempt == ATTEMPTS or loss - new >= 0.5 * best):
            return new, moves
        for k in range(knots.size):
            if chosen[k]:
                place_knot(k, old_knots[k], old_starts[k], data, chain, free_left)
        share *= 0.5
    renew_messages(end, chain, free_left)
    return loss, 0


@njit(cache=True)
def run_multi(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, margin: float, max_iterations: int
) -> tuple[Floats, Floats, Ints, int]:
    """ANLS with all non-interfering moves per iteration, until no move lowers Σ w_i (f(x_i) − y_i)².

    Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`;
    `margin` as in `anls_moves.candidates`. Returns the knots (n,), the strictly decreasing losses before and
    after each iteration (iterations + 1,), the number of moves in each (iterations,), and the status as in
    `anls`. To go on, call it again with the knots it returned.
    """
    data = (x, y, w)
    chain = new_chain(knots, data, free_left)
    live = chain[0]
    n = live.size
    gains = np.empty(2 * n)
    losses, counts = [renew_messages(x[-1], chain, free_left)], [0]
    status = PAUSED
    for _ in range(max_iterations):
        refresh_gains(gains, 0, n - 1, data, chain, free_left, margin)
        loss, moves = losses[-1], 0
        if n > 0 and gains.max() > LEAST_GAIN * loss:
            loss, moves = iterate(loss, gains, margin, data, chain, free_left)
            status = PAUSED if moves > 0 else ROUNDING
        else:
            status = CONVERGED
        if moves == 0:
            break
        losses.append(loss)
        counts.append(moves)
    final = knots.copy()
    for k in range(n):
        final[k] = live[k]
    return final, np.array(losses), np.array(counts)[1:], status
