"""The phases of a run: their order, their defining equations, and runs that do not get through them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import alignment_threshold, least_squares
from shallowflow.landscape.early_alignment.ends import init_scale
from shallowflow.readings.phases import arrivals, jump_course, jump_phases, phases, predicted_phases

DATA = three_points()
START = sf.initialize.balanced(30, 2, init_scale=1e-4, seed=0)


@pytest.fixture(scope="module")
def flow() -> sf.Trajectory:
    return sf.gradient_flow(START, DATA, until=60.0)


def quantities(network: object) -> tuple[float, float]:
    """Σ a_i² and ‖β* − Σ a_i w_i‖ over the neurons that start positive and active."""
    assert isinstance(network, sf.ReLUNetwork)
    chosen = (START.outer > 0) & np.any(START.inner @ DATA.inputs.T > 0, axis=1)
    line = network.outer[chosen] @ network.inner[chosen]
    gap = float(np.linalg.norm(least_squares(DATA).coefficients - line))
    return float(np.sum(network.outer[chosen] ** 2)), gap


def test_a_flow_goes_through_all_phases_at_the_times_that_define_them(flow: sf.Trajectory) -> None:
    found = phases(flow, DATA, growth=0.2, fit=0.1)
    assert [phase.name for phase in found] == ["1", "2a", "2b", "3"]
    assert [phase.complete for phase in found] == [True, True, True, False]
    assert found[0].start == 0.0
    assert found[-1].end == 60.0
    for before, after in pairwise(found):
        assert before.end == after.start
        assert after.length > 0
    size = float(np.linalg.norm(least_squares(DATA).coefficients))
    d_max = float(np.linalg.norm(DATA.targets @ DATA.inputs)) / 3
    assert found[0].end == pytest.approx(-0.25 * np.log(init_scale(START)) / d_max, rel=1e-12)
    assert quantities(flow(found[1].end))[0] == pytest.approx(0.2 * size, rel=1e-9)
    assert quantities(flow(found[2].end))[1] == pytest.approx(0.1 * size, rel=1e-9)
    for time in np.linspace(found[0].end, found[1].end, 50)[:-1]:
        assert quantities(flow(float(time)))[0] < 0.2 * size


def test_descent_sees_the_same_times_between_its_records(flow: sf.Trajectory) -> None:
    descent = sf.gradient_descent(START, DATA, step=0.01, steps=6_000, record=sf.Record.every(20))
    for one, other in zip(phases(flow, DATA), phases(descent, DATA), strict=True):
        assert one.end == pytest.approx(other.end, rel=0.02)


def test_the_output_factor_and_the_speed_rescale_time(flow: sf.Trajectory) -> None:
    scaled = sf.ReLUNetwork(2.0 * START.inner, 2.0 * START.outer, scale=0.25)
    assert init_scale(scaled) == pytest.approx(init_scale(START))
    run = sf.gradient_flow(scaled, DATA, until=120.0, speed=2.0)
    for one, other in zip(phases(flow, DATA), phases(run, DATA, speed=2.0), strict=True):
        assert other.end == pytest.approx(2.0 * one.end, rel=1e-4)


def test_a_short_run_ends_in_an_early_phase() -> None:
    run = sf.gradient_flow(START, DATA, until=8.0)
    found = phases(run, DATA)
    assert [(phase.name, phase.complete) for phase in found] == [("1", True), ("2a", False)]
    (only,) = phases(sf.gradient_flow(START, DATA, until=1.0), DATA)
    assert not only.complete
    assert only.length == pytest.approx(1.0)


def test_a_run_without_networks_on_the_way_knows_only_its_ends() -> None:
    record = sf.Record.every(100, networks=False)
    run = sf.gradient_descent(START, DATA, step=0.02, steps=3_000, record=record)
    found = phases(run, DATA)
    assert found[1].end == pytest.approx(60.0)


def test_a_large_start_has_no_alignment_phase() -> None:
    network = sf.initialize.balanced(10, 2, init_scale=2.0, seed=0)
    found = phases(sf.gradient_flow(network, DATA, until=1.0), DATA)
    assert found[0].length == 0.0
    assert alignment_threshold(DATA).time(init_scale(network)) == 0.0


def test_bad_input_is_refused(flow: sf.Trajectory) -> None:
    with pytest.raises(InvalidInputError, match="least-squares estimator is zero"):
        phases(flow, Dataset(DATA.inputs, np.zeros(3)))
    with pytest.raises(InvalidInputError, match="growth"):
        phases(flow, DATA, growth=0.0)
    knots = sf.gradient_flow(sf.KnotNetwork([0.0], [1.0]), Dataset([[0.0], [1.0]], [0.0, 1.0]), until=0.1)
    with pytest.raises(InvalidInputError, match="trajectory: must be a ReLUNetwork"):
        phases(knots, DATA)


def test_wrong_types_are_refused() -> None:
    run = sf.gradient_flow(sf.initialize.balanced(3, 2, seed=0), three_points(), until=0.1)
    with pytest.raises(InvalidInputError, match="trajectory: must be a Trajectory, got 'run'"):
        phases("run", three_points())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="dataset: must be a Dataset, got None"):
        phases(run, None)  # type: ignore[arg-type]


def test_sixty_points_in_five_dimensions_have_phases() -> None:
    # 15,618,482 activation cones may be too many to list; the phases need none of them.
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((60, 5))
    data = Dataset(inputs, np.abs(inputs @ rng.standard_normal(5)) + inputs[:, 0])
    run = sf.gradient_descent(
        sf.initialize.balanced(50, 5, init_scale=1e-3, seed=0), data, step=0.05, steps=1500
    )
    found = phases(run, data)
    assert found[0].name == "1"
    assert found[0].complete
    largest = sf.landscape.largest_pull(data)
    assert not largest.complete
    assert found[0].end == pytest.approx(
        -0.25 * np.log(init_scale(run.initial)) / largest.value  # type: ignore[arg-type]
    )
    # No direction of 20,000 others is pulled harder.
    z = rng.standard_normal((20_000, 5)) @ inputs.T
    pulls = np.linalg.norm(((z > 0) * data.targets / 60) @ inputs, axis=1)
    assert pulls.max() <= largest.value * (1 + 1e-12)


def test_the_search_finds_the_largest_pull_that_listing_finds() -> None:
    same = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        size, dimension = int(rng.integers(6, 13)), int(rng.integers(2, 5))
        data = Dataset(rng.standard_normal((size, dimension)), rng.standard_normal(size))
        listed = sf.landscape.largest_pull(data)
        searched = sf.landscape.largest_pull(data, limit=1)
        assert listed.complete
        assert not searched.complete
        assert searched.value <= listed.value * (1 + 1e-12)
        if seed < 4:
            assert listed.value == pytest.approx(alignment_threshold(data).d_max, rel=1e-12)
        same += searched.value >= listed.value * (1 - 1e-12)
    assert same >= 36


def test_a_lone_neuron_passes_the_levels_of_its_logistic() -> None:
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    run = sf.gradient_flow(network, data, until=100.0, tolerance=1e-10)
    limit = sf.saddle_to_saddle(network, data)
    middle, reach = (np.log(5.0) + 80.0) / 5.0, np.log(99.0) / 5.0  # 2γ = 5
    found = jump_phases(run, limit)
    assert found.grown[0] == pytest.approx(middle - reach, abs=1e-6)
    assert found.fitted[0] == pytest.approx(middle + reach, abs=1e-6)
    assert np.isnan(found.aligned[0])
    predicted = predicted_phases(limit, 40.0)
    assert predicted.grown[0] == pytest.approx(middle - reach)
    assert predicted.fitted[0] == pytest.approx(middle + reach)
    course = jump_course(run, limit, 0, np.array([0.0, middle, 100.0]))
    np.testing.assert_allclose(course.growth, [np.exp(-80.0) / 5.0, 0.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(course.residual, [1.0, 0.5, 0.0], atol=1e-6)
    assert np.all(course.misdirection == 0)


def test_a_neuron_that_loses_a_point_turns_after_the_jump() -> None:
    """Neuron 0 fits points 0 and 1; neuron 1, on 1 and 2, turns to 2. Twice ln(1/α): the same durations."""
    data = sf.Dataset(np.eye(3), [3.0, 2.0, 1.0])
    inner = np.array([[0.8, 0.6, -0.1], [-0.1, 0.8, 0.6]])
    inner /= np.linalg.norm(inner, axis=1, keepdims=True)
    spans = []
    for scale in (200.0, 400.0):
        network = sf.LogScaledNetwork(inner, np.ones(2), np.full(2, -scale))
        limit = sf.saddle_to_saddle(network, data)
        run = sf.gradient_flow(network, data, until=1.2 * scale * limit.jump_times[-1], tolerance=1e-10)
        found = jump_phases(run, limit)
        assert found.grown[0] < found.fitted[0] < found.aligned[0] < found.grown[1]
        assert np.isnan(found.aligned[1])
        np.testing.assert_allclose(found.fitted, predicted_phases(limit, scale).fitted, rtol=1e-6)
        spans.append([found.fitted[0] - found.grown[0], found.aligned[0] - found.fitted[0]])
    np.testing.assert_allclose(spans[1], spans[0], rtol=1e-4)


def test_a_run_that_ends_before_a_jump_has_not_seen_it() -> None:
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    run = sf.gradient_flow(network, data, until=5.0)
    found = jump_phases(run, sf.saddle_to_saddle(network, data))
    assert np.isnan(np.concatenate(found)).all()
    with pytest.raises(sf.InvalidInputError, match="jump"):
        jump_course(run, sf.saddle_to_saddle(network, data), 1, np.zeros(1))


TARGET = sf.PiecewiseConstant([0.3, 0.7], [0.0, 2.0, 1.0])
PLACES = [0.05, 0.2, 0.45, 0.6, 0.85, 0.95]


@pytest.mark.parametrize("sharpness", [1e-2, 1e-3])
def test_arrivals_are_near_the_hitting_times_and_neurons_stay(sharpness: float) -> None:
    start = sf.StepNetwork(PLACES, np.zeros(6), 0.0, sharpness)
    record = sf.Record.at(np.linspace(0.0, 2.0, 801))
    run = sf.two_timescale_limit(start, TARGET, until=2.0, record=record)
    exact = sf.hitting_times(sf.StepNetwork(PLACES, np.zeros(6)), TARGET)
    for found, time in zip(arrivals(run, TARGET), exact, strict=True):
        # It arrives half a window early, and the clock ticks in steps of 1/400.
        assert time - 8 * sharpness - 0.01 < found.time <= time + 0.01
        assert found.wandering < 1.0
    assert [one.neuron for one in arrivals(run, TARGET)] == [1, 3]


def test_who_does_not_arrive_is_told() -> None:
    start = sf.StepNetwork(PLACES, np.zeros(6), 0.0, 1e-3)
    run = sf.two_timescale_limit(start, TARGET, until=1e-3)
    assert [(one.neuron, one.time) for one in arrivals(run, TARGET)] == [(-1, np.inf), (-1, np.inf)]


def test_steps_without_a_width_are_refused() -> None:
    run = sf.two_timescale_limit(sf.StepNetwork(PLACES, np.zeros(6)), TARGET, until=1e-3)
    with pytest.raises(sf.InvalidInputError, match="sharpness > 0"):
        arrivals(run, TARGET)
