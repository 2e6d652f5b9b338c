"""Rates, limits and advice beside tangent kernels, descents and flows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.flow import two_timescale_limit
from shallowflow.experiments.two_timescale.batch_training import STAIRCASE, inside
from shallowflow.landscape import timescales

CURVE = sf.data.GENERATORS["curve"]("sin_pi", 20)
UNIT = sf.Dataset(np.linspace(0, 1, 15)[:, None], np.sin(5 * np.linspace(0, 1, 15)))
STEPS = sf.PiecewiseConstant([0.3, 0.6], [0.0, 2.0, 1.0])
ON_DATA: dict[str, tuple[Any, sf.Dataset]] = {
    "knots": (sf.KnotNetwork([-1.2, -0.55, 0.33], [0.3, -1.0, 2.0]), CURVE),
    "relu": (
        sf.ReLUNetwork(np.random.default_rng(5).normal(size=(3, 3)), [1.0, -2.0, 0.5], 0.1, 0.7),
        sf.data.GENERATORS["sphere"](12, 3, seed=0),
    ),
    "steps": (sf.StepNetwork([0.2, 0.5, 0.8], [1.0, -1.0, 0.5], 0.2, 0.3), UNIT),
    "additive": (
        sf.AdditiveStepNetwork([[0.3, 0.4], [0.7, 0.6]], [[1.0, 2.0], [0.5, -1.0]], 0.1, 0.4),
        sf.Dataset(np.random.default_rng(3).random((40, 2)), np.random.default_rng(4).normal(size=40)),
    ),
}


def nonzero(kernel: Any, size: int) -> Any:
    """Return the eigenvalues of a kernel over n that are not 0."""
    values = np.linalg.eigvalsh(kernel) / size
    return values[values > 1e-12 * values[-1]]


@pytest.mark.parametrize("name", ON_DATA)
def test_rates_on_data_are_the_eigenvalues_of_tangent_kernels(name: str) -> None:
    network, data = ON_DATA[name]
    found, best = timescales(network, data), sf.least_squares_outer(network, data)
    outer = best.tangent_kernel(data.inputs, 0.0)
    inner = best.tangent_kernel(data.inputs) - outer
    np.testing.assert_allclose(found.fast, nonzero(outer, data.size), rtol=1e-8)
    np.testing.assert_allclose(found.slow, nonzero(inner, data.size), rtol=1e-8)
    present = network.tangent_kernel(data.inputs) - network.tangent_kernel(data.inputs, 0.0)
    largest = max(nonzero(inner, data.size)[-1], nonzero(present, data.size)[-1])
    assert found.inner_step == pytest.approx(2.0 / largest, rel=1e-9)
    whole = np.linalg.eigvalsh(best.tangent_kernel(data.inputs, 0.01))[-1] / data.size
    assert found.step_limit(0.01) <= 2.0 / whole * (1 + 1e-9)


@pytest.mark.parametrize("name", ON_DATA)
def test_descent_of_the_outer_layer_is_stable_below_its_limit_and_not_above(name: str) -> None:
    network, data = ON_DATA[name]
    limit = timescales(network, data).outer_step
    losses = [
        sf.gradient_descent(network, data, step=share * limit, steps=4000, epsilon=1e-300).losses[-1]
        for share in (0.98, 1.02)
    ]
    start = sf.SquareLoss().value(network.predict(data.inputs), data.targets)
    assert losses[0] < start < 1e3 * start < losses[1] or not np.isfinite(losses[1])


def test_rates_against_targets_are_those_of_a_fine_grid() -> None:
    grid = (np.arange(100) + 0.5) / 100
    inputs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    network, target = ON_DATA["additive"][0], sf.Additive([STEPS, STAIRCASE])
    found = timescales(network, target)
    fine = timescales(network, sf.Dataset(inputs, target(inputs)))
    np.testing.assert_allclose(found.fast, fine.fast, rtol=2e-3)
    np.testing.assert_allclose(found.slow, fine.slow, rtol=2e-2)
    np.testing.assert_allclose(found.drifts, fine.drifts, rtol=5e-2, atol=1e-3 * found.drifts.max())
    knots, bent = (
        sf.KnotNetwork([-0.3, 0.25, 0.7], [1.0, -2.0, 0.5]),
        sf.PiecewiseAffine([0, 0.4, 1], [0, 1, 0.2]),
    )
    line = (np.arange(4000) + 0.5)[:, None] / 4000
    exact, fine = timescales(knots, bent), timescales(knots, sf.Dataset(line, bent(line[:, 0])))
    np.testing.assert_allclose(exact.fast, fine.fast, rtol=1e-4)
    np.testing.assert_allclose(exact.slow, fine.slow, rtol=1e-3)
    assert exact.slow_time == pytest.approx(fine.slow_time, rel=1e-2)


def test_rates_of_steps_are_those_of_the_exact_gram_matrix() -> None:
    network = sf.StepNetwork([0.1, 0.35, 0.52, 0.8], [1.0, -2.0, 0.5, 1.0], 0.2, 0.05)
    found = timescales(network, STEPS)
    np.testing.assert_allclose(found.fast, np.linalg.eigvalsh(sf.landscape.feature_gram(network)), rtol=1e-12)
    assert found.slow_time == pytest.approx(sf.hitting_times(network, STEPS).max(), rel=1e-12)
    assert found.curvature >= 9 / 5 * 4.0 / 0.05
    wide, distance, bound = (
        5,
        1 / (6 * 5**2),
        2.0,
    )  # the positions are D-good for the largest D of the theorem
    proven = 16 / distance * np.log(2**16 * bound**2 * wide**3 / (6 * wide**2 * distance * 1.0**2))
    assert found.proven_fast_time == pytest.approx(proven)
    assert distance < sf.landscape.separation(network)


@pytest.mark.parametrize("name", ON_DATA)
def test_the_outer_layer_lags_as_foreseen(name: str) -> None:
    """A flow from a*(u) over a slow time in which u has hardly moved; the formula is of first order in it."""
    network, data = ON_DATA[name]
    found = timescales(network, data)
    epsilon, until = 1e-3, 1e-3 * found.slow_time
    start = sf.least_squares_outer(network, data)
    flow = sf.gradient_flow(start, data, until=until / epsilon, epsilon=epsilon, tolerance=1e-11)
    end = flow.final
    apart = end.predict(data.inputs) - sf.least_squares_outer(end, data).predict(data.inputs)
    seen = np.linalg.norm(apart) / np.linalg.norm(start.predict(data.inputs))
    assert replace(found, slow_time=until).lag(epsilon) == pytest.approx(seen, rel=0.05)


@pytest.mark.parametrize("start", range(3))
def test_the_blow_up_of_figure_6_is_foreseen(start: int) -> None:
    """Step 1 is beyond the limit of the outer layer and blows up; the step that is advised does not."""
    network = sf.initialize.uniform_cuboids(10, 2, sharpness=0.01, seed=start)
    target = sf.Additive([STAIRCASE] * 2)
    found = timescales(network, target)
    assert found.outer_step < 0.5
    options: Any = {"batch": 1000, "seed": 0, "record": sf.Record.every(1)}
    blown = sf.stochastic_descent(network, target, step=1.0, steps=300, epsilon=0.01, **options)
    assert np.max(blown.losses) > blown.losses[0]
    assert not np.any(inside(blown))  # all neurons are thrown out of [0, 1]: a constant is left
    step = 0.5 * found.step_limit(0.01)
    fine = sf.stochastic_descent(network, target, step=step, steps=3000, epsilon=0.01, **options)
    assert fine.outcome.ok
    assert np.max(fine.losses) <= fine.losses[0]
    assert fine.losses[-1] < 0.05 * fine.losses[0]


def test_the_advised_descent_follows_the_limit() -> None:
    target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    network = sf.StepNetwork([0.2, 0.55, 0.8], [0.0] * 3, 0.0, 0.02)
    found = timescales(network, target)
    x = ((np.arange(2000) + 0.5) / 2000)[:, None]
    data = sf.Dataset(x, target(x[:, 0]))
    run = sf.gradient_descent(
        network, data, step=found.step, steps=round(2 * found.steps), epsilon=found.epsilon
    )
    limit: Any = two_timescale_limit(network, target, until=2 * found.slow_time).final
    now: Any = run.final
    assert np.min(np.abs(now.positions - 0.5)) < 0.02
    np.testing.assert_allclose(now.positions, limit.positions, atol=0.02)


def test_at_rest_there_is_nothing_to_wait_for() -> None:
    fitted = sf.Dataset([[0.0], [1.0]], [0.0, 1.0])
    found = timescales(sf.KnotNetwork([0.0], [1.0]), fitted)
    assert (found.slow_time, found.fast_time, found.epsilon) == (0.0, 0.0, 1.0)
    dead = timescales(sf.KnotNetwork([2.0], [1.0]), fitted)
    assert (dead.outer_step, dead.inner_step, dead.slow_time) == (np.inf, np.inf, np.inf)
    assert "none" in dead.text()


def test_what_has_no_rates_is_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="sharpness must be > 0"):
        timescales(sf.StepNetwork([0.5], [1.0]), STEPS)
    with pytest.raises(sf.InvalidInputError, match="must not be log-scaled"):
        timescales(sf.initialize.log_scaled(2, 2, log_scale=-9.0), sf.Dataset(np.eye(2), [1.0, 2.0]))
    with pytest.raises(sf.InvalidInputError, match="network's dimension 1"):
        timescales(sf.KnotNetwork([0.5], [1.0]), sf.Dataset(np.eye(2), [1.0, 2.0]))
    with pytest.raises(sf.InvalidInputError, match="KnotNetwork with a PiecewiseAffine"):
        timescales(sf.KnotNetwork([0.5], [1.0]), STEPS)
