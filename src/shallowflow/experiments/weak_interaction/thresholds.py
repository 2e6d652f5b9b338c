"""Figures 2 to 4: the probability of convergence, and the threshold N over dimension, neurons and epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import shallowflow.experiments.weak_interaction.runs as runs
from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import (
    Claim,
    Experiment,
    Findings,
    Interval,
    Progress,
    Sweep,
    Values,
    scales,
)
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import Run, stated_width
from shallowflow.readings.curves import Slope, Threshold, exponent, misfits, threshold

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


CLEAR = 4.0
"""Difference of two squared misfits from which on the larger is clearly worse."""


@dataclass(frozen=True)
class Law:
    """Where there is a threshold, x (k,), the thresholds, and their power law (of at least two)."""

    x: Floats
    found: list[Threshold]
    fit: Slope | None

    @classmethod
    def through(cls, x: Floats, found: list[Threshold | None]) -> Law:
        """Fit a power law through the thresholds there are."""
        kept = [one for one in found if one is not None]
        places = np.array([value for value, one in zip(x, found, strict=True) if one is not None])
        return cls(places, kept, exponent(places, kept) if len(kept) > 1 else None)

    @property
    def power(self) -> Interval:
        """The power of x by which N grows."""
        return UNKNOWN if self.fit is None else Interval(self.fit.value, self.fit.low, self.fit.high)

    @property
    def words(self) -> str:
        """The thresholds in words."""
        return ", ".join(f"N({value:.0f}) = {one}" for value, one in zip(self.x, self.found, strict=True))

    def series(self, label: str, tone: str = "auto") -> Series:
        """Return the thresholds over x with their intervals."""
        band = ([one.low for one in self.found], [one.high for one in self.found])
        return Series(self.x, [one.middle for one in self.found], label, style="points", tone=tone, band=band)

    def figure(self, name: str, title: str, x_label: str) -> Figure:
        """Return the thresholds over x beside their law and others: linear axes as published, logarithmic."""
        series = [self.series("threshold N", "blue")]
        if self.fit is not None:
            fine = np.linspace(self.x[0], self.x[-1], 100)
            middles = np.array([one.middle for one in self.found])
            weights = np.array([one.middle / (one.high - one.low + 1e-9) for one in self.found])
            through = float(np.sum(weights * middles * self.x) / np.sum(weights * self.x**2))
            rise, base = np.polyfit(np.log(self.x), middles, 1, w=weights)
            series += [
                Series(fine, self.fit(fine), f"power {self.fit}", style="dashed", tone="orange"),
                Series(fine, through * fine, "proportional", style="dashed", tone="muted"),
                Series(fine, base + rise * np.log(fine), "logarithmic", style="dashed", tone="green"),
            ]
        linear = Panel(tuple(series), "", x_label, "threshold N")
        panels = (linear, replace(linear, x_scale="log", y_scale="log"))
        caption = (
            "Bands: 95 % intervals of the logistic fits. Sizes lie around a first fit of N, as in App. B."
        )
        return Figure(name, title, panels, caption)


def _laws(name: str, over: str, parameters: Values, sweep: Sweep) -> dict[float, Law]:
    """Return the law of the thresholds over dimensions or widths, for every budget of epochs.

    Sizes lie around a guess of N at each place, which is a power of it.
    """
    places, budgets = np.array(parameters[f"{over}s"], dtype=float), parameters.get("budgets", (1.5,))
    plans = []
    for place in places:
        case = {**parameters, over: int(place)}
        guess = parameters["guess"] * place ** parameters["power"]
        sizes = np.unique(np.rint(guess * np.array(parameters["around"])).astype(int)).tolist()
        points = runs.plan(sizes, case["dimension"], [case["width"]] * len(sizes), parameters)
        plans.append([{**point, "budget": max(budgets)} for point in points])
    parts = runs.execute(name, plans, parameters, sweep)
    return {
        budget: Law.through(places, [threshold(*runs.successes(*part, budget)) for part in parts])
        for budget in budgets
    }


def run_fig3(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Measure N(d, 30) over the dimension."""
    (law,) = _laws("fig3", "dimension", parameters, sweep).values()
    title = f"Convergence threshold over the dimension, {parameters['width']} neurons"
    return Findings((law.figure("fig3", title, "dimension d"),), (linear_claim(law),))


def linear_claim(law: Law) -> Claim:
    """Judge the power of d by its interval."""
    quotients = np.array([one.middle for one in law.found]) / law.x
    spread = f"; N/d from {quotients.min():.1f} to {quotients.max():.1f}" if len(quotients) else ""
    return Claim.that(
        "The threshold is linear in d: N(d, m) = C(m)·d",
        "a straight line through N(d, 30), d = 10 … 100",
        law.power,
        **TENTH,
        words=f"{law.words}; power of d {{}}{spread}",
        reason="over this range N grows faster than d",
    )


def run_fig4(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Measure N(30, m) over the number of neurons, and over the budget of epochs."""
    table = _laws("fig4", "width", parameters, sweep)
    law = table[parameters["budgets"][0]]
    title = f"Convergence threshold over the number of neurons, d = {parameters['dimension']}"
    series = [one.series(f"{budget:g} t_n") for budget, one in table.items() if one.found]
    budgets = Panel(tuple(series), "", "neurons m", "threshold N", "log", "log")
    figures = (
        law.figure("fig4", title, "neurons m"),
        Figure("fig4-budget", "The threshold depends on the epochs", (budgets,), columns=1),
    )
    return Findings(figures, (*width_claims(law), *budget_claims(table)))


def width_claims(law: Law) -> tuple[Claim, ...]:
    """Sub-linear growth in the number of neurons; a power and a logarithm, which of them?"""
    misfit = UNKNOWN
    if len(law.found) > 2:
        power, logarithm = misfits(law.x, law.found)
        misfit = Interval.exact(abs(power - logarithm))
    return (
        Claim.that(
            "The threshold grows sub-linearly in the number of neurons",
            "N(30, m) sub-linear, m = 50 … 400",
            law.power,
            most=1.0,
            words=f"{law.words}; power of m {{}}",
        ),
        Claim.that(
            "A power and a logarithm are hard to differentiate",
            "hard to differentiate (Figure 4)",
            misfit,
            most=CLEAR,
            words="their squared misfits, in standard errors, differ by {}",
            reason="with more networks one of them fits clearly worse",
        ),
    )


def budget_claims(table: Mapping[float, Law]) -> tuple[Claim, ...]:
    """Compare the thresholds of the least and the largest budget, at all widths that have both."""
    few, many = (dict(zip(table[b].x, table[b].found, strict=True)) for b in (min(table), max(table)))
    both = [(few[width], many[width]) for width in few if width in many]
    grown = UNKNOWN
    if both:
        ratios = np.log([[b.middle / a.middle, b.low / a.high, b.high / a.low] for a, b in both])
        grown = Interval(*np.exp(ratios.mean(axis=0)).tolist())
    words = f"N grows by a factor {{}} from {min(table):g} to {max(table):g} t_n, at {len(both)} widths"
    return (
        Claim.that(
            "A network that has not converged by 1.5 t_n is not able to reach zero loss",
            "assumed in App. B",
            grown,
            least=0.95,
            most=1.05,
            words=words,
            reason="it is a threshold of the budget, not of the network",
        ),
        Claim.that(
            "The threshold is not one for the existence of an interpolating network",
            "for n ≤ Cdm one exists (§5.1)",
            grown,
            least=1.05,
            words=words,
            reason="networks beyond the threshold that converge later interpolate",
        ),
    )


FIG3 = Experiment(
    "weak_interaction/fig3",
    "Convergence threshold over the dimension",
    "Figure 3, §5.1, App. B",
    scales(
        {"width": 30, "guess": 0.67, "power": 1.65},
        quick={**QUICK, "dimensions": (10, 20, 30, 40), "around": (0.6, 0.75, 0.9, 1.05, 1.2, 1.4)},
        paper={
            **PAPER,
            "dimensions": tuple(range(10, 101, 10)),
            "around": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4),
        },
    ),
    run_fig3,
    sweeps=True,
    cost={"quick": 3.3, "paper": 860},
)
FIG4 = Experiment(
    "weak_interaction/fig4",
    "Convergence threshold over the number of neurons and the epochs",
    "Figure 4, §5.1, App. B",
    scales(
        {"power": 0.37},
        quick={
            **QUICK,
            "dimension": 20,
            "widths": (25, 45, 80),
            "guess": 28.0,
            "budgets": (1.5, 6.0),
            "around": (0.6, 0.9, 1.2, 1.5, 2.0),
        },
        paper={
            **PAPER,
            "dimension": 30,
            "widths": (50, 75, 100, 150, 200, 300, 400),
            "guess": 43.0,
            "budgets": (1.5, 3.0, 6.0, 12.0),
            "around": (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0),
        },
    ),
    run_fig4,
    sweeps=True,
    cost={"quick": 5.1, "paper": 1450},
)
