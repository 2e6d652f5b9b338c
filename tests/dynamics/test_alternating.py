"""LS/GD and LS/Adam against hand-written loops with NumPy's least squares."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.baselines import INNER, alternating_least_squares

F1 = sf.data.GENERATORS["curve"]("sin_pi", 100)


def plain_alternation(
    knots: Floats, x: Floats, y: Floats, inner: str, step: float, steps: int
) -> tuple[Floats, Floats]:
    """Gradient step on the knots, then least squares for the coefficients, [plateau] §5.2."""
    knots = knots.copy()
    mean, square = np.zeros_like(knots), np.zeros_like(knots)
    outer = np.linalg.lstsq(np.maximum(x[:, None] - knots, 0.0), y)[0]
    for t in range(1, steps + 1):
        active = x[:, None] > knots
        residual = (active * (x[:, None] - knots)) @ outer - y
        direction = -outer * (residual @ active) / len(x)
        if inner == "adam":
            mean = 0.9 * mean + 0.1 * direction
            square = 0.999 * square + 0.001 * direction**2
            direction = (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        knots -= step * direction
        outer = np.linalg.lstsq(np.maximum(x[:, None] - knots, 0.0), y)[0]
    return knots, np.asarray(outer, dtype=np.float64)


@pytest.mark.parametrize("inner", INNER)
def test_knot_network_follows_the_plain_loop(inner: str) -> None:
    network = sf.KnotNetwork([0.4, -1.2, -0.55, 0.0, 0.71], np.ones(5))
    x, y = F1.inputs[:, 0], F1.targets
    knots, outer = plain_alternation(network.knots, x, y, inner, 1e-2, 100)
    final = alternating_least_squares(network, F1, inner=inner, step=1e-2, steps=100).final
    np.testing.assert_allclose(final.parameters["knots"], knots, atol=1e-10)
    np.testing.assert_allclose(final.parameters["outer"], outer, atol=1e-8)
    assert np.abs(knots - network.knots).max() > 1e-3


@pytest.mark.parametrize("inner", INNER)
def test_every_recorded_network_solves_least_squares(inner: str) -> None:
    """Also at the start, where only the inner layer of the given network counts: LSQ."""
    network = sf.initialize.he_knots(10, seed=3)
    trajectory = alternating_least_squares(network, F1, inner=inner, steps=60, record=sf.Record.every(20))
    assert list(trajectory.times) == [0, 20, 40, 60]
    assert trajectory.statistics["engine"] == inner
    for time, loss in zip(trajectory.times, trajectory.losses, strict=True):
        current = trajectory(time)
        matrix = np.maximum(F1.inputs - current.parameters["knots"], 0.0)
        best = np.linalg.pinv(matrix, rcond=1e-11) @ F1.targets
        assert loss == pytest.approx(0.5 * float(np.mean((matrix @ best - F1.targets) ** 2)), rel=1e-9)
    assert np.array_equal(trajectory.initial.parameters["knots"], network.knots)
    other = alternating_least_squares(sf.KnotNetwork(network.knots, np.zeros(10)), F1, inner=inner, steps=60)
    assert other.final == trajectory.final


def test_relu_network_moves_its_inner_layer_only_by_gradients() -> None:
    rng = np.random.default_rng(1)
    dataset = sf.Dataset(rng.standard_normal((12, 2)), rng.standard_normal(12))
    network = sf.initialize.gaussian(4, 2, init_scale=2.0, seed=2)
    final = alternating_least_squares(network, dataset, step=0.05, steps=1).final
    z = dataset.inputs @ network.inner.T
    outer = np.linalg.lstsq(np.maximum(z, 0.0), dataset.targets)[0]
    slopes = (np.maximum(z, 0.0) @ outer - dataset.targets) / 12
    inner = network.inner - 0.05 * outer[:, None] * (((z > 0) * slopes[:, None]).T @ dataset.inputs)
    np.testing.assert_allclose(final.parameters["inner"], inner, atol=1e-13)
    features = np.maximum(dataset.inputs @ inner.T, 0.0)
    np.testing.assert_allclose(
        final.parameters["outer"], np.linalg.lstsq(features, dataset.targets)[0], atol=1e-11
    )


def test_step_network_finds_a_jump() -> None:
    x = np.linspace(0, 1, 41)
    dataset = sf.Dataset(x[:, None], sf.PiecewiseConstant([0.5], [2.0, 3.0])(x))
    network = sf.StepNetwork([0.42], [0.0], 0.0, sharpness=0.2)
    trajectory = alternating_least_squares(network, dataset, step=0.02, steps=400)
    assert trajectory.losses[-1] < 0.2 * trajectory.losses[0]
    final = trajectory.final
    assert isinstance(final, sf.StepNetwork)
    assert final.positions[0] == pytest.approx(0.4875, abs=0.01)
    assert float(final.offset) == pytest.approx(2.0, abs=0.05)


def test_repeated_inputs_count_as_often_as_they_occur() -> None:
    rng = np.random.default_rng(4)
    x = np.sort(rng.choice(rng.uniform(-1, 1, 15), 40))
    y = np.sin(3 * x) + 0.1 * rng.standard_normal(40)
    network = sf.KnotNetwork([-1.1, -0.45, 0.2, 0.6], np.zeros(4))
    knots, _ = plain_alternation(network.knots, x, y, "gd", 0.05, 50)
    final = alternating_least_squares(network, sf.Dataset(x[:, None], y), step=0.05, steps=50).final
    np.testing.assert_allclose(final.parameters["knots"], knots, atol=1e-10)


def test_outcomes_progress_and_errors() -> None:
    network = sf.initialize.he_knots(10, seed=0)
    seen: list[float] = []
    watched = alternating_least_squares(network, F1, steps=300, progress=seen.append)
    assert seen[-1] == 1.0
    assert watched.outcome.status == "completed"
    assert watched.final == alternating_least_squares(network, F1, steps=300).final
    wild = alternating_least_squares(network, F1, step=1e4, steps=1)
    assert wild.outcome.status == "unstable"
    with pytest.raises(sf.InvalidInputError, match="inner: must be one of gd, adam"):
        alternating_least_squares(network, F1, steps=1, inner="newton")
    with pytest.raises(sf.InvalidInputError, match="steps: must be >= 1"):
        alternating_least_squares(network, F1, steps=0)
