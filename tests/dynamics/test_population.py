"""The population flow beside SciPy, data on a fine grid, and conservation of what must fall."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.protocol import flatten, unflatten

TARGET = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])
START = sf.initialize.uniform_positions(6, sharpness=0.1, outer=np.linspace(-1, 1, 6), seed=1)


def test_the_flow_is_that_of_an_implicit_integrator() -> None:
    def velocity(_: float, theta: Floats) -> Floats:
        gradient = sf.landscape.population_gradient(unflatten(START, theta), TARGET)
        return -2.0 * np.concatenate(
            [0.3 * gradient["positions"], gradient["outer"], [float(gradient["offset"])]]
        )

    expected = solve_ivp(velocity, (0, 5), flatten(START), method="Radau", rtol=1e-10, atol=1e-12)
    flow = sf.population_flow(START, TARGET, until=5.0, epsilon=0.3, speed=2.0)
    np.testing.assert_allclose(flatten(flow.final), expected.y[:, -1], atol=1e-6)
    assert np.all(np.diff(flow.losses) < 1e-12)


def test_the_flow_on_a_fine_grid_of_data_is_nearly_the_population_flow() -> None:
    x = (np.arange(2000) + 0.5) / 2000
    data = sf.Dataset(x[:, None], TARGET(x))
    sampled = sf.gradient_flow(START, data, until=4.0, epsilon=0.5)
    flow = sf.population_flow(START, TARGET, until=4.0, epsilon=0.5)
    assert sampled.statistics["engine"] == "smooth"
    np.testing.assert_allclose(flatten(sampled.final), flatten(flow.final), atol=1e-3)


@pytest.mark.parametrize(
    ("width", "until", "engine"),
    [(6, 0.1, "stiff"), (6, 20.0, "stiff"), (100, 0.5, "stiff"), (100, 1.5, "smooth"), (6, 200.0, "stiff")],
)
def test_the_method_is_chosen_by_parameters_and_length(width: int, until: float, engine: str) -> None:
    start = sf.initialize.uniform_positions(width, sharpness=0.1, seed=1)
    flow = sf.population_flow(start, TARGET, until=until, epsilon=1e-3)
    assert flow.statistics["engine"] == engine


def test_the_flow_stops_when_the_gradient_is_small() -> None:
    flow = sf.population_flow(START, TARGET, until=1e5, stop=1e-3)
    assert flow.outcome.status == "converged"
    gradient = sf.landscape.population_gradient(flow.final, TARGET)  # type: ignore[arg-type]
    assert np.linalg.norm(np.concatenate([np.ravel(g) for g in gradient.values()])) <= 1e-3


def test_a_heaviside_network_is_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="sharpness must be > 0"):
        sf.population_flow(sf.StepNetwork([0.5], [0.0]), TARGET, until=1.0)


@pytest.mark.parametrize("jump", [-0.2, 0.0, 1.0, 1.5])
def test_jumps_outside_the_interval_are_refused(jump: float) -> None:
    target = sf.PiecewiseConstant(sorted([jump, 0.5]), [0.0, 1.0, 2.0])
    for run in (sf.population_flow, sf.two_timescale_limit):
        with pytest.raises(sf.InvalidInputError, match=r"target: must have its jumps inside \(0, 1\)"):
            run(START, target, until=1.0)
