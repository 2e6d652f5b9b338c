"""The pieces of the population kernel that the public functions do not show."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from shallowflow.kernels.steps.activation import (
    NODES,
    WEIGHTS,
    best_plateaus,
    feature_integrals,
    overlap,
    step,
)


def test_the_quadrature_rule_is_gauss_legendre() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(4)
    np.testing.assert_allclose(NODES, 0.5 * (1 + nodes), atol=1e-16)
    np.testing.assert_allclose(WEIGHTS, 0.5 * weights, atol=1e-16)


@pytest.mark.parametrize(
    ("left", "right"), [(0.5, 0.5), (0.5, 0.53), (0.5, 0.58), (0.02, 0.05), (-0.03, 0.01), (0.97, 1.02)]
)
def test_overlaps_equal_quadrature(left: float, right: float) -> None:
    eta = 0.1
    kinks = [x for u in (left, right) for x in (u - eta / 2, u, u + eta / 2) if 0 < x < 1]
    expected = quad(
        lambda x: step((x - left) / eta) * step((x - right) / eta), 0, 1, points=kinks, epsabs=1e-14
    )[0]
    assert overlap(left, right, eta) == pytest.approx(expected, abs=1e-14)


def test_windows_cut_by_the_edges_are_integrated() -> None:
    u, eta = np.array([-0.02, 0.03, 0.5, 0.99, 1.2]), 0.1
    first, second = feature_integrals(u, eta)
    for j, place in enumerate(u):
        kinks = [x for x in (place - eta / 2, place, place + eta / 2) if 0 < x < 1] or None
        for power, found in ((1, first[j + 1]), (2, second[j + 1])):
            expected = quad(
                lambda x, p=power, at=place: step((x - at) / eta) ** p, 0, 1, points=kinks, epsabs=1e-14
            )[0]
            assert found == pytest.approx(expected, abs=1e-14)


def test_a_feature_that_vanishes_on_the_interval_is_reported() -> None:
    assert not best_plateaus(np.array([0.5, 1.5]), 0.1, np.array([1.0, 0.5, 0.0]), np.empty(3))
