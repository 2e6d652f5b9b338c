"""Trajectories on disk, as files of plain arrays (`array_file`): every column of a path is a member.

Shapes, ranges, orders and finiteness follow from what the path's class declares of its columns. Version 2
adds the setting, and the first network as a member of its own. Version 1 is read, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, real, vector
from shallowflow.data.dataset import Dataset
from shallowflow.data.targets import Additive, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.clock.array_file import Arrays, FileKind, Header, check_shape
from shallowflow.dynamics.clock.outcome import Event, Outcome
from shallowflow.dynamics.clock.paths import Column, Path, flatten, unflatten
from shallowflow.dynamics.clock.setting import Setting
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import FileFormatError
from shallowflow.models.base import BaseNetwork
from shallowflow.models.loss import LogisticLoss, NormLoss, SquareLoss
from shallowflow.models.networks import NETWORKS, Network

KINDS = {
    "snapshots": "shallowflow.dynamics.clock.paths:Snapshots",
    "polynomials": "shallowflow.dynamics.clock.paths:Polynomials",
    "groups": "shallowflow.dynamics.clock.group_path:GroupPath",
    "walls": "shallowflow.dynamics.clock.wall_path:WallPath",
    "replayed": "shallowflow.dynamics.clock.replayed:Replayed",
    "moves": "shallowflow.dynamics.engines.anls:Moves",
    "saddles": "shallowflow.dynamics.saddle_to_saddle:Saddles",
}
"""Kind of path → where its class is; imported when one is read."""
ARRAYS = ("times", "losses", "path_times")
LOSSES = {loss.__name__: loss for loss in (SquareLoss, LogisticLoss, NormLoss)}
TARGETS = {target.__name__: target for target in (PiecewiseConstant, PiecewiseAffine)}
SYMBOL = re.compile(r"(\d*)([A-Za-z])([+-]\d+)?")


def save(trajectory: Trajectory[BaseNetwork], path: FilePath) -> None:
    """Write `trajectory` to `path` atomically."""
    kept = trajectory.path
    arrays: Arrays = {"times": trajectory.times, "losses": trajectory.losses, "path_times": kept.times}
    arrays["path_start"] = flatten(kept.template)
    for name, column in kept.columns().items():
        values = getattr(kept, name)
        if values is not None and name != "times":
            arrays[f"path_{name}"] = values.astype(np.int64 if column.whole else np.float64, copy=False)
    setting, data = _setting_apart(trajectory.setting, sum(values.nbytes for values in arrays.values()))
    header = {
        "network": _described(kept.template),
        "path": kept.kind,
        "scalars": {name: getattr(kept, name) for name in _scalars(type(kept))},
        "columns": [name for name in sorted(kept.optional()) if getattr(kept, name) is not None],
        "setting": setting,
        "events": [[e.time, e.kind, e.neuron, e.point] for e in trajectory.events],
        "outcome": [trajectory.outcome.status, trajectory.outcome.message, trajectory.outcome.advice],
        "statistics": dict(trajectory.statistics),
    }
    TRAJECTORY.write(path, header, {**arrays, **data})


def load(path: FilePath) -> Trajectory[Network]:
    """Read a trajectory; raise `FileFormatError` unless the whole file is sound."""
    return TRAJECTORY.read(path, _assemble)


def _described(network: BaseNetwork) -> dict[str, Any]:
    return {
        "type": type(network).__name__,
        "shapes": {name: list(values.shape) for name, values in network.parameters.items()},
        "constants": {k: v for k, v in network.__dict__.items() if k not in network.PARAMETERS},
    }


def _setting_apart(setting: Setting, room: int) -> tuple[Header, Arrays]:
    """Return a setting as header entries and arrays; data that take more than `room` bytes stay out."""
    entries: Header = {f.name: getattr(setting, f.name) for f in fields(setting)}
    loss, data, arrays = setting.loss, setting.data, Arrays()
    if isinstance(loss, SquareLoss | LogisticLoss | NormLoss):
        entries["loss"] = [type(loss).__name__, asdict(loss)]
    entries["data"] = None
    if isinstance(data, Dataset) and data.inputs.nbytes + data.targets.nbytes <= room:
        entries["data"] = ["Dataset", data.name]
        arrays = {"data_inputs": data.inputs, "data_targets": data.targets}
    elif isinstance(data, Additive):
        entries["data"] = ["Additive", [_target_apart(part) for part in data.components]]
    elif isinstance(data, PiecewiseConstant | PiecewiseAffine):
        entries["data"] = _target_apart(data)
    return entries, arrays


def _target_apart(target: PiecewiseConstant | PiecewiseAffine) -> list[Any]:
    return [type(target).__name__, [target.breakpoints.tolist(), target.values.tolist()]]


def _setting(header: Header, arrays: Arrays) -> Setting:
    """Return the setting of a file; nothing is known of one of version 1."""
    entries: dict[str, Any] = dict(header.get("setting", {}))
    for name in ("verb", "engine"):
        entries[name] = None if entries.get(name) is None else str(entries[name])
    for name in ("step", "speed", "epsilon", "tolerance"):
        entries[name] = None if entries.get(name) is None else real(entries[name], name)
    if entries.get("loss") is not None:
        kind, options = entries["loss"]
        entries["loss"] = LOSSES[kind](**options)
    kind, content = entries.get("data") or (None, ())
    if kind == "Dataset":
        entries["data"] = Dataset(arrays["data_inputs"], arrays["data_targets"], str(content))
    elif kind == "Additive":
        entries["data"] = Additive([TARGETS[part](*values) for part, values in content])
    elif kind is not None:
        entries["data"] = TARGETS[kind](*content)
    return Setting(**entries)


def _kind(header: Header) -> type[Path[Any]]:
    place = KINDS.get(str(header.get("path")))
    if place is None:
        raise FileFormatError(f"its path is of unknown kind {header.get('path')!r}")
    module, name = place.split(":")
    kind: type[Path[Any]] = getattr(import_module(module), name)
    return kind


def _columns(header: Header) -> dict[str, Column]:
    """Return the columns of a file's path, without its times; of the optional ones those that it names."""
    kind = _kind(header)
    absent = kind.optional() - set(header.get("columns", ()))
    return {k: column for k, column in kind.columns().items() if k not in absent and k != "times"}


def _arrays(header: Header) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of a file's arrays, and those of whole numbers."""
    columns = _columns(header)
    names = [*ARRAYS, *(f"path_{name}" for name in columns)]
    # Version 1 has the first network among the values, except in replayed paths, which have both.
    if header["version"] > 1 or header["path"] == "replayed":
        names.append("path_start")
    elif header["path"] == "groups":
        names.append("path_values")
    if (header.get("setting", {}).get("data") or [None])[0] == "Dataset":
        names += ["data_inputs", "data_targets"]
    return tuple(names), frozenset(f"path_{name}" for name, column in columns.items() if column.whole)


TRAJECTORY = FileKind("shallowflow.trajectory", (1, 2), "trajectory", _arrays)


def _assemble(header: Header, arrays: Arrays) -> Trajectory[Network]:
    for name in ("times", "path_times"):
        if np.any(np.diff(vector(arrays[name], name)) < 0):
            raise FileFormatError(f"{name} goes back in time")
    check_shape("losses", arrays["losses"], arrays["times"].shape)
    events = tuple(Event(float(t), str(kind), int(j), int(k)) for t, kind, j, k in header["events"])
    path, setting = _path(header, arrays), _setting(header, arrays)
    outcome = Outcome(*header["outcome"])
    return Trajectory(arrays["times"], arrays["losses"], path, events, outcome, header["statistics"], setting)


def _path(header: Header, arrays: Arrays) -> Path[Network]:
    """Return the path of a file, its columns checked against each other and against the network."""
    kind, columns = _kind(header), _columns(header)
    start = arrays["path_start"] if "path_start" in arrays else arrays["path_values"]
    first = start.reshape(-1, start.shape[-1])[0]
    network = unflatten(_template(header["network"], first.size), first)
    sizes = {"P": first.size, "m": network.width, "d": network.dimension}
    sizes["s"] = len(arrays["path_times"]) - 1
    found = {name: arrays[f"path_{name}"] for name in columns}
    for name, column in columns.items():
        _check(f"path_{name}", found[name], column, sizes)
    for name, column in columns.items():
        if column.below and np.any(found[name] >= max(_size(column.below, sizes), 1)):
            raise FileFormatError(f"path_{name} holds numbers that are too large")
    scalars = {name: _scalar(header, name) for name in _scalars(kind)}
    path = kind(network, arrays["path_times"], **found, **scalars)
    path.check()
    return path


def _check(name: str, values: NDArray[Any], column: Column, sizes: dict[str, int]) -> None:
    """Refuse an array that is not as its column says; its shape may set sizes that are not known yet."""
    for length, symbol in zip(values.shape, column.shape, strict=False):
        match = SYMBOL.fullmatch(str(symbol))
        if match and match[2] not in sizes and not match[1]:
            sizes[match[2]] = length - int(match[3] or 0)
    check_shape(name, values, tuple(_size(symbol, sizes) for symbol in column.shape))
    if not column.whole and column.finite and not np.isfinite(values).all():
        raise FileFormatError(f"{name} holds numbers that are not finite")
    if column.below and np.any(values < 0):
        raise FileFormatError(f"{name} holds negative numbers")
    if column.rising and np.any(np.diff(values) < 0):
        raise FileFormatError(f"{name} does not rise")


def _size(symbol: str | int, sizes: Mapping[str, int]) -> int:
    """Return the number behind a symbol such as 3C+2."""
    match = SYMBOL.fullmatch(str(symbol))
    if match is None:
        return int(symbol)
    return int(match[1] or 1) * sizes.get(match[2], 0) + int(match[3] or 0)


def _scalars(kind: type[Path[Any]]) -> list[str]:
    """Return the names of the fields that are not arrays."""
    return [f.name for f in fields(kind) if f.name not in kind.columns() and f.name != "template"]


def _scalar(header: Header, name: str) -> float | bool:
    """Return such a field from a header of either version."""
    if header["version"] > 1:
        value = header["scalars"][name]
    elif name in ("rate", "tiny"):
        value = header["replay"][("rate", "tiny").index(name)]
    else:
        value = header[name]
    return bool(value) if name == "sparse" else real(value, name)


def _template(described: dict[str, Any], size: int) -> Network:
    """Return a network of zeros of the described shapes, which must hold `size` numbers."""
    network = {network.__name__: network for network in NETWORKS}[described["type"]]
    shapes = {name: [int(length) for length in described["shapes"][name]] for name in network.PARAMETERS}
    if sum(math.prod(shape) for shape in shapes.values()) != size:
        raise FileFormatError(f"its networks hold {size} numbers, not {shapes}")
    parameters: dict[str, Floats] = {name: np.zeros(shape) for name, shape in shapes.items()}
    constants = {name: float(value) for name, value in described["constants"].items()}
    return network(**parameters, **constants)  # type: ignore[arg-type]
