"""The event 𝓘: exact probability by enumeration, Monte Carlo, Lemma 5; Lemma 7 by integration."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import (
    activation_probability,
    correctly_activated,
    extinction_time,
    fair_activation_probability,
    lemma_5_widths,
    sampled_probability,
    sufficient_width,
)


@pytest.mark.parametrize(("width", "plus", "minus"), [(2, 1, 1), (3, 2, 1), (3, 0, 3), (1, 1, 0)])
def test_the_exact_probability_is_the_count_of_all_sign_patterns(width: int, plus: int, minus: int) -> None:
    size, hits, total = plus + minus, 0, 0
    labels = [1] * plus + [-1] * minus
    for signs in product((1, -1), repeat=width):
        for active in product((0, 1), repeat=width * size):
            gates = np.array(active).reshape(width, size)
            hits += all(any(gates[j, i] and signs[j] == labels[i] for j in range(width)) for i in range(size))
            total += 1
    assert activation_probability(width, plus, minus) == pytest.approx(hits / total, rel=1e-12)


def test_fair_label_signs_average_over_the_labels() -> None:
    width, size = 9, 6
    weights = [comb(size, k) / 2**size for k in range(size + 1)]
    mean = sum(w * activation_probability(width, k, size - k) for k, w in enumerate(weights))
    assert fair_activation_probability(width, size) == pytest.approx(mean, rel=1e-12)


def test_monte_carlo_agrees_on_orthogonal_data_and_is_larger_on_equal_inputs() -> None:
    dataset = orthogonal(20, 22, seed=1)
    plus = int(np.sum(dataset.targets > 0))
    share, error = sampled_probability(dataset, 16, draws=3000, seed=0)
    exact = activation_probability(16, plus, 20 - plus)
    assert abs(share - exact) < 4 * error
    equal = sf.Dataset(np.ones((20, 4)), dataset.targets)
    assert sampled_probability(equal, 16, draws=1000, seed=0)[0] > exact + 0.05


@pytest.mark.parametrize("size", [10, 1000, 100_000])
@pytest.mark.parametrize("epsilon", [0.3, 0.05, 1e-3])
def test_lemma_5_on_orthogonal_data(size: int, epsilon: float) -> None:
    """Both of its rules; the proof of the second fails, but the exact probability obeys it here."""
    few, many = lemma_5_widths(size, epsilon)
    assert fair_activation_probability(int(np.ceil(many)), size) >= 1 - epsilon
    assert fair_activation_probability(int(np.floor(few)), size) <= 1 - epsilon
    width = sufficient_width(size, epsilon)
    assert size * 0.75**width <= epsilon < size * 0.75 ** (width - 1)
    assert fair_activation_probability(width, size) >= 1 - epsilon
    assert width == int(np.log(size / epsilon) / np.log(4 / 3)) + 1


def test_correct_activation_needs_gate_and_sign() -> None:
    network = sf.ReLUNetwork([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    dataset = sf.Dataset([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], [2.0, 3.0, -1.0])
    np.testing.assert_array_equal(correctly_activated(network, dataset), [True, False, True])


@pytest.mark.parametrize("seed", range(3))
def test_wrong_neurons_are_extinct_by_the_stated_time(seed: int) -> None:
    """From small inner weights, where |h| stays below |y|/2 until then."""
    dataset = orthogonal(12, 30, seed=seed)
    drawn = sf.initialize.asymmetric(15, 30, seed=seed)
    network = sf.ReLUNetwork(0.1 * drawn.inner, np.sign(drawn.outer), scale=1 / 15)
    until = extinction_time(network, dataset)
    trajectory = sf.gradient_descent(
        network, dataset, step=15 * until / 1000, steps=1000, record=sf.Record.every(100)
    )
    for time in trajectory.times:
        now = trajectory(time)
        assert np.all(np.abs(now(dataset.inputs) / dataset.targets) <= 0.5)
    end = trajectory.final
    assert isinstance(end, sf.ReLUNetwork)
    wrong = network.outer[:, None] * dataset.targets < 0
    assert np.all(end.preactivations(dataset.inputs)[wrong] <= 1e-6)
    assert np.any(network.preactivations(dataset.inputs)[wrong] > 1e-3)


def test_extinction_needs_wrong_neurons_and_dominance() -> None:
    dataset = sf.Dataset(np.eye(2), [1.0, 1.0])
    assert extinction_time(sf.ReLUNetwork([[1.0, 1.0]], [5.0]), dataset) == 0.0
    assert extinction_time(sf.ReLUNetwork([[1.0, 1.0]], [-1.0]), dataset) == np.inf
    # c = √(9 − 2), the largest z/(|y|‖x‖²) is 1, n = 2.
    assert extinction_time(sf.ReLUNetwork([[1.0, 1.0]], [-3.0]), dataset) == pytest.approx(4 / np.sqrt(7))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidInputError, match="epsilon"):
        sufficient_width(10, 1.0)
    with pytest.raises(InvalidInputError, match="width"):
        sampled_probability(sphere(3, 2), 0)


@pytest.mark.parametrize(("scale", "speed"), [(1.0, 1.0), (0.25, 3.0), (2.0, 0.5)])
def test_extinction_takes_scale_and_speed_into_account(scale: float, speed: float) -> None:
    """While no sample is fitted, ⟨w, x⟩ of a wrong neuron falls by speed·scale·|a||y|/n at least /2 of it."""
    network = sf.ReLUNetwork([[0.1, 0.1]], [-3.0], scale=scale)
    dataset = sf.Dataset(np.eye(2), [1.0, 1.0])
    found = extinction_time(network, dataset, speed=speed)
    c = np.sqrt(9 - 0.02)
    assert found == pytest.approx(4 * 0.1 / (c * scale * speed))
    assert extinction_time(network, dataset) == pytest.approx(4 * 0.1 / (c * scale))
    end = sf.gradient_flow(network, dataset, until=found, speed=speed).final
    assert isinstance(end, sf.ReLUNetwork)
    assert np.all(end.preactivations(dataset.inputs) <= 1e-9)
    early = sf.gradient_flow(network, dataset, until=0.2 * found, speed=speed).final
    assert isinstance(early, sf.ReLUNetwork)
    assert np.all(early.preactivations(dataset.inputs) > 0)
