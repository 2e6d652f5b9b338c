"""Polynomials on a step: against NumPy's polynomials, their integrals, derivatives and roots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from shallowflow.dynamics.clock.paths import integration_matrix, lobatto_nodes
from shallowflow.kernels.cones.flow_state import (
    NEVER,
    NODES,
    chebyshev_rule,
    first_zero,
    value_at,
    weights_at,
)

RULE = chebyshev_rule()
GRID = RULE.grid
ordinary = settings(deadline=None, derandomize=True, max_examples=60)


def random_polynomial(seed: int, degree: int = NODES - 1) -> Polynomial:
    return Polynomial(np.random.default_rng(seed).standard_normal(degree + 1))


@ordinary
@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
def test_interpolation_integration_and_differentiation_are_exact(seed: int, share: float) -> None:
    polynomial = random_polynomial(seed)
    values = polynomial(GRID.nodes)
    weights = np.empty(NODES)
    weights_at(share, GRID, weights)
    assert weights @ values == pytest.approx(polynomial(share), abs=1e-12)
    assert value_at(share, values, GRID) == pytest.approx(polynomial(share), abs=1e-12)
    whole = polynomial.integ()
    np.testing.assert_allclose(RULE.integral @ values, whole(GRID.nodes) - whole(0.0), atol=1e-12)
    np.testing.assert_allclose(RULE.derivative @ values, polynomial.deriv()(GRID.nodes), atol=1e-9)


def test_the_tail_holds_the_last_chebyshev_coefficients() -> None:
    chebyshev = np.polynomial.chebyshev.Chebyshev(np.arange(1.0, NODES + 1), domain=[0.0, 1.0])
    np.testing.assert_allclose(RULE.tail @ chebyshev(GRID.nodes), [NODES - 1, NODES], atol=1e-11)


def test_paths_and_kernels_use_the_same_nodes() -> None:
    np.testing.assert_allclose(GRID.nodes, lobatto_nodes(NODES), atol=1e-16)
    np.testing.assert_allclose(RULE.integral, integration_matrix(NODES), atol=1e-15)


@ordinary
@given(st.integers(0, 10_000), st.floats(0.0, 0.9))
def test_the_first_zero_is_the_first_root(seed: int, start: float) -> None:
    """Cubics: between two of 12 nodes they have no room for a second dip."""
    polynomial = random_polynomial(seed, degree=3)
    polynomial = polynomial if polynomial(start) > 0 else -polynomial
    roots = np.asarray(polynomial.roots(), dtype=np.complex128)
    real = roots.real[np.abs(roots.imag) < 1e-12]
    later = [float(root) for root in real if start < root <= 1.0]
    crossing = [root for root in later if polynomial(root + 1e-7) < 0 or polynomial.deriv()(root) < 0]
    found = first_zero(start, polynomial(GRID.nodes), polynomial.deriv()(GRID.nodes), 0.0, GRID)
    if crossing and min(crossing) < 1 - 1e-6:
        assert found == pytest.approx(min(crossing), abs=1e-9)
    elif not crossing:
        assert found == NEVER


def test_a_dip_between_two_nodes_is_found() -> None:
    """Two crossings of one wall between consecutive nodes: positive at all nodes, negative in between."""
    middle = 0.5 * (GRID.nodes[5] + GRID.nodes[6])
    polynomial = Polynomial([middle**2 - 1e-6, -2 * middle, 1.0])
    values, slopes = polynomial(GRID.nodes), polynomial.deriv()(GRID.nodes)
    assert values.min() > 0
    assert first_zero(0.0, values, slopes, 0.0, GRID) == pytest.approx(middle - 1e-3, abs=1e-12)


def test_a_neuron_that_starts_on_its_wall_leaves_it_first() -> None:
    polynomial = Polynomial([0.0, 1.0, -2.0])
    found = first_zero(0.0, polynomial(GRID.nodes), polynomial.deriv()(GRID.nodes), 1e-15, GRID)
    assert found == pytest.approx(0.5, abs=1e-14)
    falling = -polynomial
    assert first_zero(0.0, falling(GRID.nodes), falling.deriv()(GRID.nodes), 1e-15, GRID) == 0.0
