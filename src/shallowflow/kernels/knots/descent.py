"""Gradient descent of a univariate ReLU network: the same iterates by two kernels.

Model and loss ([plateau], Ainsworth & Shin 2020, (2.1) and (2.2); ReLU'(0) = 0 as in (3.1)):

    f(x) = sum_j c_j relu(x - b_j),      L = 1/2 sum_k r_k^2,      r_k = f(x_k) - y_k.

Sample k activates neuron j iff x_k > b_j. With the samples in order, the *gap* p_j = #{k : x_k <= b_j} of a
neuron says all: it sees the samples p_j, p_j + 1, ... With the sums over these,

    G0_j = sum_{k >= p_j} r_k,       G1_j = sum_{k >= p_j} r_k x_k,

the gradient is dL/db_j = -c_j G0_j, dL/dc_j = G1_j - b_j G0_j. Two kernels make these sums for all neurons at
once: "blocks" (`block_descent`) from the statistics of the blocks of samples between neighbouring knots, in
O(width), and "samples" (here) by a sweep over the samples, in O(width + samples).

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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.kernels.knots.block_descent import (
    ONE,
    FloatArray,
    IntArray,
    Position,
    descend_blocks,
    prefix_sums,
)
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
