"""Descent of a `ReLUNetwork` with the square loss in its preactivations Z (m, n), as in `fused`:

    Z += ρ_w (a ∘ S) K,   K = X Xᵀ,   W = W(0) + C X,   C = Σ ρ_w (a ∘ S),

one product of m·n·n per step instead of two of m·n·d. The engine leaves it to NumPy; `gate`, the pass from Z
to S, goes block by block over the samples, so that it stays in the cache. [weak_interaction] (16).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.losses import ONE, SCALE, SLOPE, ZERO

BLOCK = 256
"""Samples per block: the residuals of a block and a row of Z stay in the first cache."""


@njit(cache=True)
def gate(values: Floats, outer: Floats, targets: Floats, constants: Floats, pulls: Floats) -> None:
    """Write S_ji = r_i σ'(z_ji) into `pulls` (m, n), which may be `values` itself."""
    zero, slope, one = constants[ZERO], constants[SLOPE], constants[ONE]
    width, size = values.shape
    residual = np.empty(BLOCK, values.dtype)
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        for i in range(length):
            residual[i] = targets[start + i]
        for j in range(width):
            row, weight = values[j, start : start + length], constants[SCALE] * outer[j]
            for i in range(length):
                residual[i] -= weight * (row[i] if row[i] > zero else slope * row[i])
        for j in range(width):
            row, pull = values[j, start : start + length], pulls[j, start : start + length]
            for i in range(length):
                pull[i] = residual[i] * (one if row[i] > zero else slope)
