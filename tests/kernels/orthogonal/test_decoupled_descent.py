"""The decoupled kernel against plain gradient descent written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.kernels.orthogonal import descent as kernel
from shallowflow.kernels.orthogonal.descent import BLOCK
from shallowflow.kernels.shared.vectors import LOGISTIC, SQUARE, Problem
from tests.kernels.plain_descent import Weights, constants, plain
from tests.rounding import assert_rounded


def decoupled(
    width: int, slope: float, steps: int, loss: int = SQUARE, kind: type[Any] = np.float64
) -> tuple[tuple[Weights, Floats], tuple[Weights, Floats]]:
    """Z, a and the losses by the kernel, and by plain descent: inputs along the axes, some of them zero."""
    rng = np.random.default_rng(3)
    numbers = constants(slope, kind)
    samples = BLOCK // numbers.itemsize
    lengths = np.concatenate([rng.uniform(1.0, 2.0, 2 * samples - 9), np.zeros(9)])
    inputs = np.diag(lengths)
    targets = np.where(lengths > 0, rng.standard_normal(2 * samples), 0.0)
    targets = targets if loss == SQUARE else np.sign(targets)
    inner, outer = rng.standard_normal((width, 2 * samples)), rng.standard_normal(width)
    values = np.ascontiguousarray((inner @ inputs.T).reshape(width, 2, samples).transpose(1, 0, 2), kind)
    moved, losses = outer.astype(kind), np.empty(steps)
    squares, wanted = (array.astype(kind).reshape(2, samples) for array in (lengths**2, targets))
    problem = Problem(squares, wanted, numbers, loss)
    assert kernel.advance(values, moved, problem, steps, losses) == steps
    now = kernel.loss_now(values, moved, problem)
    padding = 0.0 if loss == SQUARE else 9 * np.log(2.0)
    (weights, expected), plain_losses = plain((inner, outer, inputs, targets), slope, steps, loss)
    return (
        ((values.transpose(1, 0, 2).reshape(width, -1), moved), np.append(losses, now)),
        ((weights @ inputs.T, expected), plain_losses - padding),
    )


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize("width", [1, 5])
def test_the_steps_are_the_plain_ones(width: int, slope: float, loss: int) -> None:
    ((values, outer), losses), (expected, plain_losses) = decoupled(width, slope, 60, loss)
    operations, size = 60 * (values.shape[1] + width), float(np.max(np.abs(values)))
    assert_rounded(values, expected[0], operations)
    assert_rounded(outer, expected[1], operations, size=size)
    assert_rounded(losses, plain_losses, operations, size=size)


def test_single_precision_stays_single() -> None:
    """One step in float32 is the double one up to float32's rounding, and not beyond it."""
    ((values, outer), _), (expected, _) = decoupled(5, 0.0, 1, kind=np.float32)
    assert values.dtype == outer.dtype == np.float32
    operations = values.shape[1] + 5
    assert_rounded(values, expected[0], operations, kind=np.float32)
    assert_rounded(outer, expected[1], operations, size=float(np.max(np.abs(values))), kind=np.float32)
    assert np.max(np.abs(values - expected[0])) > 1e-12
