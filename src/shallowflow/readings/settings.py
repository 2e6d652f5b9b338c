"""What a run says of itself against what its reader says.

A trajectory from elsewhere, or from an old file, may say nothing; then the reader's arguments count.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from shallowflow.arrays import shown
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError

Value = TypeVar("Value")


def agreed(trajectory: Trajectory | None, name: str, given: Value, default: Value) -> Value:
    """Return the run's own value of a setting; an argument that contradicts it is refused.

    An argument equal to the default counts as not given. Where the run does not say, the argument counts.
    """
    if isinstance(given, np.ndarray | list | tuple):
        raise InvalidInputError(f"{name}: must be a single value, got {shown(given)}")
    if trajectory is None:
        return given
    return trajectory.setting.agreed(name, None if given == default else given, default)
