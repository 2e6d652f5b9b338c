"""`shallowflow certify DATA`: what the papers' theorems say about a data set, in plain words."""

from __future__ import annotations

from typing import Any

import click

from shallowflow.arrays import count, one_of, positive
from shallowflow.commands.arguments import json_option, print_json, read_data


@click.command()
@click.argument("data")
@click.option("--paper", metavar="NAME", help="Ask one paper only, by its word.")
@click.option("--width", type=int, default=100, show_default=True, help="Neurons of the planned start.")
@click.option("--init", default="balanced", show_default=True, help="balanced, dominated or gaussian.")
@click.option("--init-scale", type=float, default=1e-3, show_default=True, help="Scale λ of that start.")
@click.option(
    "--bias/--no-bias", "bias", default=None, help="Append a coordinate 1 (CSV: if x is one column)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of data and start.")
@click.option("--details", is_flag=True, help="Print every hypothesis and promise.")
@json_option
def certify(
    data: str, paper: str | None, bias: bool | None, details: bool, as_json: bool, **options: Any
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
    """
    from shallowflow.certificates import VERDICTS, Question
    from shallowflow.reporting.summary import verdict_summary
    from shallowflow.reporting.terminal import output, progress_bar, verdict_lines

    papers = [one_of(paper, "--paper", VERDICTS)] if paper else list(VERDICTS)
    count(options["width"], "width")
    positive(options["init_scale"], "init_scale")
    dataset = read_data(data, seed=options["seed"], bias=bias, csv_bias="line")
    verdicts = []
    with progress_bar(f"certifying {dataset.name or data}") as show:
        for number, word in enumerate(papers):
            start = number / len(papers)

            def searching(fraction: float, start: float = start, word: str = word) -> None:
                show(start + fraction / len(papers), f"{word}: looking for extremal vectors")

            show(start, word)
            verdicts.append(VERDICTS[word](Question(dataset, progress=searching, **options)))
    if as_json:
        print_json(verdict_summary(verdicts, dataset))
        return
    console = output()
    for entry in verdict_lines(verdicts, dataset, details=details):
        console.print(entry)
