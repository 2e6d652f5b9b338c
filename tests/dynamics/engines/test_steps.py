"""Descent on sorted samples beside plain descent, for every loss that it takes."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.models.loss import Loss

LOSSES = [sf.SquareLoss(), sf.SquareLoss("sum"), sf.NormLoss()]


@pytest.mark.parametrize("loss", LOSSES, ids=["mean", "sum", "norm"])
@pytest.mark.parametrize("dimension", [1, 3])
def test_the_steps_are_those_of_plain_descent(dimension: int, loss: Loss) -> None:
    rng = np.random.default_rng(dimension)
    inputs = rng.uniform(-0.1, 1.1, (60, dimension)).round(2)  # some samples coincide
    dataset = sf.Dataset(inputs, rng.normal(size=60))
    network = sf.AdditiveStepNetwork(rng.random((7, dimension)), rng.normal(size=(7, dimension)), 0.3, 0.15)
    start = network.coordinate(0) if dimension == 1 else network
    step = {"SquareLoss": 5e-4, "NormLoss": 0.1}[type(loss).__name__]
    runs = [
        sf.gradient_descent(start, dataset, step=step, steps=400, epsilon=0.3, loss=loss, engine=engine)
        for engine in ("dense", "windows")
    ]
    assert runs[1].statistics["engine"] == "windows"
    assert runs[0].losses[-1] < runs[0].losses[0]
    np.testing.assert_allclose(flatten(runs[1].final), flatten(runs[0].final), atol=1e-11)
    np.testing.assert_allclose(runs[1].losses, runs[0].losses, rtol=1e-10)


def test_too_large_a_step_ends_in_an_outcome() -> None:
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(rng.random((50, 2)), rng.normal(size=50))
    network = sf.initialize.uniform_cuboids(10, 2, sharpness=0.1)
    run = sf.gradient_descent(network, dataset, step=5.0, steps=3000, engine="windows")
    assert run.outcome.status == "diverged"
    assert "times smaller" in run.outcome.advice


def test_other_networks_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="'windows' needs a network of steps"):
        sf.gradient_descent(
            sf.KnotNetwork([0.5], [1.0]), sf.Dataset([[0.1]], [1.0]), step=0.1, steps=2, engine="windows"
        )
