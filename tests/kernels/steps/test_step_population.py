"""The pieces of the population kernel that the public functions do not show."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from shallowflow.kernels.steps import windows
from shallowflow.kernels.steps.windows import (
    NODES,
    WEIGHTS,
    best_plateaus,
    feature_integrals,
    overlap,
    population_loss,
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


def test_the_loss_of_unsorted_neurons_is_an_integral() -> None:
    rng = np.random.default_rng(0)
    u, a, eta = rng.uniform(0, 1, 5), rng.normal(size=6), 0.1
    breaks, values = np.array([0.3, 0.62]), np.array([0.5, -1.0, 2.0])

    def square(x: float) -> float:
        f = a[0] + sum(a[j + 1] * step((x - u[j]) / eta) for j in range(5))
        return float((f - values[np.searchsorted(breaks, x, side="right")]) ** 2)

    kinks = np.unique(np.concatenate([breaks, u, u - eta / 2, u + eta / 2]))
    edges = np.concatenate([[0.0], kinks[(kinks > 0) & (kinks < 1)], [1.0]])
    parts = [quad(square, low, high, epsabs=1e-14)[0] for low, high in itertools.pairwise(edges)]
    assert population_loss(u, a, eta, breaks, values) == pytest.approx(0.5 * sum(parts), rel=1e-12)


@pytest.mark.parametrize("norm", [False, True])
def test_the_loss_on_samples_is_that_of_the_sums(norm: bool) -> None:
    rng = np.random.default_rng(1)
    x, y, u, a = (
        rng.uniform(0, 1, (2, 30)),
        rng.normal(size=30),
        rng.uniform(0, 1, (2, 4)),
        rng.normal(size=(2, 4)),
    )
    order = np.argsort(x, axis=1)
    samples = windows.Samples(np.take_along_axis(x, order, axis=1), order, y)
    neurons, rules = windows.new_neurons(u, a, 0.3, 0.2, 30), windows.Rules(0.1, 0.1, norm, 0.25)
    steps = np.array(
        [[[step((x[k, i] - u[k, j]) / 0.2) for j in range(4)] for k in range(2)] for i in range(30)]
    )
    residual = 0.3 + (steps * a).sum(axis=(1, 2)) - y
    expected = np.linalg.norm(residual) / 30 if norm else 0.125 * residual @ residual
    assert windows.loss(neurons, samples, rules) == pytest.approx(expected, rel=1e-13)
