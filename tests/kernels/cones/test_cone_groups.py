"""Propagators and moments against matrices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shallowflow.kernels.cones.groups import (
    add_moment,
    outer_inner_moment,
    present,
    propagate,
    referred,
    spread,
)


def test_a_propagator_is_the_product_of_the_steps() -> None:
    rng = np.random.default_rng(0)
    p, product = np.eye(3).ravel().copy(), np.eye(3)
    for g in 0.1 * rng.standard_normal((20, 2)):
        propagate(p, g[0], g[1])
        step = np.eye(3)
        step[:2, 2] = step[2, :2] = g
        product = step @ product
    np.testing.assert_allclose(p.reshape(3, 3), product, rtol=1e-13)
    theta = rng.standard_normal(3)
    np.testing.assert_allclose(present(p, theta), product @ theta, rtol=1e-13)
    np.testing.assert_allclose(referred(p, *theta), np.linalg.solve(product, theta), rtol=1e-12)
    assert spread(p) == pytest.approx(
        max(np.log(np.abs(product).max()), -np.log(np.linalg.det(product))), abs=1e-13
    )
    thetas = rng.standard_normal((5, 3))
    s = np.zeros(12)
    for row in thetas:
        add_moment(s, row, 1.0)
    now = thetas @ product.T
    np.testing.assert_allclose(outer_inner_moment(p, s), now[:, 2] @ now[:, :2], rtol=1e-12)


def test_a_large_neuron_that_leaves_takes_all_of_its_moment_with_it() -> None:
    rng = np.random.default_rng(1)
    small, large = 1e-6 * rng.standard_normal((10, 3)), 1e3 * rng.standard_normal((4, 3))
    s = np.zeros(12)
    for row in (*small, *large):
        add_moment(s, row, 1.0)
    for row in large[::-1]:
        add_moment(s, row, -1.0)
    exact = [sum(Fraction(float(row[i] * row[j])) for row in small) for i in range(3) for j in range(i, 3)]
    np.testing.assert_allclose(s[:6], [float(value) for value in exact], rtol=1e-9)
