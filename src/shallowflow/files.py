"""Files: written whole or not at all, refused before the work is done, not after, and read within limits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from shallowflow.errors import FileFormatError, InvalidInputError


def as_path(value: object, name: str = "path") -> Path:
    """Return a path; anything but a text or a path object is refused."""
    if not isinstance(value, str | os.PathLike) or "\0" in str(value):
        shown = repr(value) if isinstance(value, str) else type(value).__name__
        raise InvalidInputError(f"{name}: must be the path of a file, got {shown}")
    return Path(value)


LONGEST_LINE = 1 << 20
"""Characters of a line of a text table: beyond it, a file is no table."""


def refuse_device(path: Path) -> None:
    """Refuse what has no end, such as /dev/zero; pipes are read as long as something is written to them."""
    if path.exists() and (path.is_char_device() or path.is_block_device()):
        raise FileFormatError(f"{path}: must be a file, got a device")


def open_text(path: Path) -> TextIO:
    """Open a text file; a device is refused."""
    refuse_device(path)
    return path.open(newline="", encoding="utf-8-sig")


def bounded_lines(file: TextIO, path: Path) -> Iterator[str]:
    """Yield the lines of a text file; one without an end in sight is refused before it fills the memory."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith("\n"):
            raise FileFormatError(f"{path}: has a line of more than {LONGEST_LINE} characters: not a table")
        yield line


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write bytes, or what `content(file)` writes, to a temporary file, then rename it over `path`."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent or ".")
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FileFormatError(f"{path}: cannot be written: {error.strerror or error}") from error
        raise


def probe(directory: str | Path) -> None:
    """Write a nameless file, or raise OSError: permissions alone don't show a read-only disk."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(b"?")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
