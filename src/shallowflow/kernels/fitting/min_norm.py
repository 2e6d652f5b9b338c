"""Rank and minimum-norm coefficients c = A⁺ y of [plateau, (4.1)] without a tolerance, O(m + n).

**Groups and runs.** Knots with no datum between them form a group g; between two groups lies a block with
data, on which f is one line. A group at a single place ties the lines left and right of it (f is continuous
there, and its members share the slope jump C: c_j = C / g). A group at two or more places leaves them
independent: any jump C of the slope and J of the value, taken at the group's mean place b̄, can be made,
most cheaply by

    c_j = C / g − (b_j − b̄) J / S,   S = Σ (b_j − b̄)²,   ‖c‖² = C² / g + J² / S.

A *run* is a sequence of blocks joined by ties. It starts pinned (to the zero line) or free. Its lines are
those of the chain elimination (`chain.block_lines`), except that a run that starts free with one-point
blocks only, up to its end or up to a point lying exactly on a knot, can be tilted: its first slope is open,
each later line turns about its own point. So rank A = Σ over runs (number of blocks + 1 if free − 1 if it
can be tilted).

**Tilts.** c is affine in the tilts α, and each group couples two neighbouring runs: minimising ‖c‖² is
again least squares along a chain, eliminated by Givens rotations.

With a free line on the left (`free_left` = 1) that line carries no norm: c minimises ‖c‖ among all
minimisers of the loss, knots left of the data get c = 0, and the rank counts the columns 1 and x too.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.chain import (
    CENTRE,
    HEIGHT,
    SLOPE,
    block_lines,
    lines_of_all,
    live_starts,
    merge_rows,
)
from shallowflow.kernels.fitting.chain_blocks import all_blocks

Group = tuple[int, float, float]
Row = tuple[float, float, float]


@njit(cache=True)
def group_borders(starts: Ints) -> Ints:
    """First knot of every group of equal `starts` (n,), and n at the end: (groups + 1,)."""
    borders = np.empty(starts.size + 1, np.int64)
    groups = 0
    for j in range(starts.size):
        if j == 0 or starts[j] != starts[j - 1]:
            borders[groups] = j
            groups += 1
    borders[groups] = starts.size
    return borders[: groups + 1]


@njit(cache=True)
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


@njit(cache=True)
def line_at(lines: Floats, row: int, place: float) -> float:
    """Value of line `row` at `place`."""
    return float(lines[row, HEIGHT] + lines[row, SLOPE] * (place - lines[row, CENTRE]))


@njit(cache=True)
def silent_blocks(knots: Floats, starts: Ints, borders: Ints, x: Floats) -> Ints:
    """1 for each block with data (row borders[g]) that tells the lines left of it nothing, else 0: (n + 1,).

    That is a one-point block with its point exactly on the next knot, or with nothing to hear from the right:
    the last block, one before a group at several places, or one before another silent block.
    """
    groups = borders.size - 1
    silent = np.zeros(knots.size + 1, np.int64)
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
    return silent


@njit(cache=True)
def run_structure(
    knots: Floats, borders: Ints, lines: Floats, silent: Ints, opening: int
) -> tuple[Floats, Ints, int]:
    """Runs, tilts and rank; `opening` 0: the zero line, 1: a free line, 2: a free line without data.

    Returns, per block with data (row borders[g]), how its slope answers to the tilt of its run (n + 1,), the
    number of its run (n + 1,), and the rank.
    """
    response, runs = np.zeros(knots.size + 1), np.zeros(knots.size + 1, np.int64)
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
    return response, runs, rank


@njit(cache=True)
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


@njit(cache=True)
def cheapest_tilts(
    knots: Floats, borders: Ints, lines: Floats, response: Floats, runs: Ints, idle: bool
) -> Floats:
    """The tilts α (runs,) of least ‖c‖², by elimination along the runs; `idle` as in `spread_jumps`."""
    groups = borders.size - 1
    count = runs[borders[groups]] + 1
    pivots = np.zeros((count, 3))
    rho = tau = 0.0
    for g in range(1 if idle else 0, groups):
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
            -(line_at(lines, right, mean) - line_at(lines, left, mean)) / root,
        )
        pivot, second = rotate_out(pivot, row)
        for column in range(3):
            pivots[runs[left], column] = pivot[column]
        rho, tau, _ = merge_rows(first[1], first[2], second[1], second[2])
    tilts = np.zeros(count)
    after = tilts[count - 1] = tau / rho if rho > 0.0 else 0.0
    for run in range(count - 2, -1, -1):
        if pivots[run, 0] > 0.0:
            tilts[run] = (pivots[run, 2] - pivots[run, 1] * after) / pivots[run, 0]
        after = tilts[run]
    return tilts


@njit(cache=True)
def spread_jumps(knots: Floats, borders: Ints, lines: Floats, coefficients: Floats, idle: bool) -> None:
    """Share the jumps at each group among its knots, and fill in the lines between them, in place.

    `idle`: the first group lies left of the data under a free line and gets no coefficients.
    """
    for g in range(borders.size - 1):
        left, right = borders[g], borders[g + 1]
        if idle and g == 0:
            for row in range(right):
                lines[row, CENTRE], lines[row, HEIGHT] = lines[right, CENTRE], lines[right, HEIGHT]
                lines[row, SLOPE] = lines[right, SLOPE]
            continue
        size, mean, spread = group_shape(knots, left, right)
        share = (lines[right, SLOPE] - lines[left, SLOPE]) / size
        lever = 0.0
        if spread > 0.0:
            lever = (line_at(lines, right, mean) - line_at(lines, left, mean)) / spread
        for j in range(left, right):
            coefficients[j] = share - (knots[j] - mean) * lever
            if j + 1 < right:
                height = line_at(lines, j, knots[j])
                lines[j + 1, CENTRE], lines[j + 1, HEIGHT] = knots[j], height
                lines[j + 1, SLOPE] = lines[j, SLOPE] + coefficients[j]


@njit(cache=True)
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
    starts = live_starts(knots, x)
    live = knots[: starts.size]
    blocks = all_blocks((x, y, w), starts, free_left)
    _, lines, _ = block_lines(live, x[-1], blocks, free_left)
    borders = group_borders(starts)
    opening = 0
    if free_left:
        opening = 1 if blocks[0, 0] > 0.0 else 2
    if opening == 0 and live.size > 0:
        lines[0, CENTRE] = live[0]
    silent = silent_blocks(live, starts, borders, x)
    response, runs, rank = run_structure(live, borders, lines, silent, opening)
    tilts = cheapest_tilts(live, borders, lines, response, runs, opening == 2)
    for row in borders:
        lines[row, SLOPE] += response[row] * tilts[runs[row]]
    coefficients = np.zeros(knots.size)
    spread_jumps(live, borders, lines, coefficients, opening == 2)
    return coefficients, rank, lines_of_all(lines, knots.size)
