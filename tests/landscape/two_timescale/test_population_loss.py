"""Losses over [0, 1]^d beside tensor grids and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import shallowflow as sf
from shallowflow.landscape import population_loss


def test_additive_loss_equals_a_fine_tensor_grid() -> None:
    rng = np.random.default_rng(0)
    network = sf.AdditiveStepNetwork(rng.random((4, 2)), rng.normal(size=(4, 2)), 0.3, 0.2)
    parts = [sf.PiecewiseConstant([0.25, 0.5], [1.0, -1.0, 2.0]), sf.PiecewiseConstant([0.75], [0.0, 3.0])]
    target = sf.Additive(parts)
    x = (np.arange(800) + 0.5) / 800
    points = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = 0.5 * np.mean((network(points) - target(points)) ** 2)
    assert population_loss(network, target) == pytest.approx(expected, rel=1e-5)


def test_one_coordinate_is_a_step_network() -> None:
    rng = np.random.default_rng(1)
    u, a = rng.random(5), rng.normal(size=5)
    target = sf.PiecewiseConstant([0.3, 0.6], [1.0, 0.0, 2.0])
    one = sf.StepNetwork(u, a, 0.4, 0.1)
    many = sf.AdditiveStepNetwork(u[:, None], a[:, None], 0.4, 0.1)
    assert population_loss(many, sf.Additive([target])) == pytest.approx(population_loss(one, target))


def test_knot_loss_equals_quadrature() -> None:
    network = sf.KnotNetwork([0.31, 0.1, 0.77, -0.2], [1.0, -2.0, 3.0, 0.5])
    target = sf.PiecewiseAffine([0.0, 0.3, 0.7, 1.0], [0.0, 0.0, 0.4, 0.5])

    def square(x: float) -> float:
        return float((network([x]) - target([x]))[0] ** 2)

    expected = 0.5 * quad(square, 0, 1, points=[0.1, 0.3, 0.31, 0.7, 0.77], epsabs=1e-13)[0]
    assert population_loss(network, target) == pytest.approx(expected, rel=1e-11)


def test_targets_of_other_dimensions_are_refused() -> None:
    step = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    network = sf.AdditiveStepNetwork([[0.5, 0.5]], [[1.0, 1.0]], 0.0, 0.1)
    with pytest.raises(sf.InvalidInputError, match="dimension 2, got 1"):
        population_loss(network, sf.Additive([step]))
    line = sf.PiecewiseAffine([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match="components must be PiecewiseConstant"):
        population_loss(network, sf.Additive([step, line]))
