"""Networks on DATA: `simulate`, `diagnose` (explain a run), `certify` (by theorems), `explore` (a page)."""

from __future__ import annotations

import json
import socket
import time
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.core import ParameterSource

from shallowflow.arrays import count, one_of, positive, unit_interval
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

if TYPE_CHECKING:
    from shallowflow.certificates import Verdict


SCALED = ("balanced", "dominated", "gaussian")
INITIALISATIONS = {"relu": (*SCALED, "asymmetric", "grouped"), "knots": ("he_knots",)}
LOSSES: dict[str, Loss] = {"square": SquareLoss(), "sum": SquareLoss("sum"), "logistic": LogisticLoss()}
MEANS: dict[str, Loss] = {name: LOSSES[name] for name in ("square", "logistic")}
"""The losses of `diagnose` and `certify`."""
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
        say_if_long(expected_seconds(task), "fewer --steps or a smaller --width")
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


RECORDS = 200


@click.command()
@click.argument("data")
@click.option(
    "--width", type=int, default=40, show_default=True, help="Neurons of the network that is trained."
)
@click.option("--steps", type=int, default=5000, show_default=True, help="Steps of full-batch descent.")
@click.option("--loss", type=click.Choice(list(MEANS)), default="square", show_default=True)
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
    loss = MEANS[options["loss"]]
    if not generated and not options["raw"]:
        dataset = _standardised(dataset, targets=options["loss"] == "square")
    if options["bias"] if options["bias"] is not None else not generated:
        dataset = dataset.with_bias()
    loss.check(dataset.targets)
    start = initialize.he_uniform(width, dataset.dimension, seed=options["seed"])
    expected = expected_seconds(Task(start, dataset, loss, steps=steps))
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


GENERAL = ("early_alignment", "plateau")
"""The papers that know, or say that they do not know, other losses and slopes."""
SILENT = "Does not apply: it is about the square loss and ReLU (slope 0)."
FOLLOWED = 2e-9
"""CPU seconds by n²·d of following a neuron of the start past all samples: it has no bound (100 neurons:
9 s for n = 1,000, d = 50; 12 s for n = 8,000, d = 2). Everything else takes seconds."""


@click.command()
@click.argument("data")
@click.option("--paper", metavar="NAME", help="Ask one paper only, by its word.")
@click.option("--width", type=int, default=100, show_default=True, help="Neurons of the planned start.")
@click.option("--init", default="balanced", show_default=True, help="balanced, dominated or gaussian.")
@click.option("--init-scale", type=float, default=1e-3, show_default=True, help="Scale λ of that start.")
@click.option("--loss", type=click.Choice(list(MEANS)), default="square", show_default=True)
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
    options["loss"] = MEANS[options["loss"]]
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
    from shallowflow.dynamics.critical_scale import HALVINGS, SCALES, UNTIL, bisected, line_test

    if options["slope"] != 0 or not isinstance(options["loss"], SquareLoss):
        words = "λ_c is measured for the square loss and ReLU only."
        return replace(verdict, words=(*verdict.words, words))
    width, init, seed = options["width"], options["init"], options["seed"]
    try:
        most = HALVINGS + 2
        stays = line_test(dataset, init, width=width, seed=seed, progress=lambda done: progress(done / most))
        found = bisected(stays, *SCALES, HALVINGS)
    except InvalidInputError as error:
        return replace(verdict, words=(*verdict.words, f"λ_c: {error}"))
    words = (
        f"Measured on this start and its multiples (flow to t = {UNTIL:g}): it ends in the line below "
        f"λ_c = {found}, above it fits better; you ask for λ = {options['init_scale']:g}."
    )
    numbers = {**verdict.numbers, "λ_c (measured)": found.value if found.found else None}
    return replace(verdict, words=(*verdict.words, words), numbers=numbers)


@click.command()
@click.argument("data", required=False)
@click.option("--scene", help="alignment (default), plateau, jumps, rates, two-timescales or free.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port (default: a free one).")
@click.option(
    "--browser/--no-browser", "browser", default=True, help="Open the page, or only say where it is."
)
def explore(data: str | None, scene: str | None, port: int, browser: bool) -> None:
    """Open a page on which points can be dragged while a network learns them.

    DATA is a table with the columns x and y (CSV and its kin); its points are shown in the scene "free". The
    page is served on this machine only (127.0.0.1), to whoever has the address with its token. Ctrl-C ends
    it.

    \b
    Examples:
      shallowflow explore
      shallowflow explore my_curve.csv
      shallowflow explore --scene jumps --no-browser
    """
    try:
        from shallowflow.explorer.scenes import SCENES
        from shallowflow.explorer.server import Explorer, serve
        from shallowflow.explorer.workers import Workers
    except ModuleNotFoundError as error:
        needed = "pip install 'shallowflow[explorer]'"
        raise InvalidInputError(f"explore: needs {error.name}, which is not installed: {needed}") from error
    from shallowflow.reporting.terminal import progress_bar

    state: dict[str, Any] = {} if data is None else {"points": _points(data)}
    name = one_of(scene or ("alignment" if data is None else "free"), "scene", tuple(SCENES))
    SCENES[name].state(state)
    listening = _bound(port)
    port = listening.getsockname()[1]
    workers = Workers()
    try:
        with progress_bar("loading what has been compiled, or compiling it") as show:
            show(0.1, "")
            workers.warm()
        explorer = Explorer(workers, port, name, state)
        address = f"http://127.0.0.1:{port}/?token={explorer.token}"

        def ready() -> None:
            click.echo(address)
            if browser:
                webbrowser.open(address)

        serve(explorer, listening, ready)
    finally:
        workers.close()
        listening.close()


def _points(file: str) -> list[list[float]]:
    """Return the points of a table: its columns x and y, or the two it has."""
    from shallowflow.data.table import PairOptions, read_pairs

    pairs = read_pairs(file, PairOptions())
    return [[float(x), float(y)] for x, y in zip(pairs.x, pairs.y, strict=True)]


def _bound(port: int) -> socket.socket:
    """Return a socket on 127.0.0.1, on a free port if it is 0."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except OSError as error:
        made.close()
        raise InvalidInputError(f"--port: {port} cannot be used: {error.strerror}") from error
    return made
