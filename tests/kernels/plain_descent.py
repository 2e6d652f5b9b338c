"""Plain gradient descent of a ReLU network in NumPy, by the formulas of the gradient, and problems for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats

RATES = {"scale": 0.2, "inner_rate": 0.03, "outer_rate": 0.05}


def constants(slope: float, kind: type[Any] = np.float64) -> NDArray[Any]:
    return np.array([0.0, slope, 1.0, *RATES.values()], kind)


def plain(
    inner: Floats, outer: Floats, inputs: Floats, targets: Floats, slope: float, steps: int
) -> tuple[Floats, Floats]:
    """Return the weights after `steps` steps."""
    for _ in range(steps):
        z = inner @ inputs.T
        gates = np.where(z > 0, 1.0, slope)
        residual = targets - RATES["scale"] * (outer @ (gates * z))
        pulls = gates * residual
        inner, outer = (
            inner + RATES["inner_rate"] * outer[:, None] * (pulls @ inputs),
            outer + RATES["outer_rate"] * np.sum(pulls * z, axis=1),
        )
    return inner, outer


def problem(size: int, dimension: int, width: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return inner and outer weights, inputs, targets; the steps are stable here: errors do not grow."""
    rng = np.random.default_rng(size)
    inputs = rng.standard_normal((size, dimension)) / np.sqrt(size)
    inner = rng.standard_normal((width, dimension)) / np.sqrt(dimension)
    return inner, rng.standard_normal(width), inputs, rng.standard_normal(size)
