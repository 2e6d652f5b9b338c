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
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.chain import (
    CENTRE,
    HEIGHT,
    SLOPE,
    Chain,
    Data,
    block_lines,
    line_value,
    lines_of_all,
    merge_rows,
    new_chain,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

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
