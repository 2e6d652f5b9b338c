"""Files that were changed, cut or filled with something else are read, or refused in one line."""

from __future__ import annotations

import resource
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.table import PairOptions, read_pairs
from shallowflow.studies import Store, Study, run
from tests.border.calls import LINE, PLANE, RELU, TINY, UNIT
from tests.studies.tasks import draw

QUICK, WHOLE = 40, 2_000
"""Mutated files of each of the five formats: in every run of the tests, and among the slow ones."""
MEMORY = 300 << 20


def trajectory(folder: Path) -> Path:
    sf.gradient_flow(RELU, PLANE, until=2.0).save(folder / "file")
    return folder / "file"


def process(folder: Path) -> Path:
    sf.saddle_to_saddle(TINY, UNIT).save(folder / "file")
    return folder / "file"


def table(folder: Path) -> Path:
    rows = "".join(
        f"{x!r},{y!r}\n" for x, y in zip(LINE.inputs[:, 0].tolist(), LINE.targets.tolist(), strict=True)
    )
    (folder / "file").write_text("dose,response\n" + rows * 5)
    return folder / "file"


def store(folder: Path) -> Path:
    with Store(folder / "store") as new:
        run(Study("small", draw, {"size": [3, 4]}), store=new)
    return folder / "store" / "runs.sqlite"


def arrays(folder: Path) -> Path:
    store(folder)
    return min((folder / "store").rglob("*.npz"))


def read_store(path: Path) -> object:
    directory = next(parent for parent in path.parents if (parent / "runs.sqlite").exists())
    with Store(directory, writable=False) as opened:
        return [opened.studies(), opened.results("small")]


FORMATS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "trajectory": (trajectory, sf.Trajectory.load),
    "process": (process, sf.SaddleToSaddle.load),
    "csv": (table, lambda path: [sf.Dataset.from_csv(path), read_pairs(path, PairOptions())]),
    "store": (store, read_store),
    "arrays": (arrays, read_store),
}
"""Of every format a file that is right, and what reads it."""


def mutated(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield contents with bytes changed, cut out, inserted, zeroed, repeated, or the end missing."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        body = bytearray(content)
        kind = rng.integers(6)
        at, size = int(rng.integers(len(body))), int(rng.integers(1, 40))
        if kind == 0:
            for place in rng.integers(len(body), size=int(rng.integers(1, 6))):
                body[place] = int(rng.integers(256))
        elif kind == 1:
            del body[at : at + size]
        elif kind == 2:
            body[at:at] = rng.bytes(size)
        elif kind == 3:
            body[at : at + size] = bytes(len(body[at : at + size]))
        elif kind == 4:
            body[at:at] = body[at : at + size]
        else:
            del body[at:]
        yield bytes(body)


def attempts(name: str, folder: Path, count: int) -> Counter[str]:
    """Return how many mutated files were read and how many refused; anything else is raised."""
    write, read = FORMATS[name]
    path = write(folder)
    whole, outside = path.read_bytes(), folder / "outside.npz"
    outside.write_bytes(b"not touched")
    found: Counter[str] = Counter()
    for body in mutated(whole, count, seed=len(name)):
        path.write_bytes(body)
        try:
            read(path)
            found["read"] += 1
        except sf.ShallowflowError as error:
            found["refused" if str(error) else "refused without a word"] += 1
        for scrap in path.parent.glob(path.name + "-*"):  # what SQLite keeps beside a file
            scrap.unlink()
    assert outside.read_bytes() == b"not touched"
    assert not found["refused without a word"]
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    found = attempts(name, tmp_path, QUICK)
    assert found.total() == QUICK
    assert found["refused"] > 0 or name == "arrays"  # a run whose arrays are damaged says so, the store opens


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_thousands_of_mutated_files_in_little_memory(name: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert attempts(name, tmp_path, WHOLE).total() == WHOLE
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


def test_a_table_of_the_archive_cannot_name_a_file_outside(tmp_path: Path) -> None:
    """An entry that climbs out of the archive is refused, and nothing is written."""
    path = trajectory(tmp_path)
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / "evil", "w") as evil:
        for entry in archive.infolist():
            evil.writestr("../" + entry.filename, archive.read(entry))
    with pytest.raises(sf.FileFormatError):
        sf.Trajectory.load(tmp_path / "evil")
    assert {each.name for each in tmp_path.iterdir()} == {"file", "evil"}


def test_the_mutations_change_the_file() -> None:
    content = bytes(range(256))
    changed: list[Any] = list(mutated(content, 60, seed=1))
    assert sum(body != content for body in changed) > 55
    assert len({len(body) for body in changed}) > 10
