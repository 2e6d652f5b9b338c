"""Gradient descent of a univariate ReLU network by a sweep over samples and neurons, for few samples.

With few samples many neurons share a gap, the blocks of `knot_block_descent` are mostly empty, and a knot
that chatters at a sample makes work in every step. Then it is cheaper to go along the line in order: from the
left with the running sums a = sum c_i, d = -sum c_i b_i of the neurons passed, which give the residuals
r_k = a x_k + d - y_k, and back from the right with the running sums of r and r x, which are the gradient (see
`knot_descent`). A step costs O(width + samples), and crossings cost nothing but their count.

Neurons are kept in the order of their knots, equal ones in the caller's order, so that a step is a function
of the iterate alone, to the last bit: on the way back, one that has passed others is inserted among them.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.kernels.knots.block_table import ONE, Position, Signed, record_crossings

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# From this many neurons per sample on, they are added up by four where that many lie between two samples: a
# running sum has to wait for each addition.
CROWD = 4
TWO = Position(2)
THREE = Position(3)
FOUR = Position(4)


def descend_samples(
    knots: FloatArray,
    outer: FloatArray,
    gaps: IntArray,
    x: FloatArray,
    y: FloatArray,
    rates: tuple[float, float],
    steps: int,
    events: IntArray,
) -> tuple[FloatArray, FloatArray, int, int]:
    """Descend and write the neurons back in the caller's order: (knots, outer, steps done, samples crossed).

    knots, outer, gaps (width,): in the caller's order; `knots` and `outer` are changed.
    A value that overflows ends the run one step later; the result then contains it.
    """
    order = np.argsort(knots, kind="mergesort")
    b = np.full(knots.size + 4, np.inf)  # knots that no sample passes spare the loops a test for their end
    b[: knots.size] = knots[order]
    c, gap = outer[order], gaps[order]
    if events.shape[0] == 0:
        done, crossings = _descend(b, c, gap, order, x, y, rates, steps)
    else:
        done, crossings = _descend_recording(b, c, gap, order, x, y, rates, steps, events)
    knots[order] = b[: knots.size]
    outer[order] = c
    return knots, outer, done, crossings


@njit(cache=True)
def _descend(
    b: FloatArray,
    c: FloatArray,
    gap: IntArray,
    number: IntArray,
    x: FloatArray,
    y: FloatArray,
    rates: tuple[float, float],
    steps: int,
) -> tuple[int, int]:
    """Advance the sorted neurons in place for `steps` or until a value overflows: (steps done, crossings)."""
    samples = Position(x.size)
    middle = x[samples // TWO]
    z = x - middle
    left = np.empty(x.size + 1)  # the left ends of the gaps
    left[0] = -np.inf
    for i in range(x.size):
        left[i + 1] = x[i]
    residual = np.empty(x.size)
    crowded = c.size >= CROWD * x.size
    live = _count_live(b, x, Position(c.size))
    inner_rate, outer_rate = rates
    crossings = 0
    for step in range(steps):
        if live == 0:
            break
        if crowded:
            passed, total = _residuals_by_four(b, c, x, z, y, middle, residual)
        else:
            passed, total = _residuals(b, c, x, z, y, middle, residual)
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
                _move_right(b, c, gap, number, j, live)
                new = b[j]
            right = new
        if b[live - ONE] >= x[samples - ONE]:
            before = live
            live = _count_live(b, x, before)
            crossings += _enter_gaps(b, gap, x, live, before)
            if not (np.isfinite(b[live:before]).all() and np.isfinite(c[live:before]).all()):
                return step + 1, crossings
    return steps, crossings + _enter_gaps(b, gap, x, Position(0), live)


@njit(cache=True)
def _descend_recording(
    b: FloatArray,
    c: FloatArray,
    gap: IntArray,
    number: IntArray,
    x: FloatArray,
    y: FloatArray,
    rates: tuple[float, float],
    steps: int,
    events: IntArray,
) -> tuple[int, int]:
    """The same, one step at a time, listing the first crossings."""
    old = np.empty(c.size, dtype=np.int64)
    crossings = 0
    for step in range(steps):
        old[number] = gap
        done, crossed = _descend(b, c, gap, number, x, y, rates, 1)
        if done == 0:
            return step, crossings
        for j in range(c.size if crossed > 0 else 0):
            was = old[number[j]]
            listed = min(crossings, events.shape[0])
            record_crossings(events[listed:], step + 1, number[j], was, gap[j])
            crossings += abs(gap[j] - was)
    return steps, crossings


@njit(cache=True, inline="always")
def _residuals(
    b: FloatArray,
    c: FloatArray,
    x: FloatArray,
    z: FloatArray,
    y: FloatArray,
    middle: float,
    residual: FloatArray,
) -> tuple[int, float]:
    """Write r_k = f(x_k) - y_k: (neurons to the left of the last sample, the sum of all running sums)."""
    slope = 0.0
    level = 0.0
    j = Position(0)
    for k in range(x.size):
        while b[j] < x[k]:
            slope += c[j]
            level -= c[j] * (b[j] - middle)
            j += ONE
        residual[k] = level + (slope * z[k] - y[k])
    return j, slope + level


@njit(cache=True, inline="always")
def _residuals_by_four(
    b: FloatArray,
    c: FloatArray,
    x: FloatArray,
    z: FloatArray,
    y: FloatArray,
    middle: float,
    residual: FloatArray,
) -> tuple[int, float]:
    """The same, with four neurons in one addition to the running sums."""
    slope = 0.0
    level = 0.0
    i = Position(0)
    for k in range(x.size):
        while b[i + THREE] < x[k]:
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


@njit(cache=True)
def _move_right(b: FloatArray, c: FloatArray, gap: IntArray, number: IntArray, at: int, live: int) -> None:
    """Insert the neuron at `at` into the sorted ones behind it: by knot, then by number."""
    knot, outer, samples, name = b[at], c[at], gap[at], number[at]
    while at + ONE < live and (b[at + ONE] < knot or (b[at + ONE] == knot and number[at + ONE] < name)):
        b[at], c[at] = b[at + ONE], c[at + ONE]
        gap[at], number[at] = gap[at + ONE], number[at + ONE]
        at += ONE
    b[at], c[at], gap[at], number[at] = knot, outer, samples, name


@njit(cache=True)
def _count_live(b: FloatArray, x: FloatArray, live: int) -> int:
    """Number of sorted knots among the first `live` that are to the left of the last sample."""
    while live > 0 and b[live - ONE] >= x[-1]:
        live -= ONE
    return live


@njit(cache=True)
def _enter_gaps(b: FloatArray, gap: IntArray, x: FloatArray, start: int, end: int) -> int:
    """Look up the gaps of the neurons start..end-1: samples that they crossed since these were last known."""
    crossings = 0
    for j in range(start, end):
        now = np.searchsorted(x, b[j], side="right")
        crossings += abs(now - gap[j])
        gap[j] = now
    return crossings
