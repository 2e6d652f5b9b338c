"""What a run says of itself: how it was made, and which neurons it held on which data points.

A trajectory from elsewhere, or from an old file, may say neither; then the reader's arguments count.
"""

from __future__ import annotations

from typing import TypeVar

from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.landscape.geometry.activity import Resting

Value = TypeVar("Value")


def agreed(trajectory: Trajectory | None, name: str, given: Value, default: Value) -> Value:
    """Return the run's own value of a setting; an argument that contradicts it is refused.

    An argument equal to the default counts as not given. Where the run does not say, the argument counts.
    """
    setting = getattr(trajectory, "setting", None)
    if setting is None:
        return given
    value: Value = setting.agreed(name, None if given == default else given, default)
    return value


def resting_at(trajectory: Trajectory, time: float) -> Resting | None:
    """Return the pairs (neurons, points) that rest at a time, None where the run does not say."""
    resting = getattr(trajectory, "resting", None)
    pairs: Resting | None = None if resting is None else resting(time)
    return pairs
