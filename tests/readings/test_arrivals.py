"""Arrivals at jumps against the closed form of the limit."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.arrivals import arrivals

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
