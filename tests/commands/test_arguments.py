import os
from pathlib import Path

import pytest

from shallowflow.commands.arguments import check_file
from shallowflow.errors import InvalidInputError
from shallowflow.reporting.report import prepare_directory


def test_a_directory_is_made_and_left_empty(tmp_path: Path) -> None:
    made = prepare_directory(tmp_path / "a" / "b")
    assert made.is_dir()
    assert list(made.iterdir()) == []
    assert prepare_directory(made) == made


def test_a_directory_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"^--out: must be a writable directory.*\(Not a directory"):
        prepare_directory(tmp_path / "file" / "x", "--out")


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser may write everywhere")
def test_a_protected_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidInputError, match="Permission denied"):
        prepare_directory(tmp_path)


def test_files_that_can_be_written_pass_and_nothing_is_made(tmp_path: Path) -> None:
    check_file(None, "--plot")
    check_file(str(tmp_path / "run.PNG"), "--plot", ".png")
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "it is a directory"), (tmp_path / "no" / "x", "No such file or directory")):
        with pytest.raises(InvalidInputError, match=rf"^--save: must be a file in .*\({why}\)"):
            check_file(str(path), "--save")
    with pytest.raises(InvalidInputError, match=r"--plot: ending: must be one of .png; got '.pdf'"):
        check_file(str(tmp_path / "x.pdf"), "--plot", ".png")
