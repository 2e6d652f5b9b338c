"""Files of jump processes: all of it comes back, or an error does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shallowflow as sf
from tests.contract.saved import FILES, PROCESS
from tests.dynamics.clock.files import changed, write_zip

OLD = FILES / f"{PROCESS}.limit"


def example(width: int = 12) -> sf.SaddleToSaddle:
    data = sf.data.GENERATORS["orthonormal"](10, 13, seed=1)
    return sf.saddle_to_saddle(sf.initialize.log_scaled(width, 13, log_scale=-700.0, seed=2), data)


@pytest.mark.parametrize("width", [12, 2])
def test_all_of_it_comes_back(tmp_path: Path, width: int) -> None:
    limit = example(width)
    path = tmp_path / "limit"
    limit.save(str(path))
    loaded = sf.SaddleToSaddle.load(path)
    assert loaded == limit
    assert loaded.outcome == limit.outcome
    assert loaded.final == limit.final
    np.testing.assert_array_equal(loaded.predicted_times(700.0), limit.predicted_times(700.0))
    assert not loaded.mask.flags.writeable
    assert not loaded.corrections.flags.writeable


def test_it_is_a_trajectory_to_those_who_ask_for_one(tmp_path: Path) -> None:
    limit = example()
    limit.save(tmp_path / "limit")
    loaded = sf.Trajectory.load(tmp_path / "limit")
    assert loaded.path == limit.path
    assert loaded.final == limit.final
    np.testing.assert_array_equal(loaded.losses, limit.losses)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "limit"
    example().save(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(sf.FileFormatError, match="is not a whole shallowflow trajectory file"):
        sf.SaddleToSaddle.load(path)
    path.write_bytes(OLD.read_bytes()[:-30])
    with pytest.raises(sf.FileFormatError, match="is not a whole shallowflow"):
        sf.SaddleToSaddle.load(path)
    data = sf.Dataset(np.eye(2), [1.0, 1.0])
    sf.gradient_descent(sf.initialize.balanced(3, 2), data, step=0.1, steps=3).save(path)
    with pytest.raises(sf.FileFormatError, match="holds the trajectory of a run, not a jump process"):
        sf.SaddleToSaddle.load(path)
    with pytest.raises(sf.FileFormatError, match="its header is not a trajectory's"):
        sf.Trajectory.load(OLD)


def test_a_file_of_version_1_becomes_one_of_version_2(tmp_path: Path) -> None:
    old = sf.SaddleToSaddle.load(OLD)
    old.save(tmp_path / "new")
    new = sf.SaddleToSaddle.load(tmp_path / "new")
    assert new == old
    assert new.setting == old.setting
    assert new.setting.data == old.dataset


Change = Callable[[NDArray[Any]], NDArray[Any]]
CHANGES: list[tuple[str, Change, str]] = [
    ("mask", lambda mask: mask * 2, "mask holds (more|numbers that are too large|negative)"),
    ("mask", lambda mask: 1 - mask, "mask holds (more|numbers that are too large|negative)"),
    ("mask", lambda mask: mask[:-1], "mask has shape"),
    ("signs", lambda signs: 2 * signs, "signs holds other numbers"),
    ("shares", lambda shares: 2 * shares, "shares must lie in"),
    ("shares", lambda shares: shares[1:], "shares has shape"),
    ("corrections", lambda corrections: corrections[1:], "corrections has shape"),
    (
        "corrections",
        lambda corrections: corrections * np.nan,
        "corrections .* finite",
    ),
    ("inputs", lambda inputs: inputs + 0.1 * inputs[0], "needs orthogonal inputs"),
    ("targets", lambda targets: 0 * targets, "labels must not be zero"),
]


@pytest.mark.parametrize(("name", "change", "message"), CHANGES)
@pytest.mark.parametrize("version", [1, 2])
def test_arrays_that_contradict_each_other_are_refused(
    tmp_path: Path, version: int, name: str, change: Change, message: str
) -> None:
    path = tmp_path / "limit"
    example().save(path)
    source = OLD if version == 1 else path
    member = name if version == 1 else f"path_{name}"
    write_zip(tmp_path / "changed", changed(source.read_bytes(), member, change))
    with pytest.raises(sf.FileFormatError, match=message):
        sf.SaddleToSaddle.load(tmp_path / "changed")
