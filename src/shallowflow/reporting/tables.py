"""Studies and costs in a terminal: what a store holds, what experiments will take.

Verdicts on data as tables and sentences for a terminal, and as plain numbers for JSON.

A fit as a table for people, as plain numbers for JSON, and as a file of its pieces.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from rich import box
from rich.table import Table as Grid
from rich.text import Text

from shallowflow.certificates import Certificate, Table, Verdict
from shallowflow.data.dataset import Dataset
from shallowflow.files import write_atomically
from shallowflow.reporting.pages.page import seconds_text
from shallowflow.reporting.pages.summary import plain
from shallowflow.reporting.terminal import PIPE_WIDTH

if TYPE_CHECKING:
    from shallowflow.estimators.base import Pieces

LONGEST = 50
"""Longer tables of runs are cut; an export has them all."""


def studies_table(studies: Sequence[Mapping[str, Any]]) -> Grid:
    """Return the studies of a store: name, runs, done, failed, CPU time, last start."""
    table = _table("Study", "Runs", "Done", "Failed", "CPU time", "Last start")
    for study in studies:
        counts = [f"{study[key]:,}" for key in ("runs", "done", "failed")]
        last = (study["last_start"] or "")[:16].replace("T", " ")
        _add(table, study["name"], *counts, seconds_text(study["cpu_seconds"]), last)
    return table


def runs_table(columns: Mapping[str, Sequence[Any]]) -> Grid:
    """Return the runs of a study (`studies.results.table`): parameters, status, metrics, time."""
    shown = [name for name in columns if name.startswith(("parameters.", "metrics."))]
    names = ["identity", *(n for n in shown if n.startswith("p")), "repeat", "status"]
    names += [*(n for n in shown if n.startswith("m")), "seconds"]
    table = _table(*(name.partition(".")[2] or name for name in names))
    runs = len(columns["identity"])
    for row in range(min(runs, LONGEST)):
        _add(table, columns["identity"][row][:8], *(_value(columns[name][row]) for name in names[1:]))
    if runs > LONGEST:
        table.caption = f"{LONGEST} of {runs:,} runs; `shallowflow studies export` writes them all"
    return table


def costs_text(costs: Mapping[str, float | None], jobs: int | None) -> str:
    """Return what experiments will cost here: CPU time of each and of all, wall time with some at once."""
    width = max(len(name) for name in costs)
    lines = [
        f"{name:<{width}}  {'not measured' if seconds is None else f'about {seconds_text(seconds)}'}"
        for name, seconds in costs.items()
    ]
    known = [seconds for seconds in costs.values() if seconds is not None]
    if known:
        unknown = " and what was not measured" if len(known) < len(costs) else ""
        total = f"together about {seconds_text(sum(known))} of CPU time{unknown}"
        wall = seconds_text(max(max(known), sum(known) / (jobs or 1)))
        lines.append(total if jobs is None else f"{total}, about {wall} with {jobs} at a time")
    return "\n".join(lines)


def _table(first: str, *others: str) -> Grid:
    table = Grid(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(Text(name), justify="right", overflow="fold")
    return table


def _add(table: Grid, *cells: str) -> None:
    table.add_row(*(Text(cell) for cell in cells))


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


MOST_ROWS = 20


def verdict_lines(
    verdicts: Sequence[Verdict], dataset: Dataset, *, details: bool = False
) -> Iterator[Text | Grid]:
    """Yield what to print: the data, then for every paper its words, tables, constants and certificates.

    details: every hypothesis and promise of the certificates, not only whether they apply.
    """
    yield Text(f"{dataset.name or 'data'}: {dataset.size} points in dimension {dataset.dimension}")
    for verdict in verdicts:
        yield Text()
        yield Text(verdict.paper, style="bold")
        for sentence in verdict.words:
            yield Text(fill(sentence, PIPE_WIDTH - 2, initial_indent="  ", subsequent_indent="  "))
        for table in verdict.tables:
            yield _grid(table)
        if verdict.numbers:
            shown = ", ".join(f"{name} = {_number(value)}" for name, value in verdict.numbers.items())
            yield Text(fill(shown, PIPE_WIDTH - 2, initial_indent="  ", subsequent_indent="  "))
        for certificate in verdict.certificates:
            text = str(certificate).replace("[not observed] ", "")
            yield Text(indent(text if details else text.splitlines()[0], "  "))


def verdict_json(verdicts: Sequence[Verdict], dataset: Dataset) -> dict[str, Any]:
    """Return the verdicts as what JSON can hold."""
    return {
        "data": {"name": dataset.name, "size": dataset.size, "dimension": dataset.dimension},
        "verdicts": [
            {
                "paper": verdict.paper,
                "applies": verdict.applies,
                "words": list(verdict.words),
                "numbers": plain(verdict.numbers),
                "tables": [
                    {
                        "title": table.title,
                        "rows": [plain(dict(zip(table.columns, row, strict=True))) for row in table.rows],
                    }
                    for table in verdict.tables
                ],
                "certificates": [_certificate_json(certificate) for certificate in verdict.certificates],
            }
            for verdict in verdicts
        ],
    }


def _certificate_json(certificate: Certificate) -> dict[str, Any]:
    return {
        "theorem": certificate.theorem,
        "holds": certificate.holds,
        "hypotheses": [
            {"name": one.name, "holds": one.holds, "value": plain(one.value), "bound": plain(one.bound)}
            for one in certificate.hypotheses
        ],
        "promises": [{"statement": one.statement, "bound": plain(one.bound)} for one in certificate.promises],
    }


def _grid(table: Table) -> Grid:
    grid = Grid(title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD, header_style="bold")
    for column in table.columns:
        grid.add_column(column, overflow="fold")
    for row in table.rows[:MOST_ROWS]:
        grid.add_row(*(Text(entry if isinstance(entry, str) else _number(entry)) for entry in row))
    if len(table.rows) > MOST_ROWS:
        grid.add_row(Text(f"… {len(table.rows) - MOST_ROWS} more (--json has all)"))
    return grid


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


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


def pieces_table(pieces: Pieces) -> Grid:
    """Return one row per piece: number, ends, slope, intercept."""
    table = Grid(box=box.SIMPLE_HEAD)
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
