"""The kernel of few samples against plain gradient descent written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.kernels import dense
from shallowflow.kernels.shared.vectors import LOGISTIC, SQUARE, Problem
from tests.kernels.plain_descent import Start, Weights, assert_same_steps, constants, plain, problem
from tests.rounding import assert_rounded


def lanes(
    start: Start, slope: float, steps: int, loss: int = SQUARE, kind: type[Any] = np.float64
) -> tuple[Weights, Floats]:
    """Return the weights after `steps` steps of the kernel, and the losses before each and at the end."""
    inner, outer, inputs, targets = (np.array(each, kind) for each in start)
    weights, losses = np.ascontiguousarray(inner.T), np.empty(steps)
    problem = Problem(inputs, targets, constants(slope, kind), loss)
    assert dense.advance_lanes(weights, outer, problem, steps, losses) == steps
    return (weights.T, outer), np.append(losses, dense.lanes_loss(weights, outer, problem))


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize(("size", "dimension", "width"), [(1, 1, 1), (1, 7, 9), (3, 2, 130), (23, 5, 17)])
def test_the_steps_are_the_plain_ones(size: int, dimension: int, width: int, slope: float, loss: int) -> None:
    start = problem(size, dimension, width, loss)
    assert_same_steps(lanes(start, slope, 40, loss), start, slope, 40, loss)


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
def test_single_precision_stays_single(loss: int) -> None:
    """One step in float32 is the double one up to float32's rounding, and not beyond it."""
    start = problem(9, 5, 6, loss)
    expected, _ = plain(start, 0.0, 1, loss)
    (weights, moved), _ = lanes(start, 0.0, 1, loss, np.float32)
    assert weights.dtype == moved.dtype == np.float32
    assert_rounded(weights, expected[0], 9 + 11, kind=np.float32)
    assert np.max(np.abs(weights - expected[0])) > 1e-12


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
def test_margins_beyond_all_exponentials_do_not_overflow(loss: int) -> None:
    """h = ±2000: the loss is 0 or 2000 for the label 1, and only a wrong prediction pulls."""
    for sign in (1.0, -1.0):
        start = np.array([[sign * 1e4]]), np.array([sign]), np.array([[sign]]), np.array([1.0])
        found, losses = lanes(start, 0.0, 1, loss)
        (inner, outer), expected = plain(start, 0.0, 1, loss)
        assert_rounded(found[0], inner, 9)
        assert_rounded(found[1], outer, 9)
        assert_rounded(losses, expected, 20, size=2000.0**loss)


def test_a_step_that_overflows_is_reported() -> None:
    problem = Problem(np.full((1, 1), 1e300), np.zeros(1), constants(0.0), SQUARE)
    assert dense.advance_lanes(np.full((1, 2), 1e300), np.full(2, 1e300), problem, 5, np.empty(0)) == 0
