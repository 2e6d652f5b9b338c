"""The runs of a study as one flat table, and as CSV or Parquet files.

Columns: identity, repeat, status, `parameters.NAME`…, `metrics.NAME`…, seconds, cpu_seconds, started, worker,
attempts, error. A parameter that is no number and no text is its JSON text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shallowflow.errors import InvalidInputError
from shallowflow.files import write_atomically
from shallowflow.studies.results import Result

FIRST = ("identity", "repeat", "status")
LAST = ("seconds", "cpu_seconds", "started", "worker", "attempts", "error")


def table(results: Sequence[Result]) -> dict[str, list[Any]]:
    """Return the columns of the table; None where a run has no such value."""
    columns: dict[str, list[Any]] = {name: [getattr(r, name) for r in results] for name in FIRST}
    for name in dict.fromkeys(name for result in results for name in result.parameters):
        columns[f"parameters.{name}"] = [_cell(result.parameters.get(name)) for result in results]
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        columns[f"metrics.{name}"] = [result.metrics.get(name) for result in results]
    return columns | {name: [getattr(r, name) for r in results] for name in LAST}


def write_table(results: Sequence[Result], path: Path) -> None:
    """Write the table as CSV or Parquet, by the ending of the file's name, whole or not at all."""
    WRITERS[path.suffix.lower()](table(results), path)


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # repr of a float is the shortest text that reads back as the same number.
    writer.writerows(zip(*columns.values(), strict=True))
    write_atomically(path, text.getvalue().encode())


def _write_parquet(columns: dict[str, list[Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InvalidInputError(
            "path: Parquet needs pyarrow; pip install 'shallowflow[parquet]', or name a .csv file"
        ) from error
    arrow = pyarrow.table({name: _alike(values) for name, values in columns.items()})
    write_atomically(path, lambda file: parquet.write_table(arrow, file))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _alike(values: list[Any]) -> list[Any]:
    """Return a column of one type, as Parquet needs it: numbers as they are, mixtures as texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 or kinds == {int, float}:
        return [float(v) if kinds == {int, float} and v is not None else v for v in values]
    return [None if value is None else str(value) for value in values]


WRITERS: dict[str, Callable[[dict[str, list[Any]], Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
