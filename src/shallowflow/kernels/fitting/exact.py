"""The least Σ w_i (f(x_i) − y_i)² over all f of K + 1 straight pieces, joined or apart, with proof.

Not in [plateau]; ours. At an optimum (Hudson 1966, J. Am. Stat. Assoc. 61) each knot is *free*, strictly
between two data, where the lines on both sides, fitted apart, happen to cross; or *at a datum*, whose value
the lines share; or two knots lie in one gap, a *jump*, and the sides do not see each other. An optimum is a
division of the data into blocks joined by F, D or J. Blocks joined by D form a component, solved by the
messages of `chain`; an F-join needs one test, whether the last line before it and the first line after it
cross in the gap. Where they do not, the optimum has another pattern.

**Search.** E_k(a) is the optimum of the points a … n − 1 with k knots, found for k = 0, 1, … by branch and
bound: a prefix of blocks of cost g with k knots left that ends before point j cannot end below
g + E_{k−1}(j), which relaxes one joint only. With P_k(a), the same for prefixes, and the loss U of a known
fit, E_k(a) is wanted only below U − P_{K−k−1}(a): what cannot beat U dies.

A block of one point between two free knots has an open slope: either crossing bounds it from one side, and
both must leave room.

**Pieces apart**, each with a constant or a line of its own, for every number of them: dynamic programming,
O(K n²): with c(i, j) the least Σ w r² of one piece over the points i … j − 1, D_0(j) = c(0, j) and D_k(j) =
min_i D_{k−1}(i) + c(i, j) (Bellman and Roth 1969, J. Am. Stat. Assoc. 64). c comes from running sums of
centred data: a difference of sums loses digits in proportion to the whole, not to the piece, which is below
10⁻¹² of the total for the few thousand points that O(n²) allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.chain import (
    Block,
    Data,
    block_line,
    empty_block,
    load_block,
    pass_block,
    store_block,
)
from shallowflow.kernels.fitting.sweep import grown
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

START, FREE, AT_DATUM, JUMP = 0, 1, 2, 3
"""How a block is joined to the one before it."""
CLOSED, THEN_JUMP, FEWER = 0, 1, 2
"""How a pattern ends: with the last block, with a jump to a known suffix, or as that of fewer knots."""
BEGIN, STOP, KIND, HEAD, PHASE = 0, 1, 2, 3, 4
RHO, TAU, BASE, NEXT_RHO, NEXT_TAU, REACHED, CENTRE, HEIGHT, SLOPE, LOW, HIGH = range(11)
"""Rows of the stacks: a column is a block."""
Line = tuple[float, float, float]
"""Centre, height and slope."""
LEAST_GAIN = 1e-9
"""What is not lower than the known loss by this share is not looked for."""


@njit(cache=True, **LEAN)
def _fill_table(data: Data, table: Floats) -> None:
    """Write the statistics of the points i ≤ l < j into row i·(n + 1) + j of `table`."""
    n = data.x.size
    for i in range(n):
        block = empty_block()
        for j in range(i + 1, n + 1):
            block = grown(block, data.x[j - 1], data.y[j - 1], data.w[j - 1])
            store_block(table, i * (n + 1) + j, block)


@njit(cache=True, **INTERNAL)
def _through(block: Block, near: float, value: float, far: float, rho: float, tau: float) -> float:
    """The best slope of a block's line through (near, value), given the message on f(far); NaN if open."""
    h, d = near - far, near - block.x
    bottom = rho * rho * h * h + block.weight * d * d + block.sxx
    if bottom <= 0.0:
        return nan
    return (rho * h * (rho * value - tau) + block.weight * d * (value - block.y) + block.sxy) / bottom


@njit(cache=True, **INTERNAL)
def _last_line(depth: int, whole: Ints, real: Floats, x: Floats, table: Floats) -> Line:
    """The line of the block at `depth` if its component ends with it; NaN is an open slope."""
    begin, stop = whole[BEGIN, depth], whole[STOP, depth]
    block = load_block(table, begin * (x.size + 1) + stop)
    if whole[KIND, depth] != AT_DATUM:
        return block.x, block.y, block.sxy / block.sxx if block.sxx > 0.0 else nan
    message = (real[RHO, depth], real[TAU, depth], 0.0)
    height, slope, known = block_line(block, x[begin - 1], x[stop - 1], message, (0.0, 0.0, 0.0))
    return block.x, height, slope if known else nan


@njit(cache=True, **INTERNAL)
def _first_line(depth: int, last: Line, whole: Ints, real: Floats, x: Floats, table: Floats) -> Line:
    """The first line of the component whose last one is given, by back-substitution."""
    centre, height, slope = last
    d = depth
    while whole[KIND, d] == AT_DATUM:
        near = x[whole[BEGIN, d] - 1]
        height, centre = height + slope * (near - centre), near
        d -= 1
        first = whole[BEGIN, d]
        block = load_block(table, first * (x.size + 1) + whole[BEGIN, d + 1])
        joined = whole[KIND, d] == AT_DATUM
        far = x[first - 1] if joined else near
        rho, tau = (real[RHO, d], real[TAU, d]) if joined else (0.0, 0.0)
        slope = _through(block, near, height, far, rho, tau)
    return centre, height, slope


@njit(cache=True, **INTERNAL)
def _crossing(head: int, line: Line, whole: Ints, real: Floats, x: Floats) -> tuple[bool, float, float]:
    """Whether the line before a component can cross its first line in the gap, and which slopes that leaves.

    The slopes are those of the component's first line if that is open.
    """
    if whole[KIND, head] == START:
        return True, -inf, inf
    centre, height, slope = line
    place = whole[BEGIN, head]
    lo, hi = x[place - 1], x[place]
    before, steep = real[HEIGHT, head], real[SLOPE, head]
    if slope != slope:
        if centre != hi:
            return True, -inf, inf
        if steep != steep:
            # Two single points: one line is steeper than the line through both, the other one less steep.
            through = (height - before) / (hi - lo)
            if real[LOW, head] <= through <= real[HIGH, head]:
                return True, -inf, inf
            return (
                True,
                (through if real[HIGH, head] < through else -inf),
                (through if real[LOW, head] > through else inf),
            )
        bound = (height - before - steep * (lo - real[CENTRE, head])) / (hi - lo)
        above = before + steep * (hi - real[CENTRE, head]) - height
        return True, (bound if above < 0.0 else -inf), (bound if above > 0.0 else inf)
    at_lo, at_hi = height + slope * (lo - centre), height + slope * (hi - centre)
    if steep != steep:
        bound = (at_hi - before) / (hi - lo)
        above = before - at_lo
        fits = above == 0.0 or (real[LOW, head] <= bound if above > 0.0 else real[HIGH, head] >= bound)
        return fits, -inf, inf
    miss_lo = before + steep * (lo - real[CENTRE, head]) - at_lo
    miss_hi = before + steep * (hi - real[CENTRE, head]) - at_hi
    return miss_lo * miss_hi <= 0.0, -inf, inf


@njit(cache=True, **INTERNAL)
def _push(depth: int, kind: int, left: int, n: int, whole: Ints, real: Floats) -> None:
    """Begin a block after that of `depth`, with `left` knots left behind it."""
    new, begin = depth + 1, whole[STOP, depth]
    whole[BEGIN, new], whole[KIND, new], whole[PHASE, new] = begin, kind, 0
    whole[HEAD, new] = whole[HEAD, depth] if kind == AT_DATUM else new
    whole[STOP, new] = n - 1 if left == 0 else begin
    real[RHO, new], real[TAU, new] = real[NEXT_RHO, depth], real[NEXT_TAU, depth]
    real[BASE, new] = real[REACHED, depth]


@njit(cache=True, **INTERNAL)
def _record(depth: int, end: int, place: int, whole: Ints, pattern: Ints) -> None:
    """Write the blocks so far into `pattern` (2, ·): begins and kinds, then how it goes on and where."""
    for d in range(depth + 1):
        pattern[0, d], pattern[1, d] = whole[BEGIN, d], whole[KIND, d]
    pattern[0, depth + 1], pattern[1, depth + 1] = place, -1 - end


@njit(cache=True, **LEAN)
def _solve(
    first: int,
    k: int,
    best: float,
    x: Floats,
    table: Floats,
    optima: Floats,
    budget: int,
    stacks: tuple[Ints, Floats, Ints],
) -> tuple[float, int]:
    """The optimum of the points from `first` on with k knots if it is below `best`, and the visits made."""
    (whole, real, pattern), n = stacks, x.size
    whole[BEGIN, 0], whole[KIND, 0], whole[HEAD, 0], whole[PHASE, 0] = first, START, 0, 0
    whole[STOP, 0] = n - 1 if k == 0 else first
    real[BASE, 0] = real[RHO, 0] = real[TAU, 0] = 0.0
    depth = visits = 0
    while depth >= 0:
        left = k - depth
        if whole[PHASE, depth] == 1:
            whole[PHASE, depth] = 0
            _push(depth, AT_DATUM, left - 1, n, whole, real)
            depth += 1
            continue
        whole[STOP, depth] += 1
        begin, stop = whole[BEGIN, depth], whole[STOP, depth]
        visits += 1
        if stop > (n if left == 0 else n - 1) or visits > budget:
            depth = depth - 1 if visits <= budget else -1
            continue
        block = load_block(table, begin * (n + 1) + stop)
        near, joined = x[stop - 1], whole[KIND, depth] == AT_DATUM
        far = x[begin - 1] if joined else near
        rho, tau = (real[RHO, depth], real[TAU, depth]) if joined else (0.0, 0.0)
        real[NEXT_RHO, depth], real[NEXT_TAU, depth], cost = pass_block(near, far, rho, tau, block)
        g = real[BASE, depth] + cost
        real[REACHED, depth] = g
        if g >= best:
            depth -= 1
            continue
        if left > 0 and g + optima[left - 1, stop] >= best:
            continue
        last = _last_line(depth, whole, real, x, table)
        first_line = _first_line(depth, last, whole, real, x, table)
        stands, low, high = _crossing(whole[HEAD, depth], first_line, whole, real, x)
        if left == 0:
            if stands:
                best = g
                _record(depth, CLOSED, n, whole, pattern)
            continue
        whole[PHASE, depth] = 1
        if stands:
            if left >= 2 and g + optima[left - 2, stop] < best:
                best = g + optima[left - 2, stop]
                _record(depth, THEN_JUMP, stop, whole, pattern)
            _push(depth, FREE, left - 1, n, whole, real)
            depth += 1
            real[CENTRE, depth], real[HEIGHT, depth], real[SLOPE, depth] = last
            real[LOW, depth], real[HIGH, depth] = low, high
    return best, visits


@dataclass(frozen=True)
class Pattern:
    """Where the blocks begin and how each is joined to the one before it (START first)."""

    begins: list[int]
    kinds: list[int]


@dataclass(frozen=True, eq=False)
class Proof:
    """The least loss found below the known one (None: there is none), its pattern, and whether all was seen.

    `complete` False: the search gave up after its budget of visits, and nothing is known.
    """

    loss: float | None
    pattern: Pattern | None
    complete: bool


class _Search:
    """Tables of one data set, and the optima of its suffixes."""

    def __init__(self, data: Data, most: int, budget: int) -> None:
        n = data.x.size
        self.x, self.left = data.x, budget
        self.table = np.zeros((n * (n + 1) + n + 1, 6))
        _fill_table(data, self.table)
        self.optima = np.full((most + 1, n + 1), inf)
        ends = np.arange(n)
        self.optima[0, ends] = self.table[ends * (n + 1) + n, 5]
        shape = most + 3
        self.stacks = (
            np.zeros((5, shape), np.int64),
            np.zeros((11, shape)),
            np.full((2, shape), FEWER, np.int64),
        )

    def solve(self, first: int, k: int, best: float) -> float:
        """Return the optimum from `first` on with k knots if it is below `best`; else `best`."""
        budget = max(self.left, 0)
        value, visits = _solve(first, k, best, self.x, self.table, self.optima, budget, self.stacks)
        self.left -= visits
        return float(value)

    def level(self, k: int, cut: Floats | None) -> None:
        """Find E_k(a) for all a > 0, from those of fewer knots; above `cut` (n + 1,) they do not matter."""
        for first in range(self.x.size - 1, 0, -1):
            best = float(self.optima[k - 1, first])
            if cut is not None:
                best = min(best, float(cut[first]))
            self.optima[k, first] = self.solve(first, k, best) if best > 0.0 else best

    def pattern(self, first: int, k: int, value: float) -> Pattern:
        """Return a pattern of the value E_k(first)."""
        room = value * (1.0 + LEAST_GAIN) + 1e-300
        found = self.stacks[2]
        begins, kinds = list[int](), list[int]()
        while True:
            fewer = k
            while fewer > 0 and (self.optima[fewer - 1, first] <= room if first > 0 else False):
                fewer -= 1
            found[1, 0] = -1
            self.solve(first, fewer, room)
            if found[1, 0] == -1:
                raise ArithmeticError("the optimum was not found again")
            length = int(np.argmax(found[1] < 0))
            kinds += [JUMP if begins else START, *(int(kind) for kind in found[1, 1:length])]
            begins += [int(begin) for begin in found[0, :length]]
            if found[1, length] == -1 - CLOSED:
                return Pattern(begins, kinds)
            first, k = int(found[0, length]), fewer - length - 1
            room = float(self.optima[k, first]) * (1.0 + LEAST_GAIN) + 1e-300


def prove(x: Floats, y: Floats, w: Floats, k: int, known: float, *, budget: int = 20_000_000) -> Proof:
    """Look for continuous pieces with k ≥ 1 knots of a loss Σ w_i (f(x_i) − y_i)² below `known`.

    Symbols: x strictly increasing, y, w > 0, each (n,); `budget`, the most blocks that are looked at. Memory
    O(n²).
    """
    goal = known * (1.0 - LEAST_GAIN)
    n, half = x.size, (k - 1) // 2
    if n < 2 or goal <= 0.0:
        return Proof(None, None, True)
    forward = _Search(Data(x, y, w, 1), k, budget)
    mirror = Data(np.ascontiguousarray(-x[::-1]), y[::-1].copy(), w[::-1].copy(), 1)
    backward = _Search(mirror, max(half, 1), budget)
    for level in range(1, half + 1):
        backward.level(level, None)
        forward.left, backward.left = (min(forward.left, backward.left),) * 2
    for level in range(1, k):
        behind = k - level - 1
        cut = goal - backward.optima[behind, ::-1] if behind <= half else None
        forward.level(level, cut)
    value = forward.solve(0, k, goal)
    if min(forward.left, backward.left) <= 0:
        return Proof(None, None, False)
    if value >= goal:
        return Proof(None, None, True)
    forward.left = budget
    return Proof(value, forward.pattern(0, k, value), True)


W, WX, WY, WXX, WXY, WYY = range(6)
"""Rows of the running sums."""


@njit(cache=True, **INTERNAL)
def piece_cost(sums: Floats, i: int, j: int, lines: int) -> float:
    """The least Σ w r² of the points i … j − 1 with one constant, or one line if `lines`."""
    w = sums[W, j] - sums[W, i]
    x, y = (sums[WX, j] - sums[WX, i]) / w, (sums[WY, j] - sums[WY, i]) / w
    cost = sums[WYY, j] - sums[WYY, i] - w * y * y
    if lines:
        sxx = sums[WXX, j] - sums[WXX, i] - w * x * x
        sxy = sums[WXY, j] - sums[WXY, i] - w * x * y
        if j - i > 1 and sxx > 0.0:
            cost -= sxy * sxy / sxx
        if j - i <= 2:
            cost = 0.0
    return max(cost, 0.0)


@njit(cache=True, **LEAN)
def _fill(sums: Floats, lines: int, least: int, costs: Floats, cuts: Ints) -> None:
    n = sums.shape[1] - 1
    for j in range(least, n + 1):
        costs[0, j] = piece_cost(sums, 0, j, lines)
    for k in range(1, costs.shape[0]):
        for j in range((k + 1) * least, n + 1):
            best, place = inf, -1
            # From the right: pieces that alone cost more than the best need not grow.
            for i in range(j - least, k * least - 1, -1):
                cost = piece_cost(sums, i, j, lines)
                if cost >= best:
                    break
                if costs[k - 1, i] + cost < best:
                    best, place = costs[k - 1, i] + cost, i
            costs[k, j], cuts[k, j] = best, place


def divisions(
    x: Floats, y: Floats, w: Floats, most: int, *, lines: bool, least: int = 1
) -> tuple[Floats, list[Ints]]:
    """Return the least cost (most + 1,) with 0, 1, … cuts, ∞ where there is none, and the cuts of each.

    Symbols: x strictly increasing, y, w > 0, each (n,); a cut is the number of points left of it; `least`
    points or more in every piece.
    """
    n = x.size
    x, y = x - np.average(x, weights=w), y - np.average(y, weights=w)
    sums = np.zeros((6, n + 1))
    for row, values in enumerate((w, w * x, w * y, w * x * x, w * x * y, w * y * y)):
        np.cumsum(values, out=sums[row, 1:])
    costs, cuts = np.full((most + 1, n + 1), inf), np.full((most + 1, n + 1), -1)
    _fill(sums, int(lines), least, costs, cuts)
    found = list[Ints]()
    for k in range(most + 1):
        places, j = [], n
        for level in range(k, 0, -1):
            j = int(cuts[level, j])
            if j < 0:
                break
            places.append(j)
        found.append(np.array(places[::-1], dtype=np.int64))
    return costs[:, n].copy(), found
