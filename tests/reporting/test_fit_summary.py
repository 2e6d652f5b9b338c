import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from shallowflow.data import Dataset
from shallowflow.estimators import Pieces
from shallowflow.reporting.tables import fit_summary, fit_text, pieces_table, write_pieces

ROOF = Pieces([1 / 3], [0.0, 1.0], [0.0, -1 / 3], [1.0, -1.0], low=0.0, high=1.0)
DATA = Dataset([[0.0], [1.0]], [1.0, -1 / 3], name="roof")


def test_the_summary_has_pieces_and_errors() -> None:
    told = fit_summary(ROOF, DATA, 1.23456)
    assert told["loss"] == pytest.approx(0.5)
    assert told["root_mean_square_error"] == pytest.approx(np.sqrt(0.5))
    assert told["largest_error"] == pytest.approx(1.0)
    assert told["pieces"][0] == {"piece": 1, "left": None, "right": 1 / 3, "slope": 1.0, "intercept": 0.0}
    assert told["seconds"] == 1.235
    json.dumps(told, allow_nan=False)
    heads = [line.split()[0] for line in fit_text({**told, "out": "p.csv", "plot": None}).splitlines()]
    assert heads == ["data", "knots", "loss", "errors", "time", "written"]


def test_the_table_is_for_people() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(pieces_table(ROOF))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert ["1", "-∞", "0.333333", "1", "0"] in rows


def test_files_have_all_digits(tmp_path: Path) -> None:
    write_pieces(ROOF, tmp_path / "pieces.csv")
    with (tmp_path / "pieces.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["right"]) for row in rows] == [1 / 3, np.inf]
    assert [float(row["intercept"]) for row in rows] == ROOF.intercepts.tolist()
    write_pieces(ROOF, tmp_path / "pieces.JSON")
    assert json.loads((tmp_path / "pieces.JSON").read_text())[1]["left"] == 1 / 3
