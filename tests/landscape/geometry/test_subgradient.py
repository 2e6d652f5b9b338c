"""Minimal-norm subgradients against a general solver and the optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

from shallowflow.landscape.geometry.activity import minimal_gates


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([0.0, 0.2]))
def test_gates_minimise_the_norm(seed: int, parts: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    known, pieces = rng.standard_normal(3), rng.standard_normal((parts, 3))
    gates = minimal_gates(known, pieces, slope)
    assert np.all((gates >= slope) & (gates <= 1))
    reference = minimize(
        lambda eta: float(np.sum((known + eta @ pieces) ** 2)),
        np.full(parts, 0.5),
        bounds=[(slope, 1.0)] * parts,
        options={"ftol": 1e-15, "gtol": 1e-12},
    )
    assert np.sum((known + gates @ pieces) ** 2) <= reference.fun + 1e-8
    slopes = 2 * pieces @ (known + gates @ pieces)
    inside = (gates > slope + 1e-9) & (gates < 1 - 1e-9)
    assert np.all(np.abs(slopes[inside]) < 1e-8)
    assert np.all(slopes[gates <= slope + 1e-12] >= -1e-8)
    assert np.all(slopes[gates >= 1 - 1e-12] <= 1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_many_gates_agree_with_a_general_solver(seed: int) -> None:
    """Also where parts are linearly dependent: then the gates are not unique, but the shortest vector is."""
    rng = np.random.default_rng(seed)
    pieces = rng.standard_normal((12, 8 if seed % 2 else 20))
    if seed % 3 == 0:
        pieces[3], pieces[7] = 2 * pieces[2], 0.0
    known = -rng.uniform(0, 2, 12) @ pieces + 0.1 * rng.standard_normal(pieces.shape[1])
    gates = minimal_gates(known, pieces, 0.1)
    assert np.all((gates >= 0.1) & (gates <= 1))
    reference = lsq_linear(pieces.T, -known, bounds=(0.1, 1.0), method="bvls", tol=1e-15).x
    assert known + gates @ pieces == pytest.approx(known + reference @ pieces, abs=1e-11)


def test_a_point_already_fitted_leaves_its_gate_off() -> None:
    assert minimal_gates(np.array([1.0, 0.0]), np.zeros((1, 2)), 0.1) == pytest.approx(0.1)
