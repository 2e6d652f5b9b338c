"""`Result`: what is known of one run. A study's results are a list of them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.errors import FileFormatError
from shallowflow.studies.execution import RunOutcome
from shallowflow.studies.study import Run


class StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of one run, read from its file when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> NDArray[Any]:
        with self._archive() as archive:
            if name not in archive.files:
                raise KeyError(name)
            array: NDArray[Any] = archive[name]
            return array

    def __iter__(self) -> Iterator[str]:
        with self._archive() as archive:
            return iter(list(archive.files))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @contextmanager
    def _archive(self) -> Iterator[Any]:
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                yield archive
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise FileFormatError(f"{self.path}: is not a sound file of arrays: {error}") from error


@dataclass(frozen=True)
class Result:
    """One run: parameters, repeat, status ("planned", "done", "failed"), metrics, arrays, error, timings."""

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


def in_memory(run: Run, outcome: RunOutcome) -> Result:
    """Return the result of a run that no store keeps."""
    return Result(parameters=run.parameters, repeat=run.repeat, attempts=1, **outcome.__dict__)
