"""Active Neuron Least Squares [plateau, §4]: the best move of one knot past one datum; coefficients (4.1).

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

**Coefficients**: rank and minimum-norm c = A⁺ y of (4.1), without a tolerance, O(m + n). Knots with no datum
between them form a group g; between two groups lies a block with data, on which f is one line. A group at a
single place ties the lines left and right of it (f is continuous there, and its members share the slope jump
C: c_j = C / g). A group at two or more places leaves them independent: any jump C of the slope and J of the
value, taken at the group's mean place b̄, can be made, most cheaply by

    c_j = C / g − (b_j − b̄) J / S,   S = Σ (b_j − b̄)²,   ‖c‖² = C² / g + J² / S.

A *run* is a sequence of blocks joined by ties. It starts pinned (to the zero line) or free. Its lines are
those of the chain elimination (`chain.block_lines`), except that a run that starts free with one-point
blocks only, up to its end or up to a point lying exactly on a knot, can be tilted: its first slope is open,
each later line turns about its own point. So rank A = Σ over runs (number of blocks + 1 if free − 1 if it
can be tilted).

*Tilts*: c is affine in the tilts α, and each group couples two neighbouring runs: minimising ‖c‖² is
again least squares along a chain, eliminated by Givens rotations.

With a free line on the left (`free_left` = 1) that line carries no norm: c minimises ‖c‖ among all
minimisers of the loss, knots left of the data get c = 0, and the rank counts the columns 1 and x too.
"""

from __future__ import annotations

from math import inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.chain import (
    CENTRE,
    COST,
    HEIGHT,
    RHO,
    SLOPE,
    TAU,
    Block,
    Chain,
    Data,
    backward_message,
    block_lines,
    block_with,
    block_without,
    closing_cost,
    cost_around,
    empty_block,
    forward_message,
    line_value,
    lines_of_all,
    load_block,
    meeting_cost,
    merge_rows,
    new_chain,
    place_knot,
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


Group = tuple[int, float, float]
Row = tuple[float, float, float]


class Runs(NamedTuple):
    """What is known of the runs: first knot of every group of equal starts, and n at the end (groups + 1,).

    Per block with data (row borders[g]): is it silent, how its slope answers to the tilt of its run, and the
    number of its run, (n + 1,) each. `opening` 0: the zero line, 1: a free line, 2: a free line without data.
    Then a first group lies left of the data and gets no coefficients.
    """

    borders: Ints
    silent: Ints
    response: Floats
    runs: Ints
    opening: int


@njit(cache=True, **INTERNAL)
def group_shape(knots: Floats, first: int, stop: int) -> Group:
    """Size g, mean place b̄ and spread S of the group first ≤ j < stop; S = 0 exactly if it has one place."""
    size = stop - first
    if knots[first] == knots[stop - 1]:
        return size, knots[first], 0.0
    mean = 0.0
    for j in range(first, stop):
        mean += (knots[j] - knots[first]) / size
    spread = 0.0
    for j in range(first, stop):
        spread += (knots[j] - knots[first] - mean) ** 2
    return size, knots[first] + mean, spread


@njit(cache=True, **INTERNAL)
def find_silent(chain: Chain, x: Floats, found: Runs) -> None:
    """Find the blocks that say nothing about the lines left of them.

    That is a one-point block with its point exactly on the next knot, or with nothing to hear from the right:
    the last block, one before a group at several places, or one before another silent block.
    """
    knots, starts, borders, silent = chain.knots, chain.starts, found.borders, found.silent
    groups = borders.size - 1
    heard = False
    for g in range(groups, -1, -1):
        start = starts[borders[g - 1]] if g > 0 else 0
        stop = starts[borders[g]] if g < groups else x.size
        if g < groups and knots[borders[g]] != knots[borders[g + 1] - 1]:
            heard = False
        on_knot = g < groups and stop > 0 and x[stop - 1] == knots[borders[g]]
        if stop == start + 1 and (on_knot or not heard):
            silent[borders[g]] = 1
        heard = silent[borders[g]] == 0


@njit(cache=True, **INTERNAL)
def find_runs(knots: Floats, lines: Floats, found: Runs) -> int:
    """Write responses and numbers of runs; returns the rank."""
    borders, silent, response, runs, opening = found
    rank = run = 0
    if opening == 1:
        response[0] = float(silent[0])
        rank = 2 - silent[0]
    for g in range(borders.size - 1):
        before, row = borders[g], borders[g + 1]
        place = knots[before]
        if place == knots[row - 1] and not (opening == 2 and g == 0):
            turn = (place - lines[before, CENTRE]) / (place - lines[row, CENTRE])
            response[row] = response[before] * turn
            rank += 1
        else:
            run += 1
            response[row] = float(silent[row])
            rank += 2 - silent[row]
        runs[row] = run
    return rank


@njit(cache=True, **INTERNAL)
def rotate_out(pivot: Row, row: Row) -> tuple[Row, Row]:
    """Rotate the rows (a, b, t) of a·α + b·β = t so that α is left in the first only."""
    r = sqrt(pivot[0] * pivot[0] + row[0] * row[0])
    if r == 0.0:
        return pivot, row
    c, s = pivot[0] / r, row[0] / r
    return (
        (r, c * pivot[1] + s * row[1], c * pivot[2] + s * row[2]),
        (0.0, c * row[1] - s * pivot[1], c * row[2] - s * pivot[2]),
    )


@njit(cache=True, **INTERNAL)
def find_tilts(knots: Floats, lines: Floats, found: Runs, pivots: Floats, tilts: Floats) -> None:
    """Write the tilts α (runs,) of least ‖c‖², by elimination along the runs; pivots (3, runs): scratch."""
    borders, _, response, runs, opening = found
    groups = borders.size - 1
    count = runs[borders[groups]] + 1
    rho = tau = 0.0
    for g in range(1 if opening == 2 else 0, groups):
        left, right = borders[g], borders[g + 1]
        size, mean, spread = group_shape(knots, left, right)
        jump = (lines[right, SLOPE] - lines[left, SLOPE]) / sqrt(size)
        if runs[left] == runs[right]:
            rho, tau, _ = merge_rows(rho, tau, (response[right] - response[left]) / sqrt(size), -jump)
            continue
        pivot = (rho, 0.0, tau)
        row = (-response[left] / sqrt(size), response[right] / sqrt(size), -jump)
        pivot, first = rotate_out(pivot, row)
        root = sqrt(spread)
        row = (
            -response[left] * (mean - lines[left, CENTRE]) / root,
            response[right] * (mean - lines[right, CENTRE]) / root,
            -(line_value(lines, right, mean) - line_value(lines, left, mean)) / root,
        )
        pivot, second = rotate_out(pivot, row)
        for column in range(3):
            pivots[column, runs[left]] = pivot[column]
        rho, tau, _ = merge_rows(first[1], first[2], second[1], second[2])
    after = tilts[count - 1] = tau / rho if rho > 0.0 else 0.0
    for run in range(count - 2, -1, -1):
        if pivots[0, run] > 0.0:
            tilts[run] = (pivots[2, run] - pivots[1, run] * after) / pivots[0, run]
        after = tilts[run]


@njit(cache=True, **INTERNAL)
def spread_jumps(knots: Floats, lines: Floats, coefficients: Floats, found: Runs) -> None:
    """Share the jumps at each group among its knots, and fill in the lines between them, in place."""
    borders = found.borders
    for g in range(borders.size - 1):
        left, right = borders[g], borders[g + 1]
        if found.opening == 2 and g == 0:
            for row in range(right):
                lines[row, CENTRE], lines[row, HEIGHT] = lines[right, CENTRE], lines[right, HEIGHT]
                lines[row, SLOPE] = lines[right, SLOPE]
            continue
        size, mean, spread = group_shape(knots, left, right)
        share = (lines[right, SLOPE] - lines[left, SLOPE]) / size
        lever = 0.0
        if spread > 0.0:
            lever = (line_value(lines, right, mean) - line_value(lines, left, mean)) / spread
        for j in range(left, right):
            coefficients[j] = share - (knots[j] - mean) * lever
            if j + 1 < right:
                height = line_value(lines, j, knots[j])
                lines[j + 1, CENTRE], lines[j + 1, HEIGHT] = knots[j], height
                lines[j + 1, SLOPE] = lines[j, SLOPE] + coefficients[j]


@njit(cache=True, **LEAN)
def _minimum_norm(
    chain: Chain, data: Data, lines: Floats, coefficients: Floats, integers: Ints, floats: Floats
) -> int:
    """The rank; `lines` (n + 1, 3), coefficients and scratch, (3, n + 1) and (5, n + 1), are zero before."""
    knots, starts = chain.knots, chain.starts
    borders, groups = integers[0], 0
    for j in range(starts.size):
        if j == 0 or starts[j] != starts[j - 1]:
            borders[groups] = j
            groups += 1
    borders[groups] = starts.size
    opening = 0
    if data.free_left:
        opening = 1 if chain.blocks[0, 0] > 0.0 else 2
    found = Runs(borders[: groups + 1], integers[1], floats[0], integers[2], opening)
    block_lines(chain, data, lines)
    if opening == 0 and knots.size > 0:
        lines[0, CENTRE] = knots[0]
    find_silent(chain, data.x, found)
    rank = find_runs(knots, lines, found)
    tilts = floats[1]
    find_tilts(knots, lines, found, floats[2:], tilts)
    for g in range(groups + 1):
        row = borders[g]
        lines[row, SLOPE] += found.response[row] * tilts[found.runs[row]]
    spread_jumps(knots, lines, coefficients, found)
    return int(rank)


def minimum_norm(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int
) -> tuple[Floats, int, Floats]:
    """Minimum-norm least squares coefficients c = A⁺ y [plateau, (4.1)] and the rank of A, O(m + n).

    Among all minimisers of Σ_i w_i (f(x_i) − y_i)², f(x) = Σ_j c_j relu(x − b_j) [+ a free line], the one
    of least Σ c_j². Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left`
    as in `chain.fit`. Returns c (n,), dead knots 0; the rank of A (of [1, x, A] if `free_left`); and the
    lines (n + 1, 3) of this f as in `chain.fit`. Where a knot is very close to a datum c is huge and Σ c_j
    relu(x − b_j) loses digits in evaluation; the lines do not.
    """
    data = Data(x, y, w, free_left)
    _, chain = new_chain(knots, data)
    size = chain.knots.size + 1
    lines, coefficients = np.zeros((size, 3)), np.zeros(knots.size)
    scratch = np.zeros((3, size), dtype=np.int64), np.zeros((5, size))
    rank = int(_minimum_norm(chain, data, lines, coefficients, *scratch))
    return coefficients, rank, lines_of_all(lines, knots.size)
