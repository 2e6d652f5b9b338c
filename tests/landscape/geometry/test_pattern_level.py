"""Levels of patterns against flows with gates written out (SciPy), least squares and blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow import landscape
from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.geometry.activity import activity
from shallowflow.landscape.geometry.floors import held_span
from shallowflow.models import KnotNetwork, ReLUNetwork, SquareLoss
from tests.rounding import EPSILON, assert_rounded

SUM = SquareLoss("sum")


def frozen_flow_losses(network: ReLUNetwork, dataset: Dataset, until: float) -> Floats:
    """Return ½Σr² along the flow whose gates are held at those of the start."""
    gates = np.where(activity(network, dataset.inputs) > 0, 1.0, network.slope)
    inputs, (m, d) = dataset.inputs, network.inner.shape

    def outputs(state: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        inner, outer = state[: m * d].reshape(m, d), state[m * d :]
        features = gates * (inner @ inputs.T)
        return inner, outer, features, outer @ features - dataset.targets

    def velocity(_: float, state: Floats) -> Floats:
        _inner, outer, features, residual = outputs(state)
        turned = -outer[:, None] * ((gates * residual) @ inputs)
        return np.concatenate([turned.ravel(), -features @ residual])

    start = np.concatenate([network.inner.ravel(), network.outer])
    run = solve_ivp(velocity, (0.0, until), start, "LSODA", rtol=1e-10, atol=1e-12)
    assert run.success
    return np.array([0.5 * float(np.sum(outputs(state)[3] ** 2)) for state in run.y.T])


def check_level(dimension: int, bias: bool, seed: int) -> None:
    """Let the flow of a random network run with its gates held, for as long as the rate of its decay asks."""
    rng = np.random.default_rng(100 * dimension + 10 * bias + seed)
    dataset = Dataset(rng.standard_normal((60, dimension)), rng.standard_normal(60))
    dataset = dataset.with_bias() if bias else dataset
    outer = 3.0 * rng.choice([-1.0, 1.0], 4)
    network = ReLUNetwork(0.5 * rng.standard_normal((4, dataset.dimension)), outer, slope=0.2 * (seed % 2))
    balance = landscape.balance(network).values
    # a_j² − ‖w_j‖² is conserved with gates held, too: L − level falls at 2·min(a_j² − ‖w_j‖²)·s² at least.
    if np.min(balance) < 1:
        network = ReLUNetwork(network.inner / np.sqrt(9 - np.min(balance)), outer, slope=network.slope)
        balance = landscape.balance(network).values
    level = landscape.pattern_level(network, dataset, SUM)
    sizes = np.linalg.svd(held_span(network, dataset), compute_uv=False)
    rate = 2 * float(np.min(balance)) * float(sizes[sizes > 1e-9 * sizes[0]][-1]) ** 2
    losses = frozen_flow_losses(network, dataset, np.log(1e12) / rate)
    assert rate > 0
    assert 0 < level < 0.99 * losses[0]
    assert abs(losses[-1] - level) < 1e-8
    assert losses.min() >= level * (1 - 1e-13)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_with_the_pattern_held_fixed_the_flow_tends_to_the_level_and_never_below(
    dimension: int, bias: bool, seed: int
) -> None:
    check_level(dimension, bias, seed)


@pytest.mark.slow
def test_two_hundred_levels() -> None:
    for dimension in (1, 2, 5):
        for bias in (False, True):
            for seed in range(34):
                check_level(dimension, bias, 1000 + seed)


def test_the_level_of_knots_is_the_plateau_level() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        dataset = Dataset(rng.uniform(-1, 1, (30, 1)), rng.standard_normal(30))
        network = KnotNetwork(rng.uniform(-1.2, 1.2, 6), rng.standard_normal(6))
        level = landscape.plateau_level(network, dataset)
        assert_rounded(landscape.pattern_level(network, dataset), level, 1)
        twin = ReLUNetwork(np.column_stack([np.ones(6), -network.knots]), network.outer)
        with_bias = dataset.with_bias()
        assert_rounded(landscape.pattern_level(twin, with_bias), level, 1000, size=1.0)


def test_a_silent_neuron_leaves_what_it_cannot_see() -> None:
    x = np.linspace(-1.0, 1.0, 21)
    dataset = Dataset(x[:, None], 1.0 + x**2)
    network = ReLUNetwork([[-1.0, 0.05]], [1.0])
    seen = x < 0.05
    line = np.polynomial.Polynomial.fit(x[seen], dataset.targets[seen], 1)
    left = np.where(seen, dataset.targets - line(x), dataset.targets)
    level = landscape.pattern_level(network, dataset.with_bias(), SUM)
    assert_rounded(level, 0.5 * left @ left, 1000)
    reduced = landscape.to_knots([-1.0], [0.05], [1.0], (-1.0, 1.0))
    assert landscape.plateau_level(reduced, dataset, SUM) < 0.01 * level


def test_the_flow_of_one_neuron_ends_at_its_level() -> None:
    x = np.linspace(-1.0, 1.0, 9)
    dataset = Dataset(x[:, None], np.where(x > 0.1, x - 0.1 + 0.2 * x**2, 0.1)).with_bias()
    network = ReLUNetwork([[1.0, -0.1]], [1.0])
    run = sf.gradient_flow(network, dataset, until=300.0)
    final = run.final
    assert isinstance(final, ReLUNetwork)
    assert np.array_equal(activity(network, dataset.inputs), activity(final, dataset.inputs))
    level = landscape.pattern_level(network, dataset)
    assert level > 1e-4
    assert abs(run.losses[-1] - level) < 1e-8
    assert run.losses.min() >= level * (1 - 1e-9)


def test_a_neuron_that_is_held_only_moves_along_the_hyperplane() -> None:
    dataset = Dataset([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [1.0, 2.0, 3.0])
    network = ReLUNetwork([[0.0, 1.0]], [1.0])  # rests on the first point
    # Held: multiples of (0, 1, 1), at best 5/2; merely passing: any function ⟨v, x⟩ on the other two points.
    held = (np.array([0]), np.array([0]))
    assert_rounded(landscape.pattern_level(network, dataset, SUM, resting=held), 0.5 * (1 + 0.5), 100)
    assert_rounded(landscape.pattern_level(network, dataset, SUM), 0.5, 100)


def test_a_held_knot_keeps_its_place() -> None:
    dataset = Dataset([[0.0], [1.0], [2.0]], [5.0, 1.0, 1.0])
    network = KnotNetwork([0.0], [1.0])
    held = (np.array([0]), np.array([0]))
    # c(x) through the origin: best c = 3/5, squares 25 + 0.16 + 0.04.
    assert_rounded(landscape.pattern_level(network, dataset, SUM, resting=held), 0.5 * 25.2, 100)


def test_a_dead_network_leaves_everything() -> None:
    dataset = Dataset([[1.0, 2.0], [2.0, 1.0]], [3.0, 4.0])
    assert landscape.pattern_level(ReLUNetwork([[-1.0, -1.0]], [1.0]), dataset, SUM) == 12.5


def test_levels_are_those_of_least_squares_on_the_span() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        dataset = Dataset(rng.standard_normal((40, 3)), rng.standard_normal(40))
        network = ReLUNetwork(rng.standard_normal((5, 3)), rng.standard_normal(5), slope=0.1)
        gates = np.where(network.preactivations(dataset.inputs) > 0, 1.0, 0.1)
        span = np.hstack([gate[:, None] * dataset.inputs for gate in gates])
        left = dataset.targets - span @ np.linalg.lstsq(span, dataset.targets, rcond=40 * EPSILON)[0]
        assert_rounded(landscape.pattern_level(network, dataset, SUM), 0.5 * left @ left, 4000, size=20.0)


def test_a_level_needs_the_square_loss() -> None:
    dataset = Dataset([[1.0], [2.0]], [1.0, -1.0])
    with pytest.raises(sf.InvalidInputError, match="SquareLoss"):
        landscape.pattern_level(ReLUNetwork([[1.0]], [1.0]), dataset, sf.LogisticLoss())  # type: ignore[arg-type]
