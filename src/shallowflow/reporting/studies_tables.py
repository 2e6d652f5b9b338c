"""Studies and costs in a terminal: what a store holds, what experiments will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from shallowflow.reporting.page import seconds_text

LONGEST = 50
"""Longer tables of runs are cut; an export has them all."""


def studies_table(studies: Sequence[Mapping[str, Any]]) -> Table:
    """Return the studies of a store: name, runs, done, failed, CPU time, last start."""
    table = _table("Study", "Runs", "Done", "Failed", "CPU time", "Last start")
    for study in studies:
        counts = [f"{study[key]:,}" for key in ("runs", "done", "failed")]
        last = (study["last_start"] or "")[:16].replace("T", " ")
        _add(table, study["name"], *counts, seconds_text(study["cpu_seconds"]), last)
    return table


def runs_table(columns: Mapping[str, Sequence[Any]]) -> Table:
    """Return the runs of a study (`studies.table.table`): parameters, status, metrics, time."""
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


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(Text(name), justify="right", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    table.add_row(*(Text(cell) for cell in cells))


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
