"""Descent of a `ReLUNetwork` with the square loss: two matrix products per step, all else in one pass.

With z_ji = ⟨w_j, x_i⟩, S_ji = r_i σ'(z_ji), r = y − h and G = S X, a step is

    h_i = s Σ_j a_j σ(z_ji),   w_j += ρ_w a_j G_j,   a_j += ρ_a Σ_i r_i σ(z_ji) = ρ_a ⟨w_j, G_j⟩,

s the output factor, ρ = step·s·(1/n or 1); the last equality is σ(z) = σ'(z) z. So Z = W Xᵀ and G = S X are
the only work that grows with m·n·d; the engine leaves them to NumPy, whose matrix products are faster than
those that compiled code can call here. `gate`, the pass from Z to S, goes block by block over the samples,
so that it stays in the cache, and has no sum across a vector register; `move` does the rest. The engine can
also step Z itself:

    Z += ρ_w (a ∘ S) K,   K = X Xᵀ,

one product of m·n·n instead of two of m·n·d, cheaper for n < 2d; C = Σ ρ_w (a ∘ S) is kept, because
W = W(0) + C X. [weak_interaction] (16).

All arrays have one type, float64 or float32; constants come in an array of that type, because an integer
or double constant would promote the arithmetic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats

BLOCK = 256
"""Samples per block: the residuals of a block and a row of Z stay in the first cache."""
ZERO, SLOPE, ONE, SCALE, INNER_RATE, OUTER_RATE = range(6)
"""Places in `constants`."""


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


@njit(cache=True)
def move(inner: Floats, outer: Floats, gradient: Floats, constants: Floats) -> bool:
    """Step the weights in place by G (m, d); return whether the outer weights stayed finite."""
    width, dimension = inner.shape
    total = constants[ZERO]
    for j in range(width):
        product, rate = constants[ZERO], constants[INNER_RATE] * outer[j]
        for k in range(dimension):
            product += inner[j, k] * gradient[j, k]
            inner[j, k] += rate * gradient[j, k]
        outer[j] += constants[OUTER_RATE] * product
        total += outer[j]
    return bool(np.isfinite(total))
