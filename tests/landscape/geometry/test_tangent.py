"""The forecast of a frozen kernel: against the eigendecomposition, plain descent, and the pattern floor."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.landscape import floors
from shallowflow.landscape.geometry.activity import neurons_of
from shallowflow.landscape.geometry.tangent import Tangent, forecast, sharpness

SQUARE = sf.SquareLoss()
G = sf.data.GENERATORS
BALL = G["sphere"](30, 3, seed=1)
CASES: dict[str, tuple[sf.ReLUNetwork | sf.KnotNetwork | sf.LogScaledNetwork, sf.Dataset]] = {
    "relu": (sf.initialize.gaussian(20, 3, init_scale=1.0, seed=0), BALL),
    "leaky, scaled": (
        sf.ReLUNetwork(
            np.random.default_rng(1).standard_normal((9, 3)),
            np.random.default_rng(2).standard_normal(9),
            slope=0.2,
            scale=0.3,
        ),
        BALL,
    ),
    "knots": (sf.initialize.he_knots(12, seed=0), G["curve"]("sin_pi", size=25)),
    "log-scaled": (sf.initialize.log_scaled(8, 3, log_scale=-2.0, seed=3), BALL),
}


@pytest.mark.parametrize("case", CASES)
def test_products_are_those_of_the_tangent_kernel(case: str) -> None:
    network, data = CASES[case]
    product = Tangent(network, neurons_of(network, data))
    found = np.array([product(unit) for unit in np.eye(data.size)])
    kernel = network.tangent_kernel(data.inputs)
    np.testing.assert_allclose(found, kernel, atol=1e-13 * np.abs(kernel).max())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("step", [None, 1e-3])
def test_the_recursion_is_the_eigendecomposition(case: str, step: float | None) -> None:
    network, data = CASES[case]
    found = forecast(network, neurons_of(network, data), data, SQUARE, step, most=1)
    rates, vectors = np.linalg.eigh(network.tangent_kernel(data.inputs) / data.size)
    parts = (vectors.T @ (network(data.inputs) - data.targets)) ** 2 / (2 * data.size)
    for time in (0.0, 0.1, 1.0, 30.0):
        factors = np.exp(-2 * rates * time) if step is None else (1 - step * rates) ** (2 * time / step)
        assert found(time) == pytest.approx(float(parts @ factors), rel=1e-6)


def test_the_forecast_ends_at_the_pattern_floor() -> None:
    network = sf.initialize.gaussian(4, 3, init_scale=1.0, seed=0)
    found = forecast(network, neurons_of(network, BALL), BALL, SQUARE, most=1)
    assert found(1e9) == pytest.approx(floors(network, BALL).pattern.level, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_networks_move_against_the_kernel(case: str) -> None:
    network, data = CASES[case]
    product = Tangent(network, neurons_of(network, data))
    vector = np.random.default_rng(3).standard_normal(data.size)
    # θ − εJᵀv changes the outputs by −εKv, up to ε² (no kink is crossed for so small a change).
    moved = product.moved(network, 1e-6 * vector)
    change = (moved.predict(data.inputs) - network.predict(data.inputs)) / 1e-6
    np.testing.assert_allclose(change, -product(vector), atol=1e-4 * float(np.linalg.norm(change)))


def test_a_resting_neuron_slides_along_its_hyperplane() -> None:
    network = sf.ReLUNetwork([[1.0, -1.0, 0.3], [0.2, 0.5, 0.1]], [1.0, -0.7])
    data = sf.Dataset([[1.0, 1.0, 0.0], [0.5, 0.1, 1.0], [-1.0, 0.3, 0.2]], [1.0, 0.0, 2.0])
    moved = Tangent(network, neurons_of(network, data)).moved(network, np.array([0.3, -0.1, 0.2]))
    change = moved.parameters["inner"][0] - network.inner[0]
    assert abs(change @ data.inputs[0]) < 1e-15
    assert np.linalg.norm(change) > 0.01


@pytest.mark.parametrize("case", ["relu", "leaky, scaled", "knots"])  # the other one never falls so far
def test_descent_follows_it_until_the_loss_has_fallen_by_a_fifth(case: str) -> None:
    network, data = CASES[case]
    largest = float(np.linalg.eigvalsh(network.tangent_kernel(data.inputs) / data.size)[-1])
    step = 0.05 / largest
    found = forecast(network, neurons_of(network, data), data, SQUARE, step)
    assert found.complete
    steps = int(np.ceil(found.reach / step))
    run = sf.gradient_descent(network, data, step=step, steps=steps)
    assert run.losses[-1] == pytest.approx(found(steps * step), rel=0.01)
    assert found(found.reach) == pytest.approx(0.8 * run.losses[0], rel=1e-6)
    assert found.reach > found.time_of(0.1) > found.time_of(0.01) > 0.0
    assert found.time_of(0.9) == found.reach  # no time is given beyond 20 %


def test_the_flow_follows_it_where_the_frozen_kernel_does_not() -> None:
    # One neuron on one point: a = w grows, and the kernel with it.
    network, data = sf.ReLUNetwork([[0.1]], [0.1]), sf.Dataset([[1.0]], [1.0])
    renewed = forecast(network, neurons_of(network, data), data, SQUARE)
    frozen = forecast(network, neurons_of(network, data), data, SQUARE, most=1)
    # u = aw has u' = 2u(1 − u): u(t) = u₀e^{2t}/(1 − u₀ + u₀e^{2t}), and the loss is ½(1 − u)².
    goal, u0 = 1.0 - np.sqrt(0.8) * 0.99, 0.01
    true = 0.5 * np.log(goal * (1 - u0) / (u0 * (1 - goal)))
    assert renewed.reach == pytest.approx(true, rel=0.1)
    assert frozen.reach > 2.0 * true
    assert forecast(network, neurons_of(network, data), data, SQUARE, speed=4.0).reach == pytest.approx(
        renewed.reach / 4.0
    )


def test_what_cannot_fall_never_does() -> None:
    network, data = sf.ReLUNetwork([[-1.0, -1.0]], [1.0]), sf.Dataset([[1.0, 1.0], [2.0, 1.0]], [1.0, 2.0])
    found = forecast(network, neurons_of(network, data), data, SQUARE)
    assert found.time_of(0.01) == np.inf
    fitted = sf.Dataset(data.inputs, np.zeros(2))
    assert forecast(network, neurons_of(network, fitted), fitted, SQUARE).reach == np.inf


@pytest.mark.parametrize("loss", [SQUARE, sf.LogisticLoss()])
def test_the_sharpness_is_the_largest_eigenvalue(loss: sf.SquareLoss | sf.LogisticLoss) -> None:
    network = CASES["relu"][0]
    data = sf.Dataset(BALL.inputs, np.where(BALL.targets > 0, 1.0, -1.0))
    root = np.sqrt(loss.curvatures(network(data.inputs), data.targets))
    matrix = root[:, None] * network.tangent_kernel(data.inputs) * root
    found = sharpness(network, neurons_of(network, data), data, loss)
    assert found == pytest.approx(float(np.linalg.eigvalsh(matrix)[-1]), rel=1e-7)
