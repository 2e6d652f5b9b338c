"""Descent by cones, by sign patterns and in buckets against plain descent, as the loop uses them."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.generators import three_points
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.cones import ConeDescent
from shallowflow.dynamics.engines.sweeps import DenseDescent
from shallowflow.landscape.early_alignment.ends import least_squares
from shallowflow.models.loss import LogisticLoss, SquareLoss
from tests.dynamics.ticks import steps_made
from tests.rounding import assert_rounded

LOSSES = (SquareLoss(), SquareLoss("sum"), LogisticLoss())


def parameters(engine: ConeDescent | DenseDescent) -> Floats:
    """All parameters of the current network, (m, 3)."""
    network = engine.network()
    assert isinstance(network, sf.ReLUNetwork)
    return np.column_stack([network.inner, network.outer])


def problem(loss: SquareLoss | LogisticLoss, seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """A leaky network with an output factor, on random data."""
    rng = np.random.default_rng(seed)
    targets = rng.standard_normal(7)
    if isinstance(loss, LogisticLoss):
        targets = np.sign(targets)
    network = sf.ReLUNetwork(
        0.1 * rng.standard_normal((40, 2)), 0.1 * rng.standard_normal(40), slope=0.1, scale=0.5
    )
    return network, sf.Dataset(rng.standard_normal((7, 2)), targets)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("epsilon", [1.0, 0.05, 7.0])
def test_same_steps_as_plain_descent(loss: SquareLoss | LogisticLoss, epsilon: float) -> None:
    network, dataset = problem(loss, 0)
    cones = ConeDescent(Task(network, dataset, loss, 2e-3, epsilon))
    dense = DenseDescent(Task(network, dataset, loss, 2e-3, epsilon))
    assert_rounded(parameters(cones), parameters(dense), 4)
    for steps in (1, 2, 0, 997, 1000):
        assert steps_made(cones, steps) == steps_made(dense, steps) == steps
        np.testing.assert_allclose(parameters(cones), parameters(dense), rtol=1e-10, atol=1e-12)
    assert cones.statistics()["crossings"]


def test_a_run_may_be_cut_anywhere() -> None:
    network, dataset = problem(SquareLoss(), 1)
    whole, cut = (ConeDescent(Task(network, dataset, SquareLoss(), 1e-2, 1.0)) for _ in range(2))
    steps_made(whole, 700)
    for steps in (1, 2, 4, 93, 600):
        steps_made(cut, steps)
    np.testing.assert_array_equal(parameters(whole), parameters(cut))
    assert whole.statistics() == cut.statistics()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_loss_is_that_of_the_network_and_asking_changes_nothing(loss: SquareLoss | LogisticLoss) -> None:
    """Chattering neurons, neurons on walls and at zero, two points at the origin."""
    network, dataset = problem(loss, 5)
    inner = network.inner.copy()
    inner[:3], inner[3:5] = 0.0, dataset.inputs[:2] @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    network = network.moved({"inner": inner})
    dataset = sf.Dataset(
        np.vstack([dataset.inputs, -dataset.inputs[:1], np.zeros((2, 2))]),
        np.append(dataset.targets, [1.0, -1.0, 1.0]),
    )
    asked, silent = (ConeDescent(Task(network, dataset, loss, 2e-2, 0.5)) for _ in range(2))
    for steps in (0, 1, 1, 6, 92, 900):
        steps_made(asked, steps)
        steps_made(silent, steps)
        value = loss.value(asked.network().predict(dataset.inputs), dataset.targets)
        assert asked.loss() == pytest.approx(value, rel=1e-12)
    np.testing.assert_array_equal(parameters(asked), parameters(silent))
    assert asked.statistics() == silent.statistics()


def test_the_network_it_returned_stays_as_it_was() -> None:
    network, dataset = problem(SquareLoss(), 2)
    engine = ConeDescent(Task(network, dataset, SquareLoss(), 1e-2, 1.0))
    before = engine.network()
    kept = before.inner.copy(), before.outer.copy()
    steps_made(engine, 50)
    np.testing.assert_array_equal(before.inner, kept[0])
    np.testing.assert_array_equal(before.outer, kept[1])
    assert not np.array_equal(engine.network().outer, kept[1])


def test_inputs_at_the_origin_only() -> None:
    network, _ = problem(SquareLoss(), 3)
    engine = ConeDescent(Task(network, sf.Dataset(np.zeros((2, 2)), [1.0, 2.0]), SquareLoss(), 0.1, 1.0))
    assert steps_made(engine, 10) == 10
    np.testing.assert_array_equal(engine.network().inner, network.inner)


def test_divergence_stops_like_plain_descent() -> None:
    network, dataset = problem(SquareLoss("sum"), 4)
    cones = ConeDescent(Task(network, dataset, SquareLoss("sum"), 30.0, 1.0))
    dense = DenseDescent(Task(network, dataset, SquareLoss("sum"), 30.0, 1.0))
    done = steps_made(cones, 500)
    assert done == steps_made(dense, 500) < 500
    assert np.isfinite(parameters(cones)).all()


def test_two_hundred_thousand_neurons_end_on_the_least_squares_line() -> None:
    """[early_alignment] Theorem 2 at App. B.1's width: the loss ends at 0.0875213675, not at zero."""
    dataset = three_points()
    network = sf.initialize.balanced(200_000, 2, init_scale=1e-3, seed=0)
    engine = ConeDescent(Task(network, dataset, SquareLoss(), 1e-3, 1.0))
    assert steps_made(engine, 2_000_000) == 2_000_000
    trained = engine.network()
    line = least_squares(dataset)
    assert np.abs(trained(dataset.inputs) - dataset.inputs @ line.coefficients).max() < 1e-9
    assert SquareLoss().value(trained(dataset.inputs), dataset.targets) == pytest.approx(
        0.0875213675, abs=1e-10
    )
    # Every neuron crosses about once and is looked at a few times; a step itself looks at nothing.
    statistics = engine.statistics()
    assert int(statistics["crossings"]) < 2 * 200_000
    assert int(statistics["checks"]) < 10 * 200_000
