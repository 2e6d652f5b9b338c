"""`Trajectory`: the one result of every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, shown
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import Path
from shallowflow.errors import InvalidInputError
from shallowflow.files import as_path
from shallowflow.models.networks import Network

if TYPE_CHECKING:
    import xarray

Statistics = Mapping[str, float | int | str]


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(FrozenArrays):
    """What a run did: losses over time, networks over time, events, outcome, statistics.

    times, losses: (K,) recorded; path: networks as a function of time (see `dynamics.path`);
    `tr(t)` is the network at time t. A descent's time is step × number of steps.
    """

    times: Floats
    losses: Floats
    path: Path
    events: tuple[Event, ...]
    outcome: Outcome
    statistics: Statistics = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in self.statistics.items()}
        self.__dict__["statistics"] = MappingProxyType(plain)

    def __getstate__(self) -> dict[str, object]:
        # A mapping proxy cannot be pickled: it travels as a dict, and `__post_init__` wraps it again.
        return {**self.__dict__, "statistics": dict(self.statistics)}

    def __repr__(self) -> str:
        return (
            f"Trajectory({len(self.times)} times in [{self.times[0]:g}, {self.times[-1]:g}], "
            f"loss {self.losses[0]:.4g} → {self.losses[-1]:.4g}, {len(self.events)} events, {self.outcome})"
        )

    def __call__(self, t: float) -> Network:
        """Return the network at time t."""
        return self.path(t)

    @property
    def initial(self) -> Network:
        """The network at the start."""
        return self.path(float(self.path.times[0]))

    @property
    def final(self) -> Network:
        """The network at the end."""
        return self.path(float(self.path.times[-1]))

    def to_xarray(self) -> xarray.Dataset:
        """Return losses over `time` and parameters over `recorded` as a labelled data set."""
        import xarray

        variables: dict[str, tuple[tuple[str, ...], Floats]] = {"loss": (("time",), self.losses)}
        values, start = self.path.recorded(), 0
        for name, array in self.path.template.parameters.items():
            block = values[:, start : start + array.size].reshape(len(values), *array.shape)
            axes = ("neuron", "coordinate")[: array.ndim]
            variables[name] = (("recorded", *axes), block)
            start += array.size
        return xarray.Dataset(
            variables,
            coords={"time": self.times, "recorded": self.path.times},
            attrs={"outcome": str(self.outcome), **self.statistics},
        )

    def save(self, path: str | FilePath) -> None:
        """Write the trajectory to a file, atomically: the old file or the new one, never a broken one."""
        from shallowflow.dynamics.storage import save

        save(self, as_path(path))

    @classmethod
    def load(cls, path: str | FilePath) -> Trajectory:
        """Read a trajectory written by `save`; anything else raises `FileFormatError`."""
        from shallowflow.dynamics.storage import load

        return load(as_path(path))


def checked_trajectory(trajectory: object, name: str = "trajectory") -> Trajectory:
    """Return the argument if it is a `Trajectory`."""
    if not isinstance(trajectory, Trajectory):
        raise InvalidInputError(f"{name}: must be a Trajectory, got {shown(trajectory)}")
    return trajectory
