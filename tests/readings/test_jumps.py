from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.phases import (
    Jumps,
    growth_rates,
    jump_agreement,
    jump_times,
    misdirections,
)
from tests.kernels.orthogonal.log_problems import random_problem


def test_the_jump_of_a_lone_neuron_is_where_the_logistic_is_at_half() -> None:
    """u = N/(1 + (N/α² − 1)e^{−2Nt/n}) = N/2 at t = n ln(N/α² − 1)/(2N)."""
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    found = sf.jumps(sf.gradient_flow(network, data, until=100.0, tolerance=1e-10), data)
    assert found.times[0] == pytest.approx((np.log(5.0) + 80.0) / 5.0, abs=1e-8)
    assert found.fitted[0].tolist() == [0, 1]
    assert not found.unfitted.size


@pytest.mark.parametrize("threshold", [0.1, 0.9])
def test_at_another_threshold_it_is_where_the_logistic_is_there(threshold: float) -> None:
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    run = sf.gradient_flow(network, data, until=100.0, tolerance=1e-10)
    found = sf.jumps(run, data, threshold=threshold)
    shift = np.log(threshold / (1 - threshold)) / 5.0
    assert found.times[0] == pytest.approx((np.log(5.0) + 80.0) / 5.0 + shift, abs=1e-7)
    with pytest.raises(sf.InvalidInputError, match=r"threshold: must lie in \(0, 1\), got 2"):
        sf.jumps(run, data, threshold=2.0)


def test_flow_descent_and_plain_network_jump_alike() -> None:
    network, data = random_problem(8, 5, 3, log_scale=-15.0)
    until, step = 200.0, 0.01
    flow = sf.jumps(sf.gradient_flow(network, data, until=until), data)
    run = sf.gradient_descent(network, data, step=step, steps=round(until / step), record=sf.Record.every(50))
    descent = sf.jumps(run, data)
    plain = sf.jumps(
        sf.gradient_descent(network.to_relu(), data, step=step, steps=20_000, record=sf.Record.every(50)),
        data,
    )
    assert len(flow.times) >= 2
    for other in (descent, plain):
        assert other.neurons.tolist() == flow.neurons.tolist()
        np.testing.assert_allclose(other.times, flow.times, rtol=2e-3)
        assert [p.tolist() for p in other.fitted] == [p.tolist() for p in flow.fitted]
        assert other.unfitted.tolist() == flow.unfitted.tolist()


def test_other_networks_are_refused() -> None:
    data = sf.Dataset([[0.0], [1.0]], [0.0, 1.0])
    run = sf.gradient_descent(sf.KnotNetwork([0.0], [1.0]), data, step=0.1, steps=2)
    with pytest.raises(sf.InvalidInputError, match="must be that of a ReLU network"):
        sf.jumps(run, data)


def test_a_label_of_zero_belongs_to_no_neuron() -> None:
    network = sf.ReLUNetwork(1e-3 * np.eye(3), 1e-3 * np.ones(3))
    data = sf.Dataset(np.eye(3), [0.0, 1.0, 2.0])
    found = sf.jumps(sf.gradient_flow(network, data, until=100.0), data)
    assert found.neurons.tolist() == [2, 1]
    assert [points.tolist() for points in found.fitted] == [[2], [1]]
    assert found.unfitted.tolist() == []


def test_arguments_of_another_kind_are_refused() -> None:
    data = sf.Dataset(np.eye(2), [1.0, 2.0])
    trajectory = sf.gradient_flow(sf.ReLUNetwork([[1.0, 1.0]], [1.0]), data, until=1.0)
    with pytest.raises(sf.InvalidInputError, match="trajectory: must be a Trajectory, got 'a'"):
        sf.jumps("a", data)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="dataset: must be a Dataset, got None"):
        sf.jumps(trajectory, None)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="dataset: inputs must have the network's dimension 2"):
        sf.jumps(trajectory, sf.Dataset([[1.0]], [1.0]))


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
