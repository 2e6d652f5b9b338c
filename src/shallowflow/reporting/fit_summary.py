"""A fit as a table for people, as plain numbers for JSON, and as a file of its pieces."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from rich import box
from rich.table import Table

from shallowflow.data.dataset import Dataset
from shallowflow.files import write_atomically
from shallowflow.reporting.summary import plain

if TYPE_CHECKING:
    from shallowflow.estimators.pieces import Pieces

COLUMNS = ("piece", "left", "right", "slope", "intercept")


def fit_summary(
    pieces: Pieces, dataset: Dataset, seconds: float, knots_asked: int | None = None
) -> dict[str, Any]:
    """Return pieces, losses and time as what JSON can hold; ends at infinity become null.

    knots_asked: the number of knots that was asked for, None if it was left to the data.
    """
    residuals = pieces.predict(dataset.inputs) - dataset.targets
    squares = float(residuals @ residuals)
    return {
        "data": {"name": dataset.name, "size": dataset.size},
        "distinct_inputs": len(np.unique(dataset.inputs)),
        "knots": len(pieces.knots),
        "knots_asked": knots_asked,
        "pieces": plain(pieces.table()),
        "loss": plain(0.5 * squares),
        "root_mean_square_error": plain(np.sqrt(squares / dataset.size)),
        "largest_error": plain(np.abs(residuals).max()),
        "seconds": round(seconds, 3),
    }


def fit_text(result: dict[str, Any]) -> str:
    """Return `fit_summary` (with the files written) as lines for people, without the pieces."""
    typical, largest = result["root_mean_square_error"], result["largest_error"]
    rows = {
        "data": f"{result['data']['size']:,} points",
        "knots": _knots_text(result),
        "loss": f"{result['loss']:.6g} (half the sum of squared errors)",
        "errors": f"{typical:.6g} root mean square, {largest:.6g} at most",
        "time": f"{result['seconds']:.2f} s",
        "written": result.get("out"),
        "plotted": result.get("plot"),
    }
    return "\n".join(f"{name:<12}{text}" for name, text in rows.items() if text)


def _knots_text(result: dict[str, Any]) -> str:
    """Return the number of knots, and why there are fewer than asked for."""
    knots, asked, distinct = result["knots"], result["knots_asked"], result["distinct_inputs"]
    if asked is None or knots >= asked:
        return f"{knots}"
    # A line and a knot per further point go through all points: more knots have nothing left to do.
    reason = f"no more fit {distinct} distinct points" if knots >= distinct - 2 else "more are of no use"
    return f"{knots} of {asked} knots asked for: {reason}"


def pieces_table(pieces: Pieces) -> Table:
    """Return one row per piece: number, ends, slope, intercept."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in pieces.table():
        number, *entries = (row[name] for name in COLUMNS)
        table.add_row(str(number), *(f"{entry:.6g}".replace("inf", "∞") for entry in entries))
    return table


def write_pieces(pieces: Pieces, path: Path) -> None:
    """Write the pieces to a .csv or .json file, atomically and with all digits.

    JSON has null where CSV has -inf and inf: the outer ends of the first and the last piece.
    """
    rows = pieces.table()
    if path.suffix.lower() == ".json":
        text = json.dumps(plain(rows), indent=2) + "\n"
    else:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = stream.getvalue()

    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    write_atomically(path, write)
