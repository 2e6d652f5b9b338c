"""Exact descent on orthogonal inputs in O(m·n) per step: the preactivations decouple.

If ⟨x_i, x_k⟩ = 0 for i ≠ k, then z_ji = ⟨w_j, x_i⟩ moves only by its own sample,

    z_ji += ρ_w a_j r_i σ'(z_ji) ‖x_i‖²,   a_j += ρ_a Σ_i r_i σ(z_ji),   r_i = y_i − s Σ_j a_j σ(z_ji),

with no matrix product, [weak_interaction] (40); constants as in `kernels.fused_descent`. One pass over Z per
step, block by block over the samples. The sums over i are gathered lane by lane (`lanes`, m × BLOCK) and
added up at the end of the step, so that nothing is summed across a vector register.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.fused_descent import INNER_RATE, ONE, OUTER_RATE, SCALE, SLOPE, ZERO

BLOCK = 64


@njit(cache=True)
def advance(
    values: Floats, outer: Floats, squares: Floats, targets: Floats, constants: Floats, steps: int
) -> int:
    """Make up to `steps` steps of Z (m, n) and a (m,) in place; return how many stayed finite.

    squares (n,): ‖x_i‖². n must be a multiple of BLOCK: pad with samples of zeros.
    """
    zero, slope, one = constants[ZERO], constants[SLOPE], constants[ONE]
    width, size = values.shape
    lanes = np.zeros((width, BLOCK), values.dtype)
    residual, force = np.empty(BLOCK, values.dtype), np.empty(BLOCK, values.dtype)
    for done in range(steps):
        lanes[:] = zero
        for start in range(0, size, BLOCK):
            for i in range(BLOCK):
                residual[i] = targets[start + i]
            for j in range(width):
                row, weight = values[j, start : start + BLOCK], constants[SCALE] * outer[j]
                for i in range(BLOCK):
                    residual[i] -= weight * (row[i] if row[i] > zero else slope * row[i])
            for i in range(BLOCK):
                force[i] = residual[i] * squares[start + i]
            for j in range(width):
                row, lane = values[j, start : start + BLOCK], lanes[j]
                rate = constants[INNER_RATE] * outer[j]
                for i in range(BLOCK):
                    open_gate = one if row[i] > zero else slope
                    lane[i] += residual[i] * (open_gate * row[i])
                    row[i] += rate * (open_gate * force[i])
        moved = constants[ZERO]
        for j in range(width):
            total = zero
            for i in range(BLOCK):
                total += lanes[j, i]
            outer[j] += constants[OUTER_RATE] * total
            moved += outer[j]
        if not np.isfinite(moved):
            return done
    return steps
