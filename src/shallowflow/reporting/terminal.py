"""Tables and progress bars in a terminal. Texts are shown as they stand, never read as markup."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from shallowflow.experiments.experiment import Claim, Reproduction
from shallowflow.studies import Tally

PIPE_WIDTH = 100
DAY = 86_400.0


def claims_table(reproduction: Reproduction) -> Table:
    """Return the claims of one experiment: statement, published, measured, holds (in words and colour)."""
    experiment = reproduction.experiment
    title = Text.assemble((experiment.name, "bold"), f"  {experiment.title}")
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, header_style="bold")
    for heading, share in (("Claim", 5), ("Published", 4), ("Measured", 4)):
        table.add_column(heading, overflow="fold", ratio=share)
    table.add_column("Holds", no_wrap=True)
    for claim in reproduction.claims:
        verdict = Text("✓ yes", style="green") if claim.holds else Text("✗ no", style="bold red")
        table.add_row(_statement(claim), Text(claim.published), Text(claim.measured), verdict)
    return table


def experiments_table(experiments: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of experiments (`summary.catalogue`): name, title, where in the paper."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("Experiment", no_wrap=True)
    table.add_column("What it shows", overflow="fold")
    table.add_column("Where in the paper", overflow="fold")
    for experiment in experiments:
        table.add_row(*(Text(experiment[key]) for key in ("name", "title", "source")))
    return table


def generators_table(generators: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of data generators (`summary.catalogue`): name, description and call."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("Data", no_wrap=True)
    table.add_column("What it is, and how to ask for it", overflow="fold")
    for generator in generators:
        text = Text.assemble(generator["description"], "\n", (generator["call"], "italic"))
        table.add_row(Text(generator["name"]), text)
    return table


def run_text(result: Mapping[str, Any]) -> str:
    """Return the result of a run (`summary.run_summary`, with the files written) as lines for people."""
    outcome = result["outcome"]
    rows = {
        "outcome": f"{outcome['status']}: {outcome['message']}",
        "try": outcome["advice"],
        "final loss": f"{_number(result['final_loss'])} (at the start {_number(result['initial_loss'])})",
        "events": f"{result['events']:,}",
        "time": f"{result['time']:g}, computed in {result['seconds']:.2f} s",
        "saved": result.get("save"),
        "plotted": result.get("plot"),
        "animated": result.get("animate"),
    }
    return "\n".join(f"{name:<12}{text}" for name, text in rows.items() if text)


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"


class TimeLeft(TimeRemainingColumn):
    """The time left, or the time taken at the end; nobody plans by a guess of more than a day."""

    def __init__(self) -> None:
        super().__init__(elapsed_when_finished=True)

    def render(self, task: Task) -> Text:
        """Return the time left in words for the bar."""
        if not task.finished and task.time_remaining is not None and task.time_remaining > DAY:
            return Text("> 1 day", style="progress.remaining")
        return super().render(task)


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the program what to do if the reader has gone (rich would exit with 1)."""
        raise BrokenPipeError


def output() -> Console:
    """Return the console of results (stdout): as wide as the terminal, or a fixed width in a pipe."""
    return _Output(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[float | None, str], None]]:
    """Show a bar with the time left on stderr, or nothing where that is not a terminal.

    Yields a function that takes the fraction done, None where it is not known, and what is being done.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeLeft(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(name, total=1.0)

        def show(fraction: float | None, doing: str) -> None:
            description = f"{name}: {doing}" if doing else name
            # Without a total the bar moves to and fro.
            progress.tasks[0].total = None if fraction is None else 1.0
            progress.update(task, completed=fraction or 0.0, description=description)

        yield show


@contextmanager
def runs_bar(name: str) -> Iterator[Callable[[Tally], None]]:
    """Show the runs done and failed, the rate and the time left on stderr, or nothing without a terminal.

    Yields a function to give to `studies.run` as its `progress`.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[told]}", markup=False),
        TimeLeft(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(name, total=None, told="")
        start = time.monotonic()

        def show(tally: Tally) -> None:
            told = tally_text(tally, time.monotonic() - start)
            # What was kept from before took no time now: it must not count in the time left.
            left = tally.total - tally.kept
            progress.update(task, total=left, completed=tally.done + tally.failed, told=told)

        yield show


def tally_text(tally: Tally, seconds: float) -> str:
    """Return how far a study is, and how fast, in a few words."""
    over = tally.done + tally.failed
    words = [f"{tally.kept + tally.done} of {tally.total} runs done"]
    words += [f"{tally.failed} failed"] if tally.failed else []
    if over and seconds > 0:
        rate = over / seconds
        words.append(f"{rate:.3g} per second" if rate >= 1 else f"{60 * rate:.3g} per minute")
    return ", ".join(words)


def _statement(claim: Claim) -> Text:
    text = Text(claim.statement)
    return text.append(f"\n({claim.reason})", style="italic") if claim.reason else text
