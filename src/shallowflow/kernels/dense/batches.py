"""Mini-batch descent of a `ReLUNetwork`: steps of `kernels.dense.lanes` on gathered samples."""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.dense.lanes import advance
from shallowflow.kernels.shared.losses import INNER_RATE, OUTER_RATE, Problem


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
