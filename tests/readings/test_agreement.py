"""A run beside its limit: curves, jumps, growth and directions against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.agreement import (
    growth_rates,
    jump_agreement,
    jump_times,
    largest_gap,
    mean_gap,
    misdirections,
)
from shallowflow.readings.jumps import Jumps


def test_gaps_of_two_parabolas() -> None:
    """|t² − t(2 − t)| = 2t|t − 1| on [0, 2]: 4 at the end, ½ within the first half, mean 1."""
    t = np.linspace(0.0, 2.0, 20_001)
    assert largest_gap(t, t**2, t * (2 - t)) == pytest.approx(4.0)
    early = t <= 1
    assert largest_gap(t[early], t[early] ** 2, t[early] * (2 - t[early])) == pytest.approx(0.5)
    assert largest_gap(t, -t, np.zeros_like(t), since=0.5) == pytest.approx(2.0)
    assert mean_gap(t, t**2, t * (2 - t)) == pytest.approx(1.0, rel=1e-6)


def lone_neurons() -> tuple[sf.LogScaledNetwork, sf.Dataset]:
    """Two neurons, each active on one point of its own: labels 4 and 1, growth rates 4/2 and 1/2."""
    network = sf.LogScaledNetwork([[0.8, -0.6], [-0.6, 0.8]], [1.0, 1.0], [-60.0, -60.0])
    return network, sf.Dataset(np.eye(2), [4.0, 1.0])


def test_a_flow_agrees_with_algorithm_1() -> None:
    network, data = lone_neurons()
    limit = sf.saddle_to_saddle(network, data)
    predicted = network.acceleration * limit.predicted_times(network.acceleration)
    flow = sf.gradient_flow(network, data, until=1.2 * float(predicted.max()), tolerance=1e-10)
    found = sf.jumps(flow, data)
    np.testing.assert_allclose(jump_times(found, limit), predicted, rtol=1e-6)
    error, ordered, points = jump_agreement(found, limit, predicted)
    assert error < 1e-6
    assert (ordered, points) == (1.0, 1.0)
    np.testing.assert_allclose(growth_rates(flow, 10.0, 20.0), [2.0, 0.5], rtol=1e-5)
    assert misdirections(flow(20.0), limit.directions(0)).max() < 1e-9


def test_what_does_not_agree_is_counted() -> None:
    """Made-up jumps: the second neuron first, the first one not at all; one of two points by its neuron."""
    network, data = lone_neurons()
    limit = sf.saddle_to_saddle(network, data)
    one = Jumps(np.array([7.0]), np.array([1]), (np.array([1]),), np.array([0]))
    np.testing.assert_array_equal(jump_times(one, limit), [np.nan, 7.0])
    late = np.array([5.0, 6.0])
    assert list(jump_agreement(one, limit, late)) == pytest.approx([1 / 6, 0.0, 0.5])
    turned = Jumps(np.array([1.0, 2.0]), np.array([1, 0]), (np.array([1]), np.array([0])), np.array([], int))
    assert jump_agreement(turned, limit, late).ordered == 0.0
    assert jump_agreement(turned, limit, late).points == 1.0


def test_misdirection_is_one_minus_the_cosine() -> None:
    network = sf.ReLUNetwork([[3.0, 4.0], [0.0, -2.0]], [1.0, 1.0])
    np.testing.assert_allclose(misdirections(network, np.array([[1.0, 0.0], [0.0, 1.0]])), [0.4, 2.0])
