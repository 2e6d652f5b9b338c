"""`shallowflow reproduce`: experiments of the papers, kept in a store; `shallowflow studies`: stores.

Each experiment at a scale is a study of one run. Its identity is made of its parameters and of the code that
its `run` reaches, so a finished experiment is run again after an edit that can change it, and only then. What
it costs on a machine is its CPU time on a reference machine (`Experiment.cost`), scaled by a short test of
speed.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from shallowflow.arrays import shown
from shallowflow.commands.arguments import check_file, json_option, print_json, say_if_long
from shallowflow.errors import InvalidInputError, did_you_mean
from shallowflow.experiments import DEMO, EXPERIMENTS, Experiment, Reproduction
from shallowflow.experiments.experiment import Findings, Progress, from_arrays, to_outputs
from shallowflow.studies import Cluster, Executor, Processes, Serial, Store, Study, run_all
from shallowflow.studies.executors import LOCAL
from shallowflow.studies.store import Progress as StudyProgress
from shallowflow.studies.study import WRITERS, Outputs, table, write_table

INTERRUPTED = 130


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scale", type=click.Choice(["quick", "paper"]), default="quick", show_default=True)
@click.option("--out", default="report", show_default=True, metavar="DIR", help="Where the report goes.")
@click.option("--demo", is_flag=True, help="One experiment of each paper.")
@click.option("--jobs", type=click.IntRange(1, 10_000), help="Number of processes (default: all cores).")
@click.option("--dask", metavar="ADDRESS", help="Compute on a Dask cluster: tcp://host:8786, or local.")
@click.option("--fresh", is_flag=True, help="Run again what DIR already has.")
@click.option("--yes", is_flag=True, help="Don't ask before --scale paper.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: claims, versions, report.")
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    scale: str,
    out: str,
    demo: bool,
    as_json: bool,
    fresh: bool,
    yes: bool,
    jobs: int | None,
    dask: str | None,
) -> None:
    """Run experiments of the papers; print what was published beside what came out; write a report.

    NAME is an experiment such as early_alignment/fig2, or a paper's word such as plateau for all of its
    experiments; without a name everything runs. DIR receives report.html (one file, nothing to load),
    reproductions.json, the figures, and a store: what is finished there is not run again. A claim that does
    not hold is a finding and the exit code stays 0; it is 1 if an experiment could not be run to its end.

    \b
    Examples:
      shallowflow reproduce --demo
      shallowflow reproduce early_alignment/fig2 --out report
      shallowflow reproduce --jobs 4
      shallowflow reproduce plateau --scale paper --yes
      shallowflow reproduce --dask tcp://10.0.0.1:8786 --scale paper
      shallowflow reproduce --demo --json > claims.json
    """
    experiments = _chosen(names, demo)
    if jobs is not None and dask not in (None, LOCAL):
        raise InvalidInputError(f"--jobs: has no meaning with a Dask scheduler elsewhere, got {jobs}")
    executor: Executor = Processes(jobs) if dask is None else Cluster(dask, jobs)
    from shallowflow.reporting.report import prepare_directory
    from shallowflow.reporting.summary import summary

    prepare_directory(out, "--out")
    with Store(Path(out) / "store") as store:
        if fresh:
            store.forget(run for experiment in experiments for run in study_of(experiment, scale).runs)
        missing = unfinished(experiments, scale, store)
        if scale == "paper" and missing and not _agreed(missing, scale, executor, yes):
            ctx.exit(1)
        if scale == "quick":
            costs = [estimate(experiment, scale) or 0.0 for experiment in missing]
            at_once = getattr(executor, "jobs", 1)
            say_if_long(max([*costs, sum(costs) / at_once]), "fewer NAMEs or --demo")
        try:
            _run(missing, scale, store, executor, alone=jobs == 1 and dask is None)
        except KeyboardInterrupt as stop:
            done = _recalled(experiments, scale, store)
            kept = f"; {_report(done, out)} has what was finished" if done else ""
            word = str(stop) or "interrupted"
            click.echo(f"{word}: {len(done)} of {len(experiments)} experiments finished{kept}", err=True)
            ctx.exit(INTERRUPTED)
        done = _recalled(experiments, scale, store)
    page = _report(done, out)
    failed = [one for one in done if one.error]
    result = {**summary(done), "report": str(page)}
    if as_json:
        print_json(result)
    else:
        _print_results(done, len(experiments) - len(missing), str(page))
    ctx.exit(1 if failed else 0)


def _run(missing: Sequence[Experiment], scale: str, store: Store, executor: Executor, alone: bool) -> None:
    """Run experiments: those without sweeps side by side, the others one by one with their sweeps spread out.

    Where nothing is gained by other processes, they run in this one, which shows how far each of them is.
    """
    from shallowflow.reporting.terminal import progress_bar, runs_bar

    together = [experiment for experiment in missing if not experiment.sweeps]
    if alone or (len(together) == 1 and isinstance(executor, Processes)):
        together = []
    if together:
        with runs_bar("experiments") as show_runs:
            reproduce_together(together, scale, store, executor, show_runs)
    for experiment in missing:
        if experiment not in together:
            with progress_bar(experiment.name) as show:
                reproduce_here(experiment, scale, store, None if alone else executor, show)


def _recalled(experiments: Sequence[Experiment], scale: str, store: Store) -> list[Reproduction]:
    found = (recall(experiment, scale, store) for experiment in experiments)
    return [reproduction for reproduction in found if reproduction is not None]


def _report(done: Sequence[Reproduction], out: str) -> Path:
    """Write the report, and show how far it is: drawing takes longer than some experiments."""
    from shallowflow.reporting.report import write_report
    from shallowflow.reporting.terminal import progress_bar

    with progress_bar("report") as show:
        return write_report(done, out, show)


def _print_results(done: Sequence[Reproduction], kept: int, page: str) -> None:
    """Print the claims of every experiment, what went wrong, and where the report is."""
    from shallowflow.reporting.summary import by_paper, claims_text
    from shallowflow.reporting.terminal import claims_table, output, papers_table

    for reproduction in done:
        if not reproduction.error:
            output().print(claims_table(reproduction))
    for reproduction in done:
        if reproduction.error:
            click.echo(f"{reproduction.experiment.name}: {reproduction.error.splitlines()[0]}", err=True)
    if kept:
        click.echo(f"{kept} of {len(done)} experiments were finished before; --fresh runs them again")
    if len(by_paper(done)) > 1:
        output().print(papers_table(done))
    click.echo(claims_text(done))
    click.echo(page)


def _agreed(experiments: Sequence[Experiment], scale: str, executor: Executor, yes: bool) -> bool:
    """Say what the experiments will cost here, and ask whether to go on."""
    from shallowflow.reporting.terminal import costs_text

    slowness = speed_test() / REFERENCE
    costs = {experiment.name: estimate(experiment, scale, slowness) for experiment in experiments}
    elsewhere = isinstance(executor, Cluster) and executor.address != LOCAL
    click.echo(costs_text(costs, None if elsewhere else getattr(executor, "jobs", 1)), err=True)
    if not yes and not _is_interactive():
        raise InvalidInputError("--yes: must be given for --scale paper if stdin is not a terminal")
    return yes or click.confirm("Go on?", err=True)


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _chosen(names: Sequence[str], demo: bool) -> list[Experiment]:
    """Return the experiments meant by names, papers' words or --demo."""
    if demo and names:
        raise InvalidInputError(f"NAME: must be left out with --demo, got {shown(names[0])}")
    chosen: dict[str, Experiment] = {}
    for name in (DEMO if demo else names) or EXPERIMENTS:
        meant = {key: EXPERIMENTS[key] for key in EXPERIMENTS if name in (key, key.partition("/")[0])}
        if not meant:
            words = dict.fromkeys([*EXPERIMENTS, *(key.partition("/")[0] for key in EXPERIMENTS)])
            hint = did_you_mean(name, words) or "; `shallowflow list` shows them all"
            raise InvalidInputError(f"NAME: must be an experiment or a paper, got {shown(name)}{hint}")
        chosen |= meant
    return list(chosen.values())


def study_of(experiment: Experiment, scale: str) -> Study:
    """Return an experiment at a scale as a study of one run."""
    subject: Callable[..., Findings] = experiment.run
    while isinstance(subject, functools.partial):
        subject = subject.func
    parameters = _with_text_names(experiment.parameters[scale])
    point = {"experiment": experiment.name, "scale": scale, "parameters": parameters}
    return Study(f"{experiment.name} ({scale})", run_experiment, [point], subject=subject)


def _with_text_names(value: Any) -> Any:
    """Return parameters whose mappings have texts as names, whatever they had: {1.0: 300} is {"1.0": 300}."""
    if isinstance(value, Mapping):
        return {str(name): _with_text_names(entry) for name, entry in value.items()}
    return [_with_text_names(entry) for entry in value] if isinstance(value, list | tuple) else value


def run_experiment(
    parameters: Mapping[str, Any],
    seed: np.random.SeedSequence,
    progress: Progress | None = None,
    executor: Executor | None = None,
    store: Store | None = None,
) -> Outputs:
    """Run an experiment by name, as a task; its random seeds are among its parameters."""
    experiment = EXPERIMENTS[parameters["experiment"]]
    done = experiment.reproduce(parameters["scale"], progress, executor=executor, store=store)
    return to_outputs(Findings(done.figures, done.claims, done.animations))


def reproduce_together(
    experiments: Sequence[Experiment],
    scale: str,
    store: Store,
    executor: Executor,
    progress: StudyProgress | None = None,
) -> None:
    """Run whole experiments side by side; the store has their findings, or their errors, afterwards."""
    run_all([study_of(experiment, scale) for experiment in experiments], executor, store, progress)


def reproduce_here(
    experiment: Experiment,
    scale: str,
    store: Store,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> None:
    """Run one experiment in this process, its sweeps on the executor; its findings are then in the store."""
    here = Serial(progress=progress, executor=executor, store=store)
    run_all([study_of(experiment, scale)], here, store)


def unfinished(experiments: Sequence[Experiment], scale: str, store: Store) -> list[Experiment]:
    """Return the experiments whose findings the store does not have."""
    return [e for e in experiments if store.missing(study_of(e, scale).runs)]


def recall(experiment: Experiment, scale: str, store: Store) -> Reproduction | None:
    """Return what the store knows of an experiment; None if it has not been run."""
    found = store.find(study_of(experiment, scale).runs[0])
    if found is None or found.status == "planned":
        return None
    known = {name: getattr(found, name) for name in ("seconds", "error", "versions")}
    findings = from_arrays(found.arrays) if found.done else Findings((), ())
    return Reproduction(experiment, scale, experiment.parameters[scale], **known, **vars(findings))


REFERENCE = 0.073
"""CPU seconds of `speed_test` on the machine on which `benchmarks/experiment_costs.py` measured the costs."""


def speed_test(repeats: int = 5) -> float:
    """Return the CPU seconds of a fixed piece of work, like training: small arrays, many steps."""
    best = np.inf
    inputs = np.linspace(-1.0, 1.0, 200)
    for _ in range(repeats):
        start = time.process_time()
        knots = np.linspace(-1.0, 1.0, 20)
        for _ in range(3_000):
            active = np.maximum(inputs[:, None] - knots, 0.0)
            knots = knots - 1e-9 * (active.T @ np.tanh(active.sum(axis=1)))
        best = min(best, time.process_time() - start)
    return float(best)


def estimate(experiment: Experiment, scale: str, slowness: float = 1.0) -> float | None:
    """Return the CPU seconds an experiment takes where work takes `slowness` times as long; None: unknown."""
    seconds = experiment.cost.get(scale)
    return None if seconds is None else slowness * seconds


store_argument = click.argument("store", metavar="DIR")


@click.group()
def studies() -> None:
    """List, show, export and remove the studies of a store.

    DIR is the store's directory: the one a program gave to shallowflow.studies.Store, or the folder named
    store in the report of `shallowflow reproduce`. Looking is possible while a study runs.

    \b
    Examples:
      shallowflow studies list report/store
      shallowflow studies show results widths
      shallowflow studies export results widths --out widths.csv
      shallowflow studies remove results widths
    """


@studies.command(name="list")
@store_argument
@json_option
def list_(store: str, as_json: bool) -> None:
    """List the studies of a store: runs, done, failed, CPU time.

    \b
    Examples:
      shallowflow studies list report/store
    """
    from shallowflow.reporting.terminal import output, studies_table

    with Store(store, writable=False) as opened:
        listed = opened.studies()
    if as_json:
        print_json({"studies": listed})
    else:
        output().print(studies_table(listed))


@studies.command()
@store_argument
@click.argument("name")
@json_option
def show(store: str, name: str, as_json: bool) -> None:
    """Show the runs of a study: parameters, status, metrics, time; the errors of those that failed.

    \b
    Examples:
      shallowflow studies show results widths
    """
    from shallowflow.reporting.summary import plain
    from shallowflow.reporting.terminal import output, runs_table

    with Store(store, writable=False) as opened:
        columns = table(opened.results(name))
    if as_json:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        print_json({"study": name, "runs": plain(rows)})
        return
    output().print(runs_table(columns))
    for identity, error in zip(columns["identity"], columns["error"], strict=True):
        if error:
            click.echo(f"{identity[:8]}  {error}")


@studies.command()
@store_argument
@click.argument("name")
@click.option("--out", required=True, metavar="FILE", help="FILE ends in .csv or .parquet.")
def export(store: str, name: str, out: str) -> None:
    """Write the runs of a study as a table, one line per run.

    \b
    Examples:
      shallowflow studies export results widths --out widths.csv
      shallowflow studies export results widths --out widths.parquet
    """
    check_file(out, "--out", *WRITERS)
    with Store(store, writable=False) as opened:
        results = opened.results(name)
    write_table(results, Path(out))
    click.echo(f"{len(results)} runs in {out}")


@studies.command()
@store_argument
@click.argument("name")
def remove(store: str, name: str) -> None:
    """Remove a study, and the results that belong to no other study.

    \b
    Examples:
      shallowflow studies remove results widths
    """
    Store(store, writable=False).close()
    with Store(store) as opened:
        removed = opened.remove(name)
    click.echo(f"removed {name}: {removed} runs")
