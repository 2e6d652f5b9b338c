"""`shallowflow diagnose DATA`: train a small network, or read a saved run, and tell what happened and what to
try."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from shallowflow.arrays import count
from shallowflow.commands.arguments import check_file, json_option, print_json, read_data, say_if_long
from shallowflow.data import GENERATORS, Dataset
from shallowflow.dynamics.choice import expected_seconds
from shallowflow.dynamics.clock.problem import Record, Task
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.escape import escape, stable_step
from shallowflow.errors import InvalidInputError
from shallowflow.models import LogisticLoss, Loss, ReLUNetwork, SquareLoss, initialize
from shallowflow.readings.story import Story, story

LOSSES: dict[str, Loss] = {"square": SquareLoss(), "logistic": LogisticLoss()}
RECORDS = 200


@click.command()
@click.argument("data")
@click.option(
    "--width", type=int, default=40, show_default=True, help="Neurons of the network that is trained."
)
@click.option("--steps", type=int, default=5000, show_default=True, help="Steps of full-batch descent.")
@click.option("--loss", type=click.Choice(list(LOSSES)), default="square", show_default=True)
@click.option("--bias/--no-bias", "bias", default=None, help="Append a coordinate 1 (CSV: yes).")
@click.option("--raw", is_flag=True, help="Leave inputs and targets as they are (CSV: standardised).")
@click.option("--escape", "try_escape", is_flag=True, help="Also make the escape that the diagnosis advises.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the start, data and escape.")
@click.option("--save", metavar="FILE", help="Write the trajectory; read it with Trajectory.load.")
@click.option("--plot", metavar="FILE", help="Draw the chapters of the run; .png or .svg.")
@json_option
def diagnose(data: str, as_json: bool, **options: Any) -> None:
    """Tell the story of a training on DATA: chapters, what holds it up, when that ends, what to try.

    DATA is a CSV file (one sample per line, target last), a generator with its arguments, or a trajectory
    that was saved. On a CSV file a two-layer network is trained from PyTorch's default start, inputs and
    targets standardised.

    \b
    Examples:
      shallowflow diagnose my_data.csv
      shallowflow diagnose my_data.csv --width 20 --escape --plot story.png
      shallowflow diagnose labels.csv --loss logistic
      shallowflow diagnose run.trajectory --json
    """
    from shallowflow.reporting.terminal import progress_bar

    check_file(options["save"], "--save")
    check_file(options["plot"], "--plot", ".png", ".svg")
    run = _run(data, options)
    with progress_bar("reading the run") as show:
        show(None, "")
        tale = story(run)
        advice = _escape(run, options) if options["try_escape"] else None
    if options["save"]:
        run.save(options["save"])
    if options["plot"]:
        tale.plot(options["plot"])
    if as_json:
        print_json({**json.loads(tale.to_json()), "escape": advice})
    else:
        click.echo(_text(tale, advice))


def _text(tale: Story, advice: str | None) -> str:
    return tale.text() if advice is None else f"{tale.text()}\n\nEscape:\n{advice}"


def _run(data: str, options: dict[str, Any]) -> Trajectory:
    """Return a saved run, or train one."""
    from shallowflow.reporting.terminal import progress_bar

    path, width, steps = Path(data), count(options["width"], "width"), count(options["steps"], "steps")
    if path.is_file() and path.suffix.lower() != ".csv":
        return Trajectory.load(path)
    dataset = read_data(data, seed=options["seed"], bias=False, csv_bias=False)
    generated = data.partition(":")[0] in GENERATORS
    loss = LOSSES[options["loss"]]
    if not generated and not options["raw"]:
        dataset = _standardised(dataset, targets=options["loss"] == "square")
    if options["bias"] if options["bias"] is not None else not generated:
        dataset = dataset.with_bias()
    loss.check(dataset.targets)
    start = initialize.he_uniform(width, dataset.dimension, seed=options["seed"])
    expected = expected_seconds("gradient_descent", Task(start, dataset, loss, steps=steps))
    say_if_long(expected, "fewer --steps or a smaller --width")
    step = stable_step(start, dataset) / 3.0
    with progress_bar(f"training on {dataset.name or data}") as show:
        return gradient_descent(
            start,
            dataset,
            step=step,
            steps=steps,
            loss=loss,
            record=Record.geometric(RECORDS),
            progress=lambda fraction: show(fraction, ""),
        )


def _standardised(dataset: Dataset, *, targets: bool) -> Dataset:
    """Return inputs, and targets if wanted, with mean 0 and standard deviation 1; constants stay 0."""

    def scaled(values: Any) -> Any:
        spread = values.std(axis=0)
        return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)

    goals = scaled(dataset.targets) if targets else dataset.targets
    return Dataset(scaled(dataset.inputs), goals, dataset.name)


def _escape(run: Trajectory, options: dict[str, Any]) -> str:
    """Return what the advised escape does, in sentences."""
    network, dataset = run.final, run.setting.data
    if not isinstance(network, ReLUNetwork) or not isinstance(dataset, Dataset):
        raise InvalidInputError("--escape: is for a ReLUNetwork whose trajectory knows its data")
    if not isinstance(run.setting.loss, SquareLoss):
        return "Escapes are for the square loss."
    return escape(network, dataset, seed=options["seed"]).text()
