"""Files of plain arrays and one JSON header: an uncompressed zip, without pickle.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shallowflow.errors import FileFormatError, ShallowflowError
from shallowflow.files import write_atomically

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
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

    def write(self, path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write header entries and arrays atomically."""
        entries = {"format": self.mark, "version": self.versions[-1], **header}
        write_atomically(path, lambda file: _write(file, entries, arrays))

    def read(self, path: Path, assembled: Callable[[Header, Arrays], Kept]) -> Kept:
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

    def _members(self, path: Path) -> tuple[Header, Arrays]:
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


def _write(file: Any, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for name in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(arrays[name]), allow_pickle=False)


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


def format_of(path: Path) -> str | None:
    """Return the mark of a file, without looking at the rest of it; None if it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            mark = json.loads(archive.read("header.json"))["format"]
    except (OSError, *BROKEN):
        return None
    return mark if isinstance(mark, str) else None
