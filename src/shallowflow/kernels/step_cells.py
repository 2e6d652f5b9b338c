"""A look-up table of [0, 1): which plateau and which piece of the target a sample falls on.

[0, 1) is cut into 2^p equal cells. The code of a cell is k·2^12 + piece if the whole cell lies on plateau k
(k neurons fully on, no window |x − u_j| < η/2 touches it) and on one piece of the target; otherwise −1 − k,
where all windows left of slot k end before the cell. For the neuron in slot j of the sorted positions,
`low`[j] … `high`[j] are the cells that its window touches. Both are non-decreasing in j, so a stretch of
cells is refilled in one pass; while the two numbers of every neuron stay the same, so does the table.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cone_geometry import LEAN

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
