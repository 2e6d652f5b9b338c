"""One-pass SGD (9) of [two_timescale] on sorted positions: the steps of `sgd.advance_plain`, faster.

**Cells.** [0, 1) is cut into 2^p equal cells. The code of a cell is k·2^12 + piece if the whole cell lies on
plateau k (k neurons fully on, no window |x − u_j| < η/2 touches it) and on one piece of the target; otherwise
−1 − k, where all windows left of slot k end before the cell. For the neuron in slot j of the sorted
positions, `low`[j] … `high`[j] are the cells that its window touches. Both are non-decreasing in j, so a
stretch of cells is refilled in one pass; while the two numbers of every neuron stay the same, so does the
table.

**Plateaus.** Positions are kept sorted (`labels` remember who is who), and instead of the weights the plateau
values c_k = a_0 + … + a_k are stored. For a sample on plateau k (the table of cells knows k and the piece of
f*) the network's value is c_k, one load; and since a_0 … a_k all change by −h r,

    c_i ← c_i − (min(i, k) + 1)·h r      for all i,

one vector sweep without a reduction; the factors are row k of a table. Inside one window, of share
s = σ_{k+1}, the value is c_k + s(c_{k+1} − c_k) and the factors are min(i + 1, k + 1 + s). Where windows
overlap, the neurons inside are treated one by one. If a neuron then passes a neighbour, the two swap, which
changes the plateau between them from c_j to c_{j−1} + c_{j+1} − c_j.

Nothing is allocated, so that references to arrays need not be counted (`LEAN`): atomic counting of the arrays
that a window touches would take longer than the step. The arrays are padded to a length that is known only at
run time: a constant trip count would be unrolled and not vectorised.

**Hats**, for many neurons: three short vector sweeps per step, whatever m. Put the plateau values on the
integers: V(0) = 0, V(i + 1) = a_0 + … + a_i. A sample with k neurons fully on and one window entered, of
share s = σ_{k+1}, sees f = V interpolated linearly at K = k + 1 + s, and changes

    V(x) ← V(x) − h r·min(x, K)      for all x,

since a_0 … a_k change by −h r and a_{k+1} by −h r s. Outside the windows s = 0.

V is stored as a hierarchy of hat functions over blocks of F = 32 and of F²: `top` holds V at the multiples of
F², `middle` at the multiples of F what V exceeds the linear interpolant of `top` by, `leaf` at all integers
what V exceeds the interpolant of both by. min(x, K) is linear on every block without K inside. So a step
changes `top` everywhere (m/F² entries) but `middle` and `leaf` only in the one block of K, by the hat

    min(y, L) − y·L/F,      y = 0 … F − 1,

with L the place of K in that block, in units of the block's mesh. A value costs five loads.

With many neurons the arrays outgrow the first cache, and a step would mostly wait for memory. Samples do not
depend on the network, so they are drawn ahead, and what they will touch is fetched ahead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed
from shallowflow.kernels.shared.vectors import aligned_copy
from shallowflow.kernels.steps.sgd import (
    OVERFLOW,
    Rules,
    Target,
    Words,
    drawn,
    load_stream,
    store_stream,
    target_at,
    window_slope,
)
from shallowflow.kernels.steps.windows import step, step_inside

Codes = NDArray[np.int32]
PIECE_BITS = 12
PIECE_MASK = (1 << PIECE_BITS) - 1
MOST_PIECES, MOST_NEURONS = 1 << PIECE_BITS, 1 << (31 - PIECE_BITS)
"""What fits into a code."""
FEWEST_CELLS, CELLS_PER_NEURON = 4096, 8


class Cells(NamedTuple):
    """The table: a code and a piece of the target per cell, first and last cell per neuron."""

    codes: Codes
    pieces: Codes
    low: Ints
    high: Ints


@njit(cache=True, **INTERNAL)
def cell_of(x: float, cells: int) -> int:
    """The cell of x, −1 left of 0 (or for a NaN) and `cells` right of 1."""
    if not x >= 0.0:
        return -1
    if x >= 1.0:
        return cells
    return int(x * cells)


def new_cells(u: Floats, half: float, breaks: Floats, count: int | None = None) -> Cells:
    """Return the table for sorted u (m,) and windows of half-width `half`."""
    if count is None:
        count = FEWEST_CELLS
        while count < CELLS_PER_NEURON * u.size:
            count *= 2
    edges = np.arange(count + 1)
    first = np.searchsorted(breaks * count, edges[:-1], side="right")
    last = np.searchsorted(breaks * count, edges[1:], side="left")
    pieces = np.where(first == last, first, -1).astype(np.int32)
    low, high = np.full(u.size, count), np.full(u.size, -1)
    cells = Cells(np.empty(count, np.int32), pieces, low, high)
    fill_cells(u, cells, half)
    return cells


@njit(cache=True, **LEAN)
def fill_cells(u: Floats, cells: Cells, half: float) -> None:
    """Make the table anew."""
    for slot in range(u.size):
        locate(u, cells, half, slot)
    refill(cells, Signed(0), cells.codes.size - 1)


@njit(cache=True, **INTERNAL)
def locate(u: Floats, cells: Cells, half: float, slot: int) -> None:
    """Write the cells that the window of the neuron in `slot` touches."""
    cells.low[slot] = cell_of(u[slot] - half, cells.codes.size)
    cells.high[slot] = cell_of(u[slot] + half, cells.codes.size)


@njit(cache=True, **INTERNAL)
def refill(cells: Cells, begin: int, end: int) -> None:
    """Restore the codes of the cells begin … end (inclusive, cut to the table)."""
    codes, pieces, low, high = cells
    begin, end = max(begin, 0), min(end, codes.size - 1)
    j, stop = 0, low.size
    while j < stop:
        middle = (j + stop) // 2
        if high[middle] < begin:
            j = middle + 1
        else:
            stop = middle
    for cell in range(begin, end + 1):
        while j < low.size and high[j] < cell:
            j += 1
        covered = j < low.size and low[j] <= cell
        codes[cell] = -1 - j if covered or pieces[cell] < 0 else (j << PIECE_BITS) + pieces[cell]


@njit(cache=True, **INTERNAL)
def relocate(u: Floats, cells: Cells, half: float, first: int, last: int) -> None:
    """Restore the table after the neurons in the slots first … last (inclusive) moved, still sorted."""
    begin, end = cells.codes.size, -1
    for j in range(first, last + 1):
        before, after = cells.low[j], cells.high[j]
        locate(u, cells, half, j)
        low, high = cells.low[j], cells.high[j]
        if low != before or high != after:
            begin, end = min(begin, before, low), max(end, after, high)
    if end >= begin:
        refill(cells, begin, end)


@njit(cache=True, inline="always", **INTERNAL)
def settle(neurons: Any, cells: Cells, half: float, on: int, end: int, swap: Any) -> None:
    """Restore the order and the table after the neurons in the slots on … end − 1 moved.

    `swap`(neurons, slot) exchanges the neurons in `slot` and `slot` + 1 of the sorted `neurons`.u (m,).
    """
    u, lowest, highest = neurons.u, on, end - 1
    i = max(on, 1)
    while i < u.size and (i <= end or u[i - 1] > u[i]):
        p = i
        while p > 0 and u[p - 1] > u[p]:
            swap(neurons, p - 1)
            p -= 1
        if p < i:
            lowest, highest = min(lowest, p), max(highest, i)
        i += 1
    relocate(u, cells, half, lowest, highest)


@njit(cache=True, **INTERNAL)
def undisturbed(u: Floats, slot: int, before: float, half: float, cells: int) -> bool:
    """Whether order and table still hold after the neuron in `slot`, and no other, moved from `before`."""
    now = u[slot]
    if slot > 0 and u[slot - 1] > now:
        return False
    if slot + 1 < u.size and now > u[slot + 1]:
        return False
    if cell_of(before - half, cells) != cell_of(now - half, cells):
        return False
    return bool(cell_of(before + half, cells) == cell_of(now + half, cells))


VECTOR = 8


class Plateaus(NamedTuple):
    """Sorted positions u (m,) and their labels, plateau values c (padded,), ramps, scratch (padded,).

    Row k of `ramp` (m + 1, padded) is min(i, k) + 1.
    """

    u: Floats
    labels: Ints
    c: Floats
    ramp: Floats
    scratch: Floats


def new_plateaus(u: Floats, labels: Ints, a: Floats) -> Plateaus:
    """Return the plateaus of sorted u (m,) and weights a (m + 1,), the offset first."""
    padded = -(-(u.size + 2) // VECTOR) * VECTOR
    c = np.zeros(padded)
    c[: a.size] = np.cumsum(a)
    ramp = np.minimum(np.arange(padded), np.arange(u.size + 1)[:, None]) + 1.0
    return Plateaus(u, labels, aligned_copy(c), aligned_copy(ramp), np.empty(padded))


def plateau_weights(plateaus: Plateaus) -> Floats:
    """The weights (m + 1,), the offset first."""
    return np.diff(plateaus.c[: plateaus.u.size + 1], prepend=0.0)


@njit(cache=True, **INTERNAL)
def swap_plateaus(neurons: Plateaus, slot: int) -> None:
    """Exchange the neurons in `slot` and `slot` + 1; c[j + 1] is the plateau right of slot j."""
    u, labels, c = neurons.u, neurons.labels, neurons.c
    u[slot], u[slot + 1] = u[slot + 1], u[slot]
    labels[slot], labels[slot + 1] = labels[slot + 1], labels[slot]
    c[slot + 1] = c[slot] + c[slot + 2] - c[slot + 1]


@njit(cache=True, **INTERNAL)
def _settle_plateaus(neurons: Plateaus, cells: Cells, half: float, on: int, end: int) -> None:
    settle(neurons, cells, half, on, end, swap_plateaus)


@njit(cache=True, **INTERNAL)
def _overlap_step(x: float, y: float, on: int, neurons: Plateaus, cells: Cells, rules: Rules) -> float:
    """Make the step of a sample inside several windows, from slot `on` on; return its residual."""
    u, c, ramp, scratch = neurons.u, neurons.c, neurons.ramp, neurons.scratch
    m, eta, half = u.size, rules.eta, 0.5 * rules.eta
    end = on
    f = float(c[on])
    while end < m and u[end] < x + half:
        scratch[end] = step((x - u[end]) / eta)
        f += (c[end + 1] - c[end]) * scratch[end]
        end += 1
    r = f - y
    if not abs(r) < OVERFLOW:
        return r
    change = rules.h * r
    for j in range(on, end):
        u[j] += rules.slow * r * (c[j + 1] - c[j]) * window_slope((x - u[j]) / eta, rules.box) / eta
    for i in range(c.size):
        c[i] -= change * ramp[on, i]
    for j in range(on, end):
        part = change * scratch[j]
        for i in range(j + 1, m + 1):
            c[i] -= part
    _settle_plateaus(neurons, cells, half, on, end)
    return r


@njit(cache=True, inline="always", **INTERNAL)
def _plateau_window_step(x: float, y: float, on: int, neurons: Plateaus, cells: Cells, rules: Rules) -> float:
    """Make the step of a sample that may lie inside windows, none of them left of slot `on`."""
    u, c, ramp, eta = neurons.u, neurons.c, neurons.ramp, rules.eta
    m, half = u.size, 0.5 * eta
    while on < m and u[on] <= x - half:
        on += 1
    if on + 1 < m and u[on + 1] < x + half:
        return float(_overlap_step(x, y, on, neurons, cells, rules))
    inside = on < m and u[on] < x + half
    z = (x - u[on]) / eta if inside else -0.5
    share, weight = step_inside(z), c[on + 1] - c[on]
    r = float(c[on] + weight * share - y)
    if not abs(r) < OVERFLOW:
        return r
    change, reach = rules.h * r, on + 1.0 + share
    for i in range(c.size):
        c[i] -= change * (ramp[m, i] if ramp[m, i] < reach else reach)
    if inside:
        before = u[on]
        u[on] = before + rules.slow * r * weight * window_slope(z, rules.box) / eta
        if not undisturbed(u, on, before, half, cells.codes.size):
            _settle_plateaus(neurons, cells, half, on, on + 1)
    return r


@njit(cache=True, **LEAN)
def advance_plateaus(
    neurons: Plateaus, cells: Cells, target: Target, rules: Rules, steps: int, state: Words
) -> int:
    """Make up to `steps` steps in place; returns as `advance_plain`."""
    codes, values, c, ramp, h = cells.codes, target.values, neurons.c, neurons.ramp, rules.h
    stream = load_stream(state)
    padded, count = c.size, float(codes.size)
    for done in range(steps):
        x, extra, stream = drawn(stream, rules.noise)
        code = codes[int(x * count)]
        if code >= 0:
            k = code >> PIECE_BITS
            r = c[k] - (values[code & PIECE_MASK] + extra)
            change = h * r
            for i in range(padded):
                c[i] -= change * ramp[k, i]
        else:
            r = _plateau_window_step(x, target_at(x, target) + extra, -1 - code, neurons, cells, rules)
        if not abs(r) < OVERFLOW:
            return done
    store_stream(state, stream)
    return steps


READ, KEEP, DATA = 0, 3, 1


def _lowered(typing_context: Any, array: Any, index: Any) -> Any:
    """Return signature and code generator; any index will do, as nothing is read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), byte)
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0i8"
        )
        builder.call(function, [address, word(READ), word(KEEP), word(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Any = intrinsic(_lowered)
"""prefetch(array, index) for one dimension, in a kernel."""

BITS = 5
FAN = 1 << BITS
BLOCK = FAN * FAN
DRAWS, AHEAD, LINE = 64, 4, 8
"""Samples drawn at once; steps by which leaves are fetched ahead, codes twice as far; numbers per line."""


class Hats(NamedTuple):
    """Sorted positions u (m,), their labels, the levels of V, and rulers 0, 1, … for `top` and for a block.

    Room for the weights in a window (m,), for samples (`DRAWS` + 2 `AHEAD`,) and their noise (`DRAWS`,).
    """

    u: Floats
    labels: Ints
    top: Floats
    middle: Floats
    leaf: Floats
    long: Floats
    short: Floats
    scratch: Floats
    xs: Floats
    extras: Floats


def new_hats(u: Floats, labels: Ints, a: Floats) -> Hats:
    """Return the levels of weights a (m + 1,), offset first, for sorted u (m,); V is constant beyond them."""
    leaf = np.zeros(((a.size + 1) // BLOCK + 1) * BLOCK + 1)
    leaf[1 : a.size + 1] = np.cumsum(a)
    leaf[a.size + 1 :] = leaf[a.size]
    top, middle = leaf[::BLOCK].copy(), leaf[::FAN].copy()
    for fine, coarse in ((leaf, middle), (middle, top)):
        x = np.arange(fine.size - 1)
        begin, near = x // FAN, (x % FAN) / FAN
        fine[:-1] -= coarse[begin] + near * (coarse[begin + 1] - coarse[begin])
        fine[-1] = 0.0
    long, short = np.arange(float(top.size)), np.arange(float(FAN))
    return Hats(
        u,
        labels,
        aligned_copy(top),
        aligned_copy(middle),
        aligned_copy(leaf),
        aligned_copy(long),
        aligned_copy(short),
        np.empty(u.size),
        np.zeros(DRAWS + 2 * AHEAD),
        np.zeros(DRAWS),
    )


def _value(neurons: Hats, x: Any) -> Any:
    """V(x)."""
    top, middle = neurons.top, neurons.middle
    upper, lower = x >> (2 * BITS), x >> BITS
    far, near = (x & (BLOCK - 1)) / BLOCK, (x & (FAN - 1)) / FAN
    coarse = top[upper] + far * (top[upper + 1] - top[upper])
    return neurons.leaf[x] + (middle[lower] + near * (middle[lower + 1] - middle[lower])) + coarse


value: Any = njit(cache=True, inline="always", **INTERNAL)(_value)


def hat_weights(neurons: Hats) -> Floats:
    """The weights (m + 1,), offset first."""
    return np.diff(_value(neurons, np.arange(neurons.u.size + 2)))


@njit(cache=True, inline="always", **INTERNAL)
def _add_hat(level: Floats, ruler: Floats, begin: int, place: float, amount: float) -> None:
    """Add amount·(min(y, place) − y·place/F) to the F entries from `begin`; ruler = 0, 1, …, F − 1, …"""
    slope, first = place / FAN, np.uint64(begin)
    # As long as an array says, as a constant trip count would be unrolled and not vectorised; unsigned, as an
    # index that may count from the end would not be either.
    for y in range(ruler.size):
        level[first + np.uint64(y)] += amount * ((ruler[y] if ruler[y] < place else place) - ruler[y] * slope)


@njit(cache=True, inline="always", **INTERNAL)
def add_ramp(neurons: Hats, place: float, amount: float) -> None:
    """V(x) += amount·min(x, place) for all x."""
    top, long, short = neurons.top, neurons.long, neurons.short
    x = int(place)
    upper, lower = x & ~(BLOCK - 1), x & ~(FAN - 1)
    coarse, scaled = place / BLOCK, amount * BLOCK
    for y in range(top.size):
        top[y] += scaled * (long[y] if long[y] < coarse else coarse)
    _add_hat(neurons.middle, short, upper >> BITS, (place - upper) / FAN, amount * FAN)
    _add_hat(neurons.leaf, short, lower, place - lower, amount)


@njit(cache=True, **INTERNAL)
def swap_hats(neurons: Hats, slot: int) -> None:
    """Exchange the neurons in `slot` and `slot` + 1: only V(x) between them changes, x = `slot` + 2."""
    u, labels = neurons.u, neurons.labels
    u[slot], u[slot + 1] = u[slot + 1], u[slot]
    labels[slot], labels[slot + 1] = labels[slot + 1], labels[slot]
    x = slot + 2
    bend = value(neurons, x - 1) + value(neurons, x + 1) - 2.0 * value(neurons, x)
    for i in range(3):
        add_ramp(neurons, x - 1.0 + i, 2.0 * bend if i == 1 else -bend)


@njit(cache=True, **INTERNAL)
def _settle_hats(neurons: Hats, cells: Cells, half: float, on: int, end: int) -> None:
    settle(neurons, cells, half, on, end, swap_hats)


@njit(cache=True, inline="always", **INTERNAL)
def _hat_window_step(x: float, y: float, on: int, neurons: Hats, cells: Cells, rules: Rules) -> float:
    """Make the step of a sample that may lie inside windows, none of them left of slot `on`."""
    u, scratch, eta = neurons.u, neurons.scratch, rules.eta
    m, half = u.size, 0.5 * eta
    while on < m and u[on] <= x - half:
        on += 1
    end = on
    last = value(neurons, on + 1)
    f = last
    while end < m and u[end] < x + half:
        following = value(neurons, end + 2)
        scratch[end] = following - last
        f += scratch[end] * step_inside((x - u[end]) / eta)
        last = following
        end += 1
    r = float(f - y)
    if not abs(r) < OVERFLOW:
        return r
    share, before = 0.0, 0.0
    for j in range(on, end):
        z = (x - u[j]) / eta
        if j == on:
            share, before = step_inside(z), u[j]
        else:
            part = rules.h * r * step_inside(z)
            add_ramp(neurons, j + 1.0, part)
            add_ramp(neurons, j + 2.0, -part)
        u[j] += rules.slow * r * scratch[j] * window_slope(z, rules.box) / eta
    add_ramp(neurons, on + 1.0 + share, -rules.h * r)
    if end > on + 1 or (end > on and not undisturbed(u, on, before, half, cells.codes.size)):
        _settle_hats(neurons, cells, half, on, end)
    return r


@njit(cache=True, **LEAN)
def advance_hats(neurons: Hats, cells: Cells, target: Target, rules: Rules, steps: int, state: Words) -> int:
    """Make up to `steps` steps in place; returns as `advance_plain`."""
    codes, values, leaf, u = cells.codes, target.values, neurons.leaf, neurons.u
    xs, extras = neurons.xs, neurons.extras
    stream = load_stream(state)
    count = float(codes.size)
    for begin in range(0, steps, DRAWS):
        size = min(DRAWS, steps - begin)
        for t in range(size):
            xs[t], extras[t], stream = drawn(stream, rules.noise)
        for t in range(size):
            # Past the drawn samples these are old ones, which does no harm; nor does a code that changes.
            prefetch(codes, int(xs[t + 2 * AHEAD] * count))
            soon = codes[int(xs[t + AHEAD] * count)]
            slot = soon >> PIECE_BITS if soon >= 0 else -1 - soon
            first = (slot + 1) & ~(FAN - 1)
            for line in range(0, FAN, LINE):
                prefetch(leaf, first + line)
            prefetch(u, slot)
            x, extra = xs[t], extras[t]
            code = codes[int(x * count)]
            if code >= 0:
                k = (code >> PIECE_BITS) + 1
                r = value(neurons, k) - (values[code & PIECE_MASK] + extra)
                add_ramp(neurons, float(k), -rules.h * r)
            else:
                r = _hat_window_step(x, target_at(x, target) + extra, -1 - code, neurons, cells, rules)
            if not abs(r) < OVERFLOW:
                return begin + t
    store_stream(state, stream)
    return steps
