from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from tests.kernels.log_problems import random_problem


def test_the_jump_of_a_lone_neuron_is_where_the_logistic_is_at_half() -> None:
    """u = N/(1 + (N/α² − 1)e^{−2Nt/n}) = N/2 at t = n ln(N/α² − 1)/(2N)."""
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    found = sf.jumps(sf.gradient_flow(network, data, until=100.0, tolerance=1e-10), data)
    assert found.times[0] == pytest.approx((np.log(5.0) + 80.0) / 5.0, abs=1e-8)
    assert found.fitted[0].tolist() == [0, 1]
    assert not found.unfitted.size


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
