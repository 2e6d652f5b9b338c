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

from shallowflow.arrays import Floats
from shallowflow.kernels import dense
from shallowflow.kernels.dense import PANEL, ROWS
from shallowflow.kernels.shared.vectors import LOGISTIC, SQUARE, Problem
from tests.kernels.plain_descent import Start, Weights, assert_same_steps, constants, plain, problem
from tests.rounding import assert_rounded


def fused(
    start: Start, slope: float, steps: int, loss: int = SQUARE, kind: type[Any] = np.float64
) -> tuple[Weights, Floats]:
    """Return the weights after `steps` steps of the kernel, and the losses before each and at the end."""
    inner, outer, inputs, targets = start
    numbers = constants(slope, kind)
    samples = PANEL // numbers.itemsize
    packed = dense.packed(inner, ROWS, numbers)
    moved = np.zeros((len(packed), ROWS), kind)
    moved.reshape(-1)[: len(outer)] = outer
    panels = dense.packed(inputs, samples, numbers)
    wanted = np.zeros((len(panels), samples), kind)
    wanted.reshape(-1)[: len(targets)] = targets
    losses = np.empty(steps)
    problem = Problem(panels, wanted, numbers, loss)
    assert dense.advance_tiles(packed, moved, problem, steps, losses) == steps
    weights = packed.transpose(0, 2, 1).reshape(moved.size, -1)
    assert not weights[len(outer) :].any()
    assert not weights[:, inner.shape[1] :].any()
    now = dense.tiles_loss(packed, moved, problem)
    layers = weights[: len(outer), : inner.shape[1]], moved.reshape(-1)[: len(outer)]
    return layers, np.append(losses, now)


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
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
def test_the_steps_are_the_plain_ones(size: int, dimension: int, width: int, slope: float, loss: int) -> None:
    start = problem(size, dimension, width, loss)
    assert_same_steps(fused(start, slope, 40, loss), start, slope, 40, loss)


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
def test_zeros_behind_the_inputs_of_a_panel_are_skipped(loss: int) -> None:
    """Triangular inputs of several blocks, as in the span of n < d inputs, and a panel of zeros."""
    inner, outer, inputs, targets = problem(230, 230, 9, loss)
    inputs = np.tril(inputs)
    inputs[40:80] = 0.0
    start = inner, outer, inputs, targets
    assert_same_steps(fused(start, 0.3, 20, loss), start, 0.3, 20, loss)


def test_fewer_panels_fit_into_a_block_of_many_dimensions() -> None:
    start = problem(300, dense.CACHE // (5 * PANEL), 9)
    assert_same_steps(fused(start, 0.0, 3), start, 0.0, 3, SQUARE)


@pytest.mark.parametrize("loss", [SQUARE, LOGISTIC])
@pytest.mark.parametrize("size", [1, 49, 900])
def test_single_precision_stays_single(size: int, loss: int) -> None:
    """One step in float32 is the double one up to float32's rounding, and not beyond it."""
    start = problem(size, 5, 6, loss)
    expected, _ = plain(start, 0.0, 1, loss)
    (weights, moved), _ = fused(start, 0.0, 1, loss, np.float32)
    assert weights.dtype == moved.dtype == np.float32
    assert_rounded(weights, expected[0], size + 11, kind=np.float32)
    assert np.max(np.abs(weights - expected[0])) > 1e-12


def test_a_step_that_overflows_is_reported() -> None:
    packed = dense.packed(np.full((1, 1), 1e300), ROWS, np.zeros(1))
    outer = np.full((1, ROWS), 1e300)
    panels = dense.packed(np.full((1, 1), 1e300), PANEL // 8, np.zeros(1))
    problem = Problem(panels, np.zeros((1, PANEL // 8)), constants(0.0), SQUARE)
    assert dense.advance_tiles(packed, outer, problem, 5, np.empty(0)) == 0


NARROW = """
from shallowflow.kernels.shared import vectors
assert vectors.BYTES == {size}
from tests.kernels.dense import test_fused_descent
test_fused_descent.test_the_steps_are_the_plain_ones(49, 7, 9, 0.3, 0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the features are named as on x86_64")
@pytest.mark.parametrize(("features", "size"), [("+sse2", 16), ("+avx,+avx2,+fma", 32)])
def test_narrower_registers_make_the_same_steps(features: str, size: int, tmp_path: Path) -> None:
    """The code that an older machine would get."""
    narrow = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment = {**os.environ, **narrow, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", NARROW.format(size=size)], env=environment, cwd=root, check=True)
