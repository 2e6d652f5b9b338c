"""The random numbers of the stochastic kernels: xoshiro256++ [Blackman & Vigna 2021], two nanoseconds each.

The state, four 64-bit words, is seeded by NumPy's `SeedSequence`, and travels as four scalars so that it
stays in registers. `uniform` returns a number of [0, 1) with 53 random bits.

A look-up table of [0, 1): which plateau and which piece of the target a sample falls on.

[0, 1) is cut into 2^p equal cells. The code of a cell is k·2^12 + piece if the whole cell lies on plateau k
(k neurons fully on, no window |x − u_j| < η/2 touches it) and on one piece of the target; otherwise −1 − k,
where all windows left of slot k end before the cell. For the neuron in slot j of the sorted positions,
`low`[j] … `high`[j] are the cells that its window touches. Both are non-decreasing in j, so a stretch of
cells is refilled in one pass; while the two numbers of every neuron stay the same, so does the table.

One-pass stochastic gradient descent (9) of [two_timescale], as it is written: the reference.

A sample is x ~ U[0, 1), y = f*(x) + noise·U[−1, 1); with r = f(x) − y and all values taken before the step,

    a_j ← a_j − h r σ_j,      u_j ← u_j + ε h r a_j σ'_j,      σ_j = σ((x − u_j)/η).

A batch averages these over its samples. The random stream is one number for x and, with noise, one more for
the noise. `box` replaces σ' by the indicator of the window, as the published script does. O(m) per sample.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import LEAN
from shallowflow.kernels.steps.activation import slope, step

Words = NDArray[np.uint64]
UNIT = 2.0**-53


def seeded(seed: np.random.SeedSequence) -> Words:
    """Return a state (4,)."""
    return np.asarray(seed.generate_state(4, np.uint64), dtype=np.uint64)


@njit(cache=True)
def uniform(
    s0: np.uint64, s1: np.uint64, s2: np.uint64, s3: np.uint64
) -> tuple[float, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the next number and the next state."""
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return np.float64(word >> np.uint64(11)) * UNIT, s0, s1, s2, s3


Codes = NDArray[np.int32]
PIECE_BITS = 12
PIECE_MASK = (1 << PIECE_BITS) - 1
MOST_PIECES, MOST_NEURONS = 1 << PIECE_BITS, 1 << (31 - PIECE_BITS)
"""What fits into a code."""


@njit(cache=True, **LEAN)
def cell_of(x: float, cells: int) -> int:
    """The cell of x, −1 left of 0 (or for a NaN) and `cells` right of 1."""
    if not x >= 0.0:
        return -1
    if x >= 1.0:
        return cells
    return int(x * cells)


@njit(cache=True)
def pieces_of_cells(breaks: Floats, cells: int) -> Codes:
    """The piece of the target on every cell, −1 where it jumps inside."""
    pieces = np.empty(cells, np.int32)
    first = last = 0
    for cell in range(cells):
        while first < breaks.size and breaks[first] * cells <= cell:
            first += 1
        while last < breaks.size and breaks[last] * cells < cell + 1:
            last += 1
        pieces[cell] = first if first == last else -1
    return pieces


@njit(cache=True, **LEAN)
def locate(u: Floats, half: float, low: Ints, high: Ints, slot: int, cells: int) -> None:
    """Write the cells that the window of the neuron in `slot` touches."""
    low[slot] = cell_of(u[slot] - half, cells)
    high[slot] = cell_of(u[slot] + half, cells)


@njit(cache=True, **LEAN)
def refill(codes: Codes, pieces: Codes, low: Ints, high: Ints, begin: int, end: int) -> None:
    """Restore the codes of the cells begin … end (inclusive, cut to the table)."""
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


@njit(cache=True, **LEAN)
def relocate(
    u: Floats,
    codes: Codes,
    pieces: Codes,
    low: Ints,
    high: Ints,
    half: float,
    first: int,
    last: int,
) -> None:
    """Restore the table after the neurons in the slots first … last (inclusive) moved, still sorted."""
    begin, end = codes.size, -1
    for j in range(first, last + 1):
        before, after = low[j], high[j]
        locate(u, half, low, high, j, codes.size)
        if low[j] != before or high[j] != after:
            begin, end = min(begin, before, low[j]), max(end, after, high[j])
    if end >= begin:
        refill(codes, pieces, low, high, begin, end)


@njit(cache=True, **LEAN)
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


OVERFLOW = 1e100
"""A residual beyond this ends the run: squares of it still are finite."""


@njit(cache=True)
def window_slope(z: float, box: bool) -> float:
    """σ'(z), or the indicator of |z| ≤ ½."""
    if box:
        return 1.0 if abs(z) <= 0.5 else 0.0
    return slope(z)


@njit(cache=True)
def target_piece(x: float, breaks: Floats) -> int:
    """The number of breaks ≤ x."""
    piece = 0
    for i in range(breaks.size):
        if breaks[i] <= x:
            piece += 1
    return piece


@njit(cache=True)
def advance_plain(
    u: Floats,
    a: Floats,
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    steps: int,
    state: Words,
) -> int:
    """Make up to `steps` steps of batch 1 in place; u (m,), a (m + 1,), rates (h, εh, noise).

    Returns the number of steps after which all residuals were still finite.
    """
    breaks, values = target
    h, slow, noise = rates
    s0, s1, s2, s3 = state
    m = u.size
    features = np.empty(m)
    for done in range(steps):
        x, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
        y = values[target_piece(x, breaks)]
        if noise > 0.0:
            draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            y += noise * (2.0 * draw - 1.0)
        f = a[0]
        for j in range(m):
            features[j] = step((x - u[j]) / eta)
            f += a[j + 1] * features[j]
        r = f - y
        if not abs(r) < OVERFLOW:
            return done
        a[0] -= h * r
        for j in range(m):
            u[j] += slow * r * a[j + 1] * window_slope((x - u[j]) / eta, box) / eta
            a[j + 1] -= h * r * features[j]
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return steps


@njit(cache=True)
def advance_batches(
    u: Floats,
    a: Floats,
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    shape: tuple[int, int],
    state: Words,
) -> int:
    """Make up to shape[0] steps of batch shape[1] in place; otherwise as `advance_plain`."""
    breaks, values = target
    h, slow, noise = rates
    s0, s1, s2, s3 = state
    steps, batch = shape
    m = u.size
    features, grad_u, grad_a = np.empty(m), np.empty(m), np.empty(m + 1)
    for done in range(steps):
        grad_u[:] = 0.0
        grad_a[:] = 0.0
        for _ in range(batch):
            x, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            y = values[target_piece(x, breaks)]
            if noise > 0.0:
                draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
                y += noise * (2.0 * draw - 1.0)
            f = a[0]
            for j in range(m):
                features[j] = step((x - u[j]) / eta)
                f += a[j + 1] * features[j]
            r = f - y
            if not abs(r) < OVERFLOW:
                return done
            grad_a[0] += r
            for j in range(m):
                grad_u[j] += r * a[j + 1] * window_slope((x - u[j]) / eta, box) / eta
                grad_a[j + 1] += r * features[j]
        for j in range(m):
            u[j] += slow * grad_u[j] / batch
        for j in range(m + 1):
            a[j] -= h * grad_a[j] / batch
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return steps
