"""Files taken apart and put together again, and what is in a trajectory to the last bit."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import FileFormatError


def fingerprint(trajectory: Trajectory) -> tuple[object, ...]:
    """Everything in a trajectory, to the last bit (NaN and the sign of zero too)."""

    def bits(array: Floats) -> tuple[object, ...]:
        return array.dtype.str, array.shape, array.tobytes()

    path = trajectory.path
    template = {k: bits(v) if isinstance(v, np.ndarray) else v for k, v in path.template.__dict__.items()}
    return (
        *(bits(array) for array in (trajectory.times, trajectory.losses)),
        *(bits(value) for value in path.__dict__.values() if isinstance(value, np.ndarray)),
        (type(path), getattr(path, "sparse", None), type(path.template), template),
        (trajectory.events, trajectory.outcome, repr(dict(trajectory.statistics)), trajectory.setting),
    )


def refused(path: Path, message: str = ".") -> str:
    """Check that loading gives one clear line, and return it."""
    with pytest.raises(FileFormatError, match=message) as caught:
        Trajectory.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert not text.rstrip().endswith(":")
    return text


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def claim(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """An array file that claims a shape and holds `content`."""
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


def peak_memory(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def changed(
    content: bytes, name: str, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> dict[str, bytes]:
    """Return the members of a file, one array of them changed."""
    members = members_of(content)
    array = np.load(io.BytesIO(members[f"{name}.npy"]))
    return {**members, f"{name}.npy": npy(np.ascontiguousarray(change(array)))}
