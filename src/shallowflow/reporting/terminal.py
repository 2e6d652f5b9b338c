"""What commands print for people: tables, short texts, bars. No text is read as markup."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from shallowflow.certificates import Verdict
from shallowflow.data.dataset import Dataset
from shallowflow.experiments.experiment import Claim, Reproduction, apart
from shallowflow.reporting.summary import by_paper, counts, seconds_text
from shallowflow.studies import Tally

if TYPE_CHECKING:
    from shallowflow.estimators.base import Pieces

PIPE_WIDTH = 100
DAY = 86_400.0
LONGEST = 50
"""Longer tables of runs are cut; an export has them all."""
MOST_ROWS = 20
"""Longer tables of a verdict are cut; --json has them all."""


def _table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | Text | None = None,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Table:
    """Return a table; `right`: headings of columns aligned to the right, `whole`: of those never folded."""
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, header_style="bold")
    for heading in headings:
        justify, no_wrap = "right" if heading in right else "left", heading in whole
        table.add_column(Text(heading), justify=justify, no_wrap=no_wrap, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def _number(value: float | None, unknown: str = "unknown") -> str:
    return unknown if value is None else f"{value:.6g}"


def _lines(rows: Mapping[str, str | None]) -> str:
    return "\n".join(f"{name:<12}{text}" for name, text in rows.items() if text)


def experiments_table(experiments: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of experiments (`summary.catalogue`): name, title, where in the paper."""
    rows = [[experiment[key] for key in ("name", "title", "source")] for experiment in experiments]
    return _table(("Experiment", "What it shows", "Where in the paper"), rows, whole=("Experiment",))


def generators_table(generators: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of data generators (`summary.catalogue`): name, description and call."""
    rows = [
        (one["name"], Text.assemble(one["description"], "\n", (one["call"], "italic"))) for one in generators
    ]
    return _table(("Data", "What it is, and how to ask for it"), rows, whole=("Data",))


MARKS = {True: "✓", False: "✗", None: "?"}
STYLES = {True: "green", False: "bold red", None: "yellow"}


def claims_table(reproduction: Reproduction) -> Table:
    """Return the claims of one experiment: statement, published, measured, verdict (in words and colour).

    Below a statement stands its reason, below a measurement what would make the claim fail. Ours come last.
    """
    experiment = reproduction.experiment
    title = Text.assemble((experiment.name, "bold"), f"  {experiment.title}")
    theirs, ours = apart(reproduction.claims)
    rows = [_claim_row(claim) for claim in (*theirs, *ours)]
    table = _table(("Claim", "Published", "Measured", "Verdict"), rows, title=title, whole=("Verdict",))
    if theirs and ours:
        table.rows[len(theirs) - 1].end_section = True
    return table


def _claim_row(claim: Claim) -> tuple[Text, str, Text, Text]:
    lead = ", ".join([*["ours"] * claim.ours, *[claim.setting] * bool(claim.setting)])
    statement = Text.assemble((f"{lead}: " if lead else "", "bold"), claim.statement)
    if claim.reason:
        statement.append(f"\n({claim.reason})", style="italic")
    measured = Text(claim.measured)
    if claim.fails_if:
        measured.append(f"\nfails {claim.fails_if}", style="dim")
    return (
        statement,
        claim.published,
        measured,
        Text(f"{MARKS[claim.holds]} {claim.word}", style=STYLES[claim.holds]),
    )


def papers_table(reproductions: Sequence[Reproduction]) -> Table:
    """Return how many claims of each paper hold, fail and are open, and of ours."""
    headings = ("Paper", "Claims", "Hold", "Fail", "Open", "Ours", "hold", "fail", "open")
    found = {paper: counts(group) for paper, group in by_paper(reproductions).items()}
    rows = [
        (paper, *(str(number) for part in of.values() for number in part.values()))
        for paper, of in found.items()
    ]
    return _table(headings, rows, right=headings[1:], whole=headings)


def costs_text(costs: Mapping[str, float | None], jobs: int | None) -> str:
    """Return what experiments will cost here: CPU time of each and of all, wall time with some at once."""
    width = max(len(name) for name in costs)
    lines = [
        f"{name:<{width}}  {'not measured' if seconds is None else f'about {seconds_text(seconds)}'}"
        for name, seconds in costs.items()
    ]
    known = [seconds for seconds in costs.values() if seconds is not None]
    if known:
        unknown = " and what was not measured" if len(known) < len(costs) else ""
        total = f"together about {seconds_text(sum(known))} of CPU time{unknown}"
        wall = seconds_text(max(max(known), sum(known) / (jobs or 1)))
        lines.append(total if jobs is None else f"{total}, about {wall} with {jobs} at a time")
    return "\n".join(lines)


def run_text(result: Mapping[str, Any]) -> str:
    """Return the result of a run (`summary.run_summary`, with the files written) as lines."""
    outcome, first = result["outcome"], _number(result["initial_loss"], "not finite")
    return _lines(
        {
            "outcome": f"{outcome['status']}: {outcome['message']}",
            "try": outcome["advice"],
            "final loss": f"{_number(result['final_loss'], 'not finite')} (at the start {first})",
            "events": f"{result['events']:,}",
            "time": f"{result['time']:g}, computed in {result['seconds']:.2f} s",
            "saved": result.get("save"),
            "plotted": result.get("plot"),
            "animated": result.get("animate"),
        }
    )


def fit_text(result: Mapping[str, Any]) -> str:
    """Return the result of a fit (`summary.fit_summary`, with the files written) as lines."""
    typical, largest = result["root_mean_square_error"], result["largest_error"]
    return _lines(
        {
            "data": f"{result['data']['size']:,} points",
            "knots": _knots_text(result),
            "loss": f"{result['loss']:.6g} (half the sum of squared errors)",
            "errors": f"{typical:.6g} root mean square, {largest:.6g} at most",
            "time": f"{result['seconds']:.2f} s",
            "written": result.get("out"),
            "plotted": result.get("plot"),
        }
    )


def _knots_text(result: Mapping[str, Any]) -> str:
    """Return the number of knots, and why there are fewer than asked for."""
    knots, asked, distinct = result["knots"], result["knots_asked"], result["distinct_inputs"]
    if asked is None or knots >= asked:
        return f"{knots}"
    # A line and a knot per further point go through all points: more knots have nothing left to do.
    reason = f"no more fit {distinct} distinct points" if knots >= distinct - 2 else "more are of no use"
    return f"{knots} of {asked} knots asked for: {reason}"


def pieces_table(pieces: Pieces) -> Table:
    """Return one row per piece: number, ends, slope, intercept."""
    rows = [[f"{entry:.6g}".replace("inf", "∞") for entry in row.values()] for row in pieces.table()]
    columns = ("piece", "left", "right", "slope", "intercept")
    return _table(columns, rows, right=columns, whole=columns)


def verdict_lines(
    verdicts: Sequence[Verdict], dataset: Dataset, *, details: bool = False
) -> Iterator[Text | Table]:
    """Yield what to print: the data, then for every paper its words, tables, constants and certificates.

    details: every hypothesis and promise of the certificates, not only whether they apply.
    """
    yield Text(f"{dataset.name or 'data'}: {dataset.size} points in dimension {dataset.dimension}")
    for verdict in verdicts:
        yield Text()
        yield Text(verdict.paper, style="bold")
        numbers = ", ".join(f"{name} = {_number(value)}" for name, value in verdict.numbers.items())
        yield from map(_paragraph, verdict.words)
        for table in verdict.tables:
            rows = [[one if isinstance(one, str) else _number(one) for one in row] for row in table.rows]
            if len(rows) > MOST_ROWS:
                rows[MOST_ROWS:] = [[f"… {len(rows) - MOST_ROWS} more (--json has all)"]]
            yield _table(table.columns, rows, title=Text(table.title))
        if numbers:
            yield _paragraph(numbers)
        for certificate in verdict.certificates:
            text = str(certificate).replace("[not observed] ", "")
            yield Text(indent(text if details else text.splitlines()[0], "  "))


def _paragraph(sentence: str) -> Text:
    return Text(fill(sentence, PIPE_WIDTH - 2, initial_indent="  ", subsequent_indent="  "))


def studies_table(studies: Sequence[Mapping[str, Any]]) -> Table:
    """Return the studies of a store: name, runs, done, failed, CPU time, last start."""
    headings = ("Study", "Runs", "Done", "Failed", "CPU time", "Last start")
    rows = [
        (
            study["name"],
            *(f"{study[key]:,}" for key in ("runs", "done", "failed")),
            seconds_text(study["cpu_seconds"]),
            (study["last_start"] or "")[:16].replace("T", " "),
        )
        for study in studies
    ]
    return _table(headings, rows, right=headings[1:])


def runs_table(columns: Mapping[str, Sequence[Any]]) -> Table:
    """Return the runs of a study (`studies.study.table`): parameters, status, metrics, time."""
    names = [name for name in columns if name.startswith("parameters.")] + ["repeat", "status"]
    names += [*(name for name in columns if name.startswith("metrics.")), "seconds"]
    headings = [name.partition(".")[2] or name for name in names]
    runs = len(columns["identity"])
    rows = [
        (columns["identity"][run][:8], *(_value(columns[name][run]) for name in names))
        for run in range(min(runs, LONGEST))
    ]
    table = _table(("identity", *headings), rows, right=headings)
    if runs > LONGEST:
        table.caption = f"{LONGEST} of {runs:,} runs; `shallowflow studies export` writes them all"
    return table


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def tally_text(tally: Tally, seconds: float) -> str:
    """Return how far a study is, and how fast, in a few words."""
    over = tally.done + tally.failed
    words = [f"{tally.kept + tally.done} of {tally.total} runs done"]
    words += [f"{tally.failed} failed"] if tally.failed else []
    if over and seconds > 0:
        rate = over / seconds
        words.append(f"{rate:.3g} per second" if rate >= 1 else f"{60 * rate:.3g} per minute")
    return ", ".join(words)


class TimeLeft(TimeRemainingColumn):
    """The time left, or the time taken at the end; estimates of more than a day are hidden."""

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


def _bar(middle: TextColumn) -> Progress:
    """Return a bar on stderr that shows nothing where that is not a terminal."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), middle, TimeLeft())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[float | None, str], None]]:
    """Show a bar with the time left on stderr, or nothing where that is not a terminal.

    Yields a function that takes the fraction done, None where it is not known, and what is being done.
    """
    with _bar(TaskProgressColumn()) as progress:
        task = progress.add_task(name, total=1.0)

        def show(fraction: float | None, doing: str) -> None:
            description = f"{name}: {doing}" if doing else name
            # Without a total the bar moves back and forth.
            progress.tasks[0].total = None if fraction is None else 1.0
            progress.update(task, completed=fraction or 0.0, description=description)

        yield show


@contextmanager
def runs_bar(name: str) -> Iterator[Callable[[Tally], None]]:
    """Show the runs done and failed, the rate and the time left on stderr, or nothing without a terminal.

    Yields a function to give to `studies.run` as its `progress`.
    """
    with _bar(TextColumn("{task.fields[counts]}", markup=False)) as progress:
        task = progress.add_task(name, total=None, counts="")
        start = time.monotonic()

        def show(tally: Tally) -> None:
            counts = tally_text(tally, time.monotonic() - start)
            # What was kept from before took no time now: it must not count in the time left.
            left = tally.total - tally.kept
            progress.update(task, total=left, completed=tally.done + tally.failed, counts=counts)

        yield show
