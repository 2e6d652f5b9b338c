"""The command line: its entry, its errors, `list`, and the commands of `commands/`, which import lazily."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import click

from shallowflow.commands.arguments import json_option, print_json
from shallowflow.commands.fit import fit
from shallowflow.commands.networks import certify, diagnose, explore, simulate
from shallowflow.commands.reproduce import INTERRUPTED, reproduce, studies
from shallowflow.data import GENERATORS
from shallowflow.errors import ShallowflowError
from shallowflow.experiments import DEMO, EXPERIMENTS
from shallowflow.version import __version__

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
        except (KeyboardInterrupt, click.Abort) as stop:
            click.echo(str(stop) or "interrupted", err=True)
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
      shallowflow diagnose my_data.csv --plot story.png
      shallowflow explore
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command(name="list")
@json_option
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
        print_json(listed)
        return
    output().print(experiments_table(listed["experiments"]))
    output().print(generators_table(listed["generators"]))


for command in (simulate, fit, diagnose, reproduce, studies, certify, explore):
    main.add_command(command)


if __name__ == "__main__":
    main()
