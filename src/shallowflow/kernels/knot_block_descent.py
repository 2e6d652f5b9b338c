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
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.kernels.knot_block_table import (
    COUNT,
    FIRST,
    KNOT,
    LOWER,
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
from shallowflow.kernels.knot_prefix import LEFT

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
