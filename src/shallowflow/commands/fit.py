"""`shallowflow fit DATA.csv`: a table of numbers becomes straight pieces."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from shallowflow.arrays import count, shown
from shallowflow.commands.arguments import check_file, json_option, print_json
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError

SEARCHES = ("relocation", "anls")
LEFT = ("line", "zero")
SELECTIONS = ("cv", "bic")


@click.command()
@click.argument("data")
@click.option("--knots", default="auto", show_default=True, metavar="N|auto", help="Number of knots.")
@click.option("--left", type=click.Choice(LEFT), default="line", show_default=True, help="Left of the knots.")
@click.option("--search", type=click.Choice(SEARCHES), default="relocation", show_default=True)
@click.option("--selection", type=click.Choice(SELECTIONS), default="cv", show_default=True, help="For auto.")
@click.option("--out", metavar="FILE", help="Write the pieces; FILE ends in .csv or .json.")
@click.option("--plot", metavar="FILE", help="Draw data and fit; FILE ends in .png or .svg.")
@json_option
def fit(data: str, knots: str, out: str | None, plot: str | None, as_json: bool, **options: Any) -> None:
    """Fit a continuous function of straight pieces to DATA, its knots placed by search.

    DATA is a CSV file with two columns: x, y. --knots auto finds out how many knots the data call for, by
    cross-validation (cv) or the Bayesian information criterion (bic). Left of the first knot there is a free
    line, or zero as in a ReLU network. --search anls makes the moves of the paper and no others.

    \b
    Examples:
      shallowflow fit my_data.csv
      shallowflow fit my_data.csv --knots 20 --plot fit.png --out pieces.csv
      shallowflow fit my_data.csv --knots 5 --left zero --search anls --json
    """
    check_file(out, "--out", ".csv", ".json")
    check_file(plot, "--plot", ".png", ".svg")
    n_knots = _number_of_knots(knots)
    dataset = Dataset.from_csv(data)
    if dataset.dimension != 1:
        raise InvalidInputError(f"DATA: must have two columns (x, y), got {dataset.dimension + 1}")
    from shallowflow.estimators import ANLSRegressor
    from shallowflow.reporting.summary import fit_summary, write_pieces
    from shallowflow.reporting.terminal import fit_text, output, pieces_table, progress_bar

    start = time.perf_counter()
    with progress_bar(f"fitting {dataset.name or data}") as show:
        model = ANLSRegressor(n_knots, **options).fit(dataset.inputs, dataset.targets, progress=show)
    asked = None if isinstance(n_knots, str) else n_knots
    result = fit_summary(model.pieces_, dataset, time.perf_counter() - start, asked)
    if out:
        write_pieces(model.pieces_, Path(out))
    if plot:
        from shallowflow.reporting.figures.renderer import write_figure
        from shallowflow.reporting.figures.runs import fit_figure

        write_figure(fit_figure(model.pieces_, dataset), Path(plot))
    result |= {"out": out, "plot": plot}
    if as_json:
        print_json(result)
        return
    output().print(pieces_table(model.pieces_))
    click.echo(fit_text(result))


def _number_of_knots(text: str) -> int | str:
    """Return the number of knots, or "auto"."""
    if text == "auto":
        return text
    try:
        return count(int(text), "--knots", at_least=0)
    except ValueError as error:
        raise InvalidInputError(f"--knots: must be an integer >= 0 or auto, got {shown(text)}") from error
