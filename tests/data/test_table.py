"""Tables from files: read right, or refused with the cure in the message; none misread."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow.data import table
from shallowflow.data.table import PairOptions, read_pairs, read_table
from shallowflow.errors import FileFormatError, ShallowflowError
from tests.data.table_files import CASES, FIRST, MORE, Case, X, Y, lines, pairs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_table_is_read_right_or_refused_with_the_cure(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(case.content)
    options = PairOptions(**case.options)
    if case.refused:
        with pytest.raises(ShallowflowError) as refusal:
            read_pairs(path, options)
        for word in case.refused:
            assert word in str(refusal.value)
        assert "\n" not in str(refusal.value)
        return
    found = read_pairs(path, options)
    np.testing.assert_allclose(found.x, case.x, rtol=1e-14)
    np.testing.assert_allclose(found.y, case.y, rtol=1e-14)
    for word in case.noted:
        assert word in " ".join(found.notes)


def test_there_are_as_many_files_as_were_asked_for() -> None:
    assert len(FIRST) >= 12
    assert len(MORE) >= 20


def test_names_come_from_the_header_and_dates_are_known() -> None:
    content = lines(["day,level", "2024-01-01,1", "2024-01-03,2"])
    found = read_pairs(io.BytesIO(content), PairOptions())
    assert (found.x_name, found.y_name, found.dates) == ("day", "level", True)
    plain = read_pairs(io.BytesIO(lines(pairs())), PairOptions())
    assert (plain.x_name, plain.y_name, plain.dates) == ("x", "y", False)
    assert (plain.x.tolist(), plain.y.tolist()) == (X, Y)


def test_a_column_of_weights_may_be_named() -> None:
    content = lines(["x,y,w", *(f"{row},{2 + i % 2}" for i, row in enumerate(pairs()))])
    found = read_pairs(io.BytesIO(content), PairOptions(x="x", y="y", weights="w"))
    assert found.weights is not None
    assert found.weights.tolist() == [2.0, 3.0] * 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": "ab"}, "delimiter"),
        ({"decimal": ";"}, "decimal"),
        ({"missing": "guess"}, "missing"),
        ({"delimiter": ",", "decimal": ","}, "decimal"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ShallowflowError, match=words):
        read_pairs(io.BytesIO(lines(pairs())), PairOptions(**options))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ShallowflowError, match="No such file"):
        read_table(tmp_path / "none.csv")


def test_a_large_plain_file_is_read_alike_by_both_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plain.csv"
    rows = [f'{i},"{i % 7 - 0.5}",{i / 3!r}' for i in range(500)]
    path.write_text("# a comment\nid,dose,response\n" + "\n".join(rows) + "\n")
    options = table.PairOptions(x="dose", y="response", weights="id")
    slow = table.read_pairs(path, options)
    monkeypatch.setattr(table, "LARGE", 1)
    monkeypatch.setattr(table, "HEAD", 400)
    monkeypatch.setattr(table, "_complete", None)  # the slow reader would call it
    fast = table.read_pairs(path, options)
    for one, other in ((fast.x, slow.x), (fast.y, slow.y), (fast.weights, slow.weights)):
        np.testing.assert_array_equal(one, other)
    assert (fast.x_name, fast.y_name, fast.dropped, fast.notes) == ("dose", "response", 0, slow.notes)


def test_what_the_fast_reader_cannot_read_goes_to_the_slow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "LARGE", 1)
    path = tmp_path / "holes.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(50)) + "50,NA\n")
    assert table.read_pairs(path, table.PairOptions(missing="drop")).dropped == 1
    with pytest.raises(FileFormatError, match="line 52"):
        table.read_pairs(path, table.PairOptions())


def test_devices_and_what_unpacks_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileFormatError, match="must be a file, got a device"):
        table.read_pairs("/dev/zero", table.PairOptions())
    monkeypatch.setattr(table, "LARGEST", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"0" * (1 << 22)))
    with pytest.raises(FileFormatError, match="must be at most 1 MB of text"):
        table.read_pairs(path, table.PairOptions())
