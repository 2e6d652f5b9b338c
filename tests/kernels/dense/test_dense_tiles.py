"""The tiles of the fused kernel, each against one line of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from shallowflow.kernels import dense
from shallowflow.kernels.dense import COLUMNS, PANEL, ROWS
from tests.rounding import assert_rounded

Array = NDArray[Any]


@njit(cache=False)
def project(w: Array, x: Array, shares: Array, slope: float, outputs: Array, values: Array) -> None:
    dense.project(w, x, shares, slope, outputs, values)


@njit(cache=False)
def gate(values: Array, residual: Array, slope: float) -> None:
    dense.gate(values, residual, slope)


@njit(cache=False)
def correlate(pulls: Array, inputs: Array, first: int, gradient: Array) -> None:
    dense.correlate(pulls, inputs[:, first : first + COLUMNS], gradient)


@njit(cache=False)
def push(w: Array, gradient: Array, outer: Array, inner_rate: float, outer_rate: float) -> None:
    dense.push(w, gradient, outer, inner_rate, outer_rate)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_tiles_are_products(kind: type[Any]) -> None:
    rng = np.random.default_rng(0)
    samples = PANEL // np.dtype(kind).itemsize
    w, x, shares, residual = (
        rng.standard_normal(shape).astype(kind) for shape in ((7, ROWS), (7, samples), ROWS, samples)
    )
    slope, left, values = kind(0.25), residual.copy(), np.empty((ROWS, samples), kind)
    project(w, x, shares, slope, left, values)
    z = w.T @ x
    gates = np.where(z > 0, kind(1), slope)
    sizes = np.abs(w).T @ np.abs(x)
    assert_rounded(values, z, 7, size=float(np.max(sizes)), kind=kind)
    size = float(np.max(np.abs(residual) + np.abs(shares) @ sizes))
    assert_rounded(left, residual + shares @ (gates * z), 7 + ROWS, size=size, kind=kind)
    gate(values, left, slope)
    assert_rounded(values, gates * left, 1, kind=kind)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("panels", [1, 5])
def test_a_correlation_adds_to_the_gradient(panels: int, kind: type[Any]) -> None:
    """From an array whose panels are longer than the tile."""
    rng = np.random.default_rng(1)
    samples = PANEL // np.dtype(kind).itemsize
    pulls = rng.standard_normal((panels, ROWS, samples)).astype(kind)
    inputs = rng.standard_normal((panels, 3 * COLUMNS, samples)).astype(kind)
    gradient = rng.standard_normal((COLUMNS, ROWS)).astype(kind)
    start = gradient.copy()
    correlate(pulls, inputs, COLUMNS, gradient)
    chosen = inputs[:, COLUMNS : 2 * COLUMNS]
    product = np.einsum("pks,prs->kr", chosen, pulls)
    sizes = np.abs(start) + np.einsum("pks,prs->kr", np.abs(chosen), np.abs(pulls))
    assert_rounded(gradient, start + product, panels * samples + 1, size=float(np.max(sizes)), kind=kind)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_push_is_a_step_of_both_layers(kind: type[Any]) -> None:
    rng = np.random.default_rng(2)
    w, gradient = (rng.standard_normal((7, ROWS)).astype(kind) for _ in range(2))
    outer = rng.standard_normal(ROWS).astype(kind)
    moved = w + kind(0.5) * outer * gradient
    expected = outer + kind(0.25) * np.sum(w * gradient, axis=0)
    push(w, gradient, outer, kind(0.5), kind(0.25))
    assert_rounded(w, moved, 3, kind=kind)
    assert_rounded(outer, expected, 2 * 7, size=20.0, kind=kind)
    assert not gradient.any()
