"""Pairs that rest on each other, as a trajectory knows them: against events, preactivations, and records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.paths import Polynomials, Snapshots
from tests.dynamics.runs import KNOTS, NEURONS, PLANE

Pairs = set[tuple[int, int]]
FEW = sf.data.GENERATORS["curve"]("sin_pi", 15)
UNTIL = 20.0
TIMES = np.sort(np.random.default_rng(0).uniform(0.01, UNTIL, 80))
PROBLEMS: dict[str, tuple[sf.ReLUNetwork | sf.KnotNetwork, sf.Dataset, str]] = {
    "neurons, walls": (NEURONS, PLANE, "walls"),
    "neurons, cones": (NEURONS, PLANE, "cones"),
    "more neurons, cones": (sf.initialize.gaussian(30, 2, init_scale=0.1, seed=2), PLANE, "cones"),
    "knots, dense": (sf.initialize.he_knots(6, seed=0), FEW, "dense"),
    "knots, stages": (sf.initialize.he_knots(6, seed=0), FEW, "stages"),
    "other knots, stages": (sf.initialize.he_knots(6, seed=3), FEW, "stages"),
}


def flow(problem: str, record: sf.Record | None = None) -> sf.Trajectory:
    network, dataset, engine = PROBLEMS[problem]
    return sf.gradient_flow(network, dataset, until=UNTIL, engine=engine, record=record)


def pairs_at(trajectory: sf.Trajectory, time: float) -> Pairs:
    """The pairs at rest at a time, each of which must be listed once."""
    found = trajectory.resting(time)
    assert found is not None
    pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def by_events(events: Iterable[sf.Event], time: float) -> Pairs:
    """The pairs at rest by the events up to a time."""
    pairs = Pairs()
    for event in events:
        pair = event.neuron, event.point
        if event.time <= time and event.kind == "slide":
            pairs.add(pair)
        elif event.time <= time and event.kind in ("release", "two-valued"):
            pairs.discard(pair)
    return pairs


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("record", [None, sf.Record.at(TIMES)], ids=["own steps", "at times"])
def test_pairs_are_those_of_the_events_and_have_no_preactivation(
    problem: str, record: sf.Record | None
) -> None:
    """Off the moments of events no other pair has one below 10⁻⁹, but of neurons that died where they are."""
    trajectory, dataset = flow(problem, record), PROBLEMS[problem][1]
    dead = {event.neuron for event in trajectory.events if event.kind == "death"}
    seen = Pairs()
    for time in TIMES:
        resting = pairs_at(trajectory, float(time))
        assert resting == by_events(trajectory.events, float(time))
        z = trajectory(float(time)).preactivations(dataset.inputs)
        small = {(int(j), int(k)) for j, k in np.argwhere(np.abs(z) <= 1e-9) if j not in dead}
        assert small == {pair for pair in resting if pair[0] not in dead}
        seen |= resting
    assert seen


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_pair_rests_from_the_moment_of_its_event_on(problem: str) -> None:
    trajectory = flow(problem)
    changes = [event for event in trajectory.events if event.kind in ("slide", "release")]
    assert changes
    for event in changes:
        pair, comes = (event.neuron, event.point), event.kind == "slide"
        # The network is put onto its hyperplane at the event, and the time has some rounding.
        before, after = event.time * (1 - 1e-9), event.time * (1 + 1e-9)
        assert (pair in pairs_at(trajectory, min(after, UNTIL))) == comes
        assert (pair in pairs_at(trajectory, before)) != comes
        assert (pair in pairs_at(trajectory, event.time)) == comes


@pytest.mark.parametrize("problem", PROBLEMS)
def test_it_does_not_depend_on_what_else_is_recorded(problem: str) -> None:
    """Not on networks, nor on how many events are listed."""
    whole = flow(problem)
    few = flow(problem, sf.Record.every(1, max_events=0))
    bare = flow(problem, sf.Record.every(1, networks=False))
    sparse = flow(problem, sf.Record.geometric(5))
    assert few.events == ()
    for time in TIMES:
        pairs = pairs_at(whole, float(time))
        assert pairs_at(few, float(time)) == pairs_at(bare, float(time)) == pairs
    assert pairs_at(sparse, UNTIL) == pairs_at(whole, UNTIL)


@pytest.mark.parametrize("problem", ["neurons, walls", "neurons, cones", "knots, stages"])
@pytest.mark.parametrize("record", [None, sf.Record.at(TIMES)], ids=["own steps", "at times"])
def test_files_keep_it(tmp_path: Path, problem: str, record: sf.Record | None) -> None:
    trajectory = flow(problem, record)
    trajectory.save(tmp_path / "run")
    loaded = sf.Trajectory.load(tmp_path / "run")
    for time in TIMES:
        assert pairs_at(loaded, float(time)) == pairs_at(trajectory, float(time))


@pytest.mark.parametrize("record", [None, sf.Record.at([1.0, 2.0])], ids=["own steps", "at times"])
def test_a_neuron_may_rest_from_the_start(record: sf.Record | None) -> None:
    """On a hyperplane towards which both sides push; at the origin it lies on all, and rests on none."""
    dataset = sf.Dataset([[1.0, 0.0], [-1.0, 1.0], [2.0, 0.0]], [-5.0, -1.0, -1.0])
    network = sf.ReLUNetwork([[0.0, 0.3], [0.4, 0.5]], [0.5, -0.1])
    trajectory = sf.gradient_flow(network, dataset, until=2.0, engine="cones", record=record)
    assert [(event.time, event.kind) for event in trajectory.events[:2]] == [(0.0, "slide")] * 2
    # Points 0 and 2 lie on one line.
    for time in (0.0, 0.1):
        assert {pair for pair in pairs_at(trajectory, time) if pair[0] == 0} == {(0, 0), (0, 2)}


def test_times_out_of_range_are_refused() -> None:
    for problem in ("neurons, cones", "knots, stages"):
        with pytest.raises(sf.InvalidInputError, match=r"^t: must lie in \[0, 20\], got 21$"):
            flow(problem).resting(21)


def test_who_did_not_watch_says_so() -> None:
    descent = sf.gradient_descent(NEURONS, PLANE, step=0.1, steps=5)
    assert descent.resting(0.0) is None
    assert sf.active_neuron_least_squares(KNOTS, FEW).resting(0.0) is None


def test_a_log_is_read_in_the_order_of_time() -> None:
    """Neuron 1 comes to rest on points 0 and 2 at once, leaves 0, comes back; at a moment: after it."""
    log: dict[str, Any] = {
        "rest_times": np.array([1.0, 1.0, 2.0, 3.0]),
        "rest_neurons": np.array([1, 1, 1, 1]),
        "rest_points": np.array([0, 2, -1, 0]),
    }
    network, times = sf.KnotNetwork([0.1, 0.7], [1.0, -2.0]), np.array([0.0, 4.0])
    values = np.zeros((2, 4))
    paths: list[Snapshots | Polynomials] = [
        Snapshots(network, times, values, **log),
        Polynomials(network, times, values[None], **log),
    ]
    for path in paths:
        for time, points in [(0.0, []), (0.9, []), (1.0, [0, 2]), (2.0, [2]), (2.5, [2]), (4.0, [0, 2])]:
            found = path.resting(time)
            assert found is not None
            assert sorted(found[1].tolist()) == points
            assert found[0].tolist() == [1] * len(points)
