"""`shallowflow studies`: look into a store of results, take tables out of it, remove what is not needed."""

from __future__ import annotations

from pathlib import Path

import click

from shallowflow.commands.arguments import check_file, json_option, print_json
from shallowflow.studies import Store
from shallowflow.studies.study import WRITERS, table, write_table

store_argument = click.argument("store", metavar="DIR")


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
    from shallowflow.reporting.terminal import output, studies_table

    with Store(store, writable=False) as opened:
        listed = opened.studies()
    if as_json:
        print_json({"studies": listed})
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
    from shallowflow.reporting.summary import plain
    from shallowflow.reporting.terminal import output, runs_table

    with Store(store, writable=False) as opened:
        columns = table(opened.results(name))
    if as_json:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        print_json({"study": name, "runs": plain(rows)})
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
    check_file(out, "--out", *WRITERS)
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
