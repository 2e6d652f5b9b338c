"""The command line: `list`, `simulate`, and those of `commands/`. Heavy imports wait until needed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from shallowflow.arrays import one_of
from shallowflow.commands.certify import certify
from shallowflow.commands.data_argument import read_data
from shallowflow.commands.fit import fit
from shallowflow.commands.reproduce import INTERRUPTED, reproduce
from shallowflow.commands.studies import studies
from shallowflow.data import GENERATORS, Dataset
from shallowflow.dynamics.clock.paths import flatten
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.record import Record, default_record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.experiments import DEMO, EXPERIMENTS
from shallowflow.models import LogisticLoss, Loss, Network, SquareLoss, initialize
from shallowflow.version import __version__

SCALED = ("balanced", "dominated", "gaussian")
INITIALISATIONS = {"relu": (*SCALED, "asymmetric", "grouped"), "knots": ("he_knots",)}
LOSSES: dict[str, Loss] = {"square": SquareLoss(), "sum": SquareLoss("sum"), "logistic": LogisticLoss()}
FLOW: dict[str, float] = {"until": 100.0}
DESCENT: dict[str, float] = {"step": 1e-2, "steps": 10_000}
WIDE_FRAMES, WIDE_BYTES = 40, 4 * 2**30
"""Networks recorded for the animation of a wide network, and the memory they may take."""
READER_GONE = 141
"""Exit code as a shell reports it for SIGPIPE."""


class Program(click.Group):
    """A group of commands whose errors are one line on stderr.

    Exit codes: 2 for bad input and for results that cannot be written, 130 for Ctrl-C, 141 (and no message)
    if whoever read the results has gone.
    """

    def __call__(self, *args: Any, **extra: Any) -> NoReturn:
        """Run as a program: the line of `kernels.shared.compilation` is shown even where stderr is a file."""
        os.environ["SHALLOWFLOW_ANNOUNCE"] = "1"
        self.main(*args, **extra)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the command named by the arguments and exit."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
            sys.stdout.flush()  # what cannot be written must fail here, not when Python shuts down
        except click.ClickException as error:
            _fail(error.format_message())
        except ShallowflowError as error:
            _fail(str(error))
        except MemoryError as error:
            _fail(f"not enough memory: {error}")
        except BrokenPipeError:
            _discard_output()
            sys.exit(READER_GONE)
        except OSError as error:
            _discard_output()
            _fail(f"standard output: cannot be written: {error.strerror or error}")
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it with one line."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            ctx.exit(READER_GONE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _discard_output() -> None:
    """Point stdout to nowhere: Python would try to write the rest when it shuts down, and complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(
    cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
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
      shallowflow certify my_data.csv
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
    from shallowflow.reporting.pages.summary import catalogue
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
@click.option("--step", type=float, help="Step size (default 0.01); means --descent.")
@click.option("--steps", type=int, help="Number of steps (default 10000); means --descent.")
@click.option("--loss", type=click.Choice(list(LOSSES)), default="square", show_default=True)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Speed of the inner layer.")
@click.option("--bias/--no-bias", "bias", default=None, help="Append a coordinate 1 (CSV for relu: yes).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of data and initialisation.")
@click.option("--save", metavar="FILE", help="Write the trajectory; read it with Trajectory.load.")
@click.option("--plot", metavar="FILE", help="Draw loss and function; FILE ends in .png or .svg.")
@click.option("--animate", metavar="FILE", help="Draw function and neurons over time; .html or .gif.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
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
    from shallowflow.reporting.pages.report import check_file
    from shallowflow.reporting.pages.summary import run_summary
    from shallowflow.reporting.terminal import progress_bar, run_text

    check_file(options["save"], "--save")
    check_file(options["plot"], "--plot", (".png", ".svg"))
    check_file(options["animate"], "--animate", (".html", ".gif"))
    knots = options["network"] == "knots"
    dataset = read_data(data, seed=options["seed"], bias=options["bias"], csv_bias=not knots)
    network = _network(dataset, options)
    if options["animate"]:
        from shallowflow.reporting.figures.runs import check_animated

        check_animated(network, dataset, "--animate")
    start = time.perf_counter()
    with progress_bar(f"training on {dataset.name or data}") as show:
        trajectory = _trajectory(network, dataset, options, lambda fraction: show(fraction, ""))
    result = run_summary(trajectory, dataset, time.perf_counter() - start)
    if options["save"]:
        trajectory.save(options["save"])
    if options["plot"]:
        from shallowflow.reporting.figures.runs import write_run_figure

        write_run_figure(trajectory, dataset, Path(options["plot"]), LOSSES[options["loss"]])
    if options["animate"]:
        _animate(trajectory, dataset, Path(options["animate"]))
    result |= {option: options[option] for option in ("save", "plot", "animate")}
    _print_json(result) if as_json else click.echo(run_text(result))
    ctx.exit(0 if trajectory.outcome.ok else 1)


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
    if options["animate"] and not default_record(flatten(network).size).networks:
        # By default a network this wide is recorded at its start and end only.
        common["record"] = Record.geometric(WIDE_FRAMES, max_bytes=WIDE_BYTES)
    return engine(network, dataset, **chosen, **common)


def _animate(trajectory: Trajectory, dataset: Dataset, path: Path) -> None:
    from shallowflow.reporting.figures.animation import write_animation
    from shallowflow.reporting.figures.runs import run_animation
    from shallowflow.reporting.terminal import progress_bar

    with progress_bar("drawing") as show:
        write_animation(run_animation(trajectory, dataset), path, progress=lambda share: show(share, ""))


main.add_command(fit)
main.add_command(reproduce)
main.add_command(studies)
main.add_command(certify)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


if __name__ == "__main__":
    main()
