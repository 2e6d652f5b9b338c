"""`Experiment`: one figure or table of a paper as data. `Claim`: what was published and what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shallowflow.arrays import one_of
from shallowflow.experiments.figure import Animation, Figure

PAPERS = ("two_timescale", "early_alignment", "incremental", "weak_interaction", "plateau")
SCALES = ("quick", "paper")

Progress = Callable[[float, str], None]
"""Called with the fraction done and what is being done."""


@dataclass(frozen=True)
class Claim:
    """A published statement beside what was measured here.

    `holds` says whether the measurement supports it; `reason` says in one line why not (or what it hangs on).
    """

    statement: str
    published: str
    measured: str
    holds: bool
    reason: str = ""

    def __post_init__(self) -> None:
        # A comparison of NumPy numbers is not a plain bool, and JSON holds only those.
        object.__setattr__(self, "holds", bool(self.holds))


@dataclass(frozen=True)
class Findings:
    """What the run of an experiment returns: figures, claims, and perhaps animations."""

    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    animations: tuple[Animation, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper: its name "paper/what", parameters per scale, and how to run it.

    `run(parameters, progress)` returns findings; quick scale is a smaller run of the same code.
    """

    name: str
    title: str
    source: str
    parameters: Mapping[str, Mapping[str, Any]]
    run: Callable[[Mapping[str, Any], Progress], Findings]

    @property
    def paper(self) -> str:
        """The paper's word."""
        return self.name.split("/")[0]

    def reproduce(self, scale: str = "quick", progress: Progress | None = None) -> Reproduction:
        """Run the experiment at a scale."""
        one_of(scale, "scale", SCALES)
        parameters = self.parameters[scale]
        start = time.perf_counter()
        findings = self.run(parameters, progress or _silent)
        seconds = time.perf_counter() - start
        found = findings.figures, findings.claims
        return Reproduction(self, scale, parameters, *found, seconds, findings.animations)


@dataclass(frozen=True)
class Reproduction:
    """The result of an experiment: figure data and claims, with the parameters and the time it took."""

    experiment: Experiment
    scale: str
    parameters: Mapping[str, Any]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    seconds: float
    animations: tuple[Animation, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every claim came out."""
        return all(claim.holds for claim in self.claims)


def _silent(fraction: float, doing: str) -> None:
    """Show no progress."""
