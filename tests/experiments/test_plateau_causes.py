"""The claims of `plateau/causes` hold, fail and stay open as what was measured has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import shallowflow as sf
from shallowflow.experiments.plateau.staircase import (
    LONG,
    Exits,
    PlateauSeen,
    cause_claims,
    dataset_of,
    exits_of,
    plateaus_of,
)
from shallowflow.models import KnotNetwork, initialize
from shallowflow.readings.stages import stages

PATTERN = PlateauSeen("sin πx", 10.0, 20.0, 1e-3, 0, 0.97, 0.01, 1.0)
SLOW = PlateauSeen("sin πx", 1.0, 2.0, 0.5, 40, 0.01, 0.98, 1.02)
NEITHER = replace(SLOW, pattern=0.5, weights=0.1, frozen=2.0)
FALLING = Exits(1000, 1000, 900, 100, 100)
RISING = Exits(1000, 500, 900, 0, 0)


def answers(flows: list[PlateauSeen], hybrids: list[list[PlateauSeen]], exits: Exits) -> list[bool | None]:
    return [claim.holds for claim in cause_claims(flows, hybrids, exits, LONG)]


def test_plateaus_of_constant_pattern_make_the_papers_claims_hold() -> None:
    found = answers([PATTERN] * 40, [[PATTERN]] * 20, FALLING)
    assert found == [True, True, True, None, None, True, True, True, True, True]


def test_plateaus_of_slow_weights_make_them_fail() -> None:
    found = answers([SLOW] * 60 + [PATTERN] * 40, [[]] * 20, RISING)
    assert found == [None, None, True, True, True, False, None, False, None, False]
    assert answers([SLOW] * 60, [[SLOW]] * 20, RISING)[:2] == [False, False]
    assert answers([SLOW] * 60, [[SLOW]] * 20, RISING)[6] is False


def test_plateaus_of_neither_kind_make_ours_fail() -> None:
    mixed = [replace(SLOW, frozen=2.0)] * 40
    assert answers([NEITHER] * 40, [], RISING)[2] is False
    assert answers(mixed, [], RISING)[3] is False
    assert answers([SLOW] * 5 + [replace(PATTERN, level=0.9)] * 40, [], RISING)[4] is False


def test_few_plateaus_and_short_runs_leave_claims_open() -> None:
    assert set(answers([PATTERN, SLOW], [[], [PATTERN]], Exits(3, 3, 3, 0, 0))[:8]) == {None}
    assert cause_claims([], [[]] * 20, RISING, LONG // 10)[5].holds is None
    assert cause_claims([], [], Exits(0, 0, 0, 0, 0), LONG)[0].holds is None


def test_theorem_3_2_is_contradicted_by_one_rise_where_it_is_met() -> None:
    assert answers([], [], Exits(10, 9, 10, 5, 4))[8] is False


def test_plateaus_are_split_as_they_are() -> None:
    """The first plateau of sin 5πx: slow weights, hundreds of passages; none begins with the record."""
    dataset = dataset_of("sin 5πx")
    run = sf.gradient_flow(initialize.he_knots(100, seed=1), dataset, until=1e3)
    times = np.geomspace(2e-3, 1e3, 300)
    networks = [run(float(time)) for time in times]
    assert all(isinstance(one, KnotNetwork) for one in networks)
    passages = np.array([event.time for event in run.events if event.kind in ("on", "off")])
    (found,) = plateaus_of("sin 5πx", times, networks, passages)  # type: ignore[arg-type]
    assert found.start > times[0]
    assert found.weights > 0.9 > 0.1 > found.pattern
    assert found.passed > 100
    assert 1.0 <= found.frozen < 1.1
    (read,) = plateaus_of("sin 5πx", times, networks, None)  # type: ignore[arg-type]
    assert 50 < read.passed <= found.passed


def test_exits_are_counted_where_a_point_passes() -> None:
    dataset = dataset_of("sin πx", 40)
    run = sf.gradient_flow(initialize.he_knots(6, seed=0), dataset, until=20.0)
    found = exits_of(stages(run, dataset, samples=5))
    passages = sum(event.kind in ("on", "off") for event in run.events)
    assert 0 < found.covered <= found.ends <= passages
    assert 0 < found.falls <= found.ends
    assert found.right == found.met <= found.covered
