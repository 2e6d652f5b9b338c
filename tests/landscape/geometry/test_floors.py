"""Floors: known levels, the chain of inequalities, independent least squares, a sampled lower bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import floors, plateau_level
from shallowflow.landscape.geometry.activity import neurons_of
from shallowflow.landscape.geometry.floors import anatomy, feature_floor, pattern_floor

G = sf.data.GENERATORS


def test_on_the_line_the_pattern_floor_is_the_plateau_level() -> None:
    network, data = sf.initialize.he_knots(40, seed=0), G["curve"]("sin_5pi", 100)
    found = floors(network, data)
    assert found.pattern.level == pytest.approx(plateau_level(network, data), rel=1e-12)
    assert found.pattern.level == pytest.approx(0.0139625850424682, rel=1e-12)
    assert found.pattern.rank == 37


def random_state(seed: int, slope: float = 0.0) -> tuple[sf.ReLUNetwork, sf.Dataset]:
    rng = np.random.default_rng(seed)
    d, m, n = int(rng.integers(1, 7)), int(rng.integers(1, 8)), int(rng.integers(3, 40))
    data = sf.Dataset(rng.standard_normal((n, d)), rng.standard_normal(n))
    return sf.ReLUNetwork(rng.standard_normal((m, d)), rng.standard_normal(m), slope, 0.5), data


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1]))
@settings(max_examples=60, deadline=None)
def test_the_chain_holds(seed: int, slope: float) -> None:
    network, data = random_state(seed, slope)
    found = floors(network, data)
    value = sf.SquareLoss().value(network(data.inputs), data.targets)
    slack = 1e-12 * value
    assert found.pattern.level <= found.feature.level + slack
    assert found.feature.level <= value + slack
    if found.cone is not None:
        assert found.pattern.level - slack <= found.cone <= value + slack


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_pattern_floor_is_a_least_squares_distance(seed: int) -> None:
    network, data = random_state(seed)
    found = floors(network, data).pattern
    columns = np.hstack([(data.inputs @ w > 0)[:, None] * data.inputs for w in network.inner])
    best = np.linalg.lstsq(columns, data.targets, rcond=1e-10)[0]
    left = columns @ best - data.targets
    assert found.level == pytest.approx(0.5 * np.mean(left**2), rel=1e-8, abs=1e-20)
    assert found.rank == np.linalg.matrix_rank(columns, tol=1e-8)
    assert found.interpolates == (found.rank == data.size)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_nothing_in_the_same_cones_gets_below_the_cone_floor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = sf.Dataset(rng.standard_normal((8, 2)), rng.standard_normal(8))
    network = sf.ReLUNetwork(rng.standard_normal((4, 2)), rng.standard_normal(4))
    least = floors(network, data).cone
    assert least is not None
    for _ in range(200):
        other = network.inner + rng.standard_normal((4, 2)) * 10.0 ** rng.uniform(-2, 1)
        stays = np.all((other @ data.inputs.T > 0) == (network.inner @ data.inputs.T > 0), axis=1)
        inner = np.where(stays[:, None], other, network.inner)
        tried = sf.ReLUNetwork(inner, network.outer * rng.uniform(0, 3, 4))
        assert sf.SquareLoss().value(tried(data.inputs), data.targets) >= least * (1 - 1e-12)


def test_a_resting_neuron_slides_and_gives_nothing_at_its_point() -> None:
    # Without the rule z = 1e-17 of a resting pair becomes a column of length one.
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    found = floors(sf.ReLUNetwork([[1.0, 1e-17]], [1.0]), data)
    assert found.pattern.rank == 1
    assert found.pattern.level == pytest.approx(0.25)


def test_parts_add_up_and_name_what_is_missing() -> None:
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [2.0, 1.0])
    network = sf.ReLUNetwork([[1.0, -1.0], [-1e-6, 1e-6]], [1.0, 1e-6])
    neurons = neurons_of(network, data)
    value = sf.SquareLoss().value(network(data.inputs), data.targets)
    awake = np.array([True, False])
    levels = [
        feature_floor(neurons, data.targets, 0.5, awake),
        pattern_floor(neurons, data.targets, 0.5, awake),
        pattern_floor(neurons, data.targets, 0.5),
    ]
    parts = anatomy(value, *levels)
    assert parts.total == pytest.approx(value)
    assert parts.outer == pytest.approx(value - 0.25)
    assert parts.turning == 0.0
    assert parts.dormant == pytest.approx(0.25)
    assert parts.interpolates
    assert sum(parts.shares.values()) == pytest.approx(1.0)


def test_units_follow_the_loss_and_others_are_refused() -> None:
    network, data = random_state(5)
    both = [floors(network, data, sf.SquareLoss(kind)) for kind in ("mean", "sum")]
    assert both[1].feature.level == pytest.approx(data.size * both[0].feature.level)
    with pytest.raises(InvalidInputError, match="loss: must be a SquareLoss or None"):
        floors(network, data, sf.LogisticLoss())  # type: ignore[arg-type]
