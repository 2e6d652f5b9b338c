"""Verdicts on data as tables and sentences for a terminal, and as plain numbers for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill, indent
from typing import Any

from rich import box
from rich.table import Table as Grid
from rich.text import Text

from shallowflow.certificates import Certificate, Table, Verdict
from shallowflow.data.dataset import Dataset
from shallowflow.reporting.summary import plain
from shallowflow.reporting.terminal import PIPE_WIDTH

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
