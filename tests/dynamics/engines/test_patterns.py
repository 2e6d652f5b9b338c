"""The engine "patterns" against plain descent, as the loop uses it."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.choice import ENGINES, chosen_engine
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.engines.cones import PatternDescent
from shallowflow.dynamics.engines.sweeps import DenseDescent
from shallowflow.models.loss import Loss
from tests.dynamics.ticks import steps_made

LOSSES = (sf.SquareLoss(), sf.SquareLoss("sum"), sf.LogisticLoss())


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("epsilon", [1.0, 0.05])
def test_same_steps_as_plain_descent(loss: sf.SquareLoss | sf.LogisticLoss, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    targets = np.sign(rng.standard_normal(7)) if isinstance(loss, sf.LogisticLoss) else rng.standard_normal(7)
    network = sf.ReLUNetwork(
        0.1 * rng.standard_normal((40, 4)), 0.1 * rng.standard_normal(40), slope=0.1, scale=0.5
    )
    dataset = sf.Dataset(rng.standard_normal((7, 4)), targets)
    fast, dense = (
        kind(Task(network, dataset, loss, 2e-3, epsilon)) for kind in (PatternDescent, DenseDescent)
    )
    for steps in (1, 0, 999, 1000):
        assert steps_made(fast, steps) == steps_made(dense, steps) == steps
        np.testing.assert_allclose(flatten(fast.network()), flatten(dense.network()), rtol=1e-10, atol=1e-12)
    assert isinstance(fast, PatternDescent)
    assert fast.statistics()["crossings"]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_loss_is_that_of_the_network_and_asking_changes_nothing(
    loss: sf.SquareLoss | sf.LogisticLoss,
) -> None:
    rng = np.random.default_rng(1)
    targets = np.sign(rng.standard_normal(9))
    network = sf.ReLUNetwork(
        0.1 * rng.standard_normal((60, 3)), 0.1 * rng.standard_normal(60), slope=0.1, scale=0.5
    )
    dataset = sf.Dataset(np.vstack([rng.standard_normal((8, 3)), np.zeros((1, 3))]), targets)
    asked, silent = (PatternDescent(Task(network, dataset, loss, 2e-2, 0.5)) for _ in range(2))
    for steps in (0, 1, 1, 6, 92, 900):
        steps_made(asked, steps)
        steps_made(silent, steps)
        value = loss.value(asked.network().predict(dataset.inputs), dataset.targets)
        assert asked.loss() == pytest.approx(value, rel=1e-12)
    assert asked.network() == silent.network()
    assert asked.statistics() == silent.statistics()


def test_inputs_at_the_origin_only() -> None:
    network = sf.initialize.balanced(3, 2, init_scale=1.0)
    dataset = sf.Dataset(np.zeros((2, 2)), np.ones(2))
    descent = PatternDescent(Task(network, dataset, sf.SquareLoss(), 0.1, 1.0))
    assert steps_made(descent, 100) == 100
    assert descent.network() == network


def test_the_cheapest_engine_by_how_many_neurons_share_a_pattern() -> None:
    rng = np.random.default_rng(0)
    few, many = (sf.Dataset(rng.standard_normal((size, 3)), np.ones(size)) for size in (5, 40))
    plane = sf.Dataset(rng.standard_normal((9, 2)), np.ones(9))

    def name(width: int, dataset: sf.Dataset, steps: int = 10**7, loss: Loss | None = None) -> str:
        network = sf.initialize.balanced(width, dataset.dimension, seed=0)
        task = Task(network, dataset, loss or sf.SquareLoss(), 0.1, 1.0, steps)
        taken = chosen_engine("gradient_descent", "auto", task).func
        return next(row.name for row in ENGINES if row.engine() is taken)

    assert name(50_000, few) == "patterns"
    assert name(100, many) == "fused"
    assert name(100, many, loss=sf.LogisticLoss()) == "fused"
    assert name(10_000, plane) == "cones"


def test_a_knot_network_is_refused() -> None:
    data = sf.Dataset(np.linspace(-1, 1, 5)[:, None], np.ones(5))
    with pytest.raises(sf.InvalidInputError, match=r"'patterns' needs a ReLUNetwork .* got a KnotNetwork"):
        sf.gradient_descent(sf.initialize.he_knots(4), data, step=1e-2, steps=5, engine="patterns")
