"""The engine "sliding" as a user calls it: near to the exact engine, and it says where it chose a branch."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import stewart

RECORD = sf.Record.geometric(30, networks=False)


def test_losses_are_near_to_those_of_the_exact_engine_all_along() -> None:
    """Stewart's data of [early_alignment] App. B.2 through two growths, 300 neurons, step 1e-3."""
    data, network = stewart(), sf.initialize.gaussian(300, 2, init_scale=1e-3, seed=1)
    exact, near = (
        sf.gradient_descent(network, data, step=1e-3, steps=150_000, engine=engine, record=RECORD)
        for engine in ("cones", "sliding")
    )
    assert near.statistics["engine"] == "sliding"
    assert np.abs(near.losses - exact.losses).max() < 1e-6
    assert 0 < int(near.statistics["most sliding neurons"]) < 300
    assert int(near.statistics["crossings"]) < int(exact.statistics["crossings"]) / 100


def test_two_valued_events_name_a_neuron_and_its_data_point() -> None:
    data, network = stewart(), sf.initialize.gaussian(2000, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_descent(network, data, step=1e-3, steps=80_000, engine="sliding", record=RECORD)
    assert len(run.events) == int(run.statistics["two-valued"]) > 0
    for event in run.events:
        assert event.kind == "two-valued"
        assert 0 < event.time <= 80.0
        assert 0 <= event.neuron < 2000
    # One whose sign changed last, and that has moved little since, is near its data point's line.
    event = run.events[-1]
    before = network.outer[event.neuron]
    assert np.sign(run.final.parameters["outer"][event.neuron]) != 0
    assert before != run.final.parameters["outer"][event.neuron]
    inner, point = run.final.parameters["inner"][event.neuron], data.inputs[event.point]
    sine = abs(inner @ point) / np.linalg.norm(inner) / np.linalg.norm(point)
    others = np.abs(data.inputs @ inner) / np.linalg.norm(inner) / np.linalg.norm(data.inputs, axis=1)
    assert sine < np.median(others)


def test_without_walls_that_attract_the_iterates_are_those_of_descent() -> None:
    """Positive targets and an active start: nobody crosses."""
    data = sf.Dataset(np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([1.0, 2.0]))
    network = sf.ReLUNetwork(0.1 * np.ones((3, 2)), np.array([0.1, 0.2, 0.3]), slope=0.2)
    exact, near = (
        sf.gradient_descent(network, data, step=1e-2, steps=500, engine=engine, epsilon=0.5)
        for engine in ("dense", "sliding")
    )
    np.testing.assert_allclose(near.losses, exact.losses, rtol=1e-12)
    assert near.events == ()


def test_a_network_that_is_not_in_the_plane_is_refused() -> None:
    network, data = sf.initialize.balanced(4, 3), sf.Dataset(np.eye(3), np.ones(3))
    with pytest.raises(sf.InvalidInputError, match="'sliding' needs a ReLUNetwork on inputs of dimension 2"):
        sf.gradient_descent(network, data, step=1e-2, steps=5, engine="sliding")
