"""What every run keeps: networks that have the recorded losses, whatever the verb, the engine, the record."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.engines.cone_flow import ConeFlow
from shallowflow.dynamics.engines.cones import ConeDescent, PatternDescent
from shallowflow.dynamics.engines.knots import KnotFlow
from shallowflow.dynamics.engines.logs import LogDescent, LogFlow
from shallowflow.dynamics.engines.sweeps import DecoupledDescent, FusedDescent, Stepping
from tests.dynamics.runs import (
    CURVE,
    DESCENTS,
    FLOWS,
    KNOTS,
    MOVES,
    NEURONS,
    PLANE,
    STEPS,
    TARGET,
    Run,
    jumps,
    loss_of,
)

RUNS = {**DESCENTS, **FLOWS, **MOVES}
EXACT = 1e-13
"""What losses may be off by, as a share of the largest on the way: they are computed in several ways."""

every_run = pytest.mark.parametrize("name", RUNS)


def assert_consistent(trajectory: sf.Trajectory, times: Any = None) -> None:
    """Assert that networks at recorded times have the recorded losses, and that the last is the final one."""
    recorded = dict(zip(trajectory.times.tolist(), trajectory.losses.tolist(), strict=True))
    slack = EXACT * max(recorded.values())
    for time in trajectory.times if times is None else times:
        assert loss_of(trajectory, trajectory(float(time))) == pytest.approx(recorded[time], rel=0, abs=slack)
    assert trajectory(float(trajectory.times[-1])) == trajectory.final
    assert trajectory(0.0) == trajectory.initial
    assert np.all(np.diff(trajectory.times) > 0)


@every_run
def test_networks_have_the_recorded_losses(name: str) -> None:
    default = RUNS[name]()
    assert_consistent(default)
    last = float(default.times[-1])
    for record in (sf.Record.every(7), sf.Record.geometric(9), sf.Record.at([0.37 * last, 0.8 * last])):
        assert_consistent(RUNS[name](record=record))


@every_run
def test_without_networks_the_losses_and_both_ends_stay(name: str) -> None:
    whole, bare = (RUNS[name](record=sf.Record.every(5, networks=keep)) for keep in (True, False))
    np.testing.assert_array_equal(bare.times, whole.times)
    np.testing.assert_allclose(bare.losses, whole.losses, rtol=0, atol=EXACT * max(whole.losses))
    assert bare.path.times.tolist() == [0.0, whole.times[-1]]
    assert_consistent(bare, bare.path.times)
    np.testing.assert_allclose(flatten(bare.final), flatten(whole.final), rtol=0, atol=1e-9)
    assert bare.events == whole.events
    with pytest.raises(sf.InvalidInputError, match="networks were recorded at 2 times only"):
        bare(float(whole.times[1]))


@every_run
def test_records_choose_among_the_same_networks(name: str) -> None:
    """Stops and readings on the way do not change a descent at all, a flow within its tolerance."""
    whole = RUNS[name]()
    last = float(whole.times[-1])
    some = [0.5 * last] if name in FLOWS else whole.times[[3, 7]]
    chosen = RUNS[name](record=sf.Record.at(some))
    assert len(chosen.times) == 2 + len(some)
    tolerance = 1e-12 if name in DESCENTS or name in MOVES else 1e-6
    # Between its records a descent is interpolated.
    times = np.intersect1d(chosen.times, whole.times) if name in DESCENTS else chosen.times
    for time in times.tolist():
        np.testing.assert_allclose(flatten(chosen(time)), flatten(whole(time)), rtol=0, atol=tolerance)


def test_the_limit_process_has_the_recorded_losses() -> None:
    """At a jump: after it."""
    limit = jumps()
    assert len(limit.times) > 2
    assert_consistent(limit)
    for number, time in enumerate(limit.times):
        assert limit(float(time)) == limit.saddle(number)


def diverging(engine: str) -> Run:
    """Return a run whose step is much too large."""
    leaky = sf.ReLUNetwork(NEURONS.inner, NEURONS.outer, slope=0.1)
    if engine == "windows":
        dataset = sf.Dataset([[0.1], [0.4], [0.8]], [1.0, 2.0, 0.0])
        return partial(sf.gradient_descent, STEPS, dataset, step=30.0, steps=4000, engine=engine)
    if engine in ("plain", "plateaus", "hats"):
        return partial(sf.stochastic_descent, STEPS, TARGET, step=5.0, steps=4000, engine=engine)
    dataset = sf.Dataset(np.eye(2), [1.0, -2.0]) if engine == "decoupled" else PLANE
    return partial(sf.gradient_descent, leaky, dataset, step=300.0, steps=400, engine=engine)


OVERFLOWING = [
    *("dense", "cones", "patterns", "lanes", "fused", "decoupled", "windows"),
    *("plain", "plateaus", "hats"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("engine", OVERFLOWING)
@pytest.mark.parametrize("networks", [True, False])
@pytest.mark.parametrize("watched", [True, False])
def test_a_run_that_overflows_ends_with_its_last_finite_network(
    engine: str, networks: bool, watched: bool
) -> None:
    seen = list[float]()
    record = sf.Record.every(2, networks=networks)
    trajectory = diverging(engine)(record=record, progress=seen.append if watched else None)
    assert trajectory.outcome.status == "diverged"
    made = int(trajectory.statistics["steps"])
    assert f"after step {made} of" in trajectory.outcome.message
    assert trajectory.times[-1] == trajectory.path.times[-1] > 0
    assert np.isfinite(trajectory.losses).all()
    assert loss_of(trajectory, trajectory.final) == pytest.approx(trajectory.losses[-1], rel=1e-12)
    assert seen == sorted(seen)
    assert seen[-1:] == ([1.0] if watched else [])


BARE = {
    ConeDescent: "descent, cones",
    PatternDescent: "descent, patterns",
    FusedDescent: "descent, fused",
    DecoupledDescent: "descent, decoupled",
    LogDescent: "descent, scaled",
    Stepping: "descent, dense",
    ConeFlow: "flow, cones",
    KnotFlow: "flow, stages",
    LogFlow: "flow, leaps",
}


@pytest.mark.parametrize("kind", BARE, ids=lambda kind: kind.__name__)
def test_losses_are_recorded_without_building_networks(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that the engine could build only the first and the last are asked for."""
    original, built = kind.network, list[str]()

    def counted(engine: Any) -> Any:
        built.append(engine.name)
        return original(engine)

    monkeypatch.setattr(kind, "network", counted)
    trajectory = RUNS[BARE[kind]](record=sf.Record.every(1, networks=False))
    assert len(trajectory.times) > 20
    assert len(built) == 2
    built.clear()
    kept = RUNS[BARE[kind]](record=sf.Record.every(1))
    # Paths of flows are made of the rows that their engines hand down; some descents write their parameters.
    assert len(built) <= (len(kept.times) if BARE[kind] in DESCENTS else 1)


def test_memory_is_counted_as_it_fills() -> None:
    """A flow ends where its rows exceed the limit, and what it has kept can be read up to there."""
    whole = sf.gradient_flow(KNOTS, CURVE, until=20.0, engine="dense")
    record = sf.Record.every(1, max_bytes=20_000)
    part = sf.gradient_flow(KNOTS, CURVE, until=20.0, engine="dense", record=record)
    assert (part.outcome.status, part.outcome.ok) == ("memory", False)
    last = float(part.times[-1])
    assert f"at t = {last:.6g}" in part.outcome.message
    assert 0 < last < 20.0
    assert part.path.times.tolist() == whole.path.times[: len(part.path.times)].tolist()
    assert part.final == whole(last)
    assert_consistent(part)


def test_events_are_listed_up_to_a_limit_and_all_counted() -> None:
    for name in (
        "flow, walls",
        "flow, dense knots",
        "flow, cones",
        "flow, stages",
        "flow, leaps",
        "two timescales, events",
    ):
        whole = RUNS[name]()
        few = RUNS[name](record=sf.Record.every(1, max_events=2))
        assert len(whole.events) > 2
        assert few.events == whole.events[:2]
        assert few.statistics["events"] == whole.statistics["events"] == len(whole.events)
        assert all(0 <= event.time <= whole.times[-1] for event in whole.events)
        times = [event.time for event in whole.events]
        assert times == sorted(times)


def test_progress_rises_to_one_and_changes_nothing() -> None:
    for name, run in RUNS.items():
        seen = list[float]()
        watched = run(record=sf.Record.every(10), progress=seen.append)
        assert seen == sorted(seen), name
        assert seen[-1] == 1.0, name
        assert seen.count(1.0) == 1, name
        plain = run(record=sf.Record.every(10))
        np.testing.assert_allclose(flatten(watched.final), flatten(plain.final), rtol=0, atol=0.0)
