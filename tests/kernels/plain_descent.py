"""Plain gradient descent of a ReLU network in NumPy, by the formulas of the gradient, and problems for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.vectors import SQUARE
from tests.rounding import assert_rounded

Start = tuple[Floats, Floats, Floats, Floats]
"""Inner and outer weights, inputs, targets."""
Weights = tuple[NDArray[Any], NDArray[Any]]

RATES = {"scale": 0.2, "inner_rate": 0.03, "outer_rate": 0.05}


def constants(slope: float, kind: type[Any] = np.float64) -> NDArray[Any]:
    return np.array([0.0, slope, 1.0, *RATES.values()], kind)


def plain(start: Start, slope: float, steps: int, loss: int = SQUARE) -> tuple[tuple[Floats, Floats], Floats]:
    """Return the weights after `steps` steps, and the loss before each of them and at the end."""
    inner, outer, inputs, targets = start
    losses = []
    for step in range(steps + 1):
        z = inner @ inputs.T
        gates = np.where(z > 0, 1.0, slope)
        outputs = RATES["scale"] * (outer @ (gates * z))
        if loss == SQUARE:
            residual = targets - outputs
            losses.append(0.5 * float(residual @ residual))
        else:
            residual = targets * np.exp(-np.logaddexp(0.0, targets * outputs))
            losses.append(float(np.sum(np.logaddexp(0.0, -targets * outputs))))
        if step < steps:
            pulls = gates * residual
            inner, outer = (
                inner + RATES["inner_rate"] * outer[:, None] * (pulls @ inputs),
                outer + RATES["outer_rate"] * np.sum(pulls * z, axis=1),
            )
    return (inner, outer), np.array(losses)


def assert_same_steps(
    found: tuple[Weights, Floats], start: Start, slope: float, steps: int, loss: int
) -> None:
    """Assert that weights and losses are the plain ones; a kernel adds up in registers, NumPy by BLAS."""
    (inner, outer), losses = plain(start, slope, steps, loss)
    size = max(float(np.max(np.abs(layer))) for layer in (inner, outer))
    assert size < 10
    operations = steps * (len(start[3]) + sum(inner.shape))
    for mine, plain_one in zip(found[0], (inner, outer), strict=True):
        assert_rounded(mine, plain_one, operations, size=size)
    assert_rounded(found[1], losses, operations, size=size**2 * len(start[3]))


def problem(size: int, dimension: int, width: int, loss: int = SQUARE) -> Start:
    """Return inner and outer weights, inputs, targets; the steps are stable here: errors do not grow."""
    rng = np.random.default_rng(size)
    inputs = rng.standard_normal((size, dimension)) / np.sqrt(size)
    inner = rng.standard_normal((width, dimension)) / np.sqrt(dimension)
    outer, targets = rng.standard_normal(width), rng.standard_normal(size)
    return inner, outer, inputs, targets if loss == SQUARE else np.sign(targets)
