"""The decoupled kernel against plain gradient descent written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.orthogonal import descent as decoupled_descent
from shallowflow.kernels.orthogonal.descent import BLOCK
from tests.kernels.plain_descent import constants, plain
from tests.rounding import assert_rounded


def decoupled(
    width: int, slope: float, steps: int, kind: type[Any]
) -> tuple[NDArray[Any], NDArray[Any], tuple[Floats, Floats]]:
    """Z and a after steps of the kernel, and by plain descent: inputs along the axes, some of them zero."""
    rng = np.random.default_rng(3)
    numbers = constants(slope, kind)
    samples = BLOCK // numbers.itemsize
    lengths = np.concatenate([rng.uniform(1.0, 2.0, 2 * samples - 9), np.zeros(9)])
    inputs = np.diag(lengths)
    targets = np.where(lengths > 0, rng.standard_normal(2 * samples), 0.0)
    inner, outer = rng.standard_normal((width, 2 * samples)), rng.standard_normal(width)
    values = np.ascontiguousarray((inner @ inputs.T).reshape(width, 2, samples).transpose(1, 0, 2), kind)
    moved = outer.astype(kind)
    squares, wanted = (array.astype(kind).reshape(2, samples) for array in (lengths**2, targets))
    assert decoupled_descent.advance(values, moved, squares, wanted, numbers, steps) == steps
    weights, expected = plain(inner, outer, inputs, targets, slope, steps)
    return values.transpose(1, 0, 2).reshape(width, -1), moved, (weights @ inputs.T, expected)


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize("width", [1, 5])
def test_the_steps_are_the_plain_ones(width: int, slope: float) -> None:
    values, outer, expected = decoupled(width, slope, 60, np.float64)
    operations = 60 * (values.shape[1] + width)
    assert_rounded(values, expected[0], operations)
    assert_rounded(outer, expected[1], operations, size=float(np.max(np.abs(values))))


def test_single_precision_stays_single() -> None:
    """One step in float32 is the double one up to float32's rounding, and not beyond it."""
    values, outer, expected = decoupled(5, 0.0, 1, np.float32)
    assert values.dtype == outer.dtype == np.float32
    operations = values.shape[1] + 5
    assert_rounded(values, expected[0], operations, kind=np.float32)
    assert_rounded(outer, expected[1], operations, size=float(np.max(np.abs(values))), kind=np.float32)
    assert np.max(np.abs(values - expected[0])) > 1e-12
