"""Arguments of what [two_timescale] says about targets and positions (numbers: tests of its certificates)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow import landscape
from shallowflow.landscape.two_timescale.step_classes import beside_jumps

TARGET = sf.PiecewiseConstant([0.5], [0.0, 1.0])
NETWORK = sf.StepNetwork([0.3, 0.6], [0.0, 0.0])


@pytest.mark.parametrize("place", [-0.5, 0.0, 1.0, 1.5])
def test_jumps_outside_of_the_interval_have_no_goodness(place: float) -> None:
    target = sf.PiecewiseConstant([place], [0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match=r"target: must have its jumps inside \(0, 1\)"):
        landscape.goodness(NETWORK, target)
    with pytest.raises(sf.InvalidInputError, match=r"target: must have its jumps inside \(0, 1\)"):
        landscape.step_class(target)


@pytest.mark.parametrize("delta", [0, 5, -0.1, float("nan"), "a"])
def test_a_probability_of_failure_lies_in_the_unit_interval(delta: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="delta: must be"):
        landscape.step_class(TARGET).neurons(delta)


@pytest.mark.parametrize("sharpness", [-1, float("nan"), "a", None])
def test_the_floor_needs_a_sharpness(sharpness: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="sharpness: must be"):
        landscape.covered_error(TARGET, sharpness)
    assert landscape.covered_error(TARGET, 0.28) == pytest.approx(0.01)


@pytest.mark.parametrize("wrong", ["a", None])
def test_other_things_are_refused(wrong: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="target: must be a PiecewiseConstant"):
        landscape.step_class(wrong)
    with pytest.raises(sf.InvalidInputError, match="target: must be a PiecewiseConstant"):
        landscape.covered_error(wrong, 0.1)
    for call in (landscape.feature_gram, landscape.separation, landscape.well_separated):
        with pytest.raises(sf.InvalidInputError, match="network: must be a StepNetwork"):
            call(wrong)
    assert np.isfinite(landscape.separation(NETWORK))


def test_neurons_beside_jumps_are_the_nearest_on_either_side() -> None:
    rng = np.random.default_rng(0)
    positions, target = rng.random(12), sf.PiecewiseConstant([0.2, 0.55, 0.999], [0.0, 1.0, 0.0, 1.0])
    expected = set()
    for jump in target.breakpoints:
        for side in (positions[positions < jump], positions[positions >= jump]):
            if side.size:
                nearest = side[np.argmin(np.abs(side - jump))]
                expected.add(int(np.flatnonzero(positions == nearest)[0]))
    found = beside_jumps(positions, target)
    assert set(np.flatnonzero(found).tolist()) == expected
