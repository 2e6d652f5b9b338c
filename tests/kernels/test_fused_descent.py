"""The fused kernels against plain gradient descent written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels import decoupled_descent, fused_descent

RATES = {"scale": 0.2, "inner_rate": 0.03, "outer_rate": 0.05}


def constants(slope: float, kind: type[Any]) -> NDArray[Any]:
    return np.array([0.0, slope, 1.0, *RATES.values()], kind)


def plain(
    inner: Floats, outer: Floats, inputs: Floats, targets: Floats, slope: float, steps: int
) -> tuple[Floats, Floats]:
    """Return the weights after `steps` steps, by the formulas of the gradient."""
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
    rng = np.random.default_rng(size)
    inputs = rng.standard_normal((size, dimension)) / np.sqrt(size)
    inner = rng.standard_normal((width, dimension))
    return inner, rng.standard_normal(width), inputs, rng.standard_normal(size)


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize("size", [7, 256, 601])
def test_the_fused_kernels_make_the_plain_steps(size: int, slope: float) -> None:
    """One block, exactly one block, several blocks with a rest."""
    inner, outer, inputs, targets = problem(size, 5, 6)
    expected = plain(inner, outer, inputs, targets, slope, 40)
    numbers = constants(slope, np.float64)
    weights, moved = inner.copy(), outer.copy()
    for _ in range(40):
        pulls = np.ascontiguousarray(weights @ inputs.T)
        fused_descent.gate(pulls, moved, targets, numbers, pulls)
        assert fused_descent.move(weights, moved, pulls @ inputs, numbers)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(moved, expected[1], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_decoupled_kernel_makes_the_plain_steps(slope: float) -> None:
    """Inputs along the axes, of different lengths, some padded by zeros."""
    rng = np.random.default_rng(3)
    block = decoupled_descent.BLOCK
    lengths = np.concatenate([rng.uniform(1.0, 2.0, 2 * block - 9), np.zeros(9)])
    inputs = np.diag(lengths)
    targets = np.where(lengths > 0, rng.standard_normal(2 * block), 0.0)
    inner, outer = rng.standard_normal((5, 2 * block)), rng.standard_normal(5)
    expected = plain(inner, outer, inputs, targets, slope, 60)
    values, moved = np.ascontiguousarray(inner @ inputs.T), outer.copy()
    numbers = constants(slope, np.float64)
    assert decoupled_descent.advance(values, moved, lengths**2, targets, numbers, 60) == 60
    np.testing.assert_allclose(values, expected[0] @ inputs.T, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(moved, expected[1], rtol=1e-11, atol=1e-12)


def test_single_precision_stays_single() -> None:
    """One step in float32 is the double one up to float32's rounding, and not beyond it."""
    inner, outer, inputs, targets = problem(300, 5, 6)
    expected = plain(inner, outer, inputs, targets, 0.0, 1)
    weights: NDArray[Any] = inner.astype(np.float32)
    moved: NDArray[Any] = outer.astype(np.float32)
    numbers = constants(0.0, np.float32)
    narrow: NDArray[Any] = inputs.astype(np.float32)
    pulls: NDArray[Any] = np.ascontiguousarray(weights @ narrow.T)
    fused_descent.gate(pulls, moved, targets.astype(np.float32), numbers, pulls)
    fused_descent.move(weights, moved, pulls @ narrow, numbers)
    assert weights.dtype == moved.dtype == pulls.dtype == np.float32
    np.testing.assert_allclose(weights, expected[0], atol=1e-5)
    assert np.max(np.abs(weights - expected[0])) > 1e-12


def test_a_step_that_overflows_is_reported() -> None:
    inner, outer, _, _ = problem(20, 5, 6)
    huge = np.full((6, 5), 1e300)
    numbers = np.array([0.0, 0.0, 1.0, 1.0, 1e6, 1e300])
    assert not fused_descent.move(inner, outer, huge, numbers)
