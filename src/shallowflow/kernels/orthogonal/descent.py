"""Exact descents on orthogonal inputs in O(m·n) per step: the preactivations z_ji = ⟨w_j, x_i⟩ decouple.

If ⟨x_i, x_k⟩ = 0 for i ≠ k, then z_ji moves only by its own sample, [weak_interaction] (40): with r = −∂L/∂h
as in `kernels.dense` and no matrix product a step is

    z_ji += ρ_w a_j r_i σ'(z_ji) ‖x_i‖²,   a_j += ρ_a Σ_i r_i σ(z_ji).

`advance` makes one pass over Z per step, block by block over the samples, which lie along the lanes: a block
of values is (m, SAMPLES), COLUMNS registers for each neuron. The sums over i are gathered lane by lane and
added up at the end of the step, so that nothing is summed across a vector register before.

`descend` does the same on orthonormal inputs in log-scaled weights, [incremental] App. A.1, for the square
loss: neuron j is w_j = e^{ℓ_j} u_j, a_j = e^{ℓ_j} c_j with z_jk = ⟨u_j, x_k⟩, and

    r_k = y_k − Σ_j e^{2ℓ_j} c_j relu(z_jk),  z_jk += ρ_w c_j r_k (z_jk > 0),  c_j += ρ_a Σ_k r_k relu(z_jk).

A neuron whose |c_j| leaves [½, 2] is divided by |c_j|, and ln|c_j| added to ℓ_j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL
from shallowflow.kernels.shared.vectors import (
    BYTES,
    INNER_RATE,
    OUTER_RATE,
    SCALE,
    SLOPE,
    ZERO,
    Lanes,
    Problem,
    aligned,
    settle,
)

COLUMNS = 4
BLOCK = COLUMNS * BYTES
"""Bytes of one row of a block."""


def _gather(typing_context: Any, values: Any, shares: Any, slope: Any, outputs: Any) -> Any:
    """Return signature and code generator of `gather`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        z, share, _, h = lanes.views(signature, arguments)
        leak, places = lanes.spread(arguments[2]), lanes.places(COLUMNS)
        totals = [lanes.variable(lanes.load(h.data, place)) for place in places]
        with cgutils.for_range(builder, lanes.length(z)) as loop:
            row = lanes.at(z.data, loop.index, places.stop)
            factor = lanes.spread(builder.load(lanes.at(share.data, loop.index)))
            for place, total in zip(places, totals, strict=True):
                value = lanes.load(row, place)
                active = lanes.gated(value, value, leak)
                builder.store(lanes.multiply_add(factor, active, builder.load(total)), total)
        for place, total in zip(places, totals, strict=True):
            lanes.store(builder.load(total), h.data, place)
        return context.get_dummy_value()

    return types.void(values, shares, slope, outputs), generate


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


gather: Any = intrinsic(_gather)
"""gather(values (m, SAMPLES), shares (m,), slope, outputs (SAMPLES,)): add Σ_j share_j σ(z_j) to outputs."""
push: Any = intrinsic(_push)
"""push(values (m, SAMPLES), rates (m,), slope, residual, squares (SAMPLES,), sums (m, lanes)): add r σ(z_j),
gathered lane by lane, to the sums; then move z_j by rate_j r σ'(z_j) ‖x‖²."""


@njit(cache=True)
def advance(values: Floats, outer: Floats, problem: Problem, steps: int, losses: Floats) -> int:
    """Make up to `steps` steps of Z and a (m,) in place; return how many stayed finite.

    values (blocks, m, SAMPLES), the problem's inputs (blocks, SAMPLES): ‖x_i‖², targets (blocks, SAMPLES),
    padded with samples of zeros; SAMPLES = BLOCK bytes. losses: (steps,) for the loss before every step, or
    empty.
    """
    constants, slope = problem.constants, problem.constants[SLOPE]
    _, width, samples = values.shape
    outputs, rates, lanes = aligned(samples, values), np.empty_like(outer), samples // COLUMNS
    sums = aligned(width * lanes, values).reshape(width, lanes)
    for done in range(steps):
        loss, moved = 0.0, constants[ZERO]
        for j in range(width):
            rates[j] = constants[INNER_RATE] * outer[j]
        for block in range(len(values)):
            loss += _settle(values[block], outer, problem, block, outputs)
            push(values[block], rates, slope, outputs, problem.inputs[block], sums)
        if len(losses) > 0:
            losses[done] = loss
        for j in range(width):
            total = constants[ZERO]
            for lane in range(lanes):
                total += sums[j, lane]
                sums[j, lane] = constants[ZERO]
            outer[j] += constants[OUTER_RATE] * total
            moved += outer[j]
        if not np.isfinite(moved):
            return done
    return steps


@njit(cache=True)
def loss_now(values: Floats, outer: Floats, problem: Problem) -> float:
    """Return the loss of weights and a problem laid out as for `advance`."""
    outputs, total = aligned(values.shape[2], values), 0.0
    for block in range(len(values)):
        total += _settle(values[block], outer, problem, block, outputs)
    return total


@njit(cache=True, **INTERNAL)
def _settle(values: Floats, outer: Floats, problem: Problem, block: int, outputs: Floats) -> float:
    """Write r of a block of samples into `outputs`; return the block's loss."""
    for i in range(len(outputs)):
        outputs[i] = problem.constants[ZERO]
    gather(values, outer, problem.constants[SLOPE], outputs)
    loss: float = settle(outputs, problem.targets[block], problem.constants[SCALE], problem.loss)
    return loss


class LogNeurons(NamedTuple):
    """Neurons with a log-scale each: z (m, n), outer c (m,), log_scales ℓ (m,)."""

    z: Floats
    outer: Floats
    log_scales: Floats


@njit(cache=True, error_model="numpy")
def descend(
    neurons: LogNeurons, targets: Floats, rates: tuple[float, float], steps: int, losses: Floats
) -> int:
    """Make up to `steps` steps in place; return how many left everything finite.

    rates: ρ_w and ρ_a. losses: (steps,) for the loss ½ Σ r² before every step, or empty.
    """
    z, outer, log_scales = neurons
    inner_rate, outer_rate = rates
    m, n = z.shape
    residual = np.empty(n)
    for done in range(steps):
        for k in range(n):
            residual[k] = targets[k]
        for j in range(m):
            weight = np.exp(2.0 * log_scales[j]) * outer[j]
            if weight != 0.0:
                for k in range(n):
                    if z[j, k] > 0.0:
                        residual[k] -= weight * z[j, k]
        if len(losses) > 0:
            losses[done] = 0.0
            for k in range(n):
                losses[done] += 0.5 * residual[k] * residual[k]
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


def log_loss_now(neurons: LogNeurons, targets: Floats) -> float:
    """Return ½ Σ r²."""
    residual = targets - (np.exp(2.0 * neurons.log_scales) * neurons.outer) @ np.maximum(neurons.z, 0.0)
    return 0.5 * float(residual @ residual)
