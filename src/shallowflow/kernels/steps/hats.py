"""Ask the processor to bring an entry of an array into its first cache before it is needed.

One-pass SGD (9) of [two_timescale] for many neurons: three short vector sweeps per step, whatever m.

As in `step_sgd_plateaus` the positions are sorted and a table of cells finds the plateau k of a sample. Put
the plateau values on the integers: V(0) = 0, V(i + 1) = a_0 + … + a_i. A sample with k neurons fully on and
one window entered, of share s = σ_{k+1}, sees f = V interpolated linearly at K = k + 1 + s, and changes

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

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import LEAN
from shallowflow.kernels.steps.activation import step_inside
from shallowflow.kernels.steps.sgd import (
    OVERFLOW,
    PIECE_BITS,
    PIECE_MASK,
    Codes,
    Words,
    relocate,
    target_piece,
    undisturbed,
    uniform,
    window_slope,
)

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


@njit(cache=True, inline="always", **LEAN)
def value(top: Floats, middle: Floats, leaf: Floats, x: int) -> float:
    """V(x)."""
    upper, lower = x >> (2 * BITS), x >> BITS
    far, near = (x & (BLOCK - 1)) / BLOCK, (x & (FAN - 1)) / FAN
    coarse = top[upper] + far * (top[upper + 1] - top[upper])
    return float(leaf[x] + (middle[lower] + near * (middle[lower + 1] - middle[lower])) + coarse)


@njit(cache=True, inline="always", **LEAN)
def add_hat(level: Floats, ruler: Floats, begin: int, place: float, amount: float) -> None:
    """Add amount·(min(y, place) − y·place/F) to the F entries from `begin`; ruler = 0, 1, …, F − 1, …"""
    slope, first = place / FAN, np.uint64(begin)
    # As long as told by an array, as a constant trip count would be unrolled and not vectorised; unsigned, as
    # an index that may count from the end would not be either.
    for y in range(ruler.size):
        level[first + np.uint64(y)] += amount * ((ruler[y] if ruler[y] < place else place) - ruler[y] * slope)


@njit(cache=True, inline="always", **LEAN)
def add_ramp(
    top: Floats, middle: Floats, leaf: Floats, rulers: tuple[Floats, Floats], place: float, amount: float
) -> None:
    """V(x) += amount·min(x, place) for all x; rulers: 0, 1, … as long as `top`, and as long as a block."""
    long, short = rulers
    x = int(place)
    upper, lower = x & ~(BLOCK - 1), x & ~(FAN - 1)
    coarse, scaled = place / BLOCK, amount * BLOCK
    for y in range(top.size):
        top[y] += scaled * (long[y] if long[y] < coarse else coarse)
    add_hat(middle, short, upper >> BITS, (place - upper) / FAN, amount * FAN)
    add_hat(leaf, short, lower, place - lower, amount)


@njit(cache=True)
def hats(a: Floats) -> tuple[Floats, Floats, Floats]:
    """The levels top, middle, leaf of the weights a (m + 1,), offset first; V is constant beyond them."""
    blocks = (a.size + 1) // BLOCK + 1
    leaf = np.empty(blocks * BLOCK + 1)
    leaf[0] = 0.0
    for x in range(1, leaf.size):
        leaf[x] = leaf[x - 1] + (a[x - 1] if x <= a.size else 0.0)
    top, middle = leaf[::BLOCK].copy(), leaf[::FAN].copy()
    for x in range(leaf.size - 1):
        lower, near = x // FAN, (x % FAN) / FAN
        leaf[x] -= middle[lower] + near * (middle[lower + 1] - middle[lower])
    for x in range(middle.size - 1):
        upper, far = x // FAN, (x % FAN) / FAN
        middle[x] -= top[upper] + far * (top[upper + 1] - top[upper])
    leaf[-1] = middle[-1] = 0.0
    return top, middle, leaf


@njit(cache=True)
def weights(top: Floats, middle: Floats, leaf: Floats, width: int) -> Floats:
    """The weights (width + 1,), offset first."""
    a = np.empty(width + 1)
    for i in range(a.size):
        a[i] = value(top, middle, leaf, i + 1) - value(top, middle, leaf, i)
    return a


@njit(cache=True, **LEAN)
def swap(
    u: Floats,
    labels: Ints,
    top: Floats,
    middle: Floats,
    leaf: Floats,
    rulers: tuple[Floats, Floats],
    slot: int,
) -> None:
    """Exchange the neurons in `slot` and `slot` + 1: only V(x) between them changes, x = `slot` + 2."""
    u[slot], u[slot + 1] = u[slot + 1], u[slot]
    labels[slot], labels[slot + 1] = labels[slot + 1], labels[slot]
    x = slot + 2
    bend = value(top, middle, leaf, x - 1) + value(top, middle, leaf, x + 1)
    bend -= 2.0 * value(top, middle, leaf, x)
    add_ramp(top, middle, leaf, rulers, x - 1.0, -bend)
    add_ramp(top, middle, leaf, rulers, float(x), 2.0 * bend)
    add_ramp(top, middle, leaf, rulers, x + 1.0, -bend)


@njit(cache=True, **LEAN)
def settle(
    u: Floats,
    labels: Ints,
    top: Floats,
    middle: Floats,
    leaf: Floats,
    rulers: tuple[Floats, Floats],
    cells: tuple[Codes, Codes, Ints, Ints],
    half: float,
    on: int,
    end: int,
) -> None:
    """Restore the order and the table after the neurons in the slots on … end − 1 moved."""
    codes, pieces, low, high = cells
    m, lowest, highest = u.size, on, end - 1
    i = max(on, 1)
    while i < m and (i <= end or u[i - 1] > u[i]):
        p = i
        while p > 0 and u[p - 1] > u[p]:
            swap(u, labels, top, middle, leaf, rulers, p - 1)
            p -= 1
        if p < i:
            lowest, highest = min(lowest, p), max(highest, i)
        i += 1
    relocate(u, codes, pieces, low, high, half, lowest, highest)


@njit(cache=True, inline="always", **LEAN)
def window_step(
    x: float,
    y: float,
    on: int,
    u: Floats,
    labels: Ints,
    top: Floats,
    middle: Floats,
    leaf: Floats,
    rulers: tuple[Floats, Floats],
    cells: tuple[Codes, Codes, Ints, Ints],
    scratch: Floats,
    eta: float,
    h: float,
    slow: float,
    box: bool,
) -> float:
    """Make the step of a sample that may lie inside windows, none of them left of slot `on`."""
    m, half = u.size, 0.5 * eta
    while on < m and u[on] <= x - half:
        on += 1
    end = on
    last = value(top, middle, leaf, on + 1)
    f = last
    while end < m and u[end] < x + half:
        following = value(top, middle, leaf, end + 2)
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
            part = h * r * step_inside(z)
            add_ramp(top, middle, leaf, rulers, j + 1.0, part)
            add_ramp(top, middle, leaf, rulers, j + 2.0, -part)
        u[j] += slow * r * scratch[j] * window_slope(z, box) / eta
    add_ramp(top, middle, leaf, rulers, on + 1.0 + share, -h * r)
    if end > on + 1 or (end > on and not undisturbed(u, on, before, half, cells[0].size)):
        settle(u, labels, top, middle, leaf, rulers, cells, half, on, end)
    return r


@njit(cache=True, **LEAN)
def advance_hats(
    u: Floats,
    labels: Ints,
    levels: tuple[Floats, Floats, Floats],
    rulers: tuple[Floats, Floats],
    cells: tuple[Codes, Codes, Ints, Ints],
    draws: tuple[Floats, Floats],
    scratch: Floats,
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    steps: int,
    state: Words,
) -> int:
    """Make up to `steps` steps in place; u (m,) sorted, levels of `hats`; as `advance_plateaus`.

    draws: room for `DRAWS` + 2 `AHEAD` samples, in [0, 1), and for their noise; scratch (m,).
    """
    breaks, values = target
    codes = cells[0]
    top, middle, leaf = levels
    xs, extras = draws
    h, slow, noise = rates
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    count = float(codes.size)
    for begin in range(0, steps, DRAWS):
        size = min(DRAWS, steps - begin)
        for t in range(size):
            xs[t], s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            extras[t] = 0.0
            if noise > 0.0:
                draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
                extras[t] = noise * (2.0 * draw - 1.0)
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
                r = value(top, middle, leaf, k) - (values[code & PIECE_MASK] + extra)
                add_ramp(top, middle, leaf, rulers, float(k), -h * r)
            else:
                y = values[target_piece(x, breaks)] + extra
                r = window_step(
                    x, y, -1 - code, u, labels, top, middle, leaf, rulers, cells, scratch, eta, h, slow, box
                )
            if not abs(r) < OVERFLOW:
                return begin + t
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return steps
