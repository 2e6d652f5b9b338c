"""Gradient descent of a univariate ReLU network: the same iterates by two kernels.

Model and loss ([plateau], Ainsworth & Shin 2020, (2.1) and (2.2); ReLU'(0) = 0 as in (3.1)):

    f(x) = sum_j c_j relu(x - b_j),      L = 1/2 sum_k r_k^2,      r_k = f(x_k) - y_k.

Sample k activates neuron j iff x_k > b_j. With the samples in order, the *gap* p_j = #{k : x_k <= b_j} of a
neuron says all: it sees the samples p_j, p_j + 1, ... With the sums over these,

    G0_j = sum_{k >= p_j} r_k,       G1_j = sum_{k >= p_j} r_k x_k,

the gradient is dL/db_j = -c_j G0_j, dL/dc_j = G1_j - b_j G0_j. Two kernels make these sums for all neurons at
once: "blocks" from the statistics of the blocks of samples between neighbouring knots, in
O(width), and "samples" by a sweep over the samples, in O(width + samples).

With few samples many neurons share a gap, the blocks are mostly empty, and a knot that chatters at a sample
makes work in every step. Then it is cheaper to go along the line in order: from the left with the running
sums a = sum c_i, d = -sum c_i b_i of the neurons passed, which give the residuals r_k = a x_k + d - y_k, and
back from the right with the running sums of r and r x, which are the gradient. Crossings cost nothing but
their count. Neurons are kept in the order of their knots, equal ones in the caller's order: on the way back,
one that has passed others is inserted among them.

Exactness. The iterates are those of plain descent up to rounding. Inputs are measured from the middle sample,
so that data far from the origin cost no digits. A step is a function of the iterate alone, to the last bit,
and a run may be cut into several calls anywhere.

A neuron to the right of all samples has no gradient: it is dead, keeps its values for ever and is left out.

**Blocks**, in O(width) per step. Sort the neurons by gap. Between two neighbours lies a block of samples (the
U_l of [plateau], (3.2)) on which f is one line a_l x + d_l, with running sums from the left as coefficients,

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

from __future__ import annotations

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
            crossings += _enter_block_gaps(table, moved)
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
def _enter_block_gaps(table: Table, moved: int) -> int:
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


# From this many neurons per sample on, they are added up by four where that many lie between two samples: a
# running sum has to wait for each addition.
CROWD = 4
TWO = Position(2)
THREE = Position(3)
FOUR = Position(4)


class Sorted(NamedTuple):
    """Neurons in the order of their knots: b (n + 4,), c, gaps, numbers (n,).

    Four infinite knots at the end, which no sample passes, spare the loops a test.
    """

    b: FloatArray
    c: FloatArray
    gap: IntArray
    number: IntArray


class Line(NamedTuple):
    """Samples (m,): x, x from the middle one, y, the left ends of the gaps (m + 1,), room for residuals."""

    x: FloatArray
    z: FloatArray
    y: FloatArray
    left: FloatArray
    residual: FloatArray


def descend_samples(
    knots: FloatArray,
    outer: FloatArray,
    x: FloatArray,
    y: FloatArray,
    rates: tuple[float, float],
    steps: int,
) -> tuple[int, int]:
    """Make up to `steps` steps in place: (steps done, samples crossed); as `descend_blocks`."""
    order = np.argsort(knots, kind="stable")
    b = np.append(knots[order], np.full(4, np.inf))
    neurons = Sorted(b, outer[order], np.searchsorted(x, b[:-4], side="right"), order)
    line = Line(x, x - x[x.size // 2], y, np.append(-np.inf, x), np.empty(x.size))
    done, crossings = _descend(neurons, line, rates, steps)
    knots[order], outer[order] = b[:-4], neurons.c
    return done, crossings


@njit(cache=True, **LEAN)
def _descend(neurons: Sorted, line: Line, rates: tuple[float, float], steps: int) -> tuple[int, int]:
    """Advance the sorted neurons in place for `steps` or until a value overflows: (steps done, crossings)."""
    b, c, gap, _ = neurons
    x, z, _, left, residual = line
    samples = Position(x.size)
    middle = x[samples // TWO]
    crowded = c.size >= CROWD * x.size
    live = _count_live(b, x, Position(c.size))
    inner_rate, outer_rate = rates
    crossings = 0
    for step in range(steps):
        if live == 0:
            break
        passed, total = _residuals(b, c, line, middle, crowded)
        # A sum is finite only if all its terms are, and a knot that is not a number is never passed.
        if passed < live or not np.isfinite(total):
            return step, crossings
        force = 0.0
        moment = 0.0
        right = np.inf
        k = samples
        for back in range(live):
            j = live - ONE - Position(back)
            knot = b[j]
            weight = c[j]
            while left[k] > knot:
                k -= ONE
                force += residual[k]
                moment += residual[k] * z[k]
            # Only now does it show where the last step took this knot.
            crossings += abs(Signed(k) - gap[j])
            gap[j] = Signed(k)
            # In this order of operations, little has to wait for the sums.
            new = knot + (inner_rate * weight) * force
            b[j] = new
            c[j] = (weight + (outer_rate * (knot - middle)) * force) - outer_rate * moment
            if new >= right:
                _move_right(neurons, j, live)
                new = b[j]
            right = new
        if b[live - ONE] >= x[samples - ONE]:
            before = live
            live = _count_live(b, x, before)
            crossings += _enter_gaps(b, gap, x, live, before)
            for j in range(live, before):
                if not (np.isfinite(b[j]) and np.isfinite(c[j])):
                    return step + 1, crossings
    return steps, crossings + _enter_gaps(b, gap, x, Position(0), live)


@njit(cache=True, inline="always", **INTERNAL)
def _residuals(b: FloatArray, c: FloatArray, line: Line, middle: float, crowded: bool) -> tuple[int, float]:
    """Write r_k = f(x_k) - y_k: (neurons to the left of the last sample, the sum of all running sums)."""
    x, z, y, _, residual = line
    slope = 0.0
    level = 0.0
    i = Position(0)
    for k in range(x.size):
        while crowded and b[i + THREE] < x[k]:
            slope += (c[i] + c[i + ONE]) + (c[i + TWO] + c[i + THREE])
            left = c[i] * (b[i] - middle) + c[i + ONE] * (b[i + ONE] - middle)
            level -= left + (c[i + TWO] * (b[i + TWO] - middle) + c[i + THREE] * (b[i + THREE] - middle))
            i += FOUR
        while b[i] < x[k]:
            slope += c[i]
            level -= c[i] * (b[i] - middle)
            i += ONE
        residual[k] = level + (slope * z[k] - y[k])
    return i, slope + level


@njit(cache=True, **INTERNAL)
def _move_right(neurons: Sorted, at: int, live: int) -> None:
    """Insert the neuron at `at` into the sorted ones behind it: by knot, then by number."""
    b, c, gap, number = neurons
    knot, outer, samples, name = b[at], c[at], gap[at], number[at]
    while at + ONE < live and (b[at + ONE] < knot or (b[at + ONE] == knot and number[at + ONE] < name)):
        b[at], c[at] = b[at + ONE], c[at + ONE]
        gap[at], number[at] = gap[at + ONE], number[at + ONE]
        at += ONE
    b[at], c[at], gap[at], number[at] = knot, outer, samples, name


@njit(cache=True, **INTERNAL)
def _count_live(b: FloatArray, x: FloatArray, live: int) -> int:
    """Number of sorted knots among the first `live` that are to the left of the last sample."""
    while live > 0 and b[live - ONE] >= x[-1]:
        live -= ONE
    return live


@njit(cache=True, **INTERNAL)
def _enter_gaps(b: FloatArray, gap: IntArray, x: FloatArray, start: int, end: int) -> int:
    """Look up the gaps of the neurons start..end-1: samples that they crossed since these were last known."""
    crossings, now = 0, x.size
    for back in range(end - start):
        j = end - ONE - Position(back)
        while now > 0 and x[now - 1] > b[j]:
            now -= 1
        crossings += abs(now - gap[j])
        gap[j] = now
    return crossings


# Up to this many samples, and one more for every so many neurons, the sweep over the samples is the faster
# kernel (`python -m benchmarks knot_descent`).
FEW_SAMPLES = 10
NEURONS_PER_SAMPLE = 4


class Samples(NamedTuple):
    """Sorted inputs, repeats allowed, their outputs, (samples,) each, and the prefix sums of both."""

    x: FloatArray
    y: FloatArray
    prefix: FloatArray


class Descended(NamedTuple):
    """Where descent has come to: b and c (width,), steps done, samples crossed."""

    knots: FloatArray
    outer: FloatArray
    done: int
    crossings: int


def prepare(x_sorted: FloatArray, y_sorted: FloatArray) -> Samples:
    """Return what `advance` needs to know about the data, in O(samples)."""
    return Samples(x_sorted, y_sorted, prefix_sums(x_sorted, y_sorted))


def faster_kernel(width: int, samples: int) -> str:
    """Return which of "blocks" and "samples" takes less time per step."""
    return "samples" if samples <= FEW_SAMPLES + width // NEURONS_PER_SAMPLE else "blocks"


def advance(
    knots: FloatArray,
    outer: FloatArray,
    samples: Samples,
    rates: tuple[float, float],
    steps: int,
    kernel: str | None = None,
) -> Descended:
    """Iterate plain gradient descent on 1/2 sum r^2.

        b_j += rate_inner c_j G0_j,     c_j -= rate_outer (G1_j - b_j G0_j),     G0_j = sum_{x_k > b_j} r_k,
        G1_j = sum_{x_k > b_j} r_k x_k,     with the old iterate throughout on the right ([plateau], (3.1)).

    knots, outer (width,): b and c, in any order, which is kept; not modified.
    rates: of the inner and the outer layer.
    steps: fewer are done if a value overflows; the last finite iterate is then returned, and its number.
    kernel: "blocks", "samples", or None for the faster one.
    """
    kernel = kernel or faster_kernel(knots.size, samples.x.size)
    while True:
        new_knots, new_outer = np.array(knots), np.array(outer)
        if kernel == "samples":
            done, crossings = descend_samples(new_knots, new_outer, samples.x, samples.y, rates, steps)
        else:
            done, crossings = descend_blocks(new_knots, new_outer, samples.prefix, rates, steps)
        if steps == 0 or (np.isfinite(new_knots).all() and np.isfinite(new_outer).all()):
            return Descended(new_knots, new_outer, done, crossings)
        # A run can be repeated to the last bit: do so without the step that overflowed.
        steps = max(done - 1, 0)
