"""One-pass SGD (9) of [two_timescale] for many neurons: O(log m) per step outside the windows.

As in `step_sgd_plateaus` the positions are sorted and a table of cells finds the plateau k of a sample. The
weights live in differences g_i = a_i − a_{i+1} (a_{m+1} = 0): "a_0 … a_k change by δ" is g_k += δ, and

    a_i = G − P0(i − 1),    a_0 + … + a_k = P1(k) + (k + 1)(G − P0(k)),

with the total G and the prefix sums P0 of g_i and P1 of (i + 1) g_i. The g_i are kept as they are, and the
sums of blocks of 16 of them in a Fenwick tree (node i holds the sums over the i & −i blocks that end at i),
small enough for the first cache: a prefix sum is a few nodes and at most 16 neighbours. One neuron's a_j +=
δ is g_j += δ and g_{j−1} −= δ; two neighbours swap by δ = a_{j+1} − a_j on one and −δ on the other.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.step_activation import step
from shallowflow.kernels.step_cells import PIECE_BITS, PIECE_MASK, Codes, first_not_on, locate, refill
from shallowflow.kernels.step_sgd import OVERFLOW, target_piece, window_slope
from shallowflow.kernels.xoshiro import Words, uniform

BLOCK = 16


@njit(cache=True)
def add(tree: Floats, g: Floats, i: int, delta: float) -> None:
    """g_i += delta, 0 ≤ i ≤ m; tree (blocks + 1, 2), whose row 0 holds the total G."""
    g[i] += delta
    weighted = (i + 1) * delta
    tree[0, 0] += delta
    node = i // BLOCK + 1
    while node < tree.shape[0]:
        tree[node, 0] += delta
        tree[node, 1] += weighted
        node += node & -node


@njit(cache=True)
def weight(tree: Floats, g: Floats, i: int) -> float:
    """a_i = G − P0(i − 1)."""
    block = i // BLOCK
    total = float(tree[0, 0])
    for j in range(block * BLOCK, i):
        total -= g[j]
    node = block
    while node > 0:
        total -= tree[node, 0]
        node -= node & -node
    return total


@njit(cache=True)
def plateau(tree: Floats, g: Floats, k: int) -> float:
    """a_0 + … + a_k."""
    block = k // BLOCK
    below, weighted = 0.0, 0.0
    for j in range(block * BLOCK, k + 1):
        below += g[j]
        weighted += (j + 1) * g[j]
    node = block
    while node > 0:
        below += tree[node, 0]
        weighted += tree[node, 1]
        node -= node & -node
    return weighted + (k + 1) * (float(tree[0, 0]) - below)


@njit(cache=True)
def grow(a: Floats) -> tuple[Floats, Floats]:
    """The tree and the differences of the weights a (m + 1,), offset first."""
    tree, g = np.zeros(((a.size + BLOCK - 1) // BLOCK + 1, 2)), np.zeros(a.size)
    for i in range(a.size):
        add(tree, g, i, a[i] - (a[i + 1] if i + 1 < a.size else 0.0))
    return tree, g


@njit(cache=True)
def weights(tree: Floats, g: Floats) -> Floats:
    """The weights (m + 1,) of a tree and its differences."""
    a = np.empty(g.size)
    for i in range(a.size):
        a[i] = weight(tree, g, i)
    return a


@njit(cache=True)
def add_one(tree: Floats, g: Floats, j: int, delta: float) -> None:
    """a_j += delta for one j ≥ 1."""
    add(tree, g, j, delta)
    add(tree, g, j - 1, -delta)


@njit(cache=True)
def settle(
    u: Floats,
    tree: Floats,
    g: Floats,
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
            u[p - 1], u[p] = u[p], u[p - 1]
            labels[p - 1], labels[p] = labels[p], labels[p - 1]
            delta = weight(tree, g, p + 1) - weight(tree, g, p)
            add_one(tree, g, p, delta)
            add_one(tree, g, p + 1, -delta)
            p -= 1
        if p < i:
            lowest, highest = min(lowest, p), max(highest, i)
        i += 1
    begin, last = codes.size, -1
    for j in range(lowest, highest + 1):
        before, after = low[j], high[j]
        locate(u, half, low, high, j, codes.size)
        if low[j] != before or high[j] != after:
            begin, last = min(begin, before, low[j]), max(last, after, high[j])
    if last >= begin:
        refill(codes, pieces, low, high, begin, last)


@njit(cache=True, inline="always")
def window_step(
    x: float,
    y: float,
    u: Floats,
    tree: Floats,
    g: Floats,
    labels: Ints,
    codes: Codes,
    pieces: Codes,
    low: Ints,
    high: Ints,
    eta: float,
    h: float,
    slow: float,
    box: bool,
    scratch: Floats,
) -> float:
    """Make the step of a sample that may lie inside windows; return its residual."""
    m, half = u.size, 0.5 * eta
    on = first_not_on(u, x - half)
    end = on
    f = plateau(tree, g, on)
    while end < m and u[end] < x + half:
        scratch[end] = weight(tree, g, end + 1)
        f += scratch[end] * step((x - u[end]) / eta)
        end += 1
    r = f - y
    if not abs(r) < OVERFLOW:
        return r
    add(tree, g, on, -h * r)
    for j in range(on, end):
        z = (x - u[j]) / eta
        u[j] += slow * r * scratch[j] * window_slope(z, box) / eta
        add_one(tree, g, j + 1, -h * r * step(z))
    if on < end:
        settle(u, tree, g, labels, codes, pieces, low, high, half, on, end)
    return r


@njit(cache=True)
def advance_fenwick(
    u: Floats,
    tree: Floats,
    g: Floats,
    labels: Ints,
    cells: tuple[Codes, Codes, Ints, Ints],
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    steps: int,
    state: Words,
) -> int:
    """Make up to `steps` steps in place; u (m,) sorted, tree and g of `grow`; as `advance_plateaus`."""
    breaks, values = target
    codes, pieces, low, high = cells
    h, slow, noise = rates
    s0, s1, s2, s3 = state
    count = float(codes.size)
    scratch = np.empty(u.size)
    for done in range(steps):
        x, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
        extra = 0.0
        if noise > 0.0:
            draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            extra = noise * (2.0 * draw - 1.0)
        code = codes[int(x * count)]
        if code >= 0:
            k = code >> PIECE_BITS
            r = plateau(tree, g, k) - (values[code & PIECE_MASK] + extra)
            add(tree, g, k, -h * r)
        else:
            y = values[target_piece(x, breaks)] + extra
            r = window_step(x, y, u, tree, g, labels, codes, pieces, low, high, eta, h, slow, box, scratch)
        if not abs(r) < OVERFLOW:
            return done
    state[:] = np.array([s0, s1, s2, s3])
    return steps
