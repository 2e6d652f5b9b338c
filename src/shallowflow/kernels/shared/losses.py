"""What the descents of a `ReLUNetwork` share: two losses, and the record of a problem.

All arrays of a problem have one type, float64 or float32; the constants come in an array of that type,
because an integer or double constant would promote the arithmetic. Samples of zeros that pad a block have the
target 0: they count for nothing, whatever the loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import LEAN

SQUARE, LOGISTIC = 0, 1
"""The losses ½ Σ (h_i − y_i)² and Σ ln(1 + exp(−h_i y_i))."""
ZERO, SLOPE, ONE, SCALE, INNER_RATE, OUTER_RATE = range(6)
"""Places in the constants: the leaky slope, the output factor s, and ρ = step·s·(1/n or 1) of both layers."""


class Problem(NamedTuple):
    """Inputs and targets as the kernel reads them, constants by their places, `SQUARE` or `LOGISTIC`."""

    inputs: Floats
    targets: Floats
    constants: Floats
    loss: int


@njit(cache=True, **LEAN)
def settle(outputs: Floats, targets: Floats, scale: float, loss: int) -> float:
    """Replace the outputs Σ_j a_j σ(z_ji) = h_i/scale by r_i = −∂L/∂h_i, in place; return the loss."""
    total = 0.0
    for i in range(len(targets)):
        target, prediction = targets[i], scale * outputs[i]
        if loss == SQUARE:
            outputs[i] = target - prediction
            total += 0.5 * outputs[i] * outputs[i]
        elif target != 0:
            # With e^{−|yh|} nothing overflows.
            margin = prediction * target
            small = np.exp(-abs(margin))
            outputs[i] = target * (small if margin > 0 else 1.0) / (1.0 + small)
            total += max(-margin, 0.0) + np.log1p(small)
    return total
