"""Readers take the settings of a run from the run; an argument that contradicts it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import certify
from shallowflow.data.generators import orthogonal
from shallowflow.readings.settings import agreed, resting_at


@dataclass(frozen=True)
class Setting:
    """What a run may say of itself."""

    speed: float | None = None
    loss: sf.SquareLoss | None = None

    def agreed(self, name: str, given: Any, default: Any) -> Any:
        """Return the run's value, unless another was given."""
        own = getattr(self, name, None)
        if own is None:
            return default if given is None else given
        if given not in (None, own):
            raise sf.InvalidInputError(f"{name}: the run had {own}, got {given}")
        return own


def with_setting(trajectory: sf.Trajectory, **settings: Any) -> sf.Trajectory:
    """Return the trajectory with these settings."""
    trajectory.__dict__["setting"] = Setting(**settings)
    return trajectory


DATA = orthogonal(6, 12, seed=1)
START = sf.initialize.asymmetric(24, 12, seed=1)


def test_a_certificate_reads_the_clock_of_its_run() -> None:
    """⟨μ⟩ at speed 24 was reported 24 times too large."""
    run = sf.gradient_flow(START, DATA, until=2.0, speed=24.0)
    given = certify("weak_interaction/theorem-1", START, DATA, run, speed=24.0).promises[2].observed
    assert given == pytest.approx(np.log(run.losses[0] / run.losses[-1]) / 2.0)
    run = with_setting(run, speed=24.0)
    for options in ({}, {"speed": 24.0}):
        found = certify("weak_interaction/theorem-1", START, DATA, run, **options)
        assert found.promises[2].observed == pytest.approx(given, rel=1e-12)
    with pytest.raises(sf.InvalidInputError, match=r"speed: the run had 24\.0, got 3\.0"):
        certify("weak_interaction/theorem-1", START, DATA, run, speed=3.0)


def test_stages_and_phases_read_the_clock_and_the_loss_of_their_run() -> None:
    line = sf.Dataset([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 0.5, 2.0])
    start = sf.KnotNetwork([0.5, 1.5], [1.0, 1.0])
    run = sf.gradient_flow(start, line, until=0.5, speed=3.0)
    expected = sf.stages(run, line, speed=3.0)[0]
    found = sf.stages(with_setting(run, speed=3.0, loss=sf.SquareLoss()), line)[0]
    np.testing.assert_array_equal(found.r_max, expected.r_max)
    with pytest.raises(sf.InvalidInputError, match="loss: the run had"):
        sf.stages(run, line, loss=sf.SquareLoss("sum"))
    with pytest.raises(sf.InvalidInputError, match="speed: the run had"):
        sf.stages(run, line, speed=2.0)
    with pytest.raises(sf.InvalidInputError, match="speed: the run had"):
        sf.certify("plateau/theorem-3.1", start, line, run, speed=2.0)


def test_where_a_run_does_not_say_the_argument_counts() -> None:
    run = sf.gradient_descent(START, DATA, step=0.1, steps=3)
    assert agreed(run, "epsilon", 0.25, 1.0) == 0.25
    assert agreed(with_setting(run), "speed", 3.0, 1.0) == 3.0
    assert agreed(None, "speed", 3.0, 1.0) == 3.0


def test_resting_pairs_are_handed_down() -> None:
    run = sf.gradient_descent(START, DATA, step=0.1, steps=3)
    everything = tuple(np.indices((24, 6)).reshape(2, -1))
    run.__dict__["resting"] = lambda time: everything if time > 0 else None
    assert resting_at(run, 0.0) is None
    found = certify("weak_interaction/theorem-1", START, DATA, run)
    assert found.promises[3].observed == 6  # no sample is active for any neuron
