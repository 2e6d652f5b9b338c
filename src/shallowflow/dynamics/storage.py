"""Trajectories on disk: an uncompressed zip of plain arrays and one JSON header. No pickle.

The file is written beside its target, flushed to the disk, and renamed over it: a crash leaves the old file
or the new one. It is read only if it is whole: checksums, names, types and shapes are checked first.
Members are stored uncompressed and nothing is allocated on a header's word, so reading takes about as much
memory as the file has bytes, whoever wrote it.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, positive, vector
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics import group_storage
from shallowflow.dynamics.group_path import GroupPath
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import Path as NetworkPath
from shallowflow.dynamics.path import Polynomials, Snapshots, flatten, unflatten
from shallowflow.dynamics.replayed import Replayed
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import FileFormatError, ShallowflowError
from shallowflow.files import write_atomically
from shallowflow.models.networks import NETWORKS, LogScaledNetwork, Network

FORMAT = "shallowflow.trajectory"
VERSION = 1
ARRAYS = ("times", "losses", "path_times", "path_values")
REPLAY_ARRAYS = ("path_start", "path_inputs", "path_targets")
"""What a replayed path needs besides: its first network, and the problem."""
MORE_ARRAYS = {Replayed.kind: REPLAY_ARRAYS, GroupPath.kind: group_storage.ARRAYS}
"""The arrays that paths of some kinds need besides those of every file."""
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


def save(trajectory: Trajectory, path: Path) -> None:
    """Write `trajectory` to `path` atomically."""
    template = trajectory.path.template
    header = {
        "format": FORMAT,
        "version": VERSION,
        "network": {
            "type": type(template).__name__,
            "shapes": {name: list(values.shape) for name, values in template.parameters.items()},
            "constants": _constants(template),
        },
        "path": trajectory.path.kind,
        "sparse": getattr(trajectory.path, "sparse", False),
        "root": getattr(trajectory.path, "root", 1.0),
        "events": [[e.time, e.kind, e.neuron, e.point] for e in trajectory.events],
        "outcome": [trajectory.outcome.status, trajectory.outcome.message, trajectory.outcome.advice],
        "statistics": dict(trajectory.statistics),
    }
    arrays: dict[str, NDArray[Any]] = {
        "times": trajectory.times,
        "losses": trajectory.losses,
        "path_times": trajectory.path.times,
        **_values(trajectory.path),
    }
    if isinstance(trajectory.path, Replayed):
        replayed = trajectory.path
        header["replay"] = [replayed.rate, replayed.tiny]
        arrays["path_start"] = flatten(template)
        arrays["path_inputs"], arrays["path_targets"] = replayed.inputs, replayed.targets
    write_atomically(path, lambda file: _write(file, header, arrays))


def load(path: Path) -> Trajectory:
    """Read a trajectory; raise `FileFormatError` unless the whole file is sound."""
    try:
        header, arrays = _read(path)
        return _assemble(header, arrays)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ShallowflowError as error:
        raise FileFormatError(f"{path}: is not a sound trajectory file: {error}") from error
    except BROKEN as error:
        what = str(error) or "it ends too early"
        raise FileFormatError(f"{path}: is not a whole shallowflow trajectory file: {what}") from error


def _values(path: NetworkPath) -> dict[str, NDArray[Any]]:
    if isinstance(path, GroupPath):
        return {"path_values": flatten(path.template)[None], **group_storage.stored(path)}
    return {"path_values": path.values}


def _names(kind: str) -> tuple[str, ...]:
    """Return the arrays that a file with a path of this kind holds."""
    return ARRAYS + MORE_ARRAYS.get(kind, ())


def _constants(network: Network) -> dict[str, float]:
    return {k: v for k, v in network.__dict__.items() if k not in network.PARAMETERS}


def _write(file: Any, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for name in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(arrays[name]), allow_pickle=False)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        found = {member.filename for member in members}
        held = [{"header.json", *(f"{name}.npy" for name in _names(kind))} for kind in ("", *MORE_ARRAYS)]
        if found not in held or len(members) != len(found):
            raise FileFormatError("it holds other members than a trajectory has")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise FileFormatError("its members are compressed")
        header = json.loads(archive.read("header.json"))
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise FileFormatError("its header is not a trajectory's")
        if header.get("version") != VERSION:
            raise FileFormatError(f"its version is {header.get('version')!r}, this program reads {VERSION}")
        names = _names(str(header.get("path")))
        if len(found) != 1 + len(names):
            raise FileFormatError("its members do not fit the kind of its path")
        return header, {name: _array(archive.read(f"{name}.npy"), name) for name in names}


def _array(content: bytes, name: str) -> NDArray[Any]:
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise FileFormatError(f"{name} is an array of an unknown version")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    kind = np.dtype(np.int64 if name in group_storage.INTEGERS else np.float64)
    if dtype != kind or fortran_order:
        raise FileFormatError(f"{name} must be {kind} in C order, got {dtype}")
    array = np.frombuffer(content, dtype=kind, offset=stream.tell())
    if array.size != math.prod(shape):
        raise FileFormatError(f"{name} has {array.size} entries instead of shape {shape}")
    return array.reshape(shape)


def _assemble(header: dict[str, Any], arrays: dict[str, Any]) -> Trajectory:
    times, values = arrays["path_times"], arrays["path_values"]
    first = arrays.get("path_start", values.reshape(-1, values.shape[-1])[0])
    network = unflatten(_template(header["network"], first.size), first)
    path: NetworkPath
    if (header["path"] == Replayed.kind) != ("path_start" in arrays):
        raise FileFormatError("its members do not fit the kind of its path")
    if header["path"] == Replayed.kind:
        path = _replayed(header, arrays, network)
    elif header["path"] == Snapshots.kind:
        _check_shape("path_values", values, (len(times), values.shape[-1]))
        path = Snapshots(network, times, values, bool(header["sparse"]))
    elif header["path"] == Polynomials.kind:
        _check_shape("path_values", values, (len(times) - 1, *values.shape[1:2], values.shape[-1]))
        path = Polynomials(network, times, values)
    elif header["path"] == GroupPath.kind:
        _check_shape("path_values", values, (1, values.shape[-1]))
        path = group_storage.assembled(network, times, arrays, header["root"])
    else:
        raise FileFormatError(f"its path is of unknown kind {header['path']!r}")
    if header["path"] == Polynomials.kind and values.shape[1] < 2:
        raise FileFormatError(f"path_values has {values.shape[1]} nodes per step instead of 2 or more")
    _check_times("path_times", times)
    _check_times("times", arrays["times"])
    _check_shape("path_times", times, (len(times),))
    _check_shape("times", arrays["times"], (len(arrays["times"]),))
    _check_shape("losses", arrays["losses"], arrays["times"].shape)
    events = tuple(Event(float(t), str(kind), int(j), int(k)) for t, kind, j, k in header["events"])
    return Trajectory(
        arrays["times"], arrays["losses"], path, events, Outcome(*header["outcome"]), header["statistics"]
    )


def _replayed(header: dict[str, Any], arrays: dict[str, Floats], network: Network) -> Replayed:
    """Return a replayed path, its problem checked against its network."""
    if not isinstance(network, LogScaledNetwork):
        raise FileFormatError(
            f"a replayed path is that of a LogScaledNetwork, not of a {type(network).__name__}"
        )
    data = Dataset(arrays["path_inputs"], arrays["path_targets"])
    _check_shape("path_inputs", data.inputs, (data.size, network.dimension))
    values = arrays["path_values"]
    _check_shape("path_values", values, (len(arrays["path_times"]), network.width, data.size + 1))
    rate, tiny = header["replay"]
    return Replayed(
        network,
        arrays["path_times"],
        values,
        data.inputs,
        data.targets,
        positive(rate, "rate"),
        positive(tiny, "tiny"),
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


def _check_shape(name: str, array: Floats, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise FileFormatError(f"{name} has shape {array.shape} instead of {shape}")
