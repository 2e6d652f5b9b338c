"""The command line: `shallowflow list`, `simulate`, and those of `commands/`. Heavy imports wait."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from shallowflow.arrays import one_of, shown
from shallowflow.commands.fit import fit
from shallowflow.commands.reproduce import INTERRUPTED, reproduce
from shallowflow.commands.studies import studies
from shallowflow.data import GENERATORS, Dataset
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.experiments import DEMO, EXPERIMENTS
from shallowflow.models import LogisticLoss, Loss, Network, SquareLoss, initialize

SCALED = ("balanced", "dominated", "gaussian")
INITIALISATIONS = {"relu": (*SCALED, "asymmetric", "grouped"), "knots": ("he_knots",)}
LOSSES: dict[str, Loss] = {"square": SquareLoss(), "sum": SquareLoss("sum"), "logistic": LogisticLoss()}
FLOW: dict[str, float] = {"until": 100.0}
DESCENT: dict[str, float] = {"step": 1e-2, "steps": 10_000}


class Program(click.Group):
    """A group of commands whose errors are one line on stderr: exit 2 for bad input, 130 for Ctrl-C."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the command named by the arguments and exit."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.ClickException as error:
            _fail(error.format_message())
        except ShallowflowError as error:
            _fail(str(error))
        except MemoryError as error:
            _fail(f"not enough memory: {error}")
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it with one line."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(
    cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="shallowflow", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """See, predict and escape the training dynamics of two-layer neural networks.

    \b
    Examples:
      shallowflow list
      shallowflow reproduce early_alignment/fig2
      shallowflow simulate three_points --width 200 --until 200 --plot run.png
      shallowflow fit my_data.csv --knots 20 --plot fit.png
      shallowflow studies list report/store
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """List the experiments that can be reproduced and the data that can be generated.

    \b
    Examples:
      shallowflow list
      shallowflow list --json
    """
    from shallowflow.reporting.summary import catalogue
    from shallowflow.reporting.terminal import experiments_table, generators_table, output

    listed = catalogue(EXPERIMENTS.values(), DEMO, GENERATORS)
    if as_json:
        _print_json(listed)
        return
    output().print(experiments_table(listed["experiments"]))
    output().print(generators_table(listed["generators"]))


@main.command()
@click.argument("data")
@click.option("--network", type=click.Choice(list(INITIALISATIONS)), default="relu", show_default=True)
@click.option("--width", type=int, default=100, show_default=True, help="Number of neurons.")
@click.option("--init", help="balanced (default), dominated, gaussian, asymmetric, grouped; knots: he_knots.")
@click.option("--init-scale", type=float, help="Scale λ of balanced, dominated, gaussian (default 0.001).")
@click.option("--flow/--descent", "flow", default=None, help="Gradient flow (default) or gradient descent.")
@click.option("--until", type=float, help="Flow: final time (default 100).")
@click.option("--step", type=float, help="Descent: step size (default 0.01).")
@click.option("--steps", type=int, help="Descent: number of steps (default 10000).")
@click.option("--loss", type=click.Choice(list(LOSSES)), default="square", show_default=True)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Speed of the inner layer.")
@click.option("--bias/--no-bias", "bias", default=None, help="Append a coordinate 1 (CSV for relu: yes).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of data and initialisation.")
@click.option("--save", metavar="FILE", help="Write the trajectory; read it with Trajectory.load.")
@click.option("--plot", metavar="FILE", help="Draw loss and function; FILE ends in .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def simulate(ctx: click.Context, /, data: str, as_json: bool, **options: Any) -> None:
    """Train a two-layer network on DATA and say how it went.

    DATA is a CSV file (one sample per line, target last) or a generator with its arguments. The exit code
    is 0 if the run did what was asked, 1 if it diverged, was unstable or stalled, 2 for bad input.

    \b
    Examples:
      shallowflow simulate three_points --width 200 --init-scale 0.001 --until 200 --plot run.png
      shallowflow simulate stewart:size=60 --descent --step 0.01 --steps 20000 --save run.trajectory
      shallowflow simulate curve:sin_5pi --network knots --width 50 --until 10
      shallowflow simulate sphere:size=20,dimension=5 --init asymmetric --descent --json
      shallowflow simulate my_data.csv --width 50 --loss logistic
    """
    from shallowflow.reporting.destination import check_file
    from shallowflow.reporting.summary import run_summary
    from shallowflow.reporting.terminal import progress_bar, run_text

    check_file(options["save"], "--save")
    check_file(options["plot"], "--plot", (".png", ".svg"))
    dataset = _dataset(data, options)
    network = _network(dataset, options)
    start = time.perf_counter()
    with progress_bar(f"training on {dataset.name or data}") as show:
        trajectory = _trajectory(network, dataset, options, lambda fraction: show(fraction, ""))
    result = run_summary(trajectory, dataset, time.perf_counter() - start)
    if options["save"]:
        trajectory.save(options["save"])
    if options["plot"]:
        from shallowflow.reporting.run_figure import write_run_figure

        write_run_figure(trajectory, dataset, Path(options["plot"]))
    result |= {option: options[option] for option in ("save", "plot")}
    _print_json(result) if as_json else click.echo(run_text(result))
    ctx.exit(0 if trajectory.outcome.ok else 1)


def _dataset(text: str, options: dict[str, Any]) -> Dataset:
    """Return the data named on the command line: a generator with arguments, or a CSV file."""
    name, _, arguments = text.partition(":")
    bias = options["bias"]
    if name in GENERATORS:
        dataset = _generated(GENERATORS[name], arguments, options["seed"], text)
    elif text.lower().endswith(".csv") or os.path.exists(text):
        dataset = Dataset.from_csv(text)
        bias = options["network"] == "relu" if bias is None else bias
    else:
        known = ", ".join(GENERATORS)
        raise InvalidInputError(f"DATA: must be a CSV file or one of {known}; got {shown(text)}")
    return dataset.with_bias() if bias else dataset


def _generated(make: Callable[..., Dataset], arguments: str, seed: int, text: str) -> Dataset:
    """Call a generator with arguments written as "value,key=value"."""
    words = [word.partition("=") for word in filter(None, arguments.split(","))]
    positional = [_number_or_word(word) for word, equals, _ in words if not equals]
    named = {key: _number_or_word(value) for key, equals, value in words if equals}
    if "seed" in inspect.signature(make).parameters:
        named.setdefault("seed", seed)
    try:
        return make(*positional, **named)
    except TypeError as error:
        raise InvalidInputError(f"DATA: {error}; got {shown(text)}") from error


def _number_or_word(text: str) -> int | float | str:
    try:
        return int(text) if text.strip("+-").isdecimal() else float(text)
    except ValueError:
        return text


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


def _trajectory(
    network: Network, dataset: Dataset, options: dict[str, Any], show: Callable[[float], None]
) -> Trajectory:
    """Run the flow or the descent that the options ask for."""
    given = [name for name in ("until", "step", "steps") if options[name] is not None]
    flow = "step" not in given and "steps" not in given if options["flow"] is None else options["flow"]
    strange = [name for name in given if (name == "until") != flow]
    if strange:
        other = "--descent" if flow else "--flow"
        raise InvalidInputError(f"{strange[0]}: belongs to {other}, got {options[strange[0]]:g} without it")
    engine: Callable[..., Trajectory] = gradient_flow if flow else gradient_descent
    defaults = FLOW if flow else DESCENT
    chosen = {name: default if options[name] is None else options[name] for name, default in defaults.items()}
    common = {"loss": LOSSES[options["loss"]], "epsilon": options["epsilon"], "progress": show}
    return engine(network, dataset, **chosen, **common)


main.add_command(fit)
main.add_command(reproduce)
main.add_command(studies)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


if __name__ == "__main__":
    main()
