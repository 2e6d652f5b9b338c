"""Sums over the samples to the right of every gap between samples, from which any block's statistics follow.

Gap p lies between the sorted samples p - 1 and p. The statistics of the samples p, ..., q - 1 are the
differences of rows p and q ([plateau], Ainsworth & Shin 2020, (3.3)).

The list of crossings of samples by knots that the descent engines write.

The working table of block descent: neurons in order of their gaps, and what a crossing changes in it.

When knots cross samples they look up their gaps, the order is restored by insertion, and the blocks between
them take their statistics afresh. Everything else in the table stays, and costs nothing.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Columns of the prefix sums, whose row p describes gap p: its left end, and the sums over the samples k >= p.
LEFT, SUM_X, SUM_XX, SUM_Y, SUM_XY = range(5)


@njit(cache=True)
def prefix_sums(x_sorted: FloatArray, y_sorted: FloatArray) -> FloatArray:
    """Sums over the samples to the right of every gap, made once per data set in O(samples).

    Row p of the result (samples + 2, 5) is x_{p-1} (infinite outside the data), then the sums over k >= p of
    z_k, z_k^2, y_k, z_k y_k, where z_k = x_k - x_middle: the statistics of [plateau], (3.3), before division.
    Each sum is accumulated together with its rounding errors and rounded once.

    x_sorted, y_sorted (samples,): inputs in non-decreasing order (repeats allowed) and their outputs.
    """
    samples = x_sorted.size
    middle = x_sorted[samples // 2]
    sums = np.zeros((samples + 2, 5))
    sums[0, LEFT] = -np.inf
    sums[samples + 1, LEFT] = np.inf
    total = np.zeros(4)
    error = np.zeros(4)
    terms = np.empty(4)
    for k in range(samples - 1, -1, -1):
        sums[k + 1, LEFT] = x_sorted[k]
        z = x_sorted[k] - middle
        terms[0], terms[1], terms[2], terms[3] = z, z * z, y_sorted[k], z * y_sorted[k]
        for i in range(4):
            term = terms[i]
            new = total[i] + term
            taken = new - total[i]
            error[i] += (total[i] - (new - taken)) + (term - taken)
            total[i] = new
            sums[k, SUM_X + i] = new + error[i]
    return sums


IntArray = NDArray[np.int64]

NO_EVENTS: IntArray = np.empty((0, 4), dtype=np.int64)


@njit(cache=True)
def record_crossings(events: IntArray, step: int, neuron: int, old: int, new: int) -> None:
    """Write the crossings of one knot on its way from gap `old` to gap `new` into the free rows `events`."""
    direction = 1 if new > old else -1
    sample = old if new > old else old - 1
    for i in range(min(abs(new - old), events.shape[0])):
        events[i, 0] = step
        events[i, 1] = neuron
        events[i, 2] = sample + direction * i
        events[i, 3] = direction


PositionArray = NDArray[np.uint64]

# Rows of the working table, whose columns are the neurons in order of their gaps: a neuron's own values (its
# gap is [LOWER, UPPER)), the statistics of the block to its right, and the two running sums of a step.
KNOT, OUTER, LOWER, UPPER, COUNT, X, XX, Y, XY, FIRST, SECOND = range(11)

# A neuron's key is its gap followed by its number in these lowest bits: one order, whatever the history.
NUMBER_BITS = 32
NUMBER = (1 << NUMBER_BITS) - 1

# Positions in the table have no sign, which spares the compiled loops a test for negative indices. (To a type
# checker both are just integers; to Numba their sum with a signed integer would be a float.)
Position: Any = np.uint64
Signed: Any = np.int64
ONE = Position(1)

# Longest walk to a new gap, in samples: it reads memory in order and up to about here beats bisection.
LONGEST_WALK = Position(1024)


@njit(cache=True, inline="always")
def enter_gaps(
    table: FloatArray,
    keys: IntArray,
    prefix: FloatArray,
    movers: PositionArray,
    step: int,
    crossings: int,
    events: IntArray,
) -> int:
    """Look up the new gaps of the neurons at the positions `movers`, which left theirs: crossings so far."""
    for at in movers:
        knot = table[KNOT, at]
        old = keys[at] >> NUMBER_BITS
        # Nearly always it is the next gap.
        gap = Position(old + 1 if knot >= table[UPPER, at] else old - 1)
        if knot < prefix[gap, LEFT] or knot >= prefix[gap + ONE, LEFT]:
            gap = _gap_of(knot, prefix, gap)
        new = Signed(gap)
        keys[at] += (new - old) << NUMBER_BITS
        table[LOWER, at] = prefix[gap, LEFT]
        table[UPPER, at] = prefix[gap + ONE, LEFT]
        if crossings < events.shape[0]:
            record_crossings(events[crossings:], step, keys[at] & NUMBER, old, new)
        crossings += abs(new - old)
    return crossings


@njit(cache=True)
def _gap_of(knot: float, prefix: FloatArray, start: int) -> int:
    """Number of samples <= knot, by a walk from gap `start` or, if that gets long, by bisection."""
    gap = start
    samples = Position(prefix.shape[0] - 2)
    furthest = min(start + LONGEST_WALK, samples)
    while gap < furthest and prefix[gap + ONE, LEFT] <= knot:
        gap += ONE
    if gap == start:
        furthest = start - min(start, LONGEST_WALK)
        while gap > furthest and prefix[gap, LEFT] > knot:
            gap -= ONE
    if prefix[gap, LEFT] <= knot < prefix[gap + ONE, LEFT]:
        return gap
    low, high = Position(0), samples
    while low < high:
        centre = (low + high) // Position(2)
        if prefix[centre + ONE, LEFT] <= knot:
            low = centre + ONE
        else:
            high = centre
    found: int = low
    return found


@njit(cache=True, inline="always")
def restore_order(table: FloatArray, keys: IntArray, live: int, first: int, last: int) -> tuple[int, int]:
    """Insertion sort by key, of which only those at first..last are new: range of the positions affected."""
    for start in range(max(first, 1), live):
        at = Position(start)
        key = keys[at]
        if keys[at - ONE] > key:
            knot, outer, lower, upper = table[KNOT, at], table[OUTER, at], table[LOWER, at], table[UPPER, at]
            while at > 0 and keys[at - ONE] > key:
                keys[at] = keys[at - ONE]
                for row in range(COUNT):
                    table[row, at] = table[row, at - ONE]
                at -= ONE
            keys[at] = key
            table[KNOT, at], table[OUTER, at], table[LOWER, at], table[UPPER, at] = knot, outer, lower, upper
            first = min(first, Signed(at))
            last = max(last, start)
    return first, last


@njit(cache=True, inline="always")
def set_blocks(
    table: FloatArray, keys: IntArray, live: int, prefix: FloatArray, first: int, last: int
) -> None:
    """Statistics of the blocks to the right of the neurons at first..last: differences of prefix sums."""
    end = Position(keys[last + 1] >> NUMBER_BITS if last + 1 < live else prefix.shape[0] - 2)
    for back in range(last - first + 1):
        at = Position(last - back)
        gap = Position(keys[at] >> NUMBER_BITS)
        table[COUNT, at] = Signed(end - gap)
        table[X, at] = prefix[gap, SUM_X] - prefix[end, SUM_X]
        table[XX, at] = prefix[gap, SUM_XX] - prefix[end, SUM_XX]
        table[Y, at] = prefix[gap, SUM_Y] - prefix[end, SUM_Y]
        table[XY, at] = prefix[gap, SUM_XY] - prefix[end, SUM_XY]
        end = gap
