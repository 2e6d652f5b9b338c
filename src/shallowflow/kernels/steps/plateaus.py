"""One-pass SGD (9) of [two_timescale] on plateaus: the steps of `sgd.advance_plain`, several times faster.

Positions are kept sorted (`labels` remember who is who), and instead of the weights the plateau values
c_k = a_0 + … + a_k are stored. For a sample on plateau k (the table of cells of `sgd` knows k and the
piece of f*) the network's value is c_k, one load; and since a_0 … a_k all change by −h r,

    c_i ← c_i − (min(i, k) + 1)·h r      for all i,

one vector sweep without a reduction; the factors are row k of a table. Inside one window, of share
s = σ_{k+1}, the value is c_k + s(c_{k+1} − c_k) and the factors are min(i + 1, k + 1 + s). Where windows
overlap, the neurons inside are treated one by one. If a neuron then passes a neighbour, the two swap, which
changes the plateau between them from c_j to c_{j−1} + c_{j+1} − c_j.

Nothing is allocated, so that references to arrays need not be counted (`LEAN`): atomic counting of the arrays
that a window touches would take longer than the step.
The arrays are padded to a length that is known only at run time: a constant trip count would be unrolled and
not vectorised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN
from shallowflow.kernels.shared.vectors import aligned_copy
from shallowflow.kernels.steps.activation import step, step_inside
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


def new_neurons(u: Floats, labels: Ints, a: Floats) -> Plateaus:
    """Return the plateaus of sorted u (m,) and weights a (m + 1,), the offset first."""
    padded = -(-(u.size + 2) // VECTOR) * VECTOR
    c = np.zeros(padded)
    c[: a.size] = np.cumsum(a)
    ramp = np.minimum(np.arange(padded), np.arange(u.size + 1)[:, None]) + 1.0
    return Plateaus(u, labels, aligned_copy(c), aligned_copy(ramp), np.empty(padded))


def weights(plateaus: Plateaus) -> Floats:
    """The weights (m + 1,), the offset first."""
    return np.diff(plateaus.c[: plateaus.u.size + 1], prepend=0.0)


@njit(cache=True, **INTERNAL)
def swap(neurons: Plateaus, slot: int) -> None:
    """Exchange the neurons in `slot` and `slot` + 1; c[j + 1] is the plateau right of slot j."""
    u, labels, c = neurons.u, neurons.labels, neurons.c
    u[slot], u[slot + 1] = u[slot + 1], u[slot]
    labels[slot], labels[slot + 1] = labels[slot + 1], labels[slot]
    c[slot + 1] = c[slot] + c[slot + 2] - c[slot + 1]


@njit(cache=True, **INTERNAL)
def _settle(neurons: Plateaus, cells: Cells, half: float, on: int, end: int) -> None:
    settle(neurons, cells, half, on, end, swap)


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
    _settle(neurons, cells, half, on, end)
    return r


@njit(cache=True, inline="always", **INTERNAL)
def _window_step(x: float, y: float, on: int, neurons: Plateaus, cells: Cells, rules: Rules) -> float:
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
            _settle(neurons, cells, half, on, on + 1)
    return r


@njit(cache=True, **LEAN)
def advance(neurons: Plateaus, cells: Cells, target: Target, rules: Rules, steps: int, state: Words) -> int:
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
            r = _window_step(x, target_at(x, target) + extra, -1 - code, neurons, cells, rules)
        if not abs(r) < OVERFLOW:
            return done
    store_stream(state, stream)
    return steps
