"""Escapes: moves that keep their promises, the cure by the anatomy, never a higher loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics import escape
from shallowflow.dynamics.escape import stable_step
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import floors
from tests.rounding import EPSILON

SQUARE = sf.SquareLoss()


def sine(seed: int, count: int = 80) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, count)
    data = sf.Dataset(x[:, None], np.sin(5 * np.pi * x)).with_bias()
    network = sf.ReLUNetwork(rng.uniform(-1, 1, (30, 2)), rng.uniform(-1, 1, 30) / np.sqrt(30))
    run = sf.gradient_descent(network, data, step=stable_step(network, data) / 3, steps=3000)
    assert isinstance(run.final, sf.ReLUNetwork)
    return run.final, data


def value(network: sf.ReLUNetwork | sf.KnotNetwork, data: sf.Dataset) -> float:
    return SQUARE.value(network(data.inputs), data.targets)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_rebalancing_leaves_the_function(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-3, 3, (6, 1))
    network = sf.ReLUNetwork(sizes * rng.standard_normal((6, 3)), rng.standard_normal(6), scale=0.3)
    balanced = escape.rebalance(network)
    x = rng.standard_normal((20, 3))
    # A preactivation near zero is rounded by the size of its terms, not by its own.
    size = 0.3 * np.abs(x) @ np.abs(network.inner).T @ np.abs(network.outer)
    assert np.all(np.abs(balanced(x) - network(x)) <= 50 * EPSILON * size)
    np.testing.assert_allclose(np.linalg.norm(balanced.inner, axis=1), np.abs(balanced.outer), rtol=1e-14)


def test_the_outer_layer_is_solved_up_to_its_ridge() -> None:
    network, data = sine(0)
    floor = floors(network, data).feature.level
    losses = [value(escape.solve_outer(network, data, ridge), data) for ridge in (1e-1, 1e-3, 1e-6, 1e-14)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(floor, rel=1e-3)
    # By the normal equations, independently.
    features = np.maximum(data.inputs @ network.inner.T, 0)
    rms = np.sqrt(np.mean(features**2, axis=0))
    residual = network(data.inputs) - data.targets
    live = rms > 0
    matrix = features[:, live].T @ features[:, live] / data.size + 1e-3 * np.diag(rms[live] ** 2)
    change = np.linalg.solve(matrix, -features[:, live].T @ residual / data.size)
    solved = escape.solve_outer(network, data, 1e-3)
    np.testing.assert_allclose(solved.outer[live] - network.outer[live], change, rtol=1e-6, atol=1e-9)


def test_the_direction_pulls_at_least_as_much_as_any_of_many() -> None:
    rng = np.random.default_rng(1)
    data = sf.Dataset(rng.standard_normal((20, 3)), rng.standard_normal(20))
    network = sf.ReLUNetwork(0.1 * rng.standard_normal((4, 3)), rng.standard_normal(4))
    residual = network(data.inputs) - data.targets

    def gains(directions: Floats) -> Floats:
        outputs = np.maximum(directions @ data.inputs.T, 0)
        return np.asarray((outputs @ residual) ** 2 / np.maximum(np.sum(outputs**2, axis=1), 1e-300))

    direction, weight = escape.directed(network, data, np.random.default_rng(0))
    many = rng.standard_normal((20_000, 3))
    assert gains(direction[None])[0] >= 0.9 * gains(many / np.linalg.norm(many, axis=1)[:, None]).max()
    wider = escape.with_neuron(network, direction, weight)
    fall = value(network, data) - value(wider, data)
    assert fall == pytest.approx(float(gains(direction[None])[0]) / (2 * data.size), rel=1e-9)


def test_a_directed_neuron_is_active_on_more_points_than_it_has_weights() -> None:
    # One wild label at the edge: without a rule the best direction is active on it alone.
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.uniform(-1, 1, (100, 2)), np.ones(100)])
    inputs[0] = [1.2, 1.2, 1.0]
    targets = 0.01 * rng.standard_normal(100)
    targets[0] = 5.0
    data = sf.Dataset(inputs, targets)
    network = sf.ReLUNetwork([[0.0, 0.0, 1.0]], [0.0])
    direction, weight = escape.directed(network, data, np.random.default_rng(0))
    assert weight != 0.0
    assert np.sum(inputs @ direction > 0) >= 4


def test_the_cheapest_neuron_is_the_one_that_a_refit_misses_least() -> None:
    network, data = sine(1)
    network = escape.solve_outer(network, data, 1e-3)
    live = np.any(data.inputs @ network.inner.T > 0, axis=0)
    network = escape.without_neuron(network, ~live)
    chosen = escape.cheapest(network, data)
    costs = []
    for j in range(network.width):
        rest = escape.without_neuron(network, np.arange(network.width) == j)
        costs.append(value(escape.solve_outer(rest, data, 1e-3), data))
    assert costs[chosen] <= np.quantile(costs, 0.1)


def test_thirty_levenberg_marquardt_steps_beat_three_hundred_of_descent() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (100, 2))
    data = sf.Dataset(x, np.sin(3 * x[:, 0]) * x[:, 1]).with_bias()
    network = sf.initialize.gaussian(15, 3, init_scale=1.0, seed=0)
    for one in (data, sf.Dataset(data.inputs[:30], data.targets[:30])):
        found = escape.levenberg_marquardt(network, one)
        plain = sf.gradient_descent(network, one, step=stable_step(network, one), steps=300)
        assert value(found, one) < plain.losses[-1]


def test_a_stuck_network_only_grows() -> None:
    data = sf.data.GENERATORS["three_points"]()
    start = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    stuck = sf.gradient_flow(start, data, until=200.0, engine="cones").final
    assert isinstance(stuck, sf.ReLUNetwork)
    for move in ("outer", "turn", "recycle"):
        if move != "recycle":
            assert sf.escape(stuck, data, move=move).after > 0.99 * value(stuck, data)
    found = sf.escape(stuck, data)
    assert [move.name for move in found.moves] == ["grow"]
    assert found.after < 1e-6
    assert found.network.width > 200
    same = sf.escape(stuck, data, keep_width=True)
    assert same.network.width == 200
    assert same.moves[-1].name == "prune"
    assert same.after < 0.1 * found.before


CURES = {
    "outer": ["outer", "recycle"],
    "turn": ["turn"],
    "wait": ["recycle"],
    "recycle": ["recycle"],
    "grow": ["grow"],
}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_moves_are_those_of_the_diagnosis_and_say_what_they_did(seed: int) -> None:
    network, data = sine(seed)
    x = np.random.default_rng(5).uniform(-1, 1, 200)
    new = sf.Dataset(x[:, None], np.sin(5 * np.pi * x)).with_bias()
    found = sf.escape(network, data, held_out=new)
    assert [move.name for move in found.moves] == CURES[sf.diagnose(network, data).cure]
    assert found.before == pytest.approx(value(network, data))
    assert found.after == pytest.approx(value(found.network, data))
    assert found.after < found.before
    if found.moves[0].name == "outer":
        assert found.moves[0].expected == pytest.approx(floors(network, data).feature.level)
        assert found.moves[0].after >= floors(network, data).feature.level
    assert found.moves[-1].held_out is not None
    assert found.moves[-1].held_out[1] == pytest.approx(value(found.network, new))
    assert found.network.width == network.width
    assert "held out" in found.text()
    # Descent goes on from there, stable at the step that is given.
    run = sf.gradient_descent(found.network, data, step=found.step, steps=300)
    assert run.losses[-1] <= found.after


@pytest.mark.parametrize("move", ["outer", "recycle", "turn", "grow"])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_move_raises_the_loss(move: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = sf.Dataset(rng.standard_normal((40, 4)), rng.standard_normal(40))
    network = sf.initialize.gaussian(6, 4, init_scale=1.0, slope=0.1 * seed, seed=seed)
    found = sf.escape(network, data, move=move, seed=seed)
    assert found.after <= value(network, data)
    assert found.after == pytest.approx(value(found.network, data))


def test_dead_networks_are_brought_back() -> None:
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 2.0])
    dead = sf.ReLUNetwork([[-1.0, -1.0]] * 5, [1.0] * 5)
    found = sf.escape(dead, data, move="recycle")
    assert found.after < 0.1 * found.before
    single = sf.escape(sf.ReLUNetwork([[-1.0, -1.0]], [1.0]), data, move="recycle")
    assert single.network.width == 1
    assert single.after < single.before


def test_knots_are_moved_by_anls() -> None:
    data = sf.data.GENERATORS["curve"]("sin_5pi", 100)
    found = sf.escape(sf.initialize.he_knots(40, seed=0), data, held_out=data)
    assert [move.name for move in found.moves] == ["anls"]
    assert found.after < 0.01 * found.before
    assert found.moves[0].held_out == (found.before, found.after)


def test_what_escape_refuses() -> None:
    network, data = sf.ReLUNetwork([[1.0]], [1.0]), sf.Dataset([[1.0]], [1.0])
    with pytest.raises(InvalidInputError, match="move: must be one of auto"):
        sf.escape(network, data, move="jump")
    with pytest.raises(InvalidInputError, match="neurons: must be >= 1"):
        sf.escape(network, data, neurons=0)
    with pytest.raises(InvalidInputError, match="held_out"):
        sf.escape(network, data, held_out=sf.Dataset([[1.0, 1.0]], [1.0]))
