"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import BinaryIO

import pytest

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.files import as_path, bounded_lines, open_text, probe, write_atomically


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, lambda file: file.writelines([b"the first, longer"]))
    assert path.read_bytes() == b"the first, longer"
    write_atomically(path, lambda file: file.writelines([b"sec", b"ond"]))
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_takes_a_bare_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically(Path("bare"), lambda file: None)
    assert (tmp_path / "bare").read_bytes() == b""


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    seen = []

    def write(file: BinaryIO) -> None:
        file.write(b"half of the new")
        file.flush()
        seen.append(path.read_bytes())
        file.write(b" one")

    write_atomically(path, write)
    assert seen == [b"old"]
    assert path.read_bytes() == b"half of the new one"


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (TypeError("not ours"), TypeError, "not ours"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            FileFormatError,
            "written: No space left on device",
        ),
        (OSError("no number"), FileFormatError, "cannot be written: no number"),
    ],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: BaseException, raised: type[BaseException], message: str
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise error

    with pytest.raises(raised, match=message):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    a_file = tmp_path / "file"
    a_file.write_bytes(b"")
    for path, reason in [
        (tmp_path / "nowhere" / "a.bin", "No such file or directory"),
        (a_file / "a.bin", "Not a directory"),
        (tmp_path, "."),
    ]:
        with pytest.raises(
            FileFormatError, match=f"^{re.escape(str(path))}: cannot be written: {reason}"
        ) as caught:
            write_atomically(path, lambda file: None)
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_rights_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "a", lambda file: None)
    finally:
        assert os.umask(before) == mask
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("value", [None, 3, b"raw", "nul\0byte"])
def test_what_is_no_path_is_refused(value: object) -> None:
    for read in (Dataset.from_csv, Trajectory.load):
        with pytest.raises(InvalidInputError, match="path: must be the path of a file"):
            read(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["a.csv", Path("a.csv")])
def test_texts_and_paths_are_paths(value: str | Path) -> None:
    assert as_path(value) == Path("a.csv")


def test_devices_are_refused_and_files_and_what_is_not_there_are_not(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="must be a file, got a device"):
        open_text(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        open_text(tmp_path / "nothing")
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\nb\n")
    with open_text(tmp_path / "file") as file:
        assert file.read() == "a\r\nb\n"


def test_lines_are_read_up_to_a_length(tmp_path: Path) -> None:
    """2²⁰ characters with the end of the line, or at the end of the file with one less."""
    path, longest = tmp_path / "file", 1 << 20
    path.write_text("a\n" + "b" * (longest - 1) + "\n" + "c" * (longest - 1))
    with open_text(path) as file:
        assert [len(line) for line in bounded_lines(file, path)] == [2, longest, longest - 1]
    path.write_text("b" * longest)
    with (
        open_text(path) as file,
        pytest.raises(FileFormatError, match="has a line of more than 1048576 characters"),
    ):
        next(bounded_lines(file, path))


def test_a_temporary_file_that_is_gone_is_no_second_error(tmp_path: Path) -> None:
    def vanish(_: BinaryIO) -> None:
        next(tmp_path.glob(".x*.part")).unlink()
        raise KeyError("what happened first")

    with pytest.raises(KeyError, match="what happened first"):
        write_atomically(tmp_path / "x", vanish)


def test_probing_leaves_nothing_and_tells_a_place_that_takes_no_files(tmp_path: Path) -> None:
    probe(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="nowhere"):
        probe(tmp_path / "nowhere")
