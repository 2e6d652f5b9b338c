"""The fused kernel against plain gradient descent written in NumPy."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.dense import fused as fused_descent
from shallowflow.kernels.dense.fused import PANEL, ROWS
from tests.kernels.plain_descent import constants, plain, problem
from tests.rounding import assert_rounded


def fused(
    start: tuple[Floats, Floats, Floats, Floats], slope: float, steps: int, kind: type[Any] = np.float64
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The weights after `steps` steps of the kernel."""
    inner, outer, inputs, targets = start
    numbers = constants(slope, kind)
    samples = PANEL // numbers.itemsize
    packed = fused_descent.packed(inner, ROWS, numbers)
    moved = np.zeros((len(packed), ROWS), kind)
    moved.reshape(-1)[: len(outer)] = outer
    panels = fused_descent.packed(inputs, samples, numbers)
    wanted = np.zeros((len(panels), samples), kind)
    wanted.reshape(-1)[: len(targets)] = targets
    assert fused_descent.advance(packed, moved, panels, wanted, numbers, steps) == steps
    weights = packed.transpose(0, 2, 1).reshape(moved.size, -1)
    assert not weights[len(outer) :].any()
    assert not weights[:, inner.shape[1] :].any()
    return weights[: len(outer), : inner.shape[1]], moved.reshape(-1)[: len(outer)]


def assert_same_steps(found: tuple[Floats, Floats], expected: tuple[Floats, Floats], operations: int) -> None:
    """Assert that both layers are the same; the kernel adds up in registers, NumPy by BLAS."""
    size = max(float(np.max(np.abs(layer))) for layer in expected)
    assert size < 10
    for mine, plain_one in zip(found, expected, strict=True):
        assert_rounded(mine, plain_one, operations, size=size)


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize(
    ("size", "dimension", "width"),
    [
        (1, 1, 1),  # one of everything
        (1, 7, 9),
        (7, 5, 6),  # less than a panel, than a group
        (23, 1, 1),
        (48, 6, 8),  # whole panels, whole groups, in both precisions
        (49, 7, 9),  # one more of each
        (601, 5, 17),  # several blocks with a rest
        (385, 8, 1),
    ],
)
def test_the_steps_are_the_plain_ones(size: int, dimension: int, width: int, slope: float) -> None:
    start = problem(size, dimension, width)
    expected = plain(*start, slope, 40)
    found = fused(start, slope, 40)
    assert_same_steps(found, expected, 40 * (size + dimension + width))


def test_fewer_panels_fit_into_a_block_of_many_dimensions() -> None:
    dimension = fused_descent.CACHE // (5 * PANEL)
    start = problem(300, dimension, 9)
    expected, found = plain(*start, 0.0, 3), fused(start, 0.0, 3)
    assert_same_steps(found, expected, 3 * (300 + dimension + 9))


@pytest.mark.parametrize("size", [1, 49, 900])
def test_single_precision_stays_single(size: int) -> None:
    """One step in float32 is the double one up to float32's rounding, and not beyond it."""
    start = problem(size, 5, 6)
    expected = plain(*start, 0.0, 1)
    weights, moved = fused(start, 0.0, 1, np.float32)
    assert weights.dtype == moved.dtype == np.float32
    assert_rounded(weights, expected[0], size + 11, kind=np.float32)
    assert np.max(np.abs(weights - expected[0])) > 1e-12


def test_a_step_that_overflows_is_reported() -> None:
    packed = fused_descent.packed(np.full((1, 1), 1e300), ROWS, np.zeros(1))
    outer = np.full((1, ROWS), 1e300)
    panels = fused_descent.packed(np.full((1, 1), 1e300), PANEL // 8, np.zeros(1))
    targets = np.zeros((1, PANEL // 8))
    assert fused_descent.advance(packed, outer, panels, targets, constants(0.0), 5) == 0


NARROW = """
from shallowflow.kernels.shared import vectors
assert vectors.BYTES == {size}
from tests.kernels.dense import test_fused_descent
test_fused_descent.test_the_steps_are_the_plain_ones(49, 7, 9, 0.3)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the features are named as on x86_64")
@pytest.mark.parametrize(("features", "size"), [("+sse2", 16), ("+avx,+avx2,+fma", 32)])
def test_narrower_registers_make_the_same_steps(features: str, size: int, tmp_path: Path) -> None:
    """The code that an older machine would get."""
    narrow = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment = {**os.environ, **narrow, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", NARROW.format(size=size)], env=environment, cwd=root, check=True)
