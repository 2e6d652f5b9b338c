"""Gradient descent of a univariate ReLU network, at O(width) per step whatever the number of samples.

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
from numpy.typing import NDArray

from shallowflow.kernels.knot_block_descent import descend_blocks
from shallowflow.kernels.knot_crossings import NO_EVENTS
from shallowflow.kernels.knot_sample_descent import descend_samples

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

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
