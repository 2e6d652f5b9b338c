"""Descent of a `ReLUNetwork` on few samples: neurons along the vector lanes, one sample at a time.

The step is that of `kernels.dense.fused`, which fills registers with samples and pads them to a whole panel.
Here W lies transposed, (d, m), and every inner loop is over the neurons. Mini-batches are the same steps on
gathered samples.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.vectors import INNER_RATE, OUTER_RATE, SCALE, SLOPE, ZERO, Problem, settle


# Sums may be taken in any order; infinities and NaN stay what they are.
@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def advance(inner: Floats, outer: Floats, problem: Problem, steps: int, losses: Floats) -> int:
    """Make up to `steps` steps of W (d, m) and a (m,) in place; return how many stayed finite.

    The problem has inputs (n, d) and targets (n,). losses: (steps,) for the loss before every step, or empty.
    """
    inputs, targets, constants, loss = problem
    zero, slope = constants[ZERO], constants[SLOPE]
    dimension, width = inner.shape
    values, gradient, output = np.empty_like(outer), np.zeros_like(inner), np.empty_like(targets[:1])
    for done in range(steps):
        total, moved = 0.0, zero
        for i in range(len(targets)):
            for j in range(width):
                values[j] = inputs[i, 0] * inner[0, j]
            for k in range(1, dimension):
                for j in range(width):
                    values[j] += inputs[i, k] * inner[k, j]
            seen = zero
            for j in range(width):
                seen += outer[j] * (values[j] if values[j] > 0 else slope * values[j])
            output[0] = seen
            total += settle(output, targets[i : i + 1], constants[SCALE], loss)
            pull, leak = output[0], slope * output[0]
            for j in range(width):
                values[j] = pull if values[j] > 0 else leak
            for k in range(dimension):
                for j in range(width):
                    gradient[k, j] += inputs[i, k] * values[j]
        if len(losses) > 0:
            losses[done] = total
        for j in range(width):
            values[j] = zero
        for k in range(dimension):
            for j in range(width):
                values[j] += inner[k, j] * gradient[k, j]
                inner[k, j] += constants[INNER_RATE] * outer[j] * gradient[k, j]
                gradient[k, j] = zero
        for j in range(width):
            outer[j] += constants[OUTER_RATE] * values[j]
            moved += outer[j]
        if not np.isfinite(moved):
            return done
    return steps


def loss_now(inner: Floats, outer: Floats, problem: Problem) -> float:
    """Return the loss of weights laid out as for `advance`."""
    values = problem.inputs @ inner
    outputs = np.maximum(values, problem.constants[SLOPE] * values) @ outer
    return float(settle(outputs, problem.targets, problem.constants[SCALE], problem.loss))


@njit(cache=True, error_model="numpy")
def advance_batches(
    inner: Floats, outer: Floats, problem: Problem, order: Ints, noise: Floats, factors: Floats
) -> int:
    """Make a step of W (d, m) and a (m,), in place, on every row of order (k, b); return how many are finite.

    noise (k, b), or (k, 0): what is added to the targets; factors (k,): of the rates of each step.
    """
    inputs, targets, constants, loss = problem
    steps, batch = order.shape
    chosen, wanted, rates = np.empty((batch, inputs.shape[1])), np.empty(batch), constants.copy()
    for step in range(steps):
        for i in range(batch):
            sample = order[step, i]
            wanted[i] = targets[sample] + (noise[step, i] if noise.shape[1] > 0 else 0.0)
            for k in range(inputs.shape[1]):
                chosen[i, k] = inputs[sample, k]
        for place in (INNER_RATE, OUTER_RATE):
            rates[place] = factors[step] * constants[place]
        if advance(inner, outer, Problem(chosen, wanted, rates, loss), 1, np.empty(0)) < 1:
            return step
    return steps
