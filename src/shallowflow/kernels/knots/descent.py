"""Gradient descent of a univariate ReLU network in O(width) per step, whatever the number of samples.

Sort the neurons by gap. Between two neighbours lies a block of samples (the U_l of [plateau], Ainsworth &
Shin 2020, (3.2)) on which f is one line a_l x + d_l, with running sums from the left as coefficients,

    a_l = sum_{i <= l} c_i,          d_l = -sum_{i <= l} c_i b_i,

so that the block's residual sums follow from five statistics of it, n = #, sum x, sum x^2, sum y, sum xy:

    sum r = a_l sum x + d_l n - sum y,          sum r x = a_l sum x^2 + d_l sum x - sum xy.

Running sums of these from the right are G0_j and G1_j, the gradient (see `knot_descent`), and a step costs
two passes over the neurons. The statistics of a block are differences of sums over the samples, made once per
data set (`knot_prefix`); they change only when a knot crosses a sample (`knot_block_table`). Sums of samples
run from the right, so that a neuron which sees few samples gets sums of few terms. (The outputs are not
centred: the model has no intercept, so f(x_k) rounds like y_k in any case.) Neurons of equal gap are taken in
the caller's order, so that a step is a function of the iterate alone, to the last bit.

Gradient descent of a univariate ReLU network, at O(width) per step whatever the number of samples.

Model and loss ([plateau], Ainsworth & Shin 2020, (2.1) and (2.2); ReLU'(0) = 0 as in (3.1)):

    f(x) = sum_j c_j relu(x - b_j),      L = 1/2 sum_k r_k^2,      r_k = f(x_k) - y_k.

Sample k activates neuron j iff x_k > b_j. With the samples in order, the *gap* p_j = #{k : x_k <= b_j} of a
neuron says all: it sees the samples p_j, p_j + 1, ... With the sums over these,

    G0_j = sum_{k >= p_j} r_k,       G1_j = sum_{k >= p_j} r_k x_k,

the gradient is dL/db_j = -c_j G0_j, dL/dc_j = G1_j - b_j G0_j. Two engines make these sums for all neurons
at once: `knot_block_descent` from the statistics of the blocks of samples between neighbouring knots, in
O(width), and `knot_sample_descent` by a sweep over the samples, in O(width + samples), which is the cheaper
one where samples are few.

Exactness. The iterates are those of plain descent up to rounding. Inputs are measured from the middle sample,
so that data far from the origin cost no digits. A step is a function of the iterate alone, to the last bit,
and a run may be cut into several calls anywhere.

A neuron to the right of all samples has no gradient: it is dead, keeps its values for ever and is left out.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.kernels.knots.block_table import (
    COUNT,
    FIRST,
    KNOT,
    LEFT,
    LOWER,
    NO_EVENTS,
    NUMBER,
    NUMBER_BITS,
    OUTER,
    SECOND,
    UPPER,
    XX,
    XY,
    Position,
    Signed,
    X,
    Y,
    enter_gaps,
    restore_order,
    set_blocks,
)
from shallowflow.kernels.knots.sample_descent import descend_samples

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
PositionArray = NDArray[np.uint64]

# From this width on, vector instructions pay for the additional passes that they need.
WIDE = 32


@njit(cache=True)
def descend_blocks(
    knots: FloatArray,
    outer: FloatArray,
    gaps: IntArray,
    prefix: FloatArray,
    rates: tuple[float, float],
    steps: int,
    events: IntArray,
) -> tuple[FloatArray, FloatArray, int, int]:
    """Set up the table, descend, and write the neurons back: (knots, outer, steps done, samples crossed).

    knots, outer, gaps (width,): in the caller's order; `knots` and `outer` are changed.
    A value that overflows ends the run one step later; the result then contains it.
    """
    keys = np.sort((gaps << NUMBER_BITS) | np.arange(knots.size))
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
    set_blocks(table, keys, live, prefix, 0, live - 1)
    done, crossings = _advance_table(table, keys, live, prefix, rates, steps, events)
    for at in range(keys.size):
        knots[keys[at] & NUMBER] = table[KNOT, at]
        outer[keys[at] & NUMBER] = table[OUTER, at]
    return knots, outer, done, crossings


@njit(cache=True)
def _advance_table(
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
            crossings = enter_gaps(table, keys, prefix, movers[:moved], step + 1, crossings, events)
            first, last = restore_order(table, keys, live, Signed(movers[moved - 1]), Signed(movers[0]))
            while live > 0 and keys[live - 1] >> NUMBER_BITS == samples:
                live -= 1
                if not (np.isfinite(table[KNOT, live]) and np.isfinite(table[OUTER, live])):
                    return step + 1, crossings
            set_blocks(table, keys, live, prefix, max(first - 1, 0), min(last, live - 1))
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


# Up to this many samples, and one more for every so many neurons, the sweep over the samples is the faster
# engine (`python -m benchmarks knot_descent`).
FEW_SAMPLES = 10
NEURONS_PER_SAMPLE = 4


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
    x_sorted, y_sorted (samples,), prefix (samples + 2, 5): the data and `prefix_sums(x_sorted, y_sorted)`.
    steps: fewer are done if a value overflows; the last finite iterate is then returned, and its number.
    events (capacity, 4): receives the first crossings, by step, as rows (step, neuron, sample, direction):
    from iterate `step` of this call on, counted from 1, `knots[neuron]` is to the right of `x_sorted[sample]`
    or on it (direction 1: the sample stops activating the neuron) or to its left (-1). Rows beyond the number
    of crossings mean nothing.
    """
    gaps = np.searchsorted(x_sorted, knots, side="right")
    rates = float(rate_inner), float(rate_outer)
    few = x_sorted.size <= FEW_SAMPLES + knots.size // NEURONS_PER_SAMPLE

    def run(steps: int) -> tuple[FloatArray, FloatArray, int, int]:
        start = np.array(knots), np.array(outer), gaps
        if few:
            return descend_samples(*start, x_sorted, y_sorted, rates, steps, events)
        return descend_blocks(*start, prefix, rates, steps, events)

    iterate = run(steps)
    if np.isfinite(iterate[0]).all() and np.isfinite(iterate[1]).all():
        return iterate
    # A run can be repeated to the last bit: do so without the step that overflowed.
    return run(max(iterate[2] - 1, 0))
