"""The papers: parameters, figure data and claims. Formulas live elsewhere; drawing too."""

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.early_alignment import EARLY_ALIGNMENT
from shallowflow.experiments.experiment import (
    PAPERS,
    Claim,
    Experiment,
    Findings,
    Progress,
    Reproduction,
)
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau import PLATEAU
from shallowflow.experiments.two_timescale import TWO_TIMESCALE

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*EARLY_ALIGNMENT, *PLATEAU, *TWO_TIMESCALE)
}

DEMO: tuple[str, ...] = ("early_alignment/fig2", "plateau/fig2", "two_timescale/fig3")
"""One figure of each paper, for a first look."""


def reproduce(name: str, scale: str = "quick", progress: Progress | None = None) -> Reproduction:
    """Run one experiment by name: figure data and claims (published, measured, holds)."""
    if name not in EXPERIMENTS:
        raise InvalidInputError(f"name: must be one of {', '.join(EXPERIMENTS)}; got {shown(name)}")
    return EXPERIMENTS[name].reproduce(scale, progress)


__all__ = [
    "DEMO",
    "EXPERIMENTS",
    "PAPERS",
    "Claim",
    "Experiment",
    "Figure",
    "Findings",
    "Panel",
    "Progress",
    "Reproduction",
    "Series",
    "reproduce",
]
