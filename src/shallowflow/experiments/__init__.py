"""The papers: parameters, figure data and claims. Formulas live elsewhere; drawing too."""

from collections import UserDict
from collections.abc import MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError, did_you_mean
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
from shallowflow.studies import Executor, Store

if TYPE_CHECKING:
    # Imported when an experiment is asked for; for `studies.study` this table reaches all of them.
    from shallowflow.experiments import (  # noqa: F401
        early_alignment,
        incremental,
        plateau,
        two_timescale,
        weak_interaction,
    )

_NAMES = {
    "two_timescale": "fig1 fig2 fig3 fig4 fig5 fig6 fig7 fig8 fig9 fig10 counterexample theorems orders",
    "early_alignment": "fig1 fig2 fig3 theorem1 nature width phases limits critical_scale",
    "incremental": "fig1 phases fig3 fig4 fig5 fig6 starts theorem2 halving near_orthogonal",
    "weak_interaction": "fig1 fig2 fig3 fig4 fig5 converges rates prop3 lemma3 lemma4 lemma5",
    "plateau": "fig1 fig2 fig3 fig4 fig5 fig6 fig7 fig8 fig9 fig10 causes",
}
"""The experiments of each paper, as its package lists them."""


class _Table(UserDict[str, Experiment]):
    """Experiments by name; a paper is imported when one of its experiments is asked for."""

    def __getitem__(self, name: str) -> Experiment:
        if self.data[name] is _NOT_LOADED:
            paper = import_module(f"{__name__}.{name.partition('/')[0]}")
            (self.data[name],) = (one for one in paper.EXPERIMENTS if one.name == name)
        return self.data[name]

    def __repr__(self) -> str:
        return f"EXPERIMENTS({', '.join(self)})"


_NOT_LOADED: Any = None
EXPERIMENTS: MutableMapping[str, Experiment] = _Table(
    {f"{paper}/{name}": _NOT_LOADED for paper, names in _NAMES.items() for name in names.split()}
)
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
