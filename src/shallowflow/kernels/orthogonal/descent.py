"""The two passes of `decoupled_descent` over a block of samples, with the samples' numbers in registers.

Samples lie along the lanes: a block of values is (m, SAMPLES), COLUMNS registers for each neuron.

Exact descent on orthogonal inputs in O(m·n) per step: the preactivations decouple.

If ⟨x_i, x_k⟩ = 0 for i ≠ k, then z_ji = ⟨w_j, x_i⟩ moves only by its own sample,

    z_ji += ρ_w a_j r_i σ'(z_ji) ‖x_i‖²,   a_j += ρ_a Σ_i r_i σ(z_ji),   r_i = y_i − s Σ_j a_j σ(z_ji),

with no matrix product, [weak_interaction] (40); constants as in `kernels.dense.fused`. One pass over Z per
step, block by block over the samples (`decoupled_tiles`). The sums over i are gathered lane by lane (`sums`)
and added up at the end of the step, so that nothing is summed across a vector register before.

Gradient descent of a ReLU network on orthonormal data in log-scaled weights, [incremental] App. A.1.

Neuron j is w_j = e^{ℓ_j} u_j, a_j = e^{ℓ_j} c_j with z_jk = ⟨u_j, x_k⟩. A step of plain descent on the square
loss is

    r_k = y_k − Σ_j e^{2ℓ_j} c_j relu(z_jk),
    z_jk += inner·c_j r_k  and  c_j += outer·Σ_k z_jk r_k ,      both over z_jk > 0 and with the old c_j,
    z_jk,

inner and outer being the step times the weight of the loss. A neuron whose |c_j| leaves [½, 2] is divided by
|c_j|, and ln|c_j| added to ℓ_j.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.arrays import Floats
from shallowflow.kernels.orthogonal.step import FloatArray
from shallowflow.kernels.shared.vectors import (
    BYTES,
    INNER_RATE,
    OUTER_RATE,
    SCALE,
    SLOPE,
    ZERO,
    Lanes,
    aligned,
)

COLUMNS = 4
BLOCK = COLUMNS * BYTES
"""Bytes of one row of a block."""


def _settle(typing_context: Any, values: Any, shares: Any, slope: Any, residual: Any) -> Any:
    """Return signature and code generator of `settle`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        z, share, _, r = lanes.views(signature, arguments)
        leak, places = lanes.spread(arguments[2]), lanes.places(COLUMNS)
        rest = [lanes.variable(lanes.load(r.data, place)) for place in places]
        with cgutils.for_range(builder, lanes.length(z)) as loop:
            row = lanes.at(z.data, loop.index, places.stop)
            factor = lanes.spread(builder.fneg(builder.load(lanes.at(share.data, loop.index))))
            for place, total in zip(places, rest, strict=True):
                value = lanes.load(row, place)
                active = lanes.gated(value, value, leak)
                builder.store(lanes.multiply_add(factor, active, builder.load(total)), total)
        for place, total in zip(places, rest, strict=True):
            lanes.store(builder.load(total), r.data, place)
        return context.get_dummy_value()

    return types.void(values, shares, slope, residual), generate


def _push(
    typing_context: Any, values: Any, rates: Any, slope: Any, residual: Any, squares: Any, sums: Any
) -> Any:
    """Return signature and code generator of `push`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        z, rate, _, r, square, total = lanes.views(signature, arguments)
        leak, places = lanes.spread(arguments[2]), lanes.places(COLUMNS)
        rest = [lanes.load(r.data, place) for place in places]
        force = [
            builder.fmul(lanes.load(square.data, place), one) for place, one in zip(places, rest, strict=True)
        ]
        with cgutils.for_range(builder, lanes.length(z)) as loop:
            row = lanes.at(z.data, loop.index, places.stop)
            gathered = lanes.at(total.data, loop.index, lanes.count)
            factor = lanes.spread(builder.load(lanes.at(rate.data, loop.index)))
            held = lanes.load(gathered)
            for column, place in enumerate(places):
                value = lanes.load(row, place)
                held = lanes.multiply_add(rest[column], lanes.gated(value, value, leak), held)
                pull = lanes.gated(value, force[column], leak)
                lanes.store(lanes.multiply_add(factor, pull, value), row, place)
            lanes.store(held, gathered)
        return context.get_dummy_value()

    return types.void(values, rates, slope, residual, squares, sums), generate


settle: Any = intrinsic(_settle)
"""settle(values (m, SAMPLES), shares (m,), slope, residual (SAMPLES,)): take Σ_j share_j σ(z_j) from the
residual."""
push: Any = intrinsic(_push)
"""push(values (m, SAMPLES), rates (m,), slope, residual, squares (SAMPLES,), sums (m, lanes)): add r σ(z_j),
gathered lane by lane, to the sums; then move z_j by rate_j r σ'(z_j) ‖x‖²."""


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


@njit(cache=True)
def descend(
    z: FloatArray,
    outer: FloatArray,
    log_scales: FloatArray,
    targets: FloatArray,
    inner_rate: float,
    outer_rate: float,
    steps: int,
) -> int:
    """Make up to `steps` steps in place; return how many left everything finite."""
    m, n = z.shape
    residual = np.empty(n)
    for done in range(steps):
        residual[:] = targets
        for j in range(m):
            weight = np.exp(2.0 * log_scales[j]) * outer[j]
            if weight != 0.0:
                for k in range(n):
                    if z[j, k] > 0.0:
                        residual[k] -= weight * z[j, k]
        for j in range(m):
            pull, push = 0.0, inner_rate * outer[j]
            for k in range(n):
                if z[j, k] > 0.0:
                    pull += z[j, k] * residual[k]
                    z[j, k] += push * residual[k]
            outer[j] += outer_rate * pull
            size = abs(outer[j])
            if not np.isfinite(size):
                return done
            if size > 0.0 and (size < 0.5 or size > 2.0):
                log_scales[j] += np.log(size)
                outer[j] /= size
                for k in range(n):
                    z[j, k] /= size
    return steps
