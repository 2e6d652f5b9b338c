"""Sums over the samples to the right of every gap between samples, from which any block's statistics follow.

Gap p lies between the sorted samples p - 1 and p. The statistics of the samples p, ..., q - 1 are the
differences of rows p and q ([plateau], Ainsworth & Shin 2020, (3.3)).
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Columns of the prefix sums, whose row p describes gap p: its left end, and the sums over the samples k >= p.
LEFT, SUM_X, SUM_XX, SUM_Y, SUM_XY = range(5)


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
