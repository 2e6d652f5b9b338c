"""Finding out that a place cannot be written before the work is done, not after.

`write_report`: the report page, its figures and its numbers as files, each written whole or not at all.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from shallowflow.arrays import one_of, shown
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.experiment import Reproduction
from shallowflow.files import write_atomically
from shallowflow.reporting.figures.animation import ENDINGS, write_animation
from shallowflow.reporting.figures.renderer import FORMATS, render_all
from shallowflow.reporting.pages.page import report_page
from shallowflow.reporting.pages.summary import summary


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


def write_report(reproductions: Sequence[Reproduction], directory: str | Path) -> Path:
    """Write report.html, reproductions.json, figures/*.svg and *.png, and animations/*.html and *.gif.

    Returns the path of the page.

    The page is written last: where it is, everything that belongs to it is there too.
    """
    directory = prepare_directory(directory)
    prepare_directory(directory / "figures")
    pictures: dict[int, bytes] = {}
    for stem, figure in _named(reproductions, "figures"):
        contents = dict(zip(FORMATS, render_all(figure, FORMATS), strict=True))
        pictures[id(figure)] = contents["svg"]
        for format, content in contents.items():
            _write(directory / "figures" / f"{stem}.{format}", content)
    films: dict[int, str] = {}
    for stem, animation in _named(reproductions, "animations"):
        folder = prepare_directory(directory / "animations")
        write_animation(animation, *(folder / f"{stem}{ending}" for ending in ENDINGS))
        films[id(animation)] = f"animations/{stem}"
    numbers = json.dumps(summary(reproductions, series=True), ensure_ascii=False, indent=1, allow_nan=False)
    _write(directory / "reproductions.json", numbers.encode())
    page = directory / "report.html"
    text = report_page(
        reproductions,
        picture=lambda figure: pictures[id(figure)],
        film=lambda animation: films[id(animation)],
    )
    _write(page, text.encode())
    return page


def _write(path: Path, content: bytes) -> None:
    def write(file: BinaryIO) -> None:
        file.write(content)

    write_atomically(path, write)


def _named(reproductions: Sequence[Reproduction], field: str) -> Iterator[tuple[str, Any]]:
    """Yield all figures (animations) with a file name each: paper-name, of letters, digits and dashes."""
    taken: set[str] = set()
    for reproduction in reproductions:
        for figure in getattr(reproduction, field):
            words = f"{reproduction.experiment.paper}-{figure.name}"
            stem = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in words)[:100]
            number = 2
            unique = stem
            while unique in taken:
                unique, number = f"{stem}-{number}", number + 1
            taken.add(unique)
            yield unique, figure
