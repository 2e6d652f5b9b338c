"""A `LogScaledNetwork` on orthonormal data: its flow beside plain integration and closed forms, its descent
beside plain descent and the flow, and both at the border.
"""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.phases import log_norms
from tests.kernels.orthogonal.log_problems import plain_flow, random_problem

SMALL = -6 * np.log(10.0)


@pytest.mark.parametrize(("size", "width", "seed"), [(8, 4, 0), (12, 6, 1)])
def test_it_equals_plain_integration_where_that_is_possible(size: int, width: int, seed: int) -> None:
    """α = 10⁻⁶, all weights at 40 times to 1e-8."""
    network, data = random_problem(size, width, seed, log_scale=SMALL)
    limit = sf.saddle_to_saddle(network, data)
    until = 1.5 * float(limit.jump_times[-1]) * network.acceleration + 200.0
    times = np.linspace(0.0, until, 41)[1:]
    inner, outer = plain_flow(network.to_relu(), data, times)
    trajectory = sf.gradient_flow(network, data, until=until, tolerance=1e-11)
    assert np.abs(outer[-1]).max() > 0.5
    for i, time in enumerate(times):
        then = trajectory(float(time))
        assert isinstance(then, sf.LogScaledNetwork)
        np.testing.assert_allclose(then.to_relu().inner, inner[i], atol=1e-8, rtol=0)
        np.testing.assert_allclose(then.to_relu().outer, outer[i], atol=1e-8, rtol=0)


def test_a_lone_neuron_follows_the_logistic_at_any_scale() -> None:
    """Aligned from the start, a² = N/(1 + (N/α² − 1) e^{−2Nt/n}): closed form, at α = 10⁻¹⁰⁰⁰."""
    targets = np.array([3.0, 4.0])
    scale = -1000 * np.log(10.0)
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [scale])
    trajectory = sf.gradient_flow(network, sf.Dataset(np.eye(2), targets), until=2000.0, tolerance=1e-10)
    for time in (100.0, 900.0, 920.9, 921.5, 923.0, 1500.0):
        then = trajectory(time)
        assert isinstance(then, sf.LogScaledNetwork)
        expected = 0.5 * (np.log(5.0) - np.logaddexp(0.0, np.log(5.0) - 2 * scale - 5.0 * time))
        assert then.log_scales[0] == pytest.approx(expected, abs=1e-8)
        np.testing.assert_allclose(then.inner, [[0.6, 0.8]], atol=1e-9)


def test_steps_do_not_grow_with_the_scale() -> None:
    counted = []
    for digits in (300, 3000, 30000):
        network, data = random_problem(24, 8, 3, log_scale=-digits * np.log(10.0))
        limit = sf.saddle_to_saddle(network, data)
        until = 1.1 * float(limit.jump_times[-1]) * network.acceleration
        trajectory = sf.gradient_flow(network, data, until=until)
        counted.append(int(trajectory.statistics["steps"]) + int(trajectory.statistics["leaps"]))
    assert max(counted) < 1.3 * min(counted)


def test_events_are_the_coordinates_that_reach_zero() -> None:
    network, data = random_problem(10, 5, 2, log_scale=SMALL)
    trajectory = sf.gradient_flow(network, data, until=300.0)
    start, end = network.preactivations(data.inputs), trajectory.final
    assert isinstance(end, sf.LogScaledNetwork)
    stopped = {(event.neuron, event.point) for event in trajectory.events}
    gone = np.argwhere((start > 0) & (end.preactivations(data.inputs) <= 1e-12))
    assert stopped == {(int(j), int(k)) for j, k in gone}
    assert all(a.time <= b.time for a, b in zip(trajectory.events, trajectory.events[1:], strict=False))


@pytest.mark.parametrize(
    "record",
    [
        sf.Record.at([10.0, 200.0]),
        sf.Record.geometric(20),
        sf.Record.every(3),
        sf.Record.every(1, networks=False),
    ],
)
def test_every_record_agrees_with_the_whole_path(record: sf.Record) -> None:
    network, data = random_problem(10, 5, 2, log_scale=SMALL)
    whole = sf.gradient_flow(network, data, until=300.0)
    trajectory = sf.gradient_flow(network, data, until=300.0, record=record)
    for time, loss in zip(trajectory.times, trajectory.losses, strict=True):
        value = sf.SquareLoss().value(whole(float(time)).predict(data.inputs), data.targets)
        assert loss == pytest.approx(value, rel=1e-9)
    assert trajectory.final == whole.final
    assert trajectory.times[-1] == 300.0


def test_points_that_can_never_be_fitted_are_named() -> None:
    network = sf.LogScaledNetwork([[0.6, -0.8]], [1.0], [-30.0])
    trajectory = sf.gradient_flow(network, sf.Dataset(np.eye(2), [1.0, 2.0]), until=500.0)
    assert "1 points can never be fitted" in trajectory.outcome.message
    assert "[1]" in trajectory.outcome.message
    assert trajectory.losses[-1] == pytest.approx(1.0, abs=1e-9)


def test_a_full_memory_ends_the_run_with_advice() -> None:
    network, data = random_problem(30, 10, 2, log_scale=SMALL)
    record = sf.Record.every(1, max_bytes=10)
    trajectory = sf.gradient_flow(network, data, until=1e5, tolerance=1e-12, record=record)
    assert trajectory.outcome.status == "memory"


def test_knots_that_no_one_asked_for_take_no_memory() -> None:
    """The limit is that of the networks asked for; the run has many more knots."""
    network, data = random_problem(30, 10, 2, log_scale=SMALL)
    numbers = sum(values.size for values in network.parameters.values())
    few = 8 * 3 * numbers
    for record in (
        sf.Record.at([5e3, 1e4], max_bytes=few),
        sf.Record.every(1, networks=False, max_bytes=few),
    ):
        trajectory = sf.gradient_flow(network, data, until=1e4, tolerance=1e-10, record=record)
        assert trajectory.outcome.status == "completed"
        assert int(trajectory.statistics["steps"]) > 50
        assert trajectory.final == sf.gradient_flow(network, data, until=1e4, tolerance=1e-10).final


def test_wrong_problems_are_refused() -> None:
    network, data = random_problem(4, 3, 0, log_scale=-20.0, extra=0)
    skewed = data.inputs + 0.1 * data.inputs[0]
    with pytest.raises(sf.InvalidInputError, match=r"needs orthogonal inputs, got a cosine of 0\."):
        sf.gradient_flow(network, sf.Dataset(skewed, data.targets), until=1.0)
    with pytest.raises(sf.InvalidInputError, match=r"epsilon = 1 and stop = 0, got 0\.5 and 0"):
        sf.gradient_flow(network, data, until=1.0, epsilon=0.5)
    with pytest.raises(sf.InvalidInputError, match=r"none of .* fits, got a LogScaledNetwork and a Log"):
        sf.gradient_flow(
            network, sf.Dataset(data.inputs, np.sign(data.targets)), until=1.0, loss=sf.LogisticLoss()
        )
    wide = sf.LogScaledNetwork(2 * network.inner, network.outer, network.log_scales)
    with pytest.raises(sf.InvalidInputError, match="got a ratio of 2"):
        sf.gradient_flow(wide, data, until=1.0)


def test_compiled_and_plain_descent_agree_from_a_scale_that_underflows() -> None:
    """In the standard basis, where plain descent in w is descent in the coordinates of the data."""
    network, data = random_problem(5, 3, 1, log_scale=-800.0, extra=0)
    data = sf.Dataset(np.eye(5), data.targets)
    with pytest.warns(RuntimeWarning, match="rounding may revive"):
        plain = sf.gradient_descent(network, data, step=2.0, steps=4000, engine="dense")
    runs = [plain, sf.gradient_descent(network, data, step=2.0, steps=4000, engine="scaled")]
    assert runs[0].losses[-1] < 0.5 * runs[0].losses[0]
    np.testing.assert_allclose(runs[1].losses, runs[0].losses, rtol=1e-8)
    for name, values in runs[0].final.parameters.items():
        np.testing.assert_allclose(runs[1].final.parameters[name], values, rtol=1e-7, atol=1e-9)


def test_coordinates_that_reached_zero_stay_there_in_any_basis() -> None:
    network, data = random_problem(5, 3, 1, log_scale=-800.0)
    run = sf.gradient_descent(network, data, step=2.0, steps=4000)
    limit = sf.saddle_to_saddle(network, data)
    assert run.statistics["engine"] == "scaled"
    assert run.losses[-1] == pytest.approx(limit.losses[-1], rel=1e-9)


def test_descent_follows_the_flow_as_its_step_shrinks() -> None:
    network, data = random_problem(6, 4, 0, log_scale=-60.0)
    until = 1200.0
    flow = sf.gradient_flow(network, data, until=until)
    times = np.linspace(100.0, until, 12)
    errors = []
    for step in (0.4, 0.1):
        run = sf.gradient_descent(
            network, data, step=step, steps=round(until / step), record=sf.Record.at(times), engine="scaled"
        )
        errors.append(max(np.abs(log_norms(run(t)) - log_norms(flow(t))).max() for t in times))
    assert errors[1] < 0.3 * errors[0]


def test_the_engine_refuses_other_problems() -> None:
    network, data = random_problem(4, 3, 0, log_scale=-1.0, extra=0)
    with pytest.raises(sf.InvalidInputError, match="and orthonormal inputs, got"):
        sf.gradient_descent(
            network, sf.Dataset(1.5 * data.inputs, data.targets), step=0.1, steps=3, engine="scaled"
        )
    with pytest.raises(sf.InvalidInputError, match="'scaled' needs a LogScaledNetwork"):
        sf.gradient_descent(network.to_relu(), data, step=0.1, steps=3, engine="scaled")
