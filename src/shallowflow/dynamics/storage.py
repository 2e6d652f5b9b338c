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

from shallowflow.arrays import Floats, vector
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import unflatten
from shallowflow.dynamics.path_formats import FORMATS, Arrays, Header, PathFormat, check_shape
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import FileFormatError, ShallowflowError
from shallowflow.files import write_atomically
from shallowflow.models.networks import NETWORKS, Network

FORMAT = "shallowflow.trajectory"
VERSION = 1
ARRAYS = ("times", "losses", "path_times")
"""The arrays of every file; those of `path_formats` join them."""
FOREIGN = "it holds other members than a trajectory has"
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
    entries, values = FORMATS[trajectory.path.kind].taken_apart(trajectory.path)
    header = {
        "format": FORMAT,
        "version": VERSION,
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


def _constants(network: Network) -> dict[str, float]:
    return {k: v for k, v in network.__dict__.items() if k not in network.PARAMETERS}


def _write(file: Any, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for name in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(arrays[name]), allow_pickle=False)


def _read(path: Path) -> tuple[Header, Arrays]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        found = {member.filename for member in members}
        if "header.json" not in found or len(members) != len(found):
            raise FileFormatError(FOREIGN)
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise FileFormatError("its members are compressed")
        header = json.loads(archive.read("header.json"))
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise FileFormatError("its header is not a trajectory's")
        if header.get("version") != VERSION:
            raise FileFormatError(f"its version is {header.get('version')!r}, this program reads {VERSION}")
        kept = _path_format(header)
        names = ARRAYS + kept.names
        if found != {"header.json", *(f"{name}.npy" for name in names)}:
            raise FileFormatError(FOREIGN)
        return header, {
            name: _array(archive.read(f"{name}.npy"), name, name in kept.integers) for name in names
        }


def _path_format(header: Header) -> PathFormat:
    if header.get("path") not in FORMATS:
        raise FileFormatError(f"its path is of unknown kind {header.get('path')!r}")
    return FORMATS[header["path"]]


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
