"""Figure 2: the probability of convergence over n, and what is left of the loss beyond the transition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import shallowflow.experiments.weak_interaction.runs as runs
from shallowflow.arrays import Floats
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import Run, stated_width
from shallowflow.readings.many_runs import Threshold, threshold

PUBLISHED, SHARP, AT = 3000.0, 200 / 3000, 100
"""The published transition: n ≈ 3000, from likely (2900) to almost never (3100), relatively; d = 100."""
UNKNOWN = Interval(np.nan, -np.inf, np.inf)
TENTH: dict[str, Any] = {"least": 0.9, "most": 1.1}
"""Tolerance of thresholds and powers that should agree."""
TONES = {"stated width": "blue", "authors' weights": "orange", "4 × the width": "green"}


@dataclass(frozen=True)
class Part:
    """The runs of one setting: sizes, converged runs of each, all last losses over first, threshold.

    losses: (sizes, runs), 0 where a run converged.
    """

    sizes: Floats
    converged: Floats
    losses: Floats
    fit: Threshold | None

    @property
    def shares(self) -> list[Interval]:
        """The share of networks that converged, by size."""
        runs = self.losses.shape[1]
        return [Interval.of_share(int(number), runs) for number in self.converged]

    def __str__(self) -> str:
        """Return the threshold, or on which side of the runs it lies."""
        if self.fit is not None:
            return str(self.fit)
        return "beyond the largest n" if self.converged[0] else "below the smallest n"

    def over(self, goal: Interval) -> Interval:
        """Return the threshold over another, each known as well as it is; unknown without one."""
        if self.fit is None:
            return UNKNOWN
        return Interval(self.fit.middle / goal.value, self.fit.low / goal.high, self.fit.high / goal.low)


def _part(points: list[Run], results: list[Mapping[str, float]]) -> Part:
    sizes, success = runs.successes(points, results)
    kinds, shares = runs.shares_of(sizes, success)
    losses = np.array([result["loss"] for result in results]).reshape(len(kinds), -1)
    return Part(kinds, shares * losses.shape[1], losses, threshold(sizes, success))


def run_fig2(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Measure the probability of convergence over n: stated width, authors' weights, four times the width."""
    dimension, sizes, wider = (parameters[name] for name in ("dimension", "sizes", "wider_sizes"))
    stated = runs.plan(sizes, dimension, [stated_width(n) for n in sizes], parameters)
    authors = [{**run, "setting": "authors"} for run in stated]
    wide = runs.plan(wider, dimension, [stated_width(n, 4.0) for n in wider], parameters)
    fewer = {**parameters, "repeats": parameters["wider_repeats"]}
    done = runs.execute("fig2", [stated, authors], parameters, sweep)
    done += runs.execute("fig2, wider", [wide], fewer, sweep)
    parts = {name: _part(*found) for name, found in zip(TONES, done, strict=True)}
    claims = (*transition_claims(dimension, *parts.values()), loss_claim(parts["stated width"]))
    return Findings((_figure(dimension, parts),), claims)


def _figure(dimension: int, parts: Mapping[str, Part]) -> Figure:
    curves = []
    for i, (name, part) in enumerate(parts.items()):
        band = [share.low for share in part.shares], [share.high for share in part.shares]
        x = part.sizes + (i - 1) * 0.01 * part.sizes[-1]  # beside each other, not on top
        shares = [share.value for share in part.shares]
        curves.append(Series(x, shares, name, style="points", tone=TONES[name], band=band))
        if part.fit is not None:
            fine = np.linspace(part.sizes[0], part.sizes[-1], 200)
            curves.append(Series(fine, part.fit(fine), tone=TONES[name], style="dashed"))
    stated = parts["stated width"]
    losses = (
        Series(stated.sizes, 100 * stated.losses.mean(axis=1), "mean over networks", tone="blue"),
        Series(stated.sizes, 100 / stated.sizes, "one example", style="dashed", tone="muted"),
    )
    return Figure(
        "fig2",
        f"Probability of convergence in dimension {dimension}",
        (
            Panel(tuple(curves), "probability that Σr² < 1", "n", "share of networks"),
            Panel(losses, "last loss over first, stated width", "n", "per cent"),
        ),
        "Points: shares of networks with 95 % intervals, a little apart; dashed: logistic fits. A network "
        "that converged counts with loss 0.",
    )


def transition_claims(dimension: int, stated: Part, authors: Part, wide: Part) -> tuple[Claim, ...]:
    """Where the transition is, and how sharp; in another dimension than the paper's its place stays open."""
    first, last = stated.shares[0], stated.shares[-1]
    likely = [first.within(least=0.5), last.within(most=0.5)]
    there = dimension == AT
    goal = Interval.exact(PUBLISHED)
    compared = "; over 3000: {}" if there else ""
    elsewhere = f"published for d = {AT}, here d = {dimension}: only paper scale can tell"
    other = UNKNOWN if stated.fit is None else Interval(stated.fit.middle, stated.fit.low, stated.fit.high)
    return (
        Claim(
            "Convergence is likely for few samples and unlikely for many",
            "likely for n ≤ 2900, almost never for n ≥ 3100 (d = 100)",
            f"share of networks {first} at n = {stated.sizes[0]:.0f}, {last} at n = {stated.sizes[-1]:.0f}; "
            f"N = {stated}",
            False if False in likely else None if None in likely else True,
            fails_if="if the first share is below ½ or the last above",
        ),
        _sharpness_claim(stated.fit, there, elsewhere),
        Claim.that(
            f"The transition is at n ≈ 3000 for d = {AT} with the stated number of neurons",
            "n ≈ 3000",
            stated.over(goal) if there else UNKNOWN,
            **TENTH,
            words=f"N = {stated}, d = {dimension}" + compared,
            reason="the stated number of neurons is too small for it" if there else elsewhere,
        ),
        Claim.that(
            "Four times the stated number of neurons moves it there",
            "n ≈ 3000 with the stated number",
            wide.over(goal) if there else UNKNOWN,
            **TENTH,
            words=f"N = {wide}, d = {dimension}" + compared,
            reason="" if there else elsewhere,
            ours=True,
        ),
        Claim.that(
            "The authors' initial weights U(±1/√d) give the threshold of the printed ones",
            "the paper does not distinguish them",
            authors.over(other) if stated.fit else UNKNOWN,
            **TENTH,
            words=f"N = {authors} beside {stated}, {{}} of it",
            ours=True,
        ),
    )


def _sharpness_claim(fit: Threshold | None, there: bool, elsewhere: str) -> Claim:
    """Judge where the fit falls from 90 % to 10 %, 2 ln 9 of its widths: up to twice the published range."""
    spread = np.nan if fit is None else float(2 * np.log(9) * fit.width / fit.middle)
    return Claim.that(
        "The transition is sharp",
        f"from n = 2900 to 3100, {SHARP:.0%} of N",
        Interval.exact(spread) if there else UNKNOWN,
        most=2 * SHARP,
        words="no transition among these n" if fit is None else f"from 90 % to 10 % within {spread:.0%} of N",
        reason="more than twice the published range" if there else elsewhere,
    )


def loss_claim(part: Part) -> Claim:
    """At the largest n: how many examples the loss that is left amounts to."""
    size = part.sizes[-1]
    return Claim.that(
        "Beyond the transition all but one example are fitted",
        "0.6 % of the initial loss, which is equivalent to one example",
        Interval.of_mean(part.losses[-1] * size),
        least=0.5,
        most=2.0,
        words=f"the loss left at n = {size:.0f} is that of {{}} examples, {100 * part.losses[-1].mean():.2g} "
        f"% of the first; one is {100 / size:.2g} %",
        reason="at n = 3000 one example is 0.033 % of the loss, not 0.6 %; the loss grows on with n",
    )


QUICK, PAPER = ({"precision": "single", "repeats": repeats, "seed": 0} for repeats in (8, 25))

FIG2 = Experiment(
    "weak_interaction/fig2",
    "Probability of convergence over the number of samples",
    "Figure 2, §5.1, App. B",
    {
        "quick": {
            **QUICK,
            "dimension": 30,
            "sizes": tuple(range(80, 281, 25)),
            "wider_sizes": tuple(range(150, 401, 50)),
            "wider_repeats": 8,
        },
        "paper": {
            **PAPER,
            "dimension": 100,
            "sizes": (*range(1200, 2101, 100), 2300, 2500, 2800, 3100, 3500),
            "wider_sizes": (2500, 2800, 3100, 3400, 3700),
            "wider_repeats": 10,
        },
    },
    run_fig2,
    sweeps=True,
    cost={"quick": 6, "paper": 930},
)
