"""The census of neurons, and networks whose duplicates are merged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import census, merge_duplicates
from tests.rounding import EPSILON

THREE = sf.data.GENERATORS["three_points"]()


@pytest.fixture(scope="module")
def run() -> sf.Trajectory:
    return sf.gradient_flow(
        sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), THREE, until=200.0, engine="cones"
    )


@pytest.mark.parametrize(
    ("time", "dead", "dormant", "awake", "effective"),
    [(0.0, 74, 126, 0, 0), (6.0, 123, 77, 0, 0), (9.0, 127, 29, 44, 1), (200.0, 128, 10, 62, 1)],
)
def test_three_points_over_time(
    run: sf.Trajectory, time: float, dead: int, dormant: int, awake: int, effective: int
) -> None:
    found = census(run(time), THREE, resting=run.resting(time))  # type: ignore[arg-type]
    counts = [int(part.sum()) for part in (found.dead, found.dormant, found.awake)]
    assert [*counts, found.effective_width] == [dead, dormant, awake, effective]


def brute(network: sf.ReLUNetwork, data: sf.Dataset) -> tuple[list[str], int]:
    """Name every neuron by the definitions, one by one, and count distinct patterns."""
    outputs = network(data.inputs)
    residual = outputs - data.targets
    sizes, names = {}, [""] * network.width
    for j in range(network.width):
        z = data.inputs @ network.inner[j]
        if not np.any(z > 0):
            names[j] = "dead"
        else:
            sizes[j] = abs(network.scale * network.outer[j]) * np.sqrt(np.mean(np.maximum(z, 0) ** 2))
    total = 0.0
    for j in sorted(sizes, key=lambda j: sizes[j]):
        total += sizes[j]
        names[j] = "dormant" if total <= 0.01 * np.sqrt(np.mean(residual**2)) else "awake"
    patterns = {
        (tuple(data.inputs @ network.inner[j] > 0), network.outer[j] > 0)
        for j in range(network.width)
        if names[j] == "awake"
    }
    return names, len(patterns)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_census_is_the_definitions_neuron_by_neuron(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, m, n = rng.integers(1, 5), rng.integers(1, 12), rng.integers(2, 10)
    sizes = 10.0 ** rng.uniform(-5, 0, (m, 1))
    network = sf.ReLUNetwork(
        sizes * rng.standard_normal((m, d)), sizes[:, 0] * rng.standard_normal(m), scale=0.7
    )
    data = sf.Dataset(rng.standard_normal((n, d)), rng.standard_normal(n))
    found = census(network, data)
    names, effective = brute(network, data)
    for j, name in enumerate(names):
        assert [bool(getattr(found, word)[j]) for word in ("dead", "dormant", "awake")] == [
            name == word for word in ("dead", "dormant", "awake")
        ]
    assert found.effective_width == effective
    np.testing.assert_array_equal(
        found.dormant, census(network, data, sf.SquareLoss("sum")).dormant
    )  # the units of the loss do not matter


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1]))
@settings(max_examples=40, deadline=None)
def test_merging_leaves_the_outputs_on_the_data(seed: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    network = sf.ReLUNetwork(rng.standard_normal((30, 2)), rng.standard_normal(30), slope, 0.5)
    data = sf.Dataset(rng.standard_normal((4, 2)), rng.standard_normal(4))
    merged = merge_duplicates(network, data)
    assert merged.width < network.width
    size = 0.5 * np.abs(network.outer) @ np.abs(network.preactivations(data.inputs))
    np.testing.assert_array_less(
        np.abs(merged(data.inputs) - network(data.inputs)), 100 * EPSILON * size + 1e-300
    )
    # One neuron for each pattern and sign, neither more nor fewer.
    keys = {
        (tuple(data.inputs @ w > 0), a > 0)
        for w, a in zip(network.inner, network.outer, strict=True)
        if slope or np.any(data.inputs @ w > 0)
    }
    assert merged.width == len(keys)


def test_a_network_of_dead_neurons_merges_into_one() -> None:
    data = sf.Dataset([[1.0, 1.0]], [1.0])
    merged = merge_duplicates(sf.ReLUNetwork([[-1.0, 0.0], [0.0, -1.0]], [1.0, 1.0]), data)
    assert merged.width == 1
    assert merged(data.inputs) == 0.0


def test_resting_pairs_and_zero_inputs() -> None:
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1.0, 1.0, 1.0])
    found = census(sf.ReLUNetwork([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.0]), data)
    assert found.resting.tolist() == [True, False]
    assert not found.dead.any()


def test_knots_and_log_scales_are_counted_too() -> None:
    curve = sf.data.GENERATORS["curve"]("sin_pi", size=20)
    knots = sf.KnotNetwork([-2.0, 0.0, 2.0], [1.0, 1.0, 1.0])
    assert census(knots, curve).dead.tolist() == [False, False, True]
    tiny = sf.LogScaledNetwork([[1.0, 0.0]], [1.0], [-2000.0])
    assert census(tiny, sf.Dataset([[1.0, 0.0]], [1.0])).dormant.all()


def test_the_logistic_loss_has_dormant_neurons() -> None:
    data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    found = census(sf.ReLUNetwork([[1.0, 1.0], [1e-4, 1e-4]], [1.0, 1e-4]), data, sf.LogisticLoss())
    assert found.dormant.tolist() == [False, True]


def test_networks_of_steps_are_refused() -> None:
    data = sf.Dataset([[0.5]], [1.0])
    with pytest.raises(InvalidInputError, match="must be a ReLUNetwork"):
        census(sf.initialize.uniform_positions(3, sharpness=0.1), data)  # type: ignore[arg-type]
