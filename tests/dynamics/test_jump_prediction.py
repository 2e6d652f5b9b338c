"""The jumps foreseen for a finite start, beside the flow and beside Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from tests.dynamics.test_orthogonal_norms import problem


def compare(seed: int, digits: int) -> tuple[bool, bool]:
    """Return whether levels and first jump time of `predict_jumps`, and of Algorithm 1, are within 1 %.

    A level is that of the flow in the middle of the plateau, to 1 % of the first loss.
    """
    network, data = problem(seed, digits)
    limit, scale = sf.saddle_to_saddle(network, data), network.acceleration
    found = sf.predict_jumps(network, data)
    until = 1.5 * max(found.times.max(), limit.jump_times.max() * scale) + 600.0 * data.size
    flow = sf.gradient_flow(network, data, until=until)
    first = sf.jumps(flow, data).times[0]

    def within(times: list[float], levels: list[float], jump: float) -> bool:
        losses = [sf.SquareLoss().value(flow(t).predict(data.inputs), data.targets) for t in times]
        near = np.abs(np.subtract(losses, levels)) <= 0.01 * limit.losses[0]
        return bool(np.all(near)) and abs(jump / first - 1) <= 0.01

    begins, ends, levels = found.plateaus.T
    ours = within((0.5 * (begins + np.minimum(ends, until))).tolist(), levels.tolist(), float(found.times[0]))
    edges = np.concatenate([[0.0], limit.jump_times * scale, [until]])
    middles = (0.5 * (edges[1:] + edges[:-1])).tolist()
    final = flow.final
    assert isinstance(final, sf.LogScaledNetwork)
    np.testing.assert_allclose(found.final.inner, final.to_relu().inner, atol=1e-3)
    np.testing.assert_array_equal(found.unfitted, sf.jumps(flow, data).unfitted)
    return ours, within(middles, limit.losses.tolist(), float(edges[1]))


@pytest.mark.parametrize("digits", [8, 30, 100])
def test_levels_and_first_jump_are_those_of_the_flow_where_the_limit_is_not(digits: int) -> None:
    """Of 199 problems with jumps ours: all, at 10⁻⁸, 10⁻¹⁶, 10⁻³⁰, 10⁻¹⁰⁰; the limit: 4, 11, 44, 177."""
    verdicts = [compare(seed, digits) for seed in range(10)]
    assert all(ours for ours, _ in verdicts)
    if digits <= 30:
        assert sum(limit for _, limit in verdicts) < 8


@pytest.mark.slow
@pytest.mark.parametrize("digits", [8, 16, 30, 100])
def test_levels_and_first_jump_of_two_hundred_problems(digits: int) -> None:
    verdicts = [compare(seed, digits) for seed in range(200) if seed != 34]  # there nothing jumps
    assert all(ours for ours, _ in verdicts)
    assert sum(limit for _, limit in verdicts) < 190


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
