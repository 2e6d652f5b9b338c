"""What a loss is made of, against least squares; frozen inner layers, against steps made one by one."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.plateau.levels import frozen_losses, loss_parts
from shallowflow.models import KnotNetwork, ReLUNetwork, SquareLoss
from tests.rounding import assert_rounded


def knots(seed: int, width: int = 5) -> tuple[KnotNetwork, Dataset]:
    rng = np.random.default_rng(seed)
    dataset = Dataset(rng.uniform(-1, 1, (20, 1)), rng.standard_normal(20))
    return KnotNetwork(rng.uniform(-1.2, 0.8, width), rng.standard_normal(width)), dataset


def features(network: KnotNetwork | ReLUNetwork, dataset: Dataset) -> Floats:
    return np.maximum(network.preactivations(dataset.inputs).T, 0.0)


@pytest.mark.parametrize("seed", range(10))
def test_the_parts_add_up_and_are_not_negative(seed: int) -> None:
    network, dataset = knots(seed)
    parts = loss_parts(network, dataset)
    loss = SquareLoss().value(network(dataset.inputs), dataset.targets)
    assert_rounded(parts.total, loss, 1000)
    assert min(parts.shares) >= 0
    assert sum(parts.shares) == pytest.approx(1.0)
    matrix = features(network, dataset)
    best = np.linalg.lstsq(matrix, dataset.targets)[0]
    least = SquareLoss().value(matrix @ best, dataset.targets)
    assert_rounded(parts.pattern + parts.places, least, 10_000)
    assert_rounded(parts.pattern, sf.landscape.plateau_level(network, dataset), 10)


@pytest.mark.parametrize("seed", range(3))
def test_frozen_losses_are_those_of_descent_on_the_outer_weights(seed: int) -> None:
    network, dataset = knots(seed)
    matrix, outer, step = features(network, dataset), network.outer.copy(), 0.1
    losses = []
    for _ in range(50):
        residual = matrix @ outer - dataset.targets
        losses.append(0.5 * float(residual @ residual) / 20)
        outer -= step * matrix.T @ residual / 20
    found = frozen_losses(network, dataset, step * np.arange(50), step=step)
    assert_rounded(found, losses, 10_000)


def test_the_frozen_flow_is_descent_with_small_steps() -> None:
    network, dataset = knots(0)
    exact = frozen_losses(network, dataset, [3.0])
    errors = [abs(frozen_losses(network, dataset, [3.0], step=step)[0] - exact[0]) for step in (0.02, 0.01)]
    assert errors[1] < 0.6 * errors[0] < 1e-2 * exact[0]


def test_the_parts_of_a_network_in_the_plane() -> None:
    rng = np.random.default_rng(1)
    dataset = Dataset(rng.standard_normal((30, 2)), rng.standard_normal(30))
    network = ReLUNetwork(rng.standard_normal((4, 2)), rng.standard_normal(4), scale=0.5)
    parts = loss_parts(network, dataset, SquareLoss("sum"))
    assert_rounded(parts.total, SquareLoss("sum").value(network(dataset.inputs), dataset.targets), 1000)
    assert parts.pattern == sf.landscape.pattern_level(network, dataset, SquareLoss("sum"))


def test_other_networks_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="KnotNetwork or ReLUNetwork"):
        frozen_losses(sf.initialize.uniform_positions(3, sharpness=0.1), knots(0)[1], [1.0])  # type: ignore[arg-type]


def test_the_next_passage_is_of_networks_with_kinks() -> None:
    other, data = sf.initialize.log_scaled(3, 2, log_scale=-5.0), sf.Dataset([[1.0, 0.0]], [1.0])
    with pytest.raises(sf.InvalidInputError, match="network: must be a KnotNetwork or ReLUNetwork"):
        sf.landscape.next_passage(other, data)  # type: ignore[arg-type]
