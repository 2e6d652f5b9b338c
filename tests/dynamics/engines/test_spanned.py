"""Descent in the span of few inputs against plain descent, and when "auto" takes it."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.cones import ConeDescent, PatternDescent
from shallowflow.dynamics.engines.sweeps import DenseDescent, FusedDescent, LanesDescent, SpannedDescent
from tests.dynamics.ticks import steps_made
from tests.rounding import assert_rounded


def task(size: int, dimension: int, loss: sf.SquareLoss | sf.LogisticLoss, steps: int = 0) -> Task:
    rng = np.random.default_rng([size, dimension])
    targets = np.sign(rng.standard_normal(size))
    network = sf.ReLUNetwork(
        rng.standard_normal((20, dimension)), rng.standard_normal(20), slope=0.1, scale=0.2
    )
    inputs = rng.standard_normal((size, dimension)) / np.sqrt(dimension)
    return Task(network, sf.Dataset(inputs, targets), loss, 0.05, 0.5, steps)


@pytest.mark.parametrize("loss", [sf.SquareLoss(), sf.LogisticLoss()], ids=str)
@pytest.mark.parametrize("engine", [DenseDescent, FusedDescent, LanesDescent, PatternDescent])
def test_it_makes_the_steps_of_plain_descent(engine: type, loss: sf.SquareLoss | sf.LogisticLoss) -> None:
    given = task(5, 40, loss)
    inside, plain = SpannedDescent(given, engine), DenseDescent(given)
    for count in (0, 1, 199):
        assert steps_made(inside, count) == steps_made(plain, count) == count
        found, expected = inside.network(), plain.network()
        assert isinstance(expected, sf.ReLUNetwork)
        # Each step rounds sums of n and d terms; the steps are contractions or grow slowly.
        assert_rounded(found.inner, expected.inner, 200 * 45)
        assert_rounded(found.outer, expected.outer, 200 * 45)
        assert inside.loss() == pytest.approx(plain.loss(), rel=1e-10)


def test_two_points_in_many_dimensions_are_a_problem_of_the_plane() -> None:
    given = task(2, 30, sf.SquareLoss())
    inside, plain = SpannedDescent(given, ConeDescent), DenseDescent(given)
    assert steps_made(inside, 300) == steps_made(plain, 300) == 300
    assert_rounded(inside.network().inner, plain.network().parameters["inner"], 300 * 32)
    assert inside.statistics()["span"] == 2


def test_few_inputs_are_taken_in_their_span_but_orthogonal_ones_are_not() -> None:
    few = task(20, 100, sf.SquareLoss(), 10**6)
    assert chosen_engine("gradient_descent", "auto", few).func is SpannedDescent
    many = task(100, 20, sf.SquareLoss(), 10**6)
    assert chosen_engine("gradient_descent", "auto", many).func is not SpannedDescent
    data = sf.data.GENERATORS["orthogonal"](6, 12, seed=1)
    start = sf.initialize.asymmetric(24, 12, seed=1)
    run = sf.gradient_descent(start, data, step=0.1, steps=3)
    assert run.statistics["engine"] == "decoupled"
