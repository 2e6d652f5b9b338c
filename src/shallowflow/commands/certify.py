"""`shallowflow certify DATA`: what the papers' theorems say about a data set, in plain words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from shallowflow.arrays import count, one_of, positive, unit_interval
from shallowflow.commands.arguments import json_option, print_json, read_data, say_if_long, say_if_slow
from shallowflow.data import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.models import LogisticLoss, Loss, SquareLoss

if TYPE_CHECKING:
    from shallowflow.certificates import Verdict

GENERAL = ("early_alignment", "plateau")
"""The papers that know, or say that they do not know, other losses and slopes."""
SILENT = "Does not apply: it is about the square loss and ReLU (slope 0)."
FOLLOWED = 2e-9
"""CPU seconds by n²·d of following a neuron of the start past all samples: it has no bound (100 neurons:
9 s for n = 1,000, d = 50; 12 s for n = 8,000, d = 2). Everything else takes seconds."""
LOSSES: dict[str, Loss] = {"square": SquareLoss(), "logistic": LogisticLoss()}


@click.command()
@click.argument("data")
@click.option("--paper", metavar="NAME", help="Ask one paper only, by its word.")
@click.option("--width", type=int, default=100, show_default=True, help="Neurons of the planned start.")
@click.option("--init", default="balanced", show_default=True, help="balanced, dominated or gaussian.")
@click.option("--init-scale", type=float, default=1e-3, show_default=True, help="Scale λ of that start.")
@click.option("--loss", type=click.Choice(list(LOSSES)), default="square", show_default=True)
@click.option("--slope", type=float, default=0.0, show_default=True, help="Of the leaky ReLU, in [0, 1).")
@click.option(
    "--critical-scale/--no-critical-scale",
    "measure",
    default=None,
    help="Measure below which λ flows end in the line (seconds; default: where Theorem 4 holds).",
)
@click.option(
    "--bias/--no-bias", "bias", default=None, help="Append a coordinate 1 (CSV: if x is one column)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of data and start.")
@click.option("--details", is_flag=True, help="Print every hypothesis and promise.")
@json_option
@click.pass_context
def certify(
    ctx: click.Context, /, data: str, paper: str | None, bias: bool | None, as_json: bool, **options: Any
) -> None:
    """Say what the theorems promise about training small networks on DATA.

    DATA is a CSV file (one sample per line, target last) or a generator with its arguments. Printed are the
    data's extremal vectors, the thresholds, and a verdict in words: where training will end, or which
    assumption fails and by how much. Where the activation cones are too many to list, a search says what it
    found. A verdict that nothing is promised is a finding: the exit code stays 0.

    Networks have no bias of their own: a coordinate 1 is appended to CSV inputs of one column, and to others
    by --bias only (it makes all inputs interact).

    \b
    Examples:
      shallowflow certify three_points
      shallowflow certify my_data.csv --width 1000 --init dominated --init-scale 1e-6
      shallowflow certify sphere:size=8,dimension=3 --paper early_alignment --json
      shallowflow certify my_data.csv --paper early_alignment --loss logistic --slope 0.1
    """
    from shallowflow.certificates import VERDICTS, Question, Verdict
    from shallowflow.reporting.summary import verdict_summary
    from shallowflow.reporting.terminal import output, progress_bar, verdict_lines

    details, measure = options.pop("details"), options.pop("measure")
    asked = [ctx.get_parameter_source(name) for name in ("init", "init_scale")]
    options["own_start"] = all(source is ParameterSource.DEFAULT for source in asked)
    options["loss"] = LOSSES[options["loss"]]
    papers = [one_of(paper, "--paper", VERDICTS)] if paper else list(VERDICTS)
    count(options["width"], "width")
    positive(options["init_scale"], "init_scale")
    unit_interval(options["slope"], "slope")
    dataset = read_data(data, seed=options["seed"], bias=bias, csv_bias="line")
    if "early_alignment" in papers:
        cost = FOLLOWED * options["width"] * dataset.size**2 * dataset.dimension
        say_if_long(cost, "fewer samples or a smaller --width")
    verdicts = []
    with progress_bar(f"certifying {dataset.name or data}") as show:
        for number, word in enumerate(papers):
            start = number / len(papers)

            def searching(fraction: float, start: float = start, word: str = word) -> None:
                show(start + fraction / len(papers), f"{word}: looking for extremal vectors")

            show(start, word)
            asked_of = Question(dataset, progress=searching, **options)
            other = options["slope"] != 0 or not isinstance(options["loss"], SquareLoss)
            silent = other and word not in GENERAL
            verdicts.append(Verdict(word, None, (SILENT,)) if silent else VERDICTS[word](asked_of))
            if word == "early_alignment" and (measure or (measure is None and _has_threshold(verdicts[-1]))):

                def measuring(share: float, start: float = start) -> None:
                    show(start + share / len(papers), "measuring λ_c")

                watch = say_if_slow(measuring, "a smaller --width or --no-critical-scale")
                verdicts[-1] = _with_critical_scale(verdicts[-1], dataset, options, watch)
    if as_json:
        print_json(verdict_summary(verdicts, dataset))
        return
    console = output()
    for entry in verdict_lines(verdicts, dataset, details=details):
        console.print(entry)


def _has_threshold(verdict: Verdict) -> bool:
    """Whether the data satisfy Theorem 4: there is a λ̃, and the paper gives no number for it."""
    return any(one.theorem == "early_alignment/theorem-4" and one.holds for one in verdict.certificates)


def _with_critical_scale(
    verdict: Verdict, dataset: Dataset, options: dict[str, Any], progress: Callable[[float], None]
) -> Verdict:
    """Return the verdict with the scale below which flows from this start end in the least-squares line."""
    from shallowflow.dynamics.critical_scale import critical_scale

    if options["slope"] != 0 or not isinstance(options["loss"], SquareLoss):
        words = "λ_c is measured for the square loss and ReLU only."
        return replace(verdict, words=(*verdict.words, words))
    width, init, seed = options["width"], options["init"], options["seed"]
    try:
        found = critical_scale(dataset, init, width=width, seed=seed, progress=progress)
    except InvalidInputError as error:
        return replace(verdict, words=(*verdict.words, f"λ_c: {error}"))
    words = (
        f"Measured on this start and its multiples (flow to t = 400): it ends in the line below "
        f"λ_c = {found}, above it fits better; you ask for λ = {options['init_scale']:g}."
    )
    numbers = {**verdict.numbers, "λ_c (measured)": found.value if found.found else None}
    return replace(verdict, words=(*verdict.words, words), numbers=numbers)
