from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.jumps import log_norms
from tests.kernels.orthogonal.log_problems import random_problem


def test_compiled_and_plain_descent_agree_from_a_scale_that_underflows() -> None:
    """In the standard basis, where plain descent in w is descent in the coordinates of the data."""
    network, data = random_problem(5, 3, 1, log_scale=-800.0, extra=0)
    data = sf.Dataset(np.eye(5), data.targets)
    runs = [
        sf.gradient_descent(network, data, step=2.0, steps=4000, engine=engine)
        for engine in ("dense", "scaled")
    ]
    assert runs[0].losses[-1] < 0.5 * runs[0].losses[0]
    np.testing.assert_allclose(runs[1].losses, runs[0].losses, rtol=1e-8)
    for name, values in runs[0].final.parameters.items():
        np.testing.assert_allclose(runs[1].final.parameters[name], values, rtol=1e-7, atol=1e-9)


def test_coordinates_that_reached_zero_stay_there_in_any_basis() -> None:
    network, data = random_problem(5, 3, 1, log_scale=-800.0)
    run = sf.gradient_descent(network, data, step=2.0, steps=4000)
    limit = sf.saddle_to_saddle(network, data)
    assert run.statistics["engine"] == "scaled"
    assert run.losses[-1] == pytest.approx(limit.losses[-1], rel=1e-9)


def test_descent_follows_the_flow_as_its_step_shrinks() -> None:
    network, data = random_problem(6, 4, 0, log_scale=-60.0)
    until = 1200.0
    flow = sf.gradient_flow(network, data, until=until)
    times = np.linspace(100.0, until, 12)
    errors = []
    for step in (0.4, 0.1):
        run = sf.gradient_descent(
            network, data, step=step, steps=round(until / step), record=sf.Record.at(times), engine="scaled"
        )
        errors.append(max(np.abs(log_norms(run(t)) - log_norms(flow(t))).max() for t in times))
    assert errors[1] < 0.3 * errors[0]


def test_the_engine_refuses_other_problems() -> None:
    network, data = random_problem(4, 3, 0, log_scale=-1.0, extra=0)
    with pytest.raises(sf.InvalidInputError, match="needs orthonormal inputs"):
        sf.gradient_descent(
            network, sf.Dataset(1.5 * data.inputs, data.targets), step=0.1, steps=3, engine="scaled"
        )
    with pytest.raises(sf.InvalidInputError, match="'scaled' needs a LogScaledNetwork"):
        sf.gradient_descent(network.to_relu(), data, step=0.1, steps=3, engine="scaled")
