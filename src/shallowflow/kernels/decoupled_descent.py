"""Exact descent on orthogonal inputs in O(m·n) per step: the preactivations decouple.

If ⟨x_i, x_k⟩ = 0 for i ≠ k, then z_ji = ⟨w_j, x_i⟩ moves only by its own sample,

    z_ji += ρ_w a_j r_i σ'(z_ji) ‖x_i‖²,   a_j += ρ_a Σ_i r_i σ(z_ji),   r_i = y_i − s Σ_j a_j σ(z_ji),

with no matrix product, [weak_interaction] (40); constants as in `kernels.fused_descent`. One pass over Z per
step, block by block over the samples (`decoupled_tiles`). The sums over i are gathered lane by lane (`sums`)
and added up at the end of the step, so that nothing is summed across a vector register before.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.decoupled_tiles import COLUMNS, push, settle
from shallowflow.kernels.fused_descent import INNER_RATE, OUTER_RATE, SCALE, SLOPE, ZERO
from shallowflow.kernels.vectors import aligned


@njit(cache=True)
def advance(
    values: Floats, outer: Floats, squares: Floats, targets: Floats, constants: Floats, steps: int
) -> int:
    """Make up to `steps` steps of Z and a (m,) in place; return how many stayed finite.

    values (blocks, m, SAMPLES), squares (blocks, SAMPLES): ‖x_i‖², targets (blocks, SAMPLES), padded with
    samples of zeros; SAMPLES = BLOCK bytes.
    """
    slope = constants[SLOPE]
    _, width, samples = values.shape
    residual = aligned(samples, values)
    lanes = samples // COLUMNS
    sums = aligned(width * lanes, values).reshape(width, lanes)
    for done in range(steps):
        sums[:] = constants[ZERO]
        shares, rates = constants[SCALE] * outer, constants[INNER_RATE] * outer
        for block in range(len(values)):
            residual[:] = targets[block]
            settle(values[block], shares, slope, residual)
            push(values[block], rates, slope, residual, squares[block], sums)
        moved = constants[ZERO]
        for j in range(width):
            total = constants[ZERO]
            for lane in range(lanes):
                total += sums[j, lane]
            outer[j] += constants[OUTER_RATE] * total
            moved += outer[j]
        if not np.isfinite(moved):
            return done
    return steps
