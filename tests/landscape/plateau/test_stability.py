"""Linear stability against finite differences; averages and stopping by Lemma 3.4; the next passage."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow import landscape
from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.descent import descend_to_rest
from shallowflow.landscape.plateau.levels import next_passage, stability
from shallowflow.landscape.plateau.stationary import macroscopic_data
from shallowflow.models import KnotNetwork, ReLUNetwork, SquareLoss, initialize

SUM = SquareLoss("sum")


def finite_differences(network: KnotNetwork, dataset: Dataset, size: float = 1e-4) -> Floats:
    """Return the eigenvalues of −∇²(½Σ), largest first, by differences of the loss."""
    start = np.concatenate([network.knots, network.outer])

    def loss(theta: Floats) -> float:
        return SUM.value(KnotNetwork(*np.split(theta, 2))(dataset.inputs), dataset.targets)

    steps = size * np.eye(len(start))
    hessian = np.array(
        [
            [
                (loss(start + a + b) - loss(start + a - b) - loss(start - a + b) + loss(start - a - b))
                / (4 * size**2)
                for a in steps
            ]
            for b in steps
        ]
    )
    return np.linalg.eigvalsh(-0.5 * (hessian + hessian.T))[::-1]


@pytest.mark.parametrize("seed", range(5))
def test_eigenvalues_are_those_of_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dataset = Dataset(np.linspace(-1, 1, 12)[:, None], rng.standard_normal(12))
    network = KnotNetwork([-1.2, -0.45, 0.1], rng.standard_normal(3))
    found = stability(network, dataset, SUM)
    np.testing.assert_allclose(found.eigenvalues, finite_differences(network, dataset), atol=1e-5)


def test_a_fully_trained_network_has_no_growing_direction_and_counts_its_centre() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        dataset = Dataset(np.linspace(-1, 1, 20)[:, None], rng.standard_normal(20))
        network = landscape.fully_trained(rng.uniform(-0.9, 0.9, 2), dataset)
        found = stability(network, dataset)
        assert found.stable
        assert found.decaying == landscape.blocks(network, dataset).rank
        assert found.centre == 2 * network.width - found.decaying


def test_a_neuron_with_weight_zero_can_be_a_saddle() -> None:
    """[plateau] §3.2 says that no eigenvalue is positive: false where c = 0."""
    dataset, network = Dataset([[1.0], [2.0]], [2.0, -1.0]), KnotNetwork([0.0], [0.0])
    assert landscape.stationarity(network, dataset).value == 0
    found = stability(network, dataset, SUM)
    np.testing.assert_allclose(found.eigenvalues, [0.1926, -5.1926], atol=1e-4)
    assert not found.stable


def test_a_smaller_set_with_the_same_averages_has_the_same_equilibria() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        dataset = Dataset(np.sort(rng.uniform(-1, 1, 60))[:, None], rng.standard_normal(60))
        network = landscape.fully_trained(rng.uniform(-0.8, 0.8, 3), dataset)
        smaller = macroscopic_data(network, dataset)
        assert smaller.size < 0.3 * dataset.size
        assert landscape.stationarity(network, smaller).largest < 1e-8
        moved = KnotNetwork(network.knots, 1.5 * network.outer)
        here, there = (landscape.stationarity(moved, data) for data in (dataset, smaller))
        size = float(np.abs(here.defects).max())
        np.testing.assert_allclose(here.interpolation[1:], there.interpolation[1:], atol=1e-9 * size)
        np.testing.assert_allclose(here.slope[1:], there.slope[1:], atol=1e-9 * size)


def test_averages_need_an_active_point() -> None:
    with pytest.raises(sf.InvalidInputError, match="no data point"):
        macroscopic_data(KnotNetwork([5.0], [1.0]), Dataset([[0.0], [1.0]], [1.0, 2.0]))


def test_descent_stops_by_the_stationarity_conditions() -> None:
    dataset = Dataset(np.linspace(-1, 1, 20)[:, None], np.linspace(-1, 1, 20) ** 2)
    start = initialize.he_knots(3, seed=1)
    network, steps, found = descend_to_rest(start, dataset, step=0.1, tolerance=1e-10, most=2_000_000)
    assert found.value <= 1e-10
    assert 100 < steps < 2_000_000
    plain = sf.gradient_descent(start, dataset, step=0.1, steps=steps).final
    assert isinstance(plain, KnotNetwork)
    np.testing.assert_allclose(network.knots, plain.knots, rtol=1e-6)
    cut, made, rest = descend_to_rest(start, dataset, step=0.1, tolerance=1e-10, most=50)
    assert (made, cut.width) == (50, 3)
    assert rest.value > 1e-10
    unstable = descend_to_rest(start, dataset, step=1e3, most=10**7)
    assert unstable[1] < 10**7


@pytest.mark.parametrize("seed", range(6))
def test_the_next_passage_is_that_of_the_flow(seed: int) -> None:
    """Extrapolated from the present velocities: right if it comes soon."""
    dataset = Dataset(np.linspace(-1, 1, 2000)[:, None], np.sin(3 * np.linspace(-1, 1, 2000)))
    network = initialize.he_knots(5, seed=seed)
    found = next_passage(network, dataset)
    run = sf.gradient_flow(network, dataset, until=2 * found.time)
    first = run.events[0]
    assert (first.neuron, first.point) == (found.neuron, found.point)
    assert 0.6 < first.time / found.time < 1.4  # velocities change on the way


def test_the_next_passage_of_a_network_in_the_plane() -> None:
    rng = np.random.default_rng(3)
    dataset = Dataset(rng.standard_normal((900, 2)), rng.standard_normal(900))
    network = ReLUNetwork(rng.standard_normal((3, 2)), rng.standard_normal(3))
    found = next_passage(network, dataset)
    run = sf.gradient_flow(network, dataset, until=2 * found.time)
    assert (run.events[0].neuron, run.events[0].point) == (found.neuron, found.point)
    assert run.events[0].time == pytest.approx(found.time, rel=0.1)
    at_rest = ReLUNetwork([[1.0, 0.0]], [0.0])
    still = next_passage(at_rest, Dataset([[1.0, 0.0], [2.0, 0.0]], [0.0, 0.0]))
    assert (still.time, still.neuron) == (np.inf, -1)


def test_e_1_decides_every_passage() -> None:
    """Q₀ before − Q₀ after = ½(⟨Loss, ζ⟩² − ⟨Loss, ψ⟩²), so that (E.1) holds iff the level falls."""
    seen = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        dataset = Dataset(np.linspace(-1, 1, 25)[:, None], rng.standard_normal(25))
        knots = np.sort(rng.uniform(-1, 1, 4))
        after = knots.copy()
        after[1] += rng.choice([-1, 1]) / 12
        found = landscape.exit_condition(
            KnotNetwork(knots, np.ones(4)), KnotNetwork(after, np.ones(4)), dataset, SUM
        )
        if found.applies:
            seen += 1
            change = 0.5 * (found.component**2 - found.component_after**2)
            assert found.level_before - found.level_after == pytest.approx(change, abs=1e-10)
            assert found.falls == (found.level_after < found.level_before)
    assert seen > 20
