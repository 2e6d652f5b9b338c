"""Gradient descent of a univariate ReLU network in O(width) per step, whatever the number of samples.

Model and loss ([plateau], Ainsworth & Shin 2020, (2.1) and (2.2); ReLU'(0) = 0 as in (3.1)):

    f(x) = sum_j c_j relu(x - b_j),      L = 1/2 sum_k r_k^2,      r_k = f(x_k) - y_k.

Sample k activates neuron j iff x_k > b_j. With the samples in order, the *gap* p_j = #{k : x_k <= b_j} of a
neuron says all: it sees the samples p_j, p_j + 1, ... Sort the neurons by gap. Between two neighbours lies a
block of samples (the U_l of (3.2)) on which f is one line a_l x + d_l, with running sums from the left as
coefficients,

    a_l = sum_{i <= l} c_i,          d_l = -sum_{i <= l} c_i b_i,

so that the block's residual sums follow from five statistics of it, n = #, sum x, sum x^2, sum y, sum xy:

    sum r = a_l sum x + d_l n - sum y,          sum r x = a_l sum x^2 + d_l sum x - sum xy.

Running sums of these from the right, G0_j and G1_j (over all samples that neuron j sees), are the gradient,

    dL/db_j = -c_j G0_j,             dL/dc_j = G1_j - b_j G0_j,

and a step costs two passes over the neurons. The statistics of a block are differences of sums over the
samples, made once per data set; they change only when a knot crosses a sample. Then the knots concerned look
up their gaps, the order is restored by insertion, and the blocks between them take their statistics afresh.

Exactness. The iterates are those of plain descent up to rounding. Inputs are measured from the middle sample,
so that data far from the origin cost no digits, and sums over samples run from the right, so that a neuron
which sees few samples gets sums of few terms. (The outputs are not centred: the model has no intercept, so
f(x_k) rounds like y_k in any case.) Neurons of equal gap are taken in the caller's order; a step is therefore
a function of the iterate alone, to the last bit, and a run may be cut into several calls anywhere.

A neuron to the right of all samples has no gradient: it is dead, keeps its values for ever and is left out.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
Signed: Any = np.int64
ONE = Position(1)

# From this width on, vector instructions pay for the additional passes that they need.
WIDE = 32
# Longest walk to a new gap, in samples: it reads memory in order and up to about here beats bisection.
LONGEST_WALK = Position(1024)

NO_EVENTS: IntArray = np.empty((0, 4), dtype=np.int64)


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


def advance(
    knots: FloatArray,
    outer: FloatArray,
    x_sorted: FloatArray,
    y_sorted: FloatArray,
    prefix: FloatArray,
    rate_inner: float,
    rate_outer: float,
    steps: int,
    events: IntArray = NO_EVENTS,
) -> tuple[FloatArray, FloatArray, int, int]:
    """Iterate plain gradient descent on 1/2 sum r^2: (knots, outer, steps done, samples crossed).

        b_j += rate_inner c_j G0_j,     c_j -= rate_outer (G1_j - b_j G0_j),     G0_j = sum_{x_k > b_j} r_k,
        G1_j = sum_{x_k > b_j} r_k x_k,     with the old iterate throughout on the right ([plateau], (3.1)).

    knots, outer (width,): b and c, in any order, which is kept; not modified.
    x_sorted, y_sorted (samples,), prefix (samples + 2, 5): the data and `prefix_sums(x_sorted, y_sorted)`,
    which is all that is read of the outputs.
    steps: fewer are done if a value overflows; the last finite iterate is then returned, and its number.
    events (capacity, 4): receives the first crossings, by step, as rows (step, neuron, sample, direction):
    from iterate `step` of this call on, counted from 1, `knots[neuron]` is to the right of `x_sorted[sample]`
    or on it (direction 1: the sample stops activating the neuron) or to its left (-1). Rows beyond the number
    of crossings mean nothing.
    """
    gaps = np.searchsorted(x_sorted, knots, side="right")
    keys = np.sort((gaps << NUMBER_BITS) | np.arange(knots.size))
    rates = float(rate_inner), float(rate_outer)
    iterate = _run(np.array(knots), np.array(outer), keys.copy(), prefix, rates, steps, events)
    if np.isfinite(iterate[0]).all() and np.isfinite(iterate[1]).all():
        return iterate
    # A run can be repeated to the last bit: do so without the step that overflowed.
    return _run(np.array(knots), np.array(outer), keys, prefix, rates, max(iterate[2] - 1, 0), events)


@njit(cache=True)
def _run(
    knots: FloatArray,
    outer: FloatArray,
    keys: IntArray,
    prefix: FloatArray,
    rates: tuple[float, float],
    steps: int,
    events: IntArray,
) -> tuple[FloatArray, FloatArray, int, int]:
    """Set up the table, descend, and write the neurons back in the caller's order: changes its arrays."""
    table = np.empty((11, keys.size))
    for at in range(keys.size):
        gap = keys[at] >> NUMBER_BITS
        table[KNOT, at] = knots[keys[at] & NUMBER]
        table[OUTER, at] = outer[keys[at] & NUMBER]
        table[LOWER, at] = prefix[gap, LEFT]
        table[UPPER, at] = prefix[gap + 1, LEFT]
    live = keys.size
    while live > 0 and keys[live - 1] >> NUMBER_BITS == prefix.shape[0] - 2:
        live -= 1
    _set_blocks(table, keys, live, prefix, 0, live - 1)
    done, crossings = _descend(table, keys, live, prefix, rates, steps, events)
    for at in range(keys.size):
        knots[keys[at] & NUMBER] = table[KNOT, at]
        outer[keys[at] & NUMBER] = table[OUTER, at]
    return knots, outer, done, crossings


@njit(cache=True)
def _descend(
    table: FloatArray,
    keys: IntArray,
    live: int,
    prefix: FloatArray,
    rates: tuple[float, float],
    steps: int,
    events: IntArray,
) -> tuple[int, int]:
    """Advance the table in place for `steps` or until a value overflows: (steps done, samples crossed)."""
    samples = prefix.shape[0] - 2
    middle = prefix[samples // 2 + 1, LEFT]
    movers = np.empty(live + 1, dtype=np.uint64)
    crossings = 0
    for step in range(steps):
        if live < WIDE:
            finite, moved = _step_narrow(table, live, middle, rates, movers)
        else:
            finite, moved = _step_wide(table, live, middle, rates, movers)
        if not finite:
            return step, crossings
        if moved > 0:
            crossings = _enter_gaps(table, keys, prefix, movers[:moved], step + 1, crossings, events)
            first, last = _restore_order(table, keys, live, Signed(movers[moved - 1]), Signed(movers[0]))
            while live > 0 and keys[live - 1] >> NUMBER_BITS == samples:
                live -= 1
                if not (np.isfinite(table[KNOT, live]) and np.isfinite(table[OUTER, live])):
                    return step + 1, crossings
            _set_blocks(table, keys, live, prefix, max(first - 1, 0), min(last, live - 1))
    return steps, crossings


@njit(cache=True, inline="always")
def _step_narrow(
    table: FloatArray, live: int, middle: float, rates: tuple[float, float], movers: PositionArray
) -> tuple[bool, int]:
    """One step if the iterate is finite: (is it?, knots that left their gaps), listed in `movers`."""
    slope = 0.0
    level = 0.0
    for at in range(live):
        slope += table[OUTER, at]
        level -= table[OUTER, at] * (table[KNOT, at] - middle)
        table[FIRST, at] = slope * table[X, at] + level * table[COUNT, at] - table[Y, at]
        table[SECOND, at] = slope * table[XX, at] + level * table[X, at] - table[XY, at]
    # A sum is finite only if all its terms are: this tests every live neuron.
    if not np.isfinite(slope + level):
        return False, 0
    residual = 0.0
    moment = 0.0
    moved = 0
    for back in range(live):
        at = Position(live - 1 - back)
        residual += table[FIRST, at]
        moment += table[SECOND, at]
        knot = table[KNOT, at]
        new = knot + rates[0] * table[OUTER, at] * residual
        table[KNOT, at] = new
        table[OUTER, at] -= rates[1] * (moment - (knot - middle) * residual)
        if new < table[LOWER, at] or new >= table[UPPER, at]:
            movers[moved] = at
            moved += 1
    return True, moved


@njit(cache=True)
def _step_wide(
    table: FloatArray, live: int, middle: float, rates: tuple[float, float], movers: PositionArray
) -> tuple[bool, int]:
    """The same, in passes over independent neurons, which the compiler vectorises, and two running sums."""
    for at in range(live):
        table[FIRST, at] = table[OUTER, at]
        table[SECOND, at] = -table[OUTER, at] * (table[KNOT, at] - middle)
    _accumulate(table, live, 0, 1)
    if not np.isfinite(table[FIRST, live - 1] + table[SECOND, live - 1]):
        return False, 0
    for at in range(live):
        slope = table[FIRST, at]
        level = table[SECOND, at]
        table[FIRST, at] = slope * table[X, at] + level * table[COUNT, at] - table[Y, at]
        table[SECOND, at] = slope * table[XX, at] + level * table[X, at] - table[XY, at]
    _accumulate(table, live, live - 1, -1)
    crossed = False
    for at in range(live):
        residual = table[FIRST, at]
        knot = table[KNOT, at]
        new = knot + rates[0] * table[OUTER, at] * residual
        table[KNOT, at] = new
        table[OUTER, at] -= rates[1] * (table[SECOND, at] - (knot - middle) * residual)
        outside = (new < table[LOWER, at]) | (new >= table[UPPER, at])
        table[FIRST, at] = outside
        crossed |= outside
    moved = 0
    if crossed:
        # Knots that chatter make this unpredictable: a list without branches is several times faster.
        for back in range(live):
            at = Position(live - 1 - back)
            movers[Position(moved)] = at
            moved += Signed(table[FIRST, at])
    return True, moved


@njit(cache=True, inline="always")
def _accumulate(table: FloatArray, live: int, start: int, direction: int) -> None:
    """Running sums of FIRST and SECOND from one end; by pairs, so that half as many additions must wait."""
    first = 0.0
    second = 0.0
    for pair in range(live // 2):
        near = Position(start + 2 * direction * pair)
        far = Position(start + 2 * direction * pair + direction)
        first_pair = table[FIRST, near] + table[FIRST, far]
        second_pair = table[SECOND, near] + table[SECOND, far]
        table[FIRST, near] += first
        table[SECOND, near] += second
        first += first_pair
        second += second_pair
        table[FIRST, far] = first
        table[SECOND, far] = second
    if live % 2 == 1:
        table[FIRST, live - 1 - start] += first
        table[SECOND, live - 1 - start] += second


@njit(cache=True, inline="always")
def _enter_gaps(
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
            _record(events[crossings:], step, keys[at] & NUMBER, old, new)
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


@njit(cache=True)
def _record(events: IntArray, step: int, neuron: int, old: int, new: int) -> None:
    """Write the crossings of one knot on its way from gap `old` to gap `new` into the free rows `events`."""
    direction = 1 if new > old else -1
    sample = old if new > old else old - 1
    for i in range(min(abs(new - old), events.shape[0])):
        events[i, 0] = step
        events[i, 1] = neuron
        events[i, 2] = sample + direction * i
        events[i, 3] = direction


@njit(cache=True, inline="always")
def _restore_order(table: FloatArray, keys: IntArray, live: int, first: int, last: int) -> tuple[int, int]:
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
def _set_blocks(
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
