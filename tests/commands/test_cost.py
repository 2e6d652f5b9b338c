from __future__ import annotations

import pytest

from shallowflow.commands.reproduce import REFERENCE, estimate, speed_test
from shallowflow.experiments import EXPERIMENTS, Experiment, Findings
from shallowflow.experiments.experiment import SCALES


def test_an_estimate_is_the_measured_cost_times_slowness() -> None:
    parameters: dict[str, dict[str, int]] = {"quick": {}, "paper": {}}
    experiment = Experiment("plateau/x", "", "", parameters, lambda *_: Findings((), ()), {"paper": 30.0})
    assert estimate(experiment, "paper", 2.0) == 60.0
    assert estimate(experiment, "quick") is None


def test_the_speed_test_takes_a_moment() -> None:
    assert REFERENCE / 50 < speed_test(1) < REFERENCE * 50


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_costs_are_times_by_scale(name: str) -> None:
    cost = EXPERIMENTS[name].cost
    assert set(cost) <= set(SCALES)
    assert all(seconds > 0 for seconds in cost.values())
