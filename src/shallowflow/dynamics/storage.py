"""Trajectories on disk, as files of plain arrays (`array_file`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from shallowflow.arrays import Floats, vector
from shallowflow.dynamics.array_file import Arrays, FileKind, Header, check_shape
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import unflatten
from shallowflow.dynamics.path_formats import FORMATS, PathFormat
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import FileFormatError
from shallowflow.models.networks import NETWORKS, Network

ARRAYS = ("times", "losses", "path_times")
"""The arrays of every file; those of `path_formats` join them."""


def save(trajectory: Trajectory, path: Path) -> None:
    """Write `trajectory` to `path` atomically."""
    template = trajectory.path.template
    entries, values = FORMATS[trajectory.path.kind].taken_apart(trajectory.path)
    header = {
        "network": {
            "type": type(template).__name__,
            "shapes": {name: list(values.shape) for name, values in template.parameters.items()},
            "constants": _constants(template),
        },
        "path": trajectory.path.kind,
        **entries,
        "events": [[e.time, e.kind, e.neuron, e.point] for e in trajectory.events],
        "outcome": [trajectory.outcome.status, trajectory.outcome.message, trajectory.outcome.advice],
        "statistics": dict(trajectory.statistics),
    }
    arrays: Arrays = {
        "times": trajectory.times,
        "losses": trajectory.losses,
        "path_times": trajectory.path.times,
        **values,
    }
    TRAJECTORY.write(path, header, arrays)


def load(path: Path) -> Trajectory:
    """Read a trajectory; raise `FileFormatError` unless the whole file is sound."""
    return TRAJECTORY.read(path, _assemble)


def _constants(network: Network) -> dict[str, float]:
    return {k: v for k, v in network.__dict__.items() if k not in network.PARAMETERS}


def _path_format(header: Header) -> PathFormat:
    if header.get("path") not in FORMATS:
        raise FileFormatError(f"its path is of unknown kind {header.get('path')!r}")
    return FORMATS[header["path"]]


def _arrays(header: Header) -> tuple[tuple[str, ...], frozenset[str]]:
    kept = _path_format(header)
    return ARRAYS + kept.names, kept.integers


TRAJECTORY = FileKind("shallowflow.trajectory", 1, "trajectory", _arrays)


def _assemble(header: Header, arrays: Arrays) -> Trajectory:
    kept = _path_format(header)
    first = kept.first(arrays)
    network = unflatten(_template(header["network"], first.size), first)
    for name in ("path_times", "times"):
        check_shape(name, arrays[name], (len(arrays[name]),))
        _check_times(name, arrays[name])
    check_shape("losses", arrays["losses"], arrays["times"].shape)
    path = kept.assembled(network, header, arrays)
    events = tuple(Event(float(t), str(kind), int(j), int(k)) for t, kind, j, k in header["events"])
    return Trajectory(
        arrays["times"], arrays["losses"], path, events, Outcome(*header["outcome"]), header["statistics"]
    )


def _template(described: dict[str, Any], size: int) -> Network:
    """Return a network of zeros of the described shapes, which must hold `size` numbers."""
    network = {network.__name__: network for network in NETWORKS}[described["type"]]
    shapes = {name: [int(length) for length in described["shapes"][name]] for name in network.PARAMETERS}
    if sum(math.prod(shape) for shape in shapes.values()) != size:
        raise FileFormatError(f"path_values holds {size} numbers per network, not {shapes}")
    parameters: dict[str, Any] = {name: np.zeros(shape) for name, shape in shapes.items()}
    return network(**parameters, **{name: float(value) for name, value in described["constants"].items()})


def _check_times(name: str, times: Floats) -> None:
    if np.any(np.diff(vector(times, name)) < 0):
        raise FileFormatError(f"{name} goes back in time")
