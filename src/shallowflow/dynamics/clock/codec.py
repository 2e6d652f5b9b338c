"""Trajectories on disk: files of plain arrays and one JSON header, an uncompressed zip without pickle.

A file is written beside its target, flushed to the disk, and renamed over it: a crash leaves the old file or
the new one. It is read only if it is whole: checksums, names, types and shapes are checked first. Members
are stored uncompressed and nothing is allocated on a header's word, so reading takes about as much memory as
the file has bytes, whoever wrote it.

Every column of a path is a member. Shapes, ranges, orders and finiteness follow from what the path's class
declares of its columns. Version 2 adds the setting, and the first network as a member of its own. Version 1
is read, too.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, real, vector
from shallowflow.data.dataset import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.clock.paths import Table
from shallowflow.dynamics.clock.protocol import Column, Event, Path, flatten, unflatten
from shallowflow.dynamics.clock.trajectory import Outcome, Setting, Trajectory
from shallowflow.errors import FileFormatError, ShallowflowError
from shallowflow.files import write_atomically
from shallowflow.models.loss import LogisticLoss, NormLoss, SquareLoss
from shallowflow.models.networks import NETWORKS, BaseNetwork, Network

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Written = Mapping[str, NDArray[Any] | Table]
Kept = TypeVar("Kept")

BROKEN = (
    zipfile.BadZipFile,
    struct.error,
    EOFError,
    RuntimeError,  # zipfile: encrypted or of an unknown version; json: nested too deeply
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
)
"""What reading a damaged or foreign file may raise."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its mark in the header, the versions that are read (the last is written), what it holds
    in words, and its arrays.

    `arrays(header)` names them, and says which hold whole numbers.
    """

    mark: str
    versions: tuple[int, ...]
    what: str
    arrays: Callable[[Header], tuple[tuple[str, ...], frozenset[str]]]

    def write(self, path: FilePath, header: Mapping[str, Any], arrays: Written) -> None:
        """Write header entries and arrays atomically."""
        entries = {"format": self.mark, "version": self.versions[-1], **header}
        write_atomically(path, lambda file: _write(file, entries, arrays))

    def read(self, path: FilePath, assembled: Callable[[Header, Arrays], Kept]) -> Kept:
        """Return `assembled(header, arrays)`; raise `FileFormatError` unless the whole file is sound."""
        try:
            return assembled(*self._members(path))
        except OSError as error:
            raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}") from error
        except ShallowflowError as error:
            raise FileFormatError(f"{path}: is not a sound {self.what} file: {error}") from error
        except BROKEN as error:
            cause = str(error) or "it ends too early"
            raise FileFormatError(f"{path}: is not a whole shallowflow {self.what} file: {cause}") from error

    def _members(self, path: FilePath) -> tuple[Header, Arrays]:
        foreign = f"it holds other members than a {self.what} has"
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            found = {member.filename for member in members}
            if "header.json" not in found or len(members) != len(found):
                raise FileFormatError(foreign)
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise FileFormatError("its members are compressed")
            header = json.loads(archive.read("header.json"))
            if not isinstance(header, dict) or header.get("format") != self.mark:
                raise FileFormatError(f"its header is not a {self.what}'s")
            if header.get("version") not in self.versions:
                known = " and ".join(map(str, self.versions))
                raise FileFormatError(f"its version is {header.get('version')!r}, this program reads {known}")
            names, whole = self.arrays(header)
            if found != {"header.json", *(f"{name}.npy" for name in names)}:
                raise FileFormatError(foreign)
            return header, {name: _array(archive.read(f"{name}.npy"), name, name in whole) for name in names}


def check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape."""
    if array.shape != shape:
        raise FileFormatError(f"{name} has shape {array.shape} instead of {shape}")


def _write(file: Any, header: Mapping[str, Any], arrays: Written) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for name in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_array(member, arrays[name])


def _write_array(member: Any, values: NDArray[Any] | Table) -> None:
    """Write an array; a table row by row, so that no more of it is made at a time."""
    if isinstance(values, np.ndarray):
        np.lib.format.write_array(member, np.ascontiguousarray(values), allow_pickle=False)
        return
    described = {"descr": "<f8", "fortran_order": False, "shape": values.shape}
    np.lib.format.write_array_header_1_0(member, described)
    for row in values:
        member.write(row.astype("<f8", copy=False).tobytes())


def _array(content: bytes, name: str, whole: bool) -> NDArray[Any]:
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise FileFormatError(f"{name} is an array of an unknown version")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    kind = np.dtype(np.int64 if whole else np.float64)
    if dtype != kind or fortran_order:
        raise FileFormatError(f"{name} must be {kind} in C order, got {dtype}")
    array = np.frombuffer(content, dtype=kind, offset=stream.tell())
    if array.size != math.prod(shape):
        raise FileFormatError(f"{name} has {array.size} entries instead of shape {shape}")
    return array.reshape(shape)


def format_of(path: FilePath) -> str | None:
    """Return the mark of a file, without looking at the rest of it; None if it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            mark = json.loads(archive.read("header.json"))["format"]
    except (OSError, *BROKEN):
        return None
    return mark if isinstance(mark, str) else None


KINDS = {
    "snapshots": "shallowflow.dynamics.clock.paths:Snapshots",
    "polynomials": "shallowflow.dynamics.clock.paths:Polynomials",
    "groups": "shallowflow.dynamics.clock.paths:GroupPath",
    "walls": "shallowflow.dynamics.clock.paths:WallPath",
    "replayed": "shallowflow.dynamics.clock.paths:Replayed",
    "moves": "shallowflow.dynamics.anls:Moves",
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
    arrays: dict[str, NDArray[Any] | Table] = {"times": trajectory.times, "losses": trajectory.losses}
    arrays |= {"path_times": kept.times, "path_start": flatten(kept.template)}
    for name, column in kept.columns().items():
        values = getattr(kept, name)
        if isinstance(values, Table):
            arrays[f"path_{name}"] = values
        elif values is not None and name != "times":
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
