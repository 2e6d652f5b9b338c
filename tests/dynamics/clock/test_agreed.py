"""Readers take the settings of a run from the run; an argument that contradicts it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import certify
from shallowflow.data.generators import orthogonal
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.trajectory import Setting, agreed

DATA = orthogonal(6, 12, seed=1)
START = sf.initialize.asymmetric(24, 12, seed=1)


def test_a_certificate_reads_the_clock_of_its_run() -> None:
    """⟨μ⟩ at speed 24 was reported 24 times too large."""
    run = sf.gradient_flow(START, DATA, until=2.0, speed=24.0)
    given = certify("weak_interaction/theorem-1", START, DATA, run, speed=24.0).promises[2].observed
    assert given == pytest.approx(np.log(run.losses[0] / run.losses[-1]) / 2.0)
    for options in ({}, {"speed": 24.0}):
        found = certify("weak_interaction/theorem-1", START, DATA, run, **options)
        assert found.promises[2].observed == pytest.approx(given, rel=1e-12)
    with pytest.raises(sf.InvalidInputError, match=r"speed: the trajectory was made with 24\.0, got 3\.0"):
        certify("weak_interaction/theorem-1", START, DATA, run, speed=3.0)


def test_stages_and_phases_read_the_clock_and_the_loss_of_their_run() -> None:
    line = sf.Dataset([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 0.5, 2.0])
    start = sf.KnotNetwork([0.5, 1.5], [1.0, 1.0])
    run = sf.gradient_flow(start, line, until=0.5, speed=3.0)
    expected = sf.stages(run, line, speed=3.0)[0]
    found = sf.stages(run, line)[0]
    np.testing.assert_array_equal(found.r_max, expected.r_max)
    with pytest.raises(sf.InvalidInputError, match="loss: the trajectory was made"):
        sf.stages(run, line, loss=sf.SquareLoss("sum"))
    with pytest.raises(sf.InvalidInputError, match="speed: the trajectory was made"):
        sf.stages(run, line, speed=2.0)
    with pytest.raises(sf.InvalidInputError, match="speed: the trajectory was made"):
        sf.certify("plateau/theorem-3.1", start, line, run, speed=2.0)


def test_where_a_run_does_not_say_the_argument_counts() -> None:
    run = sf.gradient_descent(START, DATA, step=0.1, steps=3)
    assert agreed(run, "epsilon", 1.0, 1.0) == 1.0
    unknown = replace(run, setting=Setting())
    assert agreed(unknown, "epsilon", 0.25, 1.0) == 0.25
    assert agreed(unknown, "speed", 3.0, 1.0) == 3.0
    assert agreed(None, "speed", 3.0, 1.0) == 3.0


def test_resting_pairs_are_handed_down() -> None:
    """A log that says that every neuron rests on every point from the first step on."""
    run = sf.gradient_descent(START, DATA, step=0.1, steps=3)
    assert isinstance(run.path, Snapshots)
    neurons, points = np.indices((24, 6)).reshape(2, -1)
    log: dict[str, Any] = {"rest_times": np.full(144, 0.1), "rest_neurons": neurons, "rest_points": points}
    run = replace(run, path=replace(run.path, **log))
    found = certify("weak_interaction/theorem-1", START, DATA, run)
    assert found.promises[3].observed == 6  # no sample is active for any neuron
