"""`shallowflow fit DATA`: a table of numbers becomes straight pieces, or steps."""

from __future__ import annotations

import csv
import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shallowflow.arrays import count, probability, shown
from shallowflow.commands.arguments import check_file, json_option, print_json, say_if_long
from shallowflow.data.dataset import Dataset
from shallowflow.data.table import PairOptions, Pairs, read_pairs
from shallowflow.errors import InvalidInputError
from shallowflow.files import write_atomically

if TYPE_CHECKING:
    from shallowflow.estimators import ANLSRegressor

SEARCHES = ("relocation", "anls")
LEFT = ("line", "zero")
SELECTIONS = ("cv", "bic")
LOSSES = ("auto", "squared", "huber", "bisquare")
MONOTONE, SHAPES, FLAT = ("increasing", "decreasing"), ("convex", "concave"), ("left", "right", "both")
STEPS = 40
"""The most jumps of --steps."""
CONSTRAINED, INTERVALS = 0.035, 0.1
"""CPU seconds by the square of the number of knots: of a search under constraints (1.5 s with 5 knots, 4 with
10, 18 with 20), of intervals (3, 10, 34). Any other fit takes seconds, whatever its size: under constraints
"auto" tries at most 40 knots (18 s)."""
SCHEMA = "shallowflow-fit-2"
"""Names the keys of `--json`: docs/concepts/command_line.md lists them."""


@click.command()
@click.argument("data")
@click.option("--x", metavar="NAME", help="Column of x: its name or number; row: the number of the row.")
@click.option("--y", metavar="NAME", help="Column of y: its name or number.")
@click.option("--weights", metavar="NAME", help="Column of precisions 1/σ², scaled to mean 1.")
@click.option("--knots", default="auto", show_default=True, metavar="N|auto", help="Number of knots.")
@click.option("--left", type=click.Choice(LEFT), default="line", show_default=True, help="Left of the knots.")
@click.option("--search", type=click.Choice(SEARCHES), default="relocation", show_default=True)
@click.option(
    "--selection",
    type=click.Choice(SELECTIONS),
    default="bic",
    show_default=True,
    help="How --knots auto chooses the number.",
)
@click.option(
    "--loss", type=click.Choice(LOSSES), default="auto", show_default=True, help="What errors cost."
)
@click.option(
    "--known-knots", metavar="X,…", help="Places of knots, separated by commas; --knots counts them."
)
@click.option("--through", metavar="X,Y", multiple=True, help="A point that f goes through; may be repeated.")
@click.option("--monotone", type=click.Choice(MONOTONE), help="A function that only rises, or only falls.")
@click.option("--shape", type=click.Choice(SHAPES), help="Slopes that only grow, or only shrink.")
@click.option("--flat", type=click.Choice(FLAT), help="Outer pieces that are constant.")
@click.option("--discontinuous", is_flag=True, help="Straight pieces that jump.")
@click.option("--steps", is_flag=True, help="Constant pieces instead of straight ones.")
@click.option("--interval", type=float, metavar="LEVEL", help="Intervals of knots and slopes, as in 0.95.")
@click.option("--missing", type=click.Choice(("error", "drop")), default="error", show_default=True)
@click.option("--na", metavar="CELLS", help="Further cells that mean missing, as in -999; none: no others.")
@click.option("--delimiter", metavar="C", help="What separates columns; else it is guessed.")
@click.option("--decimal", metavar="C", help="The decimal mark, . or , ; else it is guessed.")
@click.option("--date-format", metavar="F", help="How dates are written, as in %d/%m/%Y.")
@click.option("--path", "path_file", metavar="FILE", help="Write every number of knots tried; .csv.")
@click.option("--out", metavar="FILE", help="Write the pieces; FILE ends in .csv or .json.")
@click.option("--plot", metavar="FILE", help="Draw data and fit; FILE ends in .png or .svg.")
@json_option
def fit(data: str, knots: str, interval: float | None, as_json: bool, **options: Any) -> None:
    """Fit a continuous function of straight pieces to DATA, its knots placed by search.

    DATA is a table in a text file, perhaps compressed by gzip, or - for standard input. Separators, decimal
    commas, names, comments and dates are guessed, and what was guessed is said. --knots auto finds out how
    many knots the data call for, by a criterion (bic) or by cross-validation (cv). Left of the first knot
    there is a free line, or zero as in a ReLU network. --search anls makes the moves of the paper and no
    others.

    \b
    Examples:
      shallowflow fit my_data.csv
      shallowflow fit my_data.csv --x x --y y --interval 0.95 --path path.csv
      shallowflow fit my_data.csv --knots 20 --plot fit.png --out pieces.csv
      shallowflow fit my_data.csv --knots 5 --left zero --search anls --json
      shallowflow fit my_data.csv --monotone increasing --through 0,1
    """
    check_file(options["out"], "--out", ".csv", *(() if options["steps"] else (".json",)))
    check_file(options["plot"], "--plot", ".png", ".svg")
    check_file(options["path_file"], "--path", ".csv")
    n_knots = _number_of_knots(knots)
    if interval is not None:
        probability(interval, "--interval")
    named = ("x", "y", "weights", "delimiter", "decimal", "date_format", "missing", "na")
    pairs = _read(data, PairOptions(**{name: options[name] for name in named}))
    if options["steps"]:
        others = ("plot", "path_file", "known_knots", "through", "monotone", "shape", "flat", "discontinuous")
        if any(options[name] for name in others) or interval is not None:
            raise InvalidInputError("--steps: does not go with --plot, --path, --interval or constraints")
        _fit_steps(pairs, _name(data), options["out"], as_json)
        return
    chosen = {name: options[name] for name in ("left", "search", "selection", "loss")}
    chosen |= {name: options[name] for name in ("monotone", "shape", "flat")}
    chosen |= {"continuous": not options["discontinuous"], **_constraints(options, pairs.dates)}
    if isinstance(n_knots, int) and any(options[name] for name in ("monotone", "shape", "flat", "through")):
        say_if_long(CONSTRAINED * n_knots**2, "fewer --knots")
    model, seconds = _fitted(pairs, _name(data), n_knots, chosen)
    result = _result(model, pairs, _name(data), n_knots, seconds)
    result |= {"out": options["out"], "plot": options["plot"], "path": options["path_file"]}
    if interval is not None:
        say_if_long(INTERVALS * len(model.knots_) ** 2, "fewer --knots")
        result["summary"] = _plain(model.summary(interval).to_dict())
    _write_files(model, options)
    if as_json:
        print_json(result)
        return
    _print(model, pairs, result, interval)


def _constraints(options: dict[str, Any], dates: bool) -> dict[str, Any]:
    """Return known knots and points as the estimator takes them."""
    known, pairs = options["known_knots"], [text.rpartition(",") for text in options["through"]]
    return {
        "known_knots": None
        if known is None
        else [_place(one, "--known-knots", dates) for one in known.split(",")],
        "through": [(_place(x, "--through", dates), _place(y, "--through", False)) for x, _, y in pairs]
        or None,
    }


def _place(text: str, name: str, dates: bool) -> Any:
    """Return a number, or a date if x are."""
    import numpy as np

    try:
        return np.datetime64(text.strip()) if dates else float(text)
    except ValueError as error:
        kind = "dates as 2024-05-31" if dates else "numbers"
        raise InvalidInputError(f"{name}: must be {kind}, separated by commas, got {shown(text)}") from error


def _name(data: str) -> str:
    return "standard input" if data == "-" else Path(data).name.removesuffix(".gz").rpartition(".")[0] or data


def _read(data: str, options: PairOptions) -> Pairs:
    """Return the columns of a file or of standard input."""
    return read_pairs(sys.stdin.buffer if data == "-" else data, options)


def _fitted(
    pairs: Pairs, name: str, n_knots: int | str, options: dict[str, Any]
) -> tuple[ANLSRegressor, float]:
    from shallowflow.estimators import ANLSRegressor
    from shallowflow.estimators.base import to_dates
    from shallowflow.reporting.terminal import progress_bar

    start = time.perf_counter()
    weights = "repetition" if pairs.weights is None else "precision"
    x: Any = to_dates(pairs.x) if pairs.dates else pairs.x
    with progress_bar(f"fitting {name}") as show:
        model = ANLSRegressor(n_knots, weights=weights, **options)
        model.fit(x, pairs.y, sample_weight=pairs.weights, progress=show)
    model.x_name_, model.y_name_ = pairs.x_name, pairs.y_name
    return model, time.perf_counter() - start


def _fit_steps(pairs: Pairs, name: str, out: str | None, as_json: bool) -> None:
    """Fit constant pieces, exactly, and print them."""
    import numpy as np

    from shallowflow.estimators import StepRegressor

    model = StepRegressor(STEPS, method="exact").fit(pairs.x, pairs.y, sample_weight=pairs.weights)
    ends = [-np.inf, *model.jumps_.tolist(), np.inf]
    rows = [
        {"piece": i + 1, "left": ends[i], "right": ends[i + 1], "value": float(value)}
        for i, value in enumerate(model.values_)
    ]
    if out:
        text = "piece,left,right,value\n" + "".join(",".join(map(repr, row.values())) + "\n" for row in rows)
        write_atomically(Path(out), text.encode())
    squares = float(np.sum((model.predict(pairs.x) - pairs.y) ** 2))
    data = {"name": name, "size": len(pairs.y)}
    result = {"schema": SCHEMA, "data": data, "jumps": model.n_jumps_, "pieces": rows, "loss": 0.5 * squares}
    if as_json:
        print_json(_plain(result | {"read": list(pairs.notes), "notes": model.notes_, "out": out}))
        return
    for note in pairs.notes:
        click.echo(f"read: {note}")
    for row in rows:
        click.echo(f"{row['left']:>12.6g} … {row['right']:<12.6g} {row['value']:.6g}")
    click.echo(
        f"{model.n_jumps_} jumps, {len(pairs.y):,} points, half the sum of squares {0.5 * squares:.6g}"
    )


def _result(
    model: ANLSRegressor, pairs: Pairs, name: str, n_knots: int | str, seconds: float
) -> dict[str, Any]:
    """Return the fit as plain numbers and texts."""
    from shallowflow.reporting.summary import fit_summary

    asked = None if isinstance(n_knots, str) else n_knots
    dataset = Dataset(pairs.x[:, None], pairs.y, name)
    result = fit_summary(model.pieces_, dataset, seconds, asked)
    return result | {
        "schema": SCHEMA,
        "columns": {"x": pairs.x_name, "y": pairs.y_name, "dates": pairs.dates},
        "knot_places": _plain(list(model.knots_)),
        "loss_kind": model.loss_,
        "optimal": model.optimal_,
        "jumps": _plain(list(model.jumps_)),
        "dropped": pairs.dropped,
        "read": list(pairs.notes),
        "notes": list(model.notes_),
    }


def _write_files(model: ANLSRegressor, options: dict[str, Any]) -> None:
    if options["out"]:
        from shallowflow.reporting.summary import write_pieces

        write_pieces(model.pieces_, Path(options["out"]))
    if options["plot"]:
        model.plot(path=options["plot"])
    if options["path_file"]:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("knots", "loss", "criterion", "cv_error", "places"))
        for row in model.path_:
            places = " ".join(str(one) if model._dates else repr(float(one)) for one in row.knots)
            writer.writerow((*row[:4], places))
        write_atomically(Path(options["path_file"]), stream.getvalue().encode())


def _plain(value: Any) -> Any:
    """Return dates as text, and numbers as JSON has them."""
    from shallowflow.reporting.summary import plain

    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value) if type(value).__name__ == "datetime64" else plain(value)


def _print(model: ANLSRegressor, pairs: Pairs, result: dict[str, Any], interval: float | None) -> None:
    """Print what was guessed, the pieces and the errors, or the summary with its intervals."""
    from shallowflow.reporting.terminal import fit_text, output, pieces_table

    click.echo(f"{pairs.y_name} over {pairs.x_name}")
    for note in pairs.notes:
        click.echo(f"read: {note}")
    if interval is not None:
        click.echo(str(model.summary(interval)))
        return
    output().print(pieces_table(model.pieces_))
    if pairs.dates and len(model.knots_):
        click.echo("knots at    " + ", ".join(str(one).removesuffix("T00:00:00") for one in model.knots_))
    click.echo(fit_text(result))
    if result["path"]:
        click.echo(f"path        {result['path']}")
    for note in model.notes_:
        click.echo(note)


def _number_of_knots(text: str) -> int | str:
    """Return the number of knots, or "auto"."""
    if text == "auto":
        return text
    try:
        return count(int(text), "--knots", at_least=0)
    except ValueError as error:
        raise InvalidInputError(f"--knots: must be an integer >= 0 or auto, got {shown(text)}") from error
