"""One-pass SGD (9) of [two_timescale] on plateaus: the steps of `step_sgd.advance_plain`, several times
faster.

Positions are kept sorted (`labels` remember who is who), and instead of the weights the plateau values
c_k = a_0 + … + a_k are stored. For a sample on plateau k (the table of `step_cells` knows k and the piece of
f*) the network's value is c_k, one load; and since a_0 … a_k all change by −h r,

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

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import LEAN
from shallowflow.kernels.steps.activation import step, step_inside
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


@njit(cache=True)
def ramps(width: int, padded: int) -> Floats:
    """Row k: min(i, k) + 1; (width + 1, padded)."""
    table = np.empty((width + 1, padded))
    for k in range(width + 1):
        for i in range(padded):
            table[k, i] = min(i, k) + 1.0
    return table


@njit(cache=True, **LEAN)
def swap(u: Floats, c: Floats, labels: Ints, slot: int) -> None:
    """Exchange the neurons in `slot` and `slot` + 1; c[j + 1] is the plateau right of slot j."""
    u[slot], u[slot + 1] = u[slot + 1], u[slot]
    labels[slot], labels[slot + 1] = labels[slot + 1], labels[slot]
    c[slot + 1] = c[slot] + c[slot + 2] - c[slot + 1]


@njit(cache=True, **LEAN)
def settle(
    u: Floats,
    c: Floats,
    labels: Ints,
    codes: Codes,
    pieces: Codes,
    low: Ints,
    high: Ints,
    half: float,
    on: int,
    end: int,
) -> None:
    """Restore the order and the table after the neurons in the slots on … end − 1 moved."""
    m, lowest, highest = u.size, on, end - 1
    i = max(on, 1)
    while i < m and (i <= end or u[i - 1] > u[i]):
        p = i
        while p > 0 and u[p - 1] > u[p]:
            swap(u, c, labels, p - 1)
            p -= 1
        if p < i:
            lowest, highest = min(lowest, p), max(highest, i)
        i += 1
    relocate(u, codes, pieces, low, high, half, lowest, highest)


@njit(cache=True, **LEAN)
def overlap_step(
    x: float,
    y: float,
    on: int,
    u: Floats,
    c: Floats,
    labels: Ints,
    codes: Codes,
    pieces: Codes,
    low: Ints,
    high: Ints,
    ramp: Floats,
    eta: float,
    h: float,
    slow: float,
    box: bool,
    scratch: Floats,
) -> float:
    """Make the step of a sample inside several windows, from slot `on` on; return its residual."""
    m, half = u.size, 0.5 * eta
    end = on
    f = float(c[on])
    while end < m and u[end] < x + half:
        scratch[end] = step((x - u[end]) / eta)
        f += (c[end + 1] - c[end]) * scratch[end]
        end += 1
    r = f - y
    if not abs(r) < OVERFLOW:
        return r
    change = h * r
    for j in range(on, end):
        u[j] += slow * r * (c[j + 1] - c[j]) * window_slope((x - u[j]) / eta, box) / eta
    for i in range(c.size):
        c[i] -= change * ramp[on, i]
    for j in range(on, end):
        part = change * scratch[j]
        for i in range(j + 1, m + 1):
            c[i] -= part
    settle(u, c, labels, codes, pieces, low, high, half, on, end)
    return r


@njit(cache=True, inline="always", **LEAN)
def window_step(
    x: float,
    y: float,
    on: int,
    u: Floats,
    c: Floats,
    labels: Ints,
    codes: Codes,
    pieces: Codes,
    low: Ints,
    high: Ints,
    ramp: Floats,
    eta: float,
    h: float,
    slow: float,
    box: bool,
    scratch: Floats,
) -> float:
    """Make the step of a sample that may lie inside windows, none of them left of slot `on`."""
    m, half = u.size, 0.5 * eta
    while on < m and u[on] <= x - half:
        on += 1
    if on + 1 < m and u[on + 1] < x + half:
        return float(
            overlap_step(x, y, on, u, c, labels, codes, pieces, low, high, ramp, eta, h, slow, box, scratch)
        )
    inside = on < m and u[on] < x + half
    z = (x - u[on]) / eta if inside else -0.5
    share, weight = step_inside(z), c[on + 1] - c[on]
    r = float(c[on] + weight * share - y)
    if not abs(r) < OVERFLOW:
        return r
    change, reach = h * r, on + 1.0 + share
    for i in range(c.size):
        c[i] -= change * (ramp[m, i] if ramp[m, i] < reach else reach)
    if inside:
        before = u[on]
        u[on] = before + slow * r * weight * window_slope(z, box) / eta
        if not undisturbed(u, on, before, half, codes.size):
            settle(u, c, labels, codes, pieces, low, high, half, on, on + 1)
    return r


@njit(cache=True, **LEAN)
def advance_plateaus(
    u: Floats,
    c: Floats,
    labels: Ints,
    cells: tuple[Codes, Codes, Ints, Ints],
    ramp: Floats,
    scratch: Floats,
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    steps: int,
    state: Words,
) -> int:
    """Make up to `steps` steps in place; u (m,) sorted, c (padded,), labels (m,), scratch (m,).

    ramp: of `ramps`, padded ≥ m + 2; cells: codes, pieces, low, high of `step_cells`; rates (h, εh,
    noise). Returns as `advance_plain`.
    """
    breaks, values = target
    codes, pieces, low, high = cells
    h, slow, noise = rates
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    padded, count = c.size, float(codes.size)
    for done in range(steps):
        x, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
        extra = 0.0
        if noise > 0.0:
            draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            extra = noise * (2.0 * draw - 1.0)
        code = codes[int(x * count)]
        if code >= 0:
            k = code >> PIECE_BITS
            r = c[k] - (values[code & PIECE_MASK] + extra)
            change = h * r
            for i in range(padded):
                c[i] -= change * ramp[k, i]
        else:
            y = values[target_piece(x, breaks)] + extra
            r = window_step(
                x, y, -1 - code, u, c, labels, codes, pieces, low, high, ramp, eta, h, slow, box, scratch
            )
        if not abs(r) < OVERFLOW:
            return done
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return steps
