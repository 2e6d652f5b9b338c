"""The outer weights of least squares and minimum norm against the pseudo-inverse."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.baselines import dense_outer, distinct_points, least_squares_outer
from tests.rounding import assert_rounded, least_squares_size


@pytest.mark.parametrize("seed", range(5))
def test_knot_networks(seed: int) -> None:
    """Unsorted knots, unsorted repeated data, several knots in one gap, dead and idle knots."""
    rng = np.random.default_rng(seed)
    inputs = rng.choice(rng.uniform(-1, 1, 12), 30)
    dataset = sf.Dataset(inputs[:, None], rng.standard_normal(30))
    network = sf.KnotNetwork(np.round(rng.uniform(-2, 1.5, 14), 3), rng.standard_normal(14))
    best = least_squares_outer(network, dataset)
    matrix = np.maximum(inputs[:, None] - network.knots, 0.0)
    expected = np.linalg.pinv(matrix, rcond=1e-11) @ dataset.targets
    size = least_squares_size(matrix, expected, dataset.targets, 1e-11)
    assert_rounded(best.parameters["outer"], expected, sum(matrix.shape), size=size)
    assert np.array_equal(best.parameters["knots"], network.knots)
    dense = dense_outer(network, dataset.inputs, dataset.targets)
    assert_rounded(dense["outer"], best.parameters["outer"], sum(matrix.shape), size=size)


def test_relu_networks() -> None:
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(rng.standard_normal((9, 3)), rng.standard_normal(9))
    network = sf.ReLUNetwork(rng.standard_normal((5, 3)), np.ones(5), slope=0.2, scale=0.5)
    z = dataset.inputs @ network.inner.T
    features = 0.5 * np.where(z > 0, z, 0.2 * z)
    best = least_squares_outer(network, dataset)
    np.testing.assert_allclose(
        best.parameters["outer"], np.linalg.pinv(features) @ dataset.targets, atol=1e-12
    )


def test_step_networks_fit_their_offset_too() -> None:
    x = np.linspace(0, 1, 40)
    dataset = sf.Dataset(x[:, None], 3.0 - 2.0 * (x > 0.5))
    network = sf.StepNetwork([0.5, 0.51], [0.0, 0.0], 0.0, sharpness=1e-3)
    best = least_squares_outer(network, dataset)
    np.testing.assert_allclose(best(x), dataset.targets, atol=1e-12)
    norm = float(np.sum(best.parameters["outer"] ** 2) + best.parameters["offset"] ** 2)
    assert norm == pytest.approx(9.0 + 2 * 1.0)  # no data between the steps: they share the jump equally


def test_merged_points() -> None:
    points = distinct_points(sf.Dataset([[2.0], [1.0], [2.0], [1.0], [2.0]], [1.0, 7.0, 2.0, 7.0, 6.0]))
    assert points.x.tolist() == [1.0, 2.0]
    assert points.y.tolist() == [7.0, 3.0]
    assert points.weights.tolist() == [2.0, 3.0]
    assert points.scatter == 4.0 + 1.0 + 9.0
    assert points.first.tolist() == [1, 0]
