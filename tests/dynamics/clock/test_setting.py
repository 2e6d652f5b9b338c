"""`Setting`: what a trajectory knows of its run, and what a reading may ask of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.trajectory import Setting
from tests.dynamics.runs import CURVE, DESCENTS, FLOWS, KNOTS, LOGS, MOVES, PLANE, STEPS, TARGET, jumps


def test_the_runs_own_value_counts_and_another_is_refused() -> None:
    setting = Setting(speed=24.0, loss=sf.SquareLoss("sum"))
    assert setting.agreed("speed", None, 1.0) == 24.0
    assert setting.agreed("speed", 24.0, 1.0) == 24.0
    assert setting.agreed("loss", None, sf.SquareLoss()) == sf.SquareLoss("sum")
    assert setting.agreed("loss", sf.SquareLoss("sum"), sf.SquareLoss()) == sf.SquareLoss("sum")
    with pytest.raises(sf.InvalidInputError, match=r"^speed: the trajectory was made with 24\.0, got 12\.0$"):
        setting.agreed("speed", 12.0, 1.0)
    with pytest.raises(sf.InvalidInputError, match=r"^loss: the trajectory was made with Square.*Logistic"):
        setting.agreed("loss", sf.LogisticLoss(), sf.SquareLoss())


def test_where_it_is_unknown_the_argument_counts_or_the_default() -> None:
    """As in files of version 1."""
    unknown = Setting()
    assert unknown.agreed("speed", None, 1.0) == 1.0
    assert unknown.agreed("speed", 7.0, 1.0) == 7.0
    assert unknown.agreed("epsilon", 0.0, 1.0) == 0.0


def test_data_agree_by_value() -> None:
    data = sf.Dataset([[1.0], [2.0]], [1.0, 0.0])
    twin, other = sf.Dataset([[1.0], [2.0]], [1.0, 0.0]), sf.Dataset([[1.0], [2.0]], [1.0, 1.0])
    assert Setting(data=data).agreed("data", twin, other) is data
    with pytest.raises(sf.InvalidInputError, match=r"^data: the trajectory was made with Dataset"):
        Setting(data=data).agreed("data", other, other)


def test_settings_are_values() -> None:
    setting = Setting("adam", step=0.1)
    assert setting == Setting("adam", step=0.1) != Setting("adam", step=0.2)
    assert set(asdict(Setting()).values()) == {None}
    assert replace(setting, engine="dense").engine == "dense"
    with pytest.raises(FrozenInstanceError):
        setting.step = 0.2  # type: ignore[misc]


HALF = sf.SquareLoss()
FULL = sf.SquareLoss("sum")
EXPECTED: dict[str, Setting] = {
    "descent, dense": Setting("gradient_descent", "dense", PLANE, HALF, step=0.01, epsilon=1.0),
    "descent, cones": Setting("gradient_descent", "cones", PLANE, HALF, step=0.01, epsilon=0.5),
    "descent, patterns, sum": Setting("gradient_descent", "patterns", PLANE, FULL, step=0.01, epsilon=1.0),
    "stochastic, plain": Setting("stochastic_descent", "plain", TARGET, HALF, step=0.01, epsilon=0.1),
    "adam, sweep": Setting("adam", "sweep", CURVE, HALF, step=1e-3),
    "alternating, gd": Setting("alternating_least_squares", "gd", CURVE, HALF, step=0.1),
    "flow, walls": Setting("gradient_flow", "walls", PLANE, HALF, None, 1.0, 1.0, 1e-8),
    "flow, cones": Setting("gradient_flow", "cones", PLANE, HALF, None, 1.0, 0.5, 1e-8),
    "flow, stages": Setting("gradient_flow", "stages", CURVE, HALF, None, 2.0, 1.0, 1e-8),
    "flow, leaps": Setting("gradient_flow", "leaps", LOGS[1], HALF, None, 1.0, 1.0, 1e-8),
    "population, smooth": Setting("population_flow", "smooth", TARGET, HALF, None, 2.0, 0.3, 1e-8),
    "population, stiff": Setting("population_flow", "stiff", TARGET, HALF, None, 1.0, 1.0, 1e-8),
    "two timescales, events": Setting("two_timescale_limit", "events", TARGET, HALF, tolerance=1e-8),
    "moves, windowed": Setting("active_neuron_least_squares", "windowed", CURVE, HALF),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_verb_says_what_it_did(name: str) -> None:
    trajectory = {**DESCENTS, **FLOWS, **MOVES}[name]()
    assert trajectory.setting == EXPECTED[name]
    assert trajectory.setting.engine == trajectory.statistics["engine"]


def test_the_limit_process_says_what_it_did() -> None:
    assert jumps().setting == Setting("saddle_to_saddle", "jumps", LOGS[1], HALF)


def test_a_flow_that_cannot_begin_says_what_it_was_to_do() -> None:
    dataset = sf.Dataset([[1e200, 0.0]], [1e200])
    trajectory = sf.gradient_flow(sf.initialize.balanced(3, 2), dataset, until=1.0, speed=3.0)
    assert trajectory.outcome.status == "diverged"
    assert trajectory.setting == Setting("gradient_flow", None, dataset, HALF, None, 3.0, 1.0, 1e-8)


@pytest.mark.parametrize("one", [1, np.int64(1), np.float32(1.0)])
def test_numbers_of_any_type_become_plain_ones(one: Any) -> None:
    """They go into files."""
    for trajectory in (
        sf.stochastic_descent(STEPS, TARGET, step=one, steps=1, epsilon=one),
        sf.gradient_descent(KNOTS, CURVE, step=one, steps=1, epsilon=one),
        sf.gradient_flow(KNOTS, CURVE, until=0.1, speed=one, epsilon=one),
        sf.population_flow(STEPS, TARGET, until=0.1, speed=one, epsilon=one),
    ):
        found = trajectory.setting
        numbers = [value for value in (found.step, found.speed, found.epsilon) if value is not None]
        assert [(type(value), value) for value in numbers] == [(float, 1.0)] * 2
