"""Algorithm 1: beside a slow twin, by hand, and as the limit of the flow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.arrays import Bools, Floats
from shallowflow.landscape.incremental import jump_process
from tests.dynamics.jump_problems import Comparison, compare

ENOUGH = 16.0
"""gap × ln(1/α) from which order, fitted sets and parameters (to 1e-6) are those of the limit."""


def by_sets(mask: Bools, targets: Floats) -> list[tuple[float, int, set[int]]]:
    """Algorithm 1 with Python sets, one neuron at a time, twins kept (they tie; the first wins)."""
    n, m = mask.shape
    left, rho, waiting, now = set(range(n)), [-1.0] * m, set(range(m)), 0.0
    jumps: list[tuple[float, int, set[int]]] = []
    while True:
        own = {j: {k for k in left if mask[k, j]} for j in waiting}
        rate = {j: sum(targets[k] ** 2 for k in own[j]) ** 0.5 / n for j in waiting if own[j]}
        if not rate:
            return jumps
        j = min(rate, key=lambda i: (-rho[i] / rate[i], i))
        wait = -rho[j] / rate[j]
        now += wait
        for i, growth in rate.items():
            rho[i] += growth * wait
        jumps.append((now, j, own[j]))
        waiting.remove(j)
        left -= own[j]


@given(n=st.integers(1, 12), m=st.integers(1, 8), seed=st.integers(0, 10_000))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_the_process_is_that_of_the_slow_twin(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    targets, signs = rng.standard_normal(n), rng.choice([-1.0, 1.0], m)
    mask = (rng.random((n, m)) < 0.5) & (signs * targets[:, None] > 0)
    process, slow = jump_process(mask, targets), by_sets(mask, targets)
    np.testing.assert_allclose(process.jump_times, [time for time, _, _ in slow], rtol=1e-12)
    assert process.neurons.tolist() == [j for _, j, _ in slow]
    assert [set(points.tolist()) for points in process.fitted] == [points for _, _, points in slow]
    done = set().union(*(points for _, _, points in slow))
    assert set(process.unfitted.tolist()) == set(range(n)) - done
    norm = sum(2 * np.sqrt(sum(targets[k] ** 2 for k in points)) for _, _, points in slow)
    assert process.squared_norm == pytest.approx(norm)


def by_hand() -> tuple[sf.ReLUNetwork, sf.Dataset]:
    """Neuron 0 sees points 0 and 1, neuron 1 points 1 and 2, neuron 2 (negative) point 3."""
    inner = [[1.0, 1.0, -1.0, -1.0], [-1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0]]
    return sf.ReLUNetwork(inner, [2.0, 2.0, -2.0]), sf.Dataset(np.eye(4), [3.0, 4.0, 2.0, -1.0])


def test_three_neurons_by_hand() -> None:
    """Rates 5/4, √20/4, 1/4; after the first jump, at 4/5, neuron 1 has only point 2 left, rate 2/4."""
    network, data = by_hand()
    limit = sf.saddle_to_saddle(network, data)
    at_first = -1.0 + np.sqrt(20) / 4 * 0.8
    second = 0.8 - at_first / 0.5
    np.testing.assert_allclose(limit.jump_times, [0.8, second, 4.0], rtol=1e-14)
    assert limit.neurons.tolist() == [0, 1, 2]
    assert [points.tolist() for points in limit.process.fitted] == [[0, 1], [2], [3]]
    np.testing.assert_allclose(limit.process.exponents[1], [0.0, at_first, -0.8], rtol=1e-13)
    np.testing.assert_allclose(limit.process.rates[1], [0.0, 0.5, 0.25], rtol=1e-14)
    np.testing.assert_allclose(limit.losses, [30 / 8, 5 / 8, 1 / 8, 0.0], atol=1e-14)
    np.testing.assert_allclose(limit.process.gaps, [-at_first, np.inf, np.inf], rtol=1e-13)
    np.testing.assert_allclose(limit.process.settling, [0.5 * (second - 0.8), np.inf, np.inf], rtol=1e-12)
    np.testing.assert_allclose(limit.final(data.inputs), data.targets, rtol=1e-14)
    np.testing.assert_allclose(limit.final.outer, [np.sqrt(5.0), np.sqrt(2.0), -1.0], rtol=1e-14)
    norms = np.linalg.norm(limit.final.inner, axis=1)
    np.testing.assert_allclose(norms, np.abs(limit.final.outer), rtol=1e-14)
    assert limit.process.squared_norm == pytest.approx(2 * (5 + 2 + 1))
    assert limit.interpolates
    assert limit.outcome.status == "converged"
    assert [(event.kind, event.neuron) for event in limit.events] == [("jump", 0), ("jump", 1), ("jump", 2)]


def test_the_network_in_time_is_constant_between_jumps() -> None:
    network, data = by_hand()
    limit = sf.saddle_to_saddle(network, data)
    assert not limit(0.79).outer.any()
    assert limit(0.8) == limit.saddle(1)
    assert limit(float(np.nextafter(0.8, 0.0))) == limit.saddle(0)
    assert limit(0.81) == limit.saddle(1)
    assert limit(100.0) == limit.final


def test_exponents_and_directions_in_between() -> None:
    network, data = by_hand()
    limit = sf.saddle_to_saddle(network, data)
    np.testing.assert_allclose(limit.exponents(0.4), [-0.5, -1 + np.sqrt(20) / 10, -0.9], rtol=1e-13)
    np.testing.assert_allclose(limit.exponents(0.8), limit.process.exponents[1], atol=1e-14)
    np.testing.assert_allclose(limit.exponents(100.0), 0.0, atol=1e-14)
    np.testing.assert_allclose(limit.directions(0)[0], [0.6, 0.8, 0.0, 0.0], rtol=1e-14)
    np.testing.assert_allclose(
        limit.directions(0)[1], np.array([0.0, 2.0, 1.0, 0.0]) / np.sqrt(5), rtol=1e-14
    )
    np.testing.assert_allclose(limit.directions(1)[:2], [[0.0] * 4, [0.0, 0.0, 1.0, 0.0]], atol=1e-14)


def test_the_scale_of_the_network_does_not_matter() -> None:
    network, data = by_hand()
    tiny = sf.LogScaledNetwork(network.inner, network.outer, np.full(3, -5000.0))
    first, second = sf.saddle_to_saddle(network, data), sf.saddle_to_saddle(tiny, data)
    np.testing.assert_array_equal(first.jump_times, second.jump_times)
    np.testing.assert_allclose(first.corrections, second.corrections, rtol=1e-12)


def test_twins_share_the_norm_of_one_neuron_as_the_flow_does() -> None:
    inner = np.array([[0.8, 0.1, -0.3], [0.2, 0.9, -0.1], [-0.5, -0.5, 0.6]])
    inner /= np.linalg.norm(inner, axis=1, keepdims=True)
    network = sf.LogScaledNetwork(inner, np.ones(3), [-3000.0, -3000.5, -3000.0])
    data = sf.Dataset(np.eye(3), [1.0, 2.0, 0.5])
    limit = sf.saddle_to_saddle(network, data)
    assert limit.process.groups.tolist() == [0, 0, 2]
    assert limit.neurons.tolist() == [0, 2]
    until = 1.2 * float(limit.jump_times[-1]) * network.acceleration
    final = sf.gradient_flow(network, data, until=until, tolerance=1e-10).final
    assert isinstance(final, sf.LogScaledNetwork)
    np.testing.assert_allclose(final.to_relu().inner, limit.final.inner, atol=1e-9)
    np.testing.assert_allclose(final.to_relu().outer, limit.final.outer, atol=1e-9)
    assert 0.1 < limit.shares[1] < 0.9


def test_ties_are_reported() -> None:
    network = sf.ReLUNetwork([[1.0, -1.0], [-1.0, 1.0]], [1.0, 1.0])
    limit = sf.saddle_to_saddle(network, sf.Dataset(np.eye(2), [1.0, 1.0]))
    assert limit.process.ties == (0,)
    assert "Ties" in limit.outcome.message


def test_points_without_a_neuron_are_named() -> None:
    limit = sf.saddle_to_saddle(sf.ReLUNetwork([[1.0, -1.0]], [1.0]), sf.Dataset(np.eye(2), [1.0, 1.0]))
    assert limit.process.unfitted.tolist() == [1]
    assert not limit.interpolates
    assert limit.outcome.status == "stalled"
    assert "[1]" in limit.outcome.message


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (np.eye(2), [1.0, 0.0], "labels must not be zero, got 1 zero labels, the first at index 1"),
        ([[1.0, 0.0], [0.1, 1.0]], [1.0, 1.0], "needs orthogonal inputs, got a cosine of 0.1"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [1.0, 1.0], "inputs must have the network's dimension 2"),
    ],
)
def test_wrong_data_are_refused(inputs: Floats, targets: list[float], message: str) -> None:
    with pytest.raises(sf.InvalidInputError, match=message):
        sf.saddle_to_saddle(sf.ReLUNetwork([[1.0, 1.0]], [1.0]), sf.Dataset(inputs, targets))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (sf.ReLUNetwork([[1.0, 1.0]], [0.0]), "outer weights must not be zero, got 0 at index 0"),
        (sf.ReLUNetwork([[0.0, 0.0]], [1.0]), "inner weights must not vanish, got 0 at index 0"),
        (sf.ReLUNetwork([[1.0, 1.0]], [1.0], slope=0.1), "needs slope 0 and scale 1"),
        (sf.KnotNetwork([0.0], [1.0]), "must be a ReLUNetwork or LogScaledNetwork"),
    ],
)
def test_wrong_networks_are_refused(network: sf.ReLUNetwork, message: str) -> None:
    with pytest.raises(sf.InvalidInputError, match=message):
        sf.saddle_to_saddle(network, sf.Dataset(np.eye(2), [1.0, 1.0]))


def test_a_hundred_thousand_points() -> None:
    rng = np.random.default_rng(0)
    n, m = 100_000, 65
    targets, signs = rng.standard_normal(n), rng.choice([-1.0, 1.0], m)
    process = jump_process((rng.random((n, m)) < 0.5) & (signs * targets[:, None] > 0), targets)
    assert process.interpolates
    assert sorted(np.concatenate(process.fitted).tolist()) == list(range(n))
    assert np.all(np.diff(process.jump_times) > 0)


def judge(runs: list[list[Comparison]]) -> list[float]:
    """Check what must hold of every problem; return the slopes of time error against ln(1/α).

    Once gap × ln(1/α) is large: order, fitted sets and parameters. The first-order correction needs neurons
    that settle between jumps besides; where they do not, it has been seen to leave a tenth of the error.
    """
    slopes = []
    for problem in runs:
        for run in problem:
            if run.gap * run.acceleration >= ENOUGH:
                assert run.same_jumps
                assert run.parameter_error < 1e-6
                if run.settling * run.acceleration >= ENOUGH:
                    assert run.corrected_error < 1e-4 * run.time_error
        errors = np.array([run.time_error for run in problem])
        if np.isfinite(errors).all():
            ln = np.log([run.acceleration for run in problem])
            slopes.append(float(np.polyfit(ln, np.log(errors), 1)[0]))
    return slopes


def test_the_flow_tends_to_the_limit() -> None:
    slopes = judge([[compare(seed, digits) for digits in (30, 300, 3000)] for seed in range(6)])
    assert len(slopes) >= 5
    assert np.median(slopes) == pytest.approx(-1.0, abs=0.05)


@pytest.mark.slow
def test_the_flow_tends_to_the_limit_on_200_problems() -> None:
    scales = (30, 100, 300, 1000, 3000)
    runs = [[compare(seed, digits) for digits in scales] for seed in range(200)]
    slopes = judge(runs)
    low, middle, high = np.percentile(slopes, [10, 50, 90])
    assert len(slopes) > 150
    assert middle == pytest.approx(-1.0, abs=0.02)
    assert low > -1.15
    assert high < -0.85
    exponents = [exponent / a.gap for run in runs for a, b in pairwise(run) for exponent in falling(a, b)]
    low, middle, high = np.percentile(exponents, [10, 50, 90])
    assert len(exponents) > 150
    assert middle == pytest.approx(1.0, abs=0.02)
    assert low > 0.9
    assert high < 1.1


def falling(first: Comparison, second: Comparison) -> list[float]:
    """The exponent of α in the error of the parameters, if it is small and above rounding at both scales."""
    if not 1e-9 < second.parameter_error < first.parameter_error < 0.1:
        return []
    fall = np.log(first.parameter_error / second.parameter_error)
    return [float(fall / (second.acceleration - first.acceleration))]


def test_parameters_err_by_the_power_of_the_gap() -> None:
    """ln(error) falls with ln(1/α) at the slope −gap: measured where error is neither large nor rounding."""
    pairs = [(compare(seed, 100), compare(seed, 300)) for seed in range(12)]
    exponents = [exponent / first.gap for first, second in pairs for exponent in falling(first, second)]
    assert len(exponents) >= 3
    assert np.median(exponents) == pytest.approx(1.0, abs=0.05)


def test_scales_that_are_far_apart_leave_every_group_its_shares() -> None:
    """The groups' log-scales differ by 5000; within a group the shares are those of e^{2·offset}."""
    inner = np.array([[0.8, 0.1, -0.3], [0.8, 0.1, -0.3], [-0.5, -0.5, 0.6], [-0.5, -0.5, 0.6]])
    sizes = np.array([-100.0, -101.0, -5100.0, -5102.0])
    network = sf.LogScaledNetwork(inner, np.ones(4), sizes)
    limit = sf.saddle_to_saddle(network, sf.Dataset(np.eye(3), [1.0, 2.0, 0.5]))
    assert limit.process.groups.tolist() == [0, 0, 2, 2]
    np.testing.assert_allclose(limit.shares[[1, 3]], 1 / (1 + np.exp([2.0, 4.0])), rtol=1e-9)
    assert np.isfinite(limit.corrections).all()
    assert np.isfinite(limit.final.inner).all()


@pytest.mark.parametrize("jumps", [-1, 4, 0.5, "a"])
def test_saddles_are_counted_from_none_to_all_jumps(jumps: Any) -> None:
    limit = sf.saddle_to_saddle(*by_hand())
    with pytest.raises(sf.InvalidInputError, match="jumps: must be"):
        limit.saddle(jumps)
    with pytest.raises(sf.InvalidInputError, match="jumps: must be"):
        limit.directions(jumps)


def test_the_result_is_counted_and_labelled() -> None:
    network, dataset = by_hand()
    limit = sf.saddle_to_saddle(network, dataset)
    counted = limit.statistics
    assert counted["jumps"] == len(limit.events)
    assert counted["unfitted"] == int(np.sum(np.abs(limit.final(dataset.inputs) - dataset.targets) > 1e-9))
    assert counted["interpolates"] == int(limit.interpolates)
    labelled = limit.to_xarray()
    for start in limit.times:
        row = labelled["exponents"].sel(accelerated_time=start)
        np.testing.assert_allclose(row, limit.exponents(float(np.nextafter(start, np.inf))), atol=1e-12)
    assert "\n" not in repr(limit)
    assert len(repr(limit)) < 200


def test_groups_are_the_masks_there_are_and_idle_neurons_stand_apart() -> None:
    """200 neurons on labels (1, 2, −1): four masks that are not empty."""
    data = sf.Dataset(sf.data.GENERATORS["orthonormal"](3, seed=0).inputs, [1.0, 2.0, -1.0])
    network = sf.initialize.log_scaled(200, 3, log_scale=-50.0, seed=0)
    limit = sf.saddle_to_saddle(network, data)
    masks = {tuple(column) for column in limit.mask.T.tolist()} - {(False, False, False)}
    assert limit.statistics["groups"] == len(masks) == 4
    assert limit.statistics["idle"] == int(np.sum(~limit.mask.any(axis=0))) > 0


def test_positive_and_negative_labels_are_two_processes() -> None:
    """[incremental] App. D.1: each sign alone, its times in units of its own n, makes the same jumps."""
    data = sf.data.GENERATORS["orthonormal"](16, labels="bounded", seed=3)
    network = sf.initialize.log_scaled(20, 16, log_scale=-700.0, seed=3)
    whole = sf.saddle_to_saddle(network, data)
    when = dict(zip(whole.neurons.tolist(), whole.jump_times.tolist(), strict=True))
    met = 0
    for sign in (1.0, -1.0):
        mine = sign * data.targets > 0
        part = sf.saddle_to_saddle(network, sf.Dataset(data.inputs[mine], data.targets[mine]))
        for neuron, time in zip(part.neurons.tolist(), part.jump_times.tolist(), strict=True):
            assert when[neuron] == pytest.approx(time * data.size / mine.sum(), rel=1e-12)
            met += 1
    assert met == len(when)


@pytest.mark.parametrize("plain", [False, True])
def test_balance_and_signs_are_conserved(plain: bool) -> None:
    """[incremental] Prop. 1: |a_j| = ‖w_j‖ along the flow, with the signs of the start."""
    data = sf.data.GENERATORS["orthonormal"](8, labels="bounded", seed=1)
    network = sf.initialize.log_scaled(6, 8, log_scale=-10.0, seed=1)
    start = network.to_relu() if plain else network
    run = sf.gradient_flow(start, data, until=300.0, tolerance=1e-10)
    for time in np.linspace(0.0, 300.0, 7):
        now = run(float(time))
        assert isinstance(now, sf.ReLUNetwork | sf.LogScaledNetwork)
        norms = np.linalg.norm(now.inner, axis=1)
        np.testing.assert_allclose(np.abs(now.outer), norms, rtol=1e-6)
        assert np.array_equal(np.sign(now.outer), np.sign(start.outer))
