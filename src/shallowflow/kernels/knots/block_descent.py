"""Gradient descent of a univariate ReLU network from block statistics, in O(width) per step.

Sort the neurons by gap (see `descent`). Between two neighbours lies a block of samples (the U_l of [plateau],
(3.2)) on which f is one line a_l x + d_l, with running sums from the left as coefficients,

    a_l = sum_{i <= l} c_i,          d_l = -sum_{i <= l} c_i b_i,

so that the block's residual sums follow from five statistics of it, n = #, sum x, sum x^2, sum y, sum xy:

    sum r = a_l sum x + d_l n - sum y,          sum r x = a_l sum x^2 + d_l sum x - sum xy.

Running sums of these from the right are G0_j and G1_j, the gradient, and a step costs two passes over the
neurons. The statistics of a block are differences of sums over the samples, made once per data set. Sums of
samples run from the right, so that a neuron which sees few samples gets sums of few terms. (The outputs are
not centred: the model has no intercept, so f(x_k) rounds like y_k in any case.) When knots cross samples they
look up their gaps, the order is restored by insertion, and the blocks between them take their statistics
afresh. Everything else in the table stays, and costs nothing. Neurons of equal gap are taken in the caller's
order, so that a step is a function of the iterate alone, to the last bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed
from shallowflow.kernels.shared.vectors import aligned_copy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
PositionArray = NDArray[np.uint64]

# Columns of the prefix sums, whose row p describes gap p: its left end, and the sums over the samples k >= p.
LEFT, SUM_X, SUM_XX, SUM_Y, SUM_XY = range(5)
# Rows of the working table, whose columns are the neurons in order of their gaps: a neuron's own values (its
# gap is [LOWER, UPPER)), the statistics of the block to its right, and the two running sums of a step.
KNOT, OUTER, LOWER, UPPER, COUNT, X, XX, Y, XY, FIRST, SECOND = range(11)
# A neuron's key is its gap followed by its number in these lowest bits: one order, whatever the history.
NUMBER_BITS = 32
NUMBER = (1 << NUMBER_BITS) - 1
# Positions in the table have no sign, which spares the compiled loops a test for negative indices. (To a type
# checker both are just integers; to Numba their sum with a signed integer would be a float.)
Position: Any = np.uint64
ONE = Position(1)
# Longest walk to a new gap, in samples: it reads memory in order and up to about here beats bisection.
LONGEST_WALK = Position(1024)
# From this width on, vector instructions pay for the additional passes that they need.
WIDE = 32


def prefix_sums(x_sorted: FloatArray, y_sorted: FloatArray) -> FloatArray:
    """Sums over the samples to the right of every gap, made once per data set in O(samples).

    Row p of the result (samples + 2, 5) is x_{p-1} (infinite outside the data), then the sums over k >= p of
    z_k, z_k^2, y_k, z_k y_k, where z_k = x_k - x_middle: the statistics of [plateau], (3.3), before division.
    Each sum is accumulated together with its rounding errors and rounded once.

    x_sorted, y_sorted (samples,): inputs in non-decreasing order (repeats allowed) and their outputs.
    """
    sums = np.zeros((x_sorted.size + 2, 5))
    sums[0, LEFT], sums[-1, LEFT] = -np.inf, np.inf
    _fill_sums(x_sorted, y_sorted, sums, np.zeros((3, 4)))
    return sums


@njit(cache=True, **LEAN)
def _fill_sums(x_sorted: FloatArray, y_sorted: FloatArray, sums: FloatArray, scratch: FloatArray) -> None:
    samples = x_sorted.size
    middle = x_sorted[samples // 2]
    total, error, terms = scratch[0], scratch[1], scratch[2]
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


class Table(NamedTuple):
    """Neurons in order of their gaps: the rows above (11, n), keys (n,), prefix sums, and room for movers."""

    values: FloatArray
    keys: IntArray
    prefix: FloatArray
    movers: PositionArray


def descend_blocks(
    knots: FloatArray, outer: FloatArray, prefix: FloatArray, rates: tuple[float, float], steps: int
) -> tuple[int, int]:
    """Make up to `steps` steps in place: (steps done, samples crossed).

    knots, outer (width,): in any order, which is kept. A value that overflows ends the run one step later;
    the arrays then contain it.
    """
    lefts = prefix[1:-1, LEFT]
    gaps = np.searchsorted(lefts, knots, side="right")
    keys = np.sort((gaps << NUMBER_BITS) | np.arange(knots.size))
    numbers, gaps = keys & NUMBER, keys >> NUMBER_BITS
    values = aligned_copy(np.empty((11, keys.size)))
    values[KNOT], values[OUTER] = knots[numbers], outer[numbers]
    values[LOWER], values[UPPER] = prefix[gaps, LEFT], prefix[gaps + 1, LEFT]
    table = Table(values, keys, prefix, np.empty(keys.size + 1, dtype=np.uint64))
    done, crossings = _advance_table(table, int(np.sum(gaps < lefts.size)), rates, steps)
    numbers = keys & NUMBER
    knots[numbers], outer[numbers] = values[KNOT], values[OUTER]
    return done, crossings


@njit(cache=True, **LEAN)
def _advance_table(table: Table, live: int, rates: tuple[float, float], steps: int) -> tuple[int, int]:
    """Advance the table in place for `steps` or until a value overflows: (steps done, samples crossed)."""
    values, keys, prefix, movers = table
    samples = prefix.shape[0] - 2
    middle = prefix[samples // 2 + 1, LEFT]
    crossings = 0
    _set_blocks(table, live, Signed(0), live - 1)
    for step in range(steps):
        if live < WIDE:
            finite, moved = _step_narrow(values, live, middle, rates, movers)
        else:
            finite, moved = _step_wide(values, live, middle, rates, movers)
        if not finite:
            return step, crossings
        if moved > 0:
            crossings += _enter_gaps(table, moved)
            first, last = _restore_order(table, live, Signed(movers[moved - 1]), Signed(movers[0]))
            while live > 0 and keys[live - 1] >> NUMBER_BITS == samples:
                live -= 1
                if not (np.isfinite(values[KNOT, live]) and np.isfinite(values[OUTER, live])):
                    return step + 1, crossings
            _set_blocks(table, live, max(first - 1, 0), min(last, live - 1))
    return steps, crossings


@njit(cache=True, inline="always", **INTERNAL)
def _step_narrow(
    values: FloatArray, live: int, middle: float, rates: tuple[float, float], movers: PositionArray
) -> tuple[bool, int]:
    """One step if the iterate is finite: (is it?, knots that left their gaps), listed in `movers`."""
    slope = 0.0
    level = 0.0
    for at in range(live):
        slope += values[OUTER, at]
        level -= values[OUTER, at] * (values[KNOT, at] - middle)
        values[FIRST, at] = slope * values[X, at] + level * values[COUNT, at] - values[Y, at]
        values[SECOND, at] = slope * values[XX, at] + level * values[X, at] - values[XY, at]
    # A sum is finite only if all its terms are: this tests every live neuron.
    if not np.isfinite(slope + level):
        return False, 0
    residual = 0.0
    moment = 0.0
    moved = 0
    for back in range(live):
        at = Position(live - 1 - back)
        residual += values[FIRST, at]
        moment += values[SECOND, at]
        knot = values[KNOT, at]
        new = knot + rates[0] * values[OUTER, at] * residual
        values[KNOT, at] = new
        values[OUTER, at] -= rates[1] * (moment - (knot - middle) * residual)
        if new < values[LOWER, at] or new >= values[UPPER, at]:
            movers[moved] = at
            moved += 1
    return True, moved


@njit(cache=True, **INTERNAL)
def _step_wide(
    values: FloatArray, live: int, middle: float, rates: tuple[float, float], movers: PositionArray
) -> tuple[bool, int]:
    """The same, in passes over independent neurons, which the compiler vectorises, and two running sums."""
    for at in range(live):
        values[FIRST, at] = values[OUTER, at]
        values[SECOND, at] = -values[OUTER, at] * (values[KNOT, at] - middle)
    _accumulate(values, live, 0, 1)
    if not np.isfinite(values[FIRST, live - 1] + values[SECOND, live - 1]):
        return False, 0
    for at in range(live):
        slope = values[FIRST, at]
        level = values[SECOND, at]
        values[FIRST, at] = slope * values[X, at] + level * values[COUNT, at] - values[Y, at]
        values[SECOND, at] = slope * values[XX, at] + level * values[X, at] - values[XY, at]
    _accumulate(values, live, live - 1, -1)
    crossed = False
    for at in range(live):
        residual = values[FIRST, at]
        knot = values[KNOT, at]
        new = knot + rates[0] * values[OUTER, at] * residual
        values[KNOT, at] = new
        values[OUTER, at] -= rates[1] * (values[SECOND, at] - (knot - middle) * residual)
        outside = (new < values[LOWER, at]) | (new >= values[UPPER, at])
        values[FIRST, at] = outside
        crossed |= outside
    moved = 0
    if crossed:
        # Knots that chatter make this unpredicvalues: a list without branches is several times faster.
        for back in range(live):
            at = Position(live - 1 - back)
            movers[Position(moved)] = at
            moved += Signed(values[FIRST, at])
    return True, moved


@njit(cache=True, inline="always", **INTERNAL)
def _accumulate(values: FloatArray, live: int, start: int, direction: int) -> None:
    """Running sums of FIRST and SECOND from one end; by pairs, so that half as many additions must wait."""
    first = 0.0
    second = 0.0
    for pair in range(live // 2):
        near = Position(start + 2 * direction * pair)
        far = Position(start + 2 * direction * pair + direction)
        first_pair = values[FIRST, near] + values[FIRST, far]
        second_pair = values[SECOND, near] + values[SECOND, far]
        values[FIRST, near] += first
        values[SECOND, near] += second
        first += first_pair
        second += second_pair
        values[FIRST, far] = first
        values[SECOND, far] = second
    if live % 2 == 1:
        values[FIRST, live - 1 - start] += first
        values[SECOND, live - 1 - start] += second


@njit(cache=True, inline="always", **INTERNAL)
def _enter_gaps(table: Table, moved: int) -> int:
    """Look up the new gaps of the first `moved` movers, which left theirs: samples crossed."""
    values, keys, prefix, movers = table
    crossings = 0
    for i in range(moved):
        at = movers[i]
        knot = values[KNOT, at]
        old = keys[at] >> NUMBER_BITS
        # Nearly always it is the next gap.
        gap = Position(old + 1 if knot >= values[UPPER, at] else old - 1)
        if knot < prefix[gap, LEFT] or knot >= prefix[gap + ONE, LEFT]:
            gap = _gap_of(knot, prefix, gap)
        new = Signed(gap)
        keys[at] += (new - old) << NUMBER_BITS
        values[LOWER, at] = prefix[gap, LEFT]
        values[UPPER, at] = prefix[gap + ONE, LEFT]
        crossings += abs(new - old)
    return crossings


@njit(cache=True, **INTERNAL)
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


@njit(cache=True, inline="always", **INTERNAL)
def _restore_order(table: Table, live: int, first: int, last: int) -> tuple[int, int]:
    """Insertion sort by key, of which only those at first..last are new: range of the positions affected."""
    values, keys, _, _ = table
    for start in range(max(first, 1), live):
        at = Position(start)
        key = keys[at]
        if keys[at - ONE] > key:
            knot, outer, lower, upper = (
                values[KNOT, at],
                values[OUTER, at],
                values[LOWER, at],
                values[UPPER, at],
            )
            while at > 0 and keys[at - ONE] > key:
                keys[at] = keys[at - ONE]
                for row in range(COUNT):
                    values[row, at] = values[row, at - ONE]
                at -= ONE
            keys[at] = key
            values[KNOT, at], values[OUTER, at], values[LOWER, at], values[UPPER, at] = (
                knot,
                outer,
                lower,
                upper,
            )
            first = min(first, Signed(at))
            last = max(last, start)
    return first, last


@njit(cache=True, **INTERNAL)
def _set_blocks(table: Table, live: int, first: int, last: int) -> None:
    """Statistics of the blocks to the right of the neurons at first..last: differences of prefix sums."""
    values, keys, prefix, _ = table
    end = Position(keys[last + 1] >> NUMBER_BITS if last + 1 < live else prefix.shape[0] - 2)
    for back in range(last - first + 1):
        at = Position(last - back)
        gap = Position(keys[at] >> NUMBER_BITS)
        values[COUNT, at] = Signed(end - gap)
        values[X, at] = prefix[gap, SUM_X] - prefix[end, SUM_X]
        values[XX, at] = prefix[gap, SUM_XX] - prefix[end, SUM_XX]
        values[Y, at] = prefix[gap, SUM_Y] - prefix[end, SUM_Y]
        values[XY, at] = prefix[gap, SUM_XY] - prefix[end, SUM_XY]
        end = gap
