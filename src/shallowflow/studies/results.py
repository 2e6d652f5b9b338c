"""`Result`: what is known of one run. A study's results are a list of them, or a table in CSV or Parquet.

Columns: identity, repeat, status, `parameters.NAME`…, `metrics.NAME`…, seconds, cpu_seconds, started, worker,
attempts, error. A parameter that is no number and no text is its JSON text.
"""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.files import write_atomically


class StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of one run, read from its file when they are asked for.

    Members are uncompressed and have the bytes that their header says, or they are refused: reading takes no
    more memory than the file has bytes, whoever wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> NDArray[Any]:
        with self._archive() as archive:
            if f"{name}.npy" not in archive.namelist():
                raise KeyError(name)
            member = archive.getinfo(f"{name}.npy")
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > self.path.stat().st_size:
                raise FileFormatError(f"{self.path}: is not a sound file of arrays: {name} is compressed")
            return _array(archive.read(member), name)

    def __iter__(self) -> Iterator[str]:
        with self._archive() as archive:
            return iter([name.removesuffix(".npy") for name in archive.namelist()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise FileFormatError(f"{self.path}: is not a sound file of arrays: {error}") from error


def _array(content: bytes, name: str) -> NDArray[Any]:
    """Return the array in the bytes of an .npy file, if they are as many as its header says."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(stream)
    left = len(content) - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != left:
        raise ValueError(f"{name} has {left} bytes instead of shape {shape} of {dtype}")
    array = np.frombuffer(content, dtype, offset=stream.tell()).copy()
    return array.reshape(shape, order="F" if fortran_order else "C")


@dataclass(frozen=True)
class Result:
    """One run: parameters, repeat, status (planned, done, failed or damaged), metrics, arrays, timings."""

    identity: str
    parameters: Mapping[str, Any]
    repeat: int
    status: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    error: str = ""
    started: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    worker: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 0

    @property
    def done(self) -> bool:
        """Whether the run has a result."""
        return self.status == "done"


FIRST = ("identity", "repeat", "status")
LAST = ("seconds", "cpu_seconds", "started", "worker", "attempts", "error")


def table(results: Sequence[Result]) -> dict[str, list[Any]]:
    """Return the columns of the table; None where a run has no such value."""
    columns: dict[str, list[Any]] = {name: [getattr(r, name) for r in results] for name in FIRST}
    for name in dict.fromkeys(name for result in results for name in result.parameters):
        columns[f"parameters.{name}"] = [_cell(result.parameters.get(name)) for result in results]
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        columns[f"metrics.{name}"] = [result.metrics.get(name) for result in results]
    return columns | {name: [getattr(r, name) for r in results] for name in LAST}


def write_table(results: Sequence[Result], path: Path) -> None:
    """Write the table as CSV or Parquet, by the ending of the file's name, whole or not at all."""
    WRITERS[path.suffix.lower()](table(results), path)


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # repr of a float is the shortest text that reads back as the same number.
    writer.writerows(zip(*columns.values(), strict=True))
    write_atomically(path, text.getvalue().encode())


def _write_parquet(columns: dict[str, list[Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InvalidInputError(
            "path: Parquet needs pyarrow; pip install 'shallowflow[parquet]', or name a .csv file"
        ) from error
    arrow = pyarrow.table({name: _alike(values) for name, values in columns.items()})
    write_atomically(path, lambda file: parquet.write_table(arrow, file))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _alike(values: list[Any]) -> list[Any]:
    """Return a column of one type, as Parquet needs it: numbers as they are, mixtures as texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 or kinds == {int, float}:
        return [float(v) if kinds == {int, float} and v is not None else v for v in values]
    return [None if value is None else str(value) for value in values]


WRITERS: dict[str, Callable[[dict[str, list[Any]], Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
