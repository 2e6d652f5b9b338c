"""`Setting`: what a run was asked to do, carried by its trajectory and its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from shallowflow.data.dataset import Dataset
from shallowflow.data.targets import Additive, PiecewiseAffine, PiecewiseConstant
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import Loss

Given = TypeVar("Given")


@dataclass(frozen=True)
class Setting:
    """What a run was asked to do; None: unknown (a file of version 1), or without a meaning for this verb.

    data: the data set or the target; step: of a descent; speed: the factor of a flow's gradient; epsilon: how
    much faster the inner layer moves.
    """

    verb: str | None = None
    engine: str | None = None
    data: Dataset | PiecewiseConstant | PiecewiseAffine | Additive | None = None
    loss: Loss | None = None
    step: float | None = None
    speed: float | None = None
    epsilon: float | None = None
    tolerance: float | None = None

    def agreed(self, name: str, given: Given | None, default: Given) -> Given:
        """Return the run's own value; refuse another one; where it is unknown, what was given or the default.

        Examples
        --------
        >>> Setting(speed=24.0).agreed("speed", None, 1.0), Setting().agreed("speed", 2.0, 1.0)
        (24.0, 2.0)
        """
        own: Given | None = getattr(self, name)
        if own is None:
            return default if given is None else given
        if given is not None and given != own:
            raise InvalidInputError(f"{name}: the trajectory was made with {own!r}, got {given!r}")
        return own
