"""`Experiment`: one figure or table of a paper as data. `Reproduction`: what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shallowflow.arrays import one_of
from shallowflow.errors import ShallowflowError
from shallowflow.experiments.claim import Claim, tally_text
from shallowflow.experiments.figure import Animation, Figure
from shallowflow.studies import Executor, Result, Store, Study, Tally, run

PAPERS = ("two_timescale", "early_alignment", "incremental", "weak_interaction", "plateau")
SCALES = ("quick", "paper")

Progress = Callable[[float, str], None]
"""Called with the fraction done and what is being done."""
Sweep = Callable[[Study], list[Result]]
"""Runs a study wherever the caller wants it run, and returns a result with metrics for every run."""
Values = Mapping[str, Any]
"""What an experiment runs with at one scale, by name."""


def scales(shared: Values, *, quick: Values | None = None, paper: Values | None = None) -> dict[str, Values]:
    """Return the parameters by scale: what both scales share, and what only one of them has."""
    return {"quick": {**shared, **(quick or {})}, "paper": {**shared, **(paper or {})}}


def part(progress: Progress, number: int, total: int, doing: str) -> Callable[[float], None]:
    """Return the function that shows how far one of several equal parts is."""
    return lambda fraction: progress((number + fraction) / total, doing)


@dataclass(frozen=True)
class Findings:
    """What the run of an experiment returns: figures, claims, and perhaps animations."""

    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    animations: tuple[Animation, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper: its name "paper/what", parameters per scale, and how to run it.

    `run(parameters, progress)` returns findings; quick scale is a smaller run of the same code. An experiment
    that `sweeps`, that is made of many independent trainings, has `run(parameters, progress, sweep)` instead
    and hands them to `sweep` as a `Study`. `cost` is the measured CPU time in seconds by scale (see `batch`).
    """

    name: str
    title: str
    source: str
    parameters: Mapping[str, Values]
    run: Callable[..., Findings]
    cost: Mapping[str, float] = field(default_factory=dict)
    sweeps: bool = False

    @property
    def paper(self) -> str:
        """The paper's word."""
        return self.name.split("/")[0]

    def reproduce(
        self,
        scale: str = "quick",
        progress: Progress | None = None,
        *,
        executor: Executor | None = None,
        store: Store | None = None,
    ) -> Reproduction:
        """Run the experiment at a scale; its sweeps, if it has any, on an executor and in a store."""
        one_of(scale, "scale", SCALES)
        parameters = self.parameters[scale]
        show = progress or (lambda fraction, doing: None)
        start = time.perf_counter()
        sweep = (_sweep(show, executor, store),) if self.sweeps else ()
        findings = self.run(parameters, show, *sweep)
        seconds = time.perf_counter() - start
        return Reproduction(self, scale, parameters, seconds=seconds, **vars(findings))


@dataclass(frozen=True)
class Reproduction:
    """The result of an experiment: figure data and claims, with the parameters and the time it took.

    An experiment that could not be run to its end has an `error` instead of figures and claims. `versions`
    are those of the packages that computed it, if it was computed earlier.
    """

    experiment: Experiment
    scale: str
    parameters: Values
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    seconds: float
    animations: tuple[Animation, ...] = ()
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        ending = f"error: {self.error.splitlines()[0]}" if self.error else tally_text(self.claims)
        return f"Reproduction({self.experiment.name}, {self.scale}, {ending})"

    @property
    def holds(self) -> bool:
        """Whether every claim came out."""
        return not self.error and all(claim.holds for claim in self.claims)


def _sweep(show: Progress, executor: Executor | None, store: Store | None) -> Sweep:
    """Return the function that runs an experiment's studies and refuses to go on if a run is missing."""

    def sweep(study: Study) -> list[Result]:
        def count(tally: Tally) -> None:
            show(tally.fraction, f"{study.name}: {tally.kept + tally.done} of {tally.total} runs")

        results = run(study, executor, store, count)
        failures = [result for result in results if not result.done]
        if failures:
            first = failures[0].error
            raise ShallowflowError(
                f"{len(failures)} of {len(results)} runs of {study.name} failed; the first: {first}"
            )
        return results

    return sweep
