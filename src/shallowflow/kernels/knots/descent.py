"""Gradient descent of a univariate ReLU network: the same iterates by two kernels.

Model and loss ([plateau], Ainsworth & Shin 2020, (2.1) and (2.2); ReLU'(0) = 0 as in (3.1)):

    f(x) = sum_j c_j relu(x - b_j),      L = 1/2 sum_k r_k^2,      r_k = f(x_k) - y_k.

Sample k activates neuron j iff x_k > b_j. With the samples in order, the *gap* p_j = #{k : x_k <= b_j} of a
neuron says all: it sees the samples p_j, p_j + 1, ... With the sums over these,

    G0_j = sum_{k >= p_j} r_k,       G1_j = sum_{k >= p_j} r_k x_k,

the gradient is dL/db_j = -c_j G0_j, dL/dc_j = G1_j - b_j G0_j. Two kernels make these sums for all neurons at
once: "blocks" (`block_descent`) from the statistics of the blocks of samples between neighbouring knots, in
O(width), and "samples" (`sample_descent`) by a sweep over the samples, in O(width + samples), which is the
cheaper one where samples are few.

Exactness. The iterates are those of plain descent up to rounding. Inputs are measured from the middle sample,
so that data far from the origin cost no digits. A step is a function of the iterate alone, to the last bit,
and a run may be cut into several calls anywhere.

A neuron to the right of all samples has no gradient: it is dead, keeps its values for ever and is left out.
"""

from typing import NamedTuple

import numpy as np

from shallowflow.kernels.knots.block_descent import FloatArray, descend_blocks, prefix_sums
from shallowflow.kernels.knots.sample_descent import descend_samples

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
