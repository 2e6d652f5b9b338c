"""The papers: parameters, figure data and claims. Formulas live elsewhere; drawing too."""

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError, did_you_mean
from shallowflow.experiments.early_alignment import EARLY_ALIGNMENT
from shallowflow.experiments.experiment import (
    PAPERS,
    Claim,
    Experiment,
    Findings,
    Progress,
    Reproduction,
    Sweep,
)
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.experiments.incremental import INCREMENTAL
from shallowflow.experiments.plateau import PLATEAU
from shallowflow.experiments.two_timescale import TWO_TIMESCALE
from shallowflow.experiments.weak_interaction import WEAK_INTERACTION
from shallowflow.studies import Executor, Store

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (*TWO_TIMESCALE, *EARLY_ALIGNMENT, *INCREMENTAL, *WEAK_INTERACTION, *PLATEAU)
}

DEMO: tuple[str, ...] = (
    "two_timescale/fig3",
    "early_alignment/fig2",
    "incremental/fig1",
    "weak_interaction/fig1",
    "plateau/fig2",
)
"""One figure of each paper, for a first look."""


def reproduce(
    name: str,
    scale: str = "quick",
    progress: Progress | None = None,
    *,
    executor: Executor | None = None,
    store: Store | None = None,
) -> Reproduction:
    """Run one experiment by name: figure data and claims (published, measured, holds).

    `executor` and `store` (see `shallowflow.studies`) serve an experiment that is made of many trainings.
    """
    if not isinstance(name, str) or name not in EXPERIMENTS:
        hint = did_you_mean(name, EXPERIMENTS) or "; experiments.EXPERIMENTS lists them all"
        raise InvalidInputError(f"name: must be an experiment, got {shown(name)}{hint}")
    return EXPERIMENTS[name].reproduce(scale, progress, executor=executor, store=store)


__all__ = [
    "DEMO",
    "EXPERIMENTS",
    "PAPERS",
    "Animation",
    "Claim",
    "Experiment",
    "Figure",
    "Findings",
    "Panel",
    "Progress",
    "Reproduction",
    "Series",
    "Sweep",
    "reproduce",
]
