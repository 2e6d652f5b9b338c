"""The limit ε → 0 of any network: beside flows of small ε, finite differences, and products of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.protocol import flatten, unflatten
from shallowflow.landscape import population_loss
from shallowflow.landscape.two_timescale.population import best_target_outer, target_gradient
from shallowflow.readings.phases import arrivals
from tests.dynamics.engines.test_dense_flow import problem

CURVE = sf.data.GENERATORS["curve"]("sin_pi", 20)
UNIT = sf.Dataset(np.linspace(0, 1, 15)[:, None], np.sin(5 * np.linspace(0, 1, 15)))
SQUARE = sf.Dataset(
    np.random.default_rng(3).random((40, 2)), np.sin(np.random.default_rng(4).normal(size=40))
)
STEPS = sf.PiecewiseConstant([0.3, 0.6], [0.0, 2.0, 1.0])
OTHER = sf.PiecewiseConstant([0.5], [1.0, -1.0])
BENT = sf.PiecewiseAffine([0.0, 0.4, 1.0], [0.0, 1.0, 0.2])
RELU = sf.ReLUNetwork(np.random.default_rng(5).normal(size=(3, 3)), np.zeros(3))
ON_DATA: dict[str, tuple[Any, sf.Dataset, float, tuple[float, ...]]] = {
    "knots": (sf.KnotNetwork([-1.2, -0.55, 0.33], [0.0] * 3), CURVE, 0.5, (1e-2, 1e-3, 1e-4)),
    "relu": (RELU, sf.data.GENERATORS["sphere"](12, 3, seed=0), 0.05, (1e-2, 1e-3, 1e-4)),
    "steps": (sf.StepNetwork([0.2, 0.5, 0.8], [0.0] * 3, 0.0, 0.3), UNIT, 0.3, (1e-2, 1e-3)),
    "additive": (
        sf.AdditiveStepNetwork([[0.3, 0.4], [0.7, 0.6]], np.zeros((2, 2)), 0.0, 0.4),
        SQUARE,
        0.3,
        (1e-3, 1e-4),
    ),
}


@pytest.mark.parametrize("name", ON_DATA)
def test_flows_on_data_tend_to_the_limit_like_epsilon(name: str) -> None:
    network, data, until, ratios = ON_DATA[name]
    limit = sf.two_timescale_limit(network, data, until=until, tolerance=1e-10)
    assert limit.outcome.ok
    errors = []
    for epsilon in ratios:
        options: Any = {"until": until / epsilon, "epsilon": epsilon, "tolerance": 1e-9}
        flow = sf.gradient_flow(limit(0.0), data, record=sf.Record.at([until / epsilon]), **options)
        errors.append(np.abs(flatten(flow.final) - flatten(limit.final)).max())
    order = np.log10(errors[-2] / errors[-1])
    assert 0.85 < order < 1.15


ORDERS: dict[str, tuple[Any, sf.Dataset, float]] = {
    "knots, no event": (sf.KnotNetwork([-1.2, -0.55, 0.33], [0.0] * 3), CURVE, 0.5),
    "knots, one crosses": (sf.KnotNetwork([-1.2, -0.55, 0.33, 0.71], [0.0] * 4), CURVE, 2.0),
    "ReLU, no event": (RELU, sf.data.GENERATORS["sphere"](12, 3, seed=0), 0.05),
    "ReLU, four crossings, one slides": (*problem(5)[:2], 3.0),
    "ReLU, slides, is released, crosses": (*problem(96)[:2], 3.0),
}


@pytest.mark.parametrize("name", ORDERS)
def test_flows_on_data_converge_to_the_limit_at_three_ratios(name: str) -> None:
    """The table of docs/concepts/dynamics.md: inner layers at the end, events included."""
    network, data, until = ORDERS[name]
    limit = sf.two_timescale_limit(network, data, until=until, tolerance=1e-10)
    inner = "knots" if isinstance(network, sf.KnotNetwork) else "inner"
    errors = []
    for epsilon in (1e-2, 1e-3, 1e-4):
        record = sf.Record.at([until / epsilon])
        flow = sf.gradient_flow(limit(0.0), data, until=until / epsilon, epsilon=epsilon, record=record)
        errors.append(np.abs(flow.final.parameters[inner] - limit.final.parameters[inner]).max())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert 0.85 < np.log10(errors[1] / errors[2]) < 1.15


@pytest.mark.parametrize("name", ON_DATA)
def test_along_the_limit_the_outer_layer_is_of_least_squares_and_the_loss_falls(name: str) -> None:
    network, data, until, _ = ON_DATA[name]
    limit = sf.two_timescale_limit(network, data, until=until)
    assert np.all(np.diff(limit.losses) <= 1e-12)
    for time in (0.0, 0.5 * until, until):
        now = limit(time)
        best = sf.least_squares_outer(now, data)
        np.testing.assert_allclose(flatten(now), flatten(best), atol=1e-6)


def test_a_flow_of_epsilon_zero_is_the_limit() -> None:
    network, data, until, _ = ON_DATA["knots"]
    limit, flow = (
        sf.two_timescale_limit(network, data, until=until),
        sf.gradient_flow(network, data, until=until, epsilon=0.0),
    )
    assert flow.final == limit.final
    with pytest.raises(sf.InvalidInputError, match="epsilon: 0, the two-timescale limit, takes"):
        sf.gradient_flow(network, data, until=until, epsilon=0.0, speed=2.0)


def test_more_neurons_than_samples_stand_still_at_the_interpolator_of_minimum_norm() -> None:
    data = sf.Dataset([[1.0, 0.2], [0.1, 1.0]], [1.0, -2.0])
    network = sf.ReLUNetwork([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.zeros(3))
    limit = sf.two_timescale_limit(network, data, until=5.0)
    np.testing.assert_allclose(limit.losses, 0.0, atol=1e-25)
    np.testing.assert_allclose(limit.final.outer, sf.least_squares_outer(network, data).outer, atol=1e-12)


def test_a_knot_of_the_limit_is_held_or_passes_as_in_flows() -> None:
    """Events of the limit happen in flows of small ε at about the same slow time."""
    network = sf.KnotNetwork([-1.2, -0.55, 0.33, 0.71], [0.0] * 4)
    limit = sf.two_timescale_limit(network, CURVE, until=2.0)
    (event,) = limit.events
    flow = sf.gradient_flow(limit(0.0), CURVE, until=2e5, epsilon=1e-5)
    times = [
        e.time * 1e-5
        for e in flow.events
        if (e.kind, e.neuron, e.point) == (event.kind, event.neuron, event.point)
    ]
    assert times
    assert times[0] == pytest.approx(event.time, rel=0.02)


PAIRS: list[tuple[Any, Any]] = [
    (sf.StepNetwork([0.2, 0.55], [1.0, -0.5], 0.3, 0.1), STEPS),
    (
        sf.AdditiveStepNetwork([[0.2, 0.5], [0.62, 0.8]], [[1.0, 0.4], [-0.6, 0.9]], 0.2, 0.1),
        sf.Additive([STEPS, OTHER]),
    ),
    (sf.KnotNetwork([-0.3, 0.25, 0.7], [1.0, -2.0, 0.5]), BENT),
]  # fmt: skip


@pytest.mark.parametrize(("network", "target"), PAIRS)
def test_gradients_against_targets_are_those_of_the_exact_loss(network: Any, target: Any) -> None:
    gradient = target_gradient(network, target)
    flat = np.concatenate([np.ravel(gradient[name]) for name in network.PARAMETERS])
    theta, h = flatten(network), 1e-6

    def loss(point: Floats) -> float:
        return population_loss(unflatten(network, point), target)

    expected = [(loss(theta + h * e) - loss(theta - h * e)) / (2 * h) for e in np.eye(len(theta))]
    np.testing.assert_allclose(flat, expected, atol=2e-9)


@pytest.mark.parametrize(("network", "target"), PAIRS)
def test_the_best_outer_layer_has_no_gradient(network: Any, target: Any) -> None:
    best = best_target_outer(network, target)
    gradient = target_gradient(best, target)
    assert max(np.abs(gradient[name]).max() for name in ("outer", "offset") if name in gradient) < 1e-13
    assert population_loss(best, target) < population_loss(network, target)


@pytest.mark.parametrize(("network", "target"), PAIRS)
def test_population_flows_tend_to_the_limit_like_epsilon(network: Any, target: Any) -> None:
    """ε must be small beside the slowest rate of the outer layer, that of knots 10⁻⁴."""
    knots = isinstance(network, sf.KnotNetwork)
    until, ratios = (0.2, (1e-6, 1e-7)) if knots else (0.05, (1e-3, 1e-4))
    limit = sf.two_timescale_limit(network, target, until=until, tolerance=1e-10)
    errors = []
    for epsilon in ratios:
        flow = sf.population_flow(
            limit(0.0), target, until=until / epsilon, epsilon=epsilon, tolerance=1e-10, stiff=True
        )
        errors.append(np.abs(flatten(flow.final) - flatten(limit.final)).max())
    assert 0.85 < np.log10(errors[0] / errors[1]) < 1.15


@pytest.mark.parametrize("sharpness", [0.0, 0.02])
def test_the_additive_limit_is_the_product_of_its_coordinates(sharpness: float) -> None:
    positions = np.array([[0.1, 0.2], [0.25, 0.45], [0.45, 0.58], [0.7, 0.9], [0.85, 0.3]])
    network = sf.AdditiveStepNetwork(positions, np.zeros((5, 2)), 0.0, sharpness)
    limit = sf.two_timescale_limit(network, sf.Additive([STEPS, OTHER]), until=0.4)
    singles = [
        sf.two_timescale_limit(network.coordinate(k), part, until=0.4)
        for k, part in enumerate((STEPS, OTHER))
    ]
    for time in (0.0, 0.013, 0.1, 0.4):
        now: Any = limit(time)
        parts: Any = [single(time) for single in singles]
        np.testing.assert_allclose(now.positions, np.column_stack([p.positions for p in parts]), atol=1e-9)
        np.testing.assert_allclose(now.outer, np.column_stack([p.outer for p in parts]), atol=1e-7)
        assert float(now.offset) == pytest.approx(sum(float(p.offset) for p in parts), abs=1e-9)
    expected = sorted(
        (event.time, event.neuron * 2 + k) for k, single in enumerate(singles) for event in single.events
    )
    assert [(event.time, event.neuron) for event in limit.events] == expected
    assert (sharpness == 0) == bool(expected)


def test_hitting_times_are_those_of_the_limit_for_every_start() -> None:
    """20 starts of 8 neurons on 4 pieces, most of which lack two neurons on some piece."""
    target = sf.PiecewiseConstant([0.25, 0.5, 0.75], [0.0, 2.0, 1.0, 2.5])
    few = 0
    for seed in range(20):
        network = sf.StepNetwork(np.random.default_rng(seed).random(8), np.zeros(8))
        times = sf.hitting_times(network, target)
        run = sf.two_timescale_limit(network, target, until=50.0)
        now: Any = run.final
        covered = np.array([np.any(now.positions == v) for v in target.breakpoints])
        np.testing.assert_array_equal(np.isfinite(times) & (times <= 50.0), covered)
        for i in np.flatnonzero(covered):
            hits = [e.time for e in run.events if e.kind == "hit" and e.point == i]
            assert np.min(np.abs(np.array(hits) - times[i])) < 1e-9
        few += np.histogram(network.positions, [0, *target.breakpoints, 1])[0].min() < 2
    assert few > 10


@pytest.mark.parametrize("seed", range(7))
def test_hitting_times_are_those_of_the_flow_for_random_starts(seed: int) -> None:
    """ε = 10⁻⁶, η = 10⁻³, most starts without two neurons on some piece.

    A neuron arrives at s²/2 beside a jump s, and is within η/2 of it η/s² before it hits.
    """
    target, epsilon = sf.PiecewiseConstant([0.25, 0.5, 0.75], [0.0, 2.0, 1.0, 2.5]), 1e-6
    network = sf.StepNetwork(np.random.default_rng(seed).random(8), np.zeros(8), 0.0, 1e-3)
    times = sf.hitting_times(network, target)
    assert np.all(np.isfinite(times))
    start, until = sf.landscape.best_outer(network, target), 1.3 * times.max() + 0.05
    flow = sf.population_flow(start, target, until=until / epsilon, epsilon=epsilon)
    seen = epsilon * np.array([one.time for one in arrivals(flow, target)])
    early = network.sharpness / target.jumps**2
    np.testing.assert_array_less(np.abs(times - early - seen), 0.5 * early + 0.01 * times)


def test_jumps_that_are_never_reached_or_late_are_known_to_be_so() -> None:
    target = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 0.0])
    start = sf.StepNetwork(np.linspace(0.65, 0.95, 6), np.zeros(6))
    np.testing.assert_array_equal(sf.hitting_times(start, target), [np.inf, np.inf])
    late = sf.hitting_times(
        sf.StepNetwork([0.2, 0.5, 0.9], np.zeros(3)), sf.PiecewiseConstant([0.4, 0.6], [0.0, 1.0, 0.0])
    )
    np.testing.assert_allclose(late, [1.129, 0.569], atol=1e-3)


@pytest.mark.parametrize("sharpness", [1e-22, 1e-17, 5e-11])
def test_steps_that_rounding_blurs_are_refused(sharpness: float) -> None:
    network, target = sf.StepNetwork([0.3, 0.62], [0.4, 0.6], 0.0, sharpness), OTHER
    for call in (
        lambda: sf.landscape.population_gradient(network, target),
        lambda: sf.population_flow(network, target, until=1.0),
        lambda: sf.two_timescale_limit(network, target, until=1.0),
    ):
        with pytest.raises(sf.InvalidInputError, match="sharpness must be 0 or at least 1e-10"):
            call()
