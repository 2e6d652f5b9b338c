"""Gradient descent of a univariate ReLU network by a sweep over samples and neurons, for few samples.

With few samples many neurons share a gap, the blocks of `block_descent` are mostly empty, and a knot that
chatters at a sample makes work in every step. Then it is cheaper to go along the line in order: from the left
with the running sums a = sum c_i, d = -sum c_i b_i of the neurons passed, which give the residuals
r_k = a x_k + d - y_k, and back from the right with the running sums of r and r x, which are the gradient (see
`descent`). A step costs O(width + samples), and crossings cost nothing but their count.

Neurons are kept in the order of their knots, equal ones in the caller's order, so that a step is a function
of the iterate alone, to the last bit: on the way back, one that has passed others is inserted among them.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.kernels.knots.block_descent import ONE, FloatArray, IntArray, Position
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed

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
    """Make up to `steps` steps in place: (steps done, samples crossed); as `block_descent.descend_blocks`."""
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
