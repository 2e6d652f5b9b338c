"""Files of jump processes: all of it comes back, or an error does."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import shallowflow as sf


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


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "limit"
    example().save(path)
    with pytest.raises(sf.FileFormatError, match="its header is not a trajectory's"):
        sf.Trajectory.load(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(sf.FileFormatError, match="is not a whole shallowflow jump process file"):
        sf.SaddleToSaddle.load(path)
    data = sf.Dataset(np.eye(2), [1.0, 1.0])
    sf.gradient_descent(sf.initialize.balanced(3, 2), data, step=0.1, steps=3).save(path)
    with pytest.raises(sf.FileFormatError, match="its header is not a jump process's"):
        sf.SaddleToSaddle.load(path)


Change = Callable[[NDArray[np.float64]], object]
CHANGES: list[tuple[str, Change, str]] = [
    ("mask", lambda mask: mask * 2, "mask holds more"),
    ("mask", lambda mask: 1 - mask, "mask holds more"),
    ("mask", lambda mask: mask[:-1], "mask has shape"),
    ("signs", lambda signs: 2 * signs, "signs holds other numbers"),
    ("shares", lambda shares: 2 * shares, "shares must lie in"),
    ("shares", lambda shares: shares[1:], "shares has shape"),
    ("corrections", lambda corrections: corrections[1:], "corrections has shape"),
    ("corrections", lambda corrections: corrections * np.nan, "corrections be finite"),
    ("inputs", lambda inputs: 2 * inputs, "needs orthonormal inputs"),
    ("targets", lambda targets: 0 * targets, "labels must not be zero"),
]


@pytest.mark.parametrize(("name", "change", "message"), CHANGES)
def test_arrays_that_contradict_each_other_are_refused(
    tmp_path: Path, name: str, change: Change, message: str
) -> None:
    path, changed = tmp_path / "limit", tmp_path / "changed"
    example().save(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for member in old.namelist():
            with old.open(member) as file, new.open(member, "w") as target:
                if member == f"{name}.npy":
                    np.save(target, np.ascontiguousarray(change(np.load(file))))
                elif member == "header.json":
                    target.write(json.dumps(json.load(file)).encode())
                else:
                    target.write(file.read())
    with pytest.raises(sf.FileFormatError, match=message):
        sf.SaddleToSaddle.load(changed)
