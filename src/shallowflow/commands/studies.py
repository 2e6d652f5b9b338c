"""`shallowflow studies`: look into a store of results, take tables out of it, remove what is not needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shallowflow.studies import Store
from shallowflow.studies.results import WRITERS, table, write_table

store_argument = click.argument("store", metavar="DIR")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def studies() -> None:
    """List, show, export and remove the studies of a store.

    DIR is the store's directory: the one a program gave to shallowflow.studies.Store, or the folder named
    store in the report of `shallowflow reproduce`. Looking is possible while a study runs.

    \b
    Examples:
      shallowflow studies list report/store
      shallowflow studies show results widths
      shallowflow studies export results widths --out widths.csv
      shallowflow studies remove results widths
    """


@studies.command(name="list")
@store_argument
@json_option
def list_(store: str, as_json: bool) -> None:
    """List the studies of a store: runs, done, failed, CPU time.

    \b
    Examples:
      shallowflow studies list report/store
    """
    from shallowflow.reporting.tables import studies_table
    from shallowflow.reporting.terminal import output

    with Store(store, writable=False) as opened:
        listed = opened.studies()
    if as_json:
        _print_json({"studies": listed})
    else:
        output().print(studies_table(listed))


@studies.command()
@store_argument
@click.argument("name")
@json_option
def show(store: str, name: str, as_json: bool) -> None:
    """Show the runs of a study: parameters, status, metrics, time; the errors of those that failed.

    \b
    Examples:
      shallowflow studies show results widths
    """
    from shallowflow.reporting.pages.summary import plain
    from shallowflow.reporting.tables import runs_table
    from shallowflow.reporting.terminal import output

    with Store(store, writable=False) as opened:
        columns = table(opened.results(name))
    if as_json:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        _print_json({"study": name, "runs": plain(rows)})
        return
    output().print(runs_table(columns))
    for identity, error in zip(columns["identity"], columns["error"], strict=True):
        if error:
            click.echo(f"{identity[:8]}  {error}")


@studies.command()
@store_argument
@click.argument("name")
@click.option("--out", required=True, metavar="FILE", help="FILE ends in .csv or .parquet.")
def export(store: str, name: str, out: str) -> None:
    """Write the runs of a study as a table, one line per run.

    \b
    Examples:
      shallowflow studies export results widths --out widths.csv
      shallowflow studies export results widths --out widths.parquet
    """
    from shallowflow.reporting.pages.report import check_file

    check_file(out, "--out", tuple(WRITERS))
    with Store(store, writable=False) as opened:
        results = opened.results(name)
    write_table(results, Path(out))
    click.echo(f"{len(results)} runs in {out}")


@studies.command()
@store_argument
@click.argument("name")
def remove(store: str, name: str) -> None:
    """Remove a study, and the results that belong to no other study.

    \b
    Examples:
      shallowflow studies remove results widths
    """
    Store(store, writable=False).close()
    with Store(store) as opened:
        removed = opened.remove(name)
    click.echo(f"removed {name}: {removed} runs")


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))
