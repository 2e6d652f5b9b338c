"""The jumps foreseen for a finite start, beside the flow and beside Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from tests.dynamics.jump_problems import any_norms, within_one_percent


@pytest.mark.parametrize("digits", [8, 30, 100])
def test_levels_and_first_jump_are_those_of_the_flow_where_the_limit_is_not(digits: int) -> None:
    verdicts = [within_one_percent(seed, digits) for seed in range(10)]
    assert all(ours for ours, *_ in verdicts)
    if digits <= 30:
        assert sum(limit for _, limit, _ in verdicts) < 8


@pytest.mark.slow
@pytest.mark.parametrize("digits", [8, 16, 30, 100])
def test_levels_and_first_jump_of_200_problems(digits: int) -> None:
    assert all(within_one_percent(seed, digits)[0] for seed in range(200))


@pytest.mark.parametrize(("seed", "digits"), [(0, 8), (3, 16), (5, 30), (34, 8)])
def test_the_end_of_the_flow_is_foreseen(seed: int, digits: int) -> None:
    network, data = any_norms(seed, digits)
    found = sf.predict_jumps(network, data)
    until = 1.5 * float(np.max(found.times, initial=network.acceleration)) + 600.0 * data.size
    flow = sf.gradient_flow(network, data, until=until)
    final = flow.final
    assert isinstance(final, sf.LogScaledNetwork)
    np.testing.assert_allclose(found.final.inner, final.to_relu().inner, atol=1e-3)
    np.testing.assert_array_equal(found.unfitted, sf.jumps(flow, data).unfitted)


def test_lone_jumps_are_those_of_the_corrected_limit() -> None:
    """α = 10⁻³⁰⁰⁰: nothing merges, and the times are those of first order."""
    data = sf.data.GENERATORS["orthonormal"](12, seed=4)
    network = sf.initialize.log_scaled(6, 12, log_scale=-3000 * np.log(10.0), seed=4)
    limit, found = sf.saddle_to_saddle(network, data), sf.predict_jumps(network, data)
    assert found.merged == 0
    scale = network.acceleration
    np.testing.assert_allclose(found.times, np.sort(limit.predicted_times(scale)) * scale, rtol=1e-12)
    np.testing.assert_allclose(found.losses, limit.losses, atol=1e-14)
    np.testing.assert_allclose(found.final.inner, limit.final.inner, atol=1e-12)
    assert np.all(found.begins < found.times)
    assert np.all(found.times < found.ends)


def test_where_nothing_jumps_there_is_one_plateau() -> None:
    found = sf.predict_jumps(sf.ReLUNetwork([[1e-9, 0.0]], [-1e-9]), sf.Dataset([[1.0, 0.0]], [2.0]))
    assert found.times.shape == (0,)
    np.testing.assert_array_equal(found.plateaus, [[0.0, np.inf, 2.0]])


def test_other_networks_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="slope 0 and scale 1"):
        sf.predict_jumps(sf.ReLUNetwork([[1.0]], [1.0], slope=0.1), sf.Dataset([[1.0]], [1.0]))
    with pytest.raises(sf.InvalidInputError, match="predict_jumps needs orthogonal inputs"):
        sf.predict_jumps(sf.ReLUNetwork([[1.0, 0.0]], [1.0]), sf.Dataset([[1, 0], [1, 1]], [1.0, 1.0]))
