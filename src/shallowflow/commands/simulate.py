"""`shallowflow simulate` and `shallowflow diagnose`: train a network on DATA; save, draw or explain the run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from shallowflow.arrays import count, one_of
from shallowflow.commands.arguments import (
    check_file,
    json_option,
    print_json,
    read_data,
    say_if_long,
    say_if_slow,
)
from shallowflow.data import GENERATORS, Dataset
from shallowflow.dynamics.choice import expected_seconds
from shallowflow.dynamics.clock.problem import Record, Task, default_record
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.escape import escape, stable_step
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.errors import InvalidInputError
from shallowflow.models import LogisticLoss, Loss, Network, ReLUNetwork, SquareLoss, initialize
from shallowflow.readings.story import Story, story

SCALED = ("balanced", "dominated", "gaussian")
INITIALISATIONS = {"relu": (*SCALED, "asymmetric", "grouped"), "knots": ("he_knots",)}
LOSSES: dict[str, Loss] = {"square": SquareLoss(), "sum": SquareLoss("sum"), "logistic": LogisticLoss()}
FLOW: dict[str, float] = {"until": 100.0}
DESCENT: dict[str, float] = {"step": 1e-2, "steps": 10_000}
WIDE_FRAMES, WIDE_BYTES = 40, 4 * 2**30
"""Networks recorded for the animation of a wide network, and the memory they may take."""


@click.command()
@click.argument("data")
@click.option("--network", type=click.Choice(list(INITIALISATIONS)), default="relu", show_default=True)
@click.option("--width", type=int, default=100, show_default=True, help="Number of neurons.")
@click.option("--init", help="balanced (default), dominated, gaussian, asymmetric, grouped; knots: he_knots.")
@click.option("--init-scale", type=float, help="Scale λ of balanced, dominated, gaussian (default 0.001).")
@click.option("--flow/--descent", "flow", default=None, help="Gradient flow (default) or gradient descent.")
@click.option("--until", type=float, help="Flow: final time (default 100).")
@click.option("--step", type=float, help="Step size (default 0.01); means --descent.")
@click.option("--steps", type=int, help="Number of steps (default 10000); means --descent.")
@click.option("--loss", type=click.Choice(list(LOSSES)), default="square", show_default=True)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Speed of the inner layer.")
@click.option("--bias/--no-bias", "bias", default=None, help="Append a coordinate 1 (CSV for relu: yes).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of data and initialisation.")
@click.option("--save", metavar="FILE", help="Write the trajectory; read it with Trajectory.load.")
@click.option("--plot", metavar="FILE", help="Draw loss and function (or neurons); .png or .svg.")
@click.option("--animate", metavar="FILE", help="Draw function and neurons over time; .html or .gif.")
@json_option
@click.pass_context
def simulate(ctx: click.Context, /, data: str, as_json: bool, **options: Any) -> None:
    """Train a two-layer network on DATA and say how it went.

    DATA is a CSV file (one sample per line, target last) or a generator with its arguments. The exit code is
    0 if the run did what was asked, 1 if it diverged, was unstable, stalled or filled the memory allowed for
    its record, 2 for bad input.

    \b
    Examples:
      shallowflow simulate three_points --width 200 --init-scale 0.001 --until 200 --animate run.html
      shallowflow simulate stewart:size=60 --descent --step 0.01 --steps 20000 --save run.trajectory
      shallowflow simulate curve:sin_5pi --network knots --width 50 --until 10
      shallowflow simulate sphere:size=20,dimension=5 --init asymmetric --descent --json
      shallowflow simulate my_data.csv --width 50 --loss logistic
    """
    from shallowflow.reporting.summary import run_summary
    from shallowflow.reporting.terminal import progress_bar, run_text

    save, plot, animate = (options[name] for name in ("save", "plot", "animate"))
    check_file(save, "--save")
    check_file(plot, "--plot", ".png", ".svg")
    check_file(animate, "--animate", ".html", ".gif")
    knots = options["network"] == "knots"
    dataset = read_data(data, seed=options["seed"], bias=options["bias"], csv_bias=not knots)
    network = _network(dataset, options)
    flow, chosen = _verb(options)
    task = Task(network, dataset, LOSSES[options["loss"]], steps=int(chosen.get("steps", 0)))
    if not flow:
        say_if_long(expected_seconds("gradient_descent", task), "fewer --steps or a smaller --width")
    start = time.perf_counter()
    with progress_bar(f"training on {dataset.name or data}") as show:
        verb = gradient_flow if flow else gradient_descent
        trajectory = _trajectory(verb, task, chosen, options, _progress(show, flow))
    result = run_summary(trajectory, dataset, time.perf_counter() - start)
    if save:
        trajectory.save(save)
    if plot:
        from shallowflow.reporting.figures.runs import plot_run

        plot_run(trajectory, dataset, plot, loss=LOSSES[options["loss"]])
    if animate:
        from shallowflow.reporting.figures.runs import animate_run

        with progress_bar("drawing") as show:
            animate_run(trajectory, dataset, animate, progress=lambda share: show(share, ""))
    result |= {"save": save, "plot": plot, "animate": animate}
    print_json(result) if as_json else click.echo(run_text(result))
    ctx.exit(0 if trajectory.outcome.ok else 1)


def _progress(show: Callable[[float | None, str], None], flow: bool) -> Callable[[float], None]:
    """Return what moves the bar; a flow, whose steps depend on what happens, says if it is slow."""

    def shown(share: float) -> None:
        show(share, "")

    return say_if_slow(shown, "coming to rest, an earlier --until or a smaller --width") if flow else shown


def _network(dataset: Dataset, options: dict[str, Any]) -> Network:
    kind, width, seed = options["network"], options["width"], options["seed"]
    init = one_of(options["init"] or INITIALISATIONS[kind][0], "init", INITIALISATIONS[kind])
    scale = {} if options["init_scale"] is None else {"init_scale": options["init_scale"]}
    if scale and init not in SCALED:
        raise InvalidInputError(f"init_scale: has no meaning for {init}, got {options['init_scale']:g}")
    if init == "he_knots":
        return initialize.he_knots(width, seed=seed)
    if init == "grouped":
        return initialize.grouped(dataset.inputs, dataset.targets, width, seed=seed)
    network: Network = getattr(initialize, init)(width, dataset.dimension, seed=seed, **scale)
    return network


def _verb(options: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Return whether the options ask for a flow, and how long, or in which steps, it runs."""
    given = [name for name in ("until", "step", "steps") if options[name] is not None]
    flow = "step" not in given and "steps" not in given if options["flow"] is None else options["flow"]
    strange = [name for name in given if (name == "until") != flow]
    if strange:
        other = "--descent" if flow else "--flow"
        raise InvalidInputError(f"{strange[0]}: belongs to {other}, got {options[strange[0]]:g} without it")
    defaults = FLOW if flow else DESCENT
    return flow, {
        name: default if options[name] is None else options[name] for name, default in defaults.items()
    }


def _trajectory(
    verb: Callable[..., Trajectory],
    task: Task,
    chosen: dict[str, Any],
    options: dict[str, Any],
    show: Callable[[float], None],
) -> Trajectory:
    """Run the flow or the descent that the options ask for."""
    common = {"loss": task.loss, "epsilon": options["epsilon"], "progress": show}
    if options["animate"] and not default_record(flatten(task.network).size).networks:
        # By default a network this wide is recorded at its start and end only.
        common["record"] = Record.geometric(WIDE_FRAMES, max_bytes=WIDE_BYTES)
    return verb(task.network, task.dataset, **chosen, **common)


DIAGNOSED: dict[str, Loss] = {"square": SquareLoss(), "logistic": LogisticLoss()}
RECORDS = 200


@click.command()
@click.argument("data")
@click.option(
    "--width", type=int, default=40, show_default=True, help="Neurons of the network that is trained."
)
@click.option("--steps", type=int, default=5000, show_default=True, help="Steps of full-batch descent.")
@click.option("--loss", type=click.Choice(list(DIAGNOSED)), default="square", show_default=True)
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
    loss = DIAGNOSED[options["loss"]]
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
