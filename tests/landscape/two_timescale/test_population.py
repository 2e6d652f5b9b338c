"""Exact integrals beside Gauss rules, tensor grids, rational arithmetic, differences and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.integrate import quad

import shallowflow as sf
from shallowflow import landscape
from shallowflow.landscape import population_loss
from tests.landscape.exact_steps import exact
from tests.landscape.step_cases import SHARPNESSES, features, grid, problems
from tests.rounding import EPSILON

FLOOR = 1.0 / 28.0


@settings(deadline=None, derandomize=True, max_examples=60)
@given(problems())
def test_loss_gradient_gram_and_moments_are_integrals(
    problem: tuple[sf.StepNetwork, sf.PiecewiseConstant],
) -> None:
    network, target = problem
    x, w = grid(network, target)
    residual, phi = network(x) - target(x), features(network, x)
    slopes = -network.outer * sf.CubicStep(network.sharpness).derivative(x[:, None] - network.positions)
    gradient = landscape.population_gradient(network, target)
    scale = 1.0 + np.abs(residual).max() ** 2
    assert landscape.population_loss(network, target) == pytest.approx(
        0.5 * np.sum(w * residual**2), abs=1e-12 * scale
    )
    expected = phi.T @ (w * residual)
    np.testing.assert_allclose(gradient["offset"], expected[0], atol=1e-12 * scale)
    np.testing.assert_allclose(gradient["outer"], expected[1:], atol=1e-12 * scale)
    np.testing.assert_allclose(
        gradient["positions"], slopes.T @ (w * residual), atol=1e-11 * scale / network.sharpness
    )
    np.testing.assert_allclose(landscape.feature_gram(network), phi.T @ (w[:, None] * phi), atol=1e-13)
    np.testing.assert_allclose(
        landscape.feature_moments(network, target), phi.T @ (w * target(x)), atol=1e-12 * scale
    )


@settings(deadline=None, derandomize=True, max_examples=30)
@given(problems(widest=6, sharpnesses=(1e-6, 1e-4, *SHARPNESSES)))
def test_everything_equals_exact_rational_arithmetic(
    problem: tuple[sf.StepNetwork, sf.PiecewiseConstant],
) -> None:
    """Gradients against central differences of the exact loss with a step of 10⁻³⁰, to 10⁻⁹ for every η."""
    network, target = problem
    twin = exact(network, target)
    loss = float(twin.loss)
    assert landscape.population_loss(network, target) == pytest.approx(loss, rel=1e-12, abs=1e-13)
    for name, found in landscape.population_gradient(network, target).items():
        slopes = [float(twin.slope(name, j)) for j in range(np.size(found))]
        np.testing.assert_allclose(np.ravel(found), slopes, rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(landscape.feature_gram(network), np.array(twin.gram(), float), atol=1e-14)
    moments = np.array(twin.moments(), float)
    np.testing.assert_allclose(landscape.feature_moments(network, target), moments, atol=1e-13)


@pytest.mark.parametrize("width", [3, 20])
def test_gram_is_that_of_steps_minus_a_diagonal_where_windows_are_apart(width: int) -> None:
    """[two_timescale] Lemma 2 with ∫σ² = 23/56."""
    u = np.random.default_rng(width).permutation((np.arange(width) + 0.5) / width)
    eta = 0.9 / width
    H = landscape.feature_gram(sf.StepNetwork(u, np.zeros(width), 0.0, eta))
    places = np.concatenate([[0.0], u])
    H0 = 1.0 - np.maximum.outer(places, places)
    diagonal = np.diag(np.concatenate([[0.0], np.full(width, 5 / 56)]))
    np.testing.assert_allclose(H, H0 - eta * diagonal, atol=1e-15)
    np.testing.assert_allclose(landscape.feature_gram(sf.StepNetwork(u, np.zeros(width))), H0, atol=1e-15)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(problems())
def test_best_weights_solve_the_normal_equations(
    problem: tuple[sf.StepNetwork, sf.PiecewiseConstant],
) -> None:
    network, target = problem
    best = landscape.best_outer(network, target)
    gradient = landscape.population_gradient(best, target)
    # A feature with ‖φ‖² below the rounding of H may be left out, and with it a moment of ‖φ‖ ‖f*‖ at most.
    squares = np.linalg.eigvalsh(landscape.feature_gram(network))
    rounding = (network.width + 1) * EPSILON * squares[-1]
    left_out = (
        np.sqrt(np.max(squares, initial=0.0, where=squares < 10 * rounding)) * np.abs(target.values).max()
    )
    size = 1.0 + float(np.abs(best.offset) + np.sum(np.abs(best.outer)))
    for slopes in (gradient["offset"], gradient["outer"]):
        np.testing.assert_allclose(slopes, 0.0, rtol=0, atol=left_out + 100 * network.width * EPSILON * size)
    np.testing.assert_array_equal(best.positions, network.positions)


@pytest.mark.parametrize("eta", [0.0, 1e-3, 0.02])
def test_the_tridiagonal_solve_equals_the_dense_one(eta: float) -> None:
    rng = np.random.default_rng(1)
    width = 40
    u = rng.permutation((np.arange(width) + rng.uniform(0.1, 0.9, width)) / width)
    u = u[np.abs(np.subtract.outer(u, u) + np.eye(width)).min(axis=1) > eta]
    target = sf.PiecewiseConstant([0.2, 0.35, 0.5], [1.0, 4.0, 1.0, 2.0])
    network = sf.StepNetwork(u, np.zeros(len(u)), 0.0, eta)
    best = landscape.best_outer(network, target)
    dense = np.linalg.solve(landscape.feature_gram(network), landscape.feature_moments(network, target))
    np.testing.assert_allclose(np.append(best.offset, best.outer), dense, atol=1e-10)


def test_without_sharpness_the_best_plateaus_are_means() -> None:
    target = sf.PiecewiseConstant([0.3], [0.0, 1.0])
    best = landscape.best_outer(sf.StepNetwork([0.6, 0.2], [0.0, 0.0]), target)
    np.testing.assert_allclose(best([0.1, 0.4, 0.9]), [0.0, 0.75, 1.0], atol=1e-15)


def test_equal_positions_get_the_weights_of_least_norm() -> None:
    target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    best = landscape.best_outer(sf.StepNetwork([0.5, 0.5], [0.0, 0.0], 0.0, 0.01), target)
    one = landscape.best_outer(sf.StepNetwork([0.5], [0.0], 0.0, 0.01), target)
    np.testing.assert_allclose(best.outer, 0.5 * one.outer[0], rtol=1e-9)


def test_covered_jumps_leave_the_floor() -> None:
    """∫(f − f*)² → (η/28)Σs² when every jump has its neuron; the rest is the weights' correction, O(η²)."""
    target = sf.PiecewiseConstant([0.2, 0.35, 0.5, 0.65, 0.8], [1.0, 5.0, 1.0, 3.0, 1.0, 5.0])
    eta = 4e-3
    plain = sf.StepNetwork(target.breakpoints, target.jumps, 1.0, eta)
    floor = eta * FLOOR * np.sum(target.jumps**2)
    assert 2 * landscape.population_loss(plain, target) == pytest.approx(floor, rel=1e-12)
    best = landscape.best_outer(plain, target)
    assert 0.99 * floor < 2 * landscape.population_loss(best, target) <= floor


def test_separation_counts_the_edges() -> None:
    network = sf.StepNetwork([0.5, 0.1], [0.0, 0.0], 0.0, 0.04)
    assert landscape.separation(network) == pytest.approx(0.12)
    assert landscape.well_separated(network)
    assert not landscape.well_separated(sf.StepNetwork([0.5, 0.55], [0.0, 0.0], 0.0, 0.04))
    assert not landscape.well_separated(sf.StepNetwork([1.2], [0.0], 0.0, 0.04))


def test_what_does_not_fit_is_refused() -> None:
    target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match="sharpness must be > 0"):
        landscape.population_gradient(sf.StepNetwork([0.5], [1.0]), target)
    with pytest.raises(sf.InvalidInputError, match="network: must be a StepNetwork"):
        landscape.best_outer(sf.KnotNetwork([0.5], [1.0]), target)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="network, target: must be"):
        landscape.population_loss(sf.KnotNetwork([0.5], [1.0]), target)


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
