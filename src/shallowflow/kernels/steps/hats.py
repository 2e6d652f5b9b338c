"""One-pass SGD (9) of [two_timescale] for many neurons: three short vector sweeps per step, whatever m.

As in `plateaus` the positions are sorted and a table of cells finds the plateau k of a sample. Put the
plateau values on the integers: V(0) = 0, V(i + 1) = a_0 + … + a_i. A sample with k neurons fully on and one
window entered, of share s = σ_{k+1}, sees f = V interpolated linearly at K = k + 1 + s, and changes

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

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN
from shallowflow.kernels.shared.vectors import aligned_copy
from shallowflow.kernels.steps.activation import step_inside
from shallowflow.kernels.steps.sgd import (
    OVERFLOW,
    PIECE_BITS,
    PIECE_MASK,
    Cells,
    Rules,
    Target,
    Words,
    drawn,
    load_stream,
    settle,
    store_stream,
    target_at,
    undisturbed,
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


def new_neurons(u: Floats, labels: Ints, a: Floats) -> Hats:
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


def weights(neurons: Hats) -> Floats:
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
def swap(neurons: Hats, slot: int) -> None:
    """Exchange the neurons in `slot` and `slot` + 1: only V(x) between them changes, x = `slot` + 2."""
    u, labels = neurons.u, neurons.labels
    u[slot], u[slot + 1] = u[slot + 1], u[slot]
    labels[slot], labels[slot + 1] = labels[slot + 1], labels[slot]
    x = slot + 2
    bend = value(neurons, x - 1) + value(neurons, x + 1) - 2.0 * value(neurons, x)
    for i in range(3):
        add_ramp(neurons, x - 1.0 + i, 2.0 * bend if i == 1 else -bend)


@njit(cache=True, **INTERNAL)
def _settle(neurons: Hats, cells: Cells, half: float, on: int, end: int) -> None:
    settle(neurons, cells, half, on, end, swap)


@njit(cache=True, inline="always", **INTERNAL)
def _window_step(x: float, y: float, on: int, neurons: Hats, cells: Cells, rules: Rules) -> float:
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
        _settle(neurons, cells, half, on, end)
    return r


@njit(cache=True, **LEAN)
def advance(neurons: Hats, cells: Cells, target: Target, rules: Rules, steps: int, state: Words) -> int:
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
                r = _window_step(x, target_at(x, target) + extra, -1 - code, neurons, cells, rules)
            if not abs(r) < OVERFLOW:
                return begin + t
    store_stream(state, stream)
    return steps
