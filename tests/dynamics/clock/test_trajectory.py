"""`Trajectory`, `Event`, `Outcome`: immutable, picklable, readable, and the same numbers in xarray."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import xarray

import shallowflow as sf
from shallowflow.dynamics.clock.protocol import EVENT_KINDS, Event, flatten
from shallowflow.dynamics.clock.trajectory import STATUSES, Outcome, Trajectory, checked_trajectory
from shallowflow.errors import InvalidInputError
from tests.dynamics.examples import EXAMPLE_NETWORKS, PATHS, example_path, example_trajectory

every_network = pytest.mark.parametrize("name", EXAMPLE_NETWORKS)
every_path = pytest.mark.parametrize("kind", PATHS)


@every_network
@every_path
def test_a_trajectory_is_its_path(name: str, kind: str) -> None:
    trajectory = example_trajectory(name, kind)
    path = trajectory.path
    assert trajectory.initial == EXAMPLE_NETWORKS[name] == trajectory(0.0)
    assert trajectory.final == path(float(path.times[-1]))
    assert trajectory(float(path.times[2])) == path(float(path.times[2]))
    table = path.table(path.times[:3])
    assert all(
        np.array_equal(row, flatten(path(float(t)))) for row, t in zip(table, path.times, strict=False)
    )
    with pytest.raises(InvalidInputError, match=r"^t: must lie in \[0, .*\], got -1$"):
        trajectory(-1)


@every_network
@every_path
def test_xarray_holds_the_same_numbers(name: str, kind: str) -> None:
    trajectory = example_trajectory(name, kind)
    table = trajectory.to_xarray()
    assert isinstance(table, xarray.Dataset)
    assert table["loss"].dims == ("time",)
    np.testing.assert_array_equal(table["loss"], trajectory.losses)
    np.testing.assert_array_equal(table["time"], trajectory.times)
    np.testing.assert_array_equal(table["recorded"], trajectory.path.times)
    for name_, values in EXAMPLE_NETWORKS[name].parameters.items():
        assert table[name_].dims == ("recorded", *("neuron", "coordinate")[: values.ndim])
        assert table[name_].shape == (5, *values.shape)
        for t in trajectory.path.times:
            expected = trajectory(float(t)).parameters[name_]
            np.testing.assert_array_equal(table[name_].sel(recorded=t), expected)
    assert set(table.data_vars) == {"loss", *EXAMPLE_NETWORKS[name].PARAMETERS}
    assert table.attrs["outcome"] == "diverged: a parameter overflowed. Try: a smaller step."
    assert table.attrs["steps"] == 2**62


def test_trajectories_cannot_be_changed() -> None:
    times, losses, counts = np.array([0.0, 1.0]), np.array([2.0, 1.0]), {"steps": 1}
    path = example_path(EXAMPLE_NETWORKS["knot"], "snapshots")
    trajectory = Trajectory(times, losses, path, (), Outcome("completed", "done."), counts)
    for array in (trajectory.times, trajectory.losses, path.times, path.__dict__["values"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0
    for name in ("times", "losses", "path", "events", "outcome", "statistics"):
        with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
            setattr(trajectory, name, None)
    statistics: Any = trajectory.statistics
    with pytest.raises(TypeError, match="does not support item assignment"):
        statistics["steps"] = 2
    counts["steps"] = 7
    assert trajectory.statistics == {"steps": 1}


def test_statistics_are_plain_numbers_and_words() -> None:
    path = example_path(EXAMPLE_NETWORKS["knot"], "snapshots")
    given: dict[str, Any] = {
        "steps": np.int64(3),
        "rate": np.float64(0.5),
        "float32": np.float32(0.5),
        "name": "x",
    }
    trajectory = Trajectory(np.zeros(1), np.zeros(1), path, (), Outcome("completed", "."), given)
    assert [type(value) for value in trajectory.statistics.values()] == [int, float, float, str]


@every_network
@every_path
def test_copies_and_pickles_are_equal_and_frozen(name: str, kind: str) -> None:
    trajectory = example_trajectory(name, kind)
    for twin in (copy.copy(trajectory), copy.deepcopy(trajectory), pickle.loads(pickle.dumps(trajectory))):
        assert twin.path == trajectory.path
        assert (twin.events, twin.outcome) == (trajectory.events, trajectory.outcome)
        np.testing.assert_array_equal(twin.losses, trajectory.losses)
        assert repr(dict(twin.statistics)) == repr(dict(trajectory.statistics))
        assert type(twin.statistics) is type(trajectory.statistics)
        for array in (twin.times, twin.losses, twin.path.times, twin.path.__dict__["values"]):
            assert not array.flags.writeable


def test_equality_is_by_value() -> None:
    path = example_path(EXAMPLE_NETWORKS["knot"], "snapshots")

    def make(loss: float) -> Trajectory:
        return Trajectory(np.zeros(1), np.array([loss]), path, (), Outcome("completed", "."), {"a": 1})

    assert make(1.0) == make(1.0)
    assert make(np.nan) == make(np.nan)
    assert make(1.0) != make(2.0)


def test_repr_is_one_line() -> None:
    assert repr(example_trajectory()) == (
        "Trajectory(7 times in [0, 2], loss 0.637 → 4.941e-324, 3 events, "
        "diverged: a parameter overflowed. Try: a smaller step.)"
    )


def test_drawings_are_handed_on_with_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sf.Dataset([[0.0], [1.0]], [1.0, -1.0])
    run = sf.gradient_descent(sf.KnotNetwork([0.5], [1.0]), data, step=0.1, steps=2)
    for name, draw in (("plot_run", run.plot), ("animate_run", run.animate)):
        monkeypatch.setattr(f"shallowflow.reporting.figures.runs.{name}", lambda *given, **options: given)
        assert draw("a.png") == (run, data, "a.png")


def test_something_else_is_no_trajectory() -> None:
    trajectory = example_trajectory("relu", "snapshots")
    assert checked_trajectory(trajectory) is trajectory
    with pytest.raises(InvalidInputError, match=r"^run: must be a Trajectory, got 5$"):
        checked_trajectory(5, "run")


def test_events() -> None:
    event = Event(1, "on", np.int64(3), 2)  # type: ignore[arg-type]
    assert event == Event(1.0, "on", 3, 2)
    assert (type(event.time), type(event.neuron), type(event.point)) == (float, int, int)
    assert (Event(0.5, "jump").neuron, Event(0.5, "jump").point) == (-1, -1)
    assert pickle.loads(pickle.dumps(event)) == event
    assert len(set(EVENT_KINDS)) == len(EVENT_KINDS)
    for kind in EVENT_KINDS:
        assert Event(0.0, kind).kind == kind


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, "explosion"), r"^kind: must be one of on, off, .*; got 'explosion'$"),
        ((np.nan, "on"), r"^time: must be finite, got nan$"),
        (("now", "on"), r"^time: must be a number, got 'now'$"),
        ((0.0, "on", 1.5), r"^neuron: must be an integer, got 1\.5$"),
        ((0.0, "on", 1, -2), r"^point: must be >= -1, got -2$"),
        ((0.0, "on", -2, 1), r"^neuron: must be >= -1, got -2$"),
        ((0, "on", np.int64(-2)), r"^neuron: must be >= -1, got -2$"),
    ],
)
def test_events_refuse_with_name_rule_and_value(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Event(*arguments)


def test_outcomes() -> None:
    assert [Outcome(status, "").ok for status in STATUSES] == [True, True, False, False, False, False]
    assert str(Outcome("completed", "10 steps.")) == "completed: 10 steps."
    assert (
        str(Outcome("stalled", "no step.", "a larger tolerance."))
        == "stalled: no step. Try: a larger tolerance."
    )
    with pytest.raises(InvalidInputError, match=r"^status: must be one of completed, .*; got 'fine'$"):
        Outcome("fine", "")
