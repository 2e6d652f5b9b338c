"""Finding out that a place cannot be written before the work is done, not after."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from shallowflow.arrays import one_of, shown
from shallowflow.errors import InvalidInputError


def prepare_directory(directory: str | Path, name: str = "directory") -> Path:
    """Make a directory unless it is there, and refuse one that takes no files."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        _probe(directory)
    except OSError as error:
        raise InvalidInputError(
            f"{name}: must be a writable directory, got {shown(str(directory))} ({error.strerror})"
        ) from error
    return Path(directory)


def check_file(path: str | Path | None, name: str = "path", endings: tuple[str, ...] = ()) -> None:
    """Refuse a file that cannot be written, or whose name has another ending than these (None: no file)."""
    if path is None:
        return
    if endings:
        one_of(Path(path).suffix.lower(), f"{name}: ending", endings)
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(0, "it is a directory")
        _probe(Path(path).parent)
    except OSError as error:
        raise InvalidInputError(
            f"{name}: must be a file in a writable directory, got {shown(str(path))} ({error.strerror})"
        ) from error


def _probe(directory: str | Path) -> None:
    """Write a nameless file: permissions alone don't tell, for example on a read-only disk."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(b"?")
