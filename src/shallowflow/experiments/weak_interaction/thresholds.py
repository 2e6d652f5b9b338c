"""Figures 2 to 4: up to how many samples training reaches zero loss, and what is left of the loss beyond.

Figure 2 has the probability of convergence over n; Figures 3 and 4 have the threshold N over the dimension,
the number of neurons and the epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import shallowflow.experiments.weak_interaction.runs as runs
from shallowflow.arrays import Floats
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import Run, stated_width
from shallowflow.readings.many_runs import Slope, Threshold, exponent, threshold

PUBLISHED, SHARP = 30.0, 200 / 3000
"""The published transition at d = 100: at n ≈ 3000, per dimension; from likely (2900) to almost never (3100),
relative to it."""
TONES = {"stated width": "blue", "authors' weights": "orange", "4 × the width": "green"}


@dataclass(frozen=True)
class _Part:
    """The runs of one setting: sizes, shares that converged, mean last loss over first, threshold."""

    sizes: Floats
    shares: Floats
    losses: Floats
    fit: Threshold | None

    def __str__(self) -> str:
        """Return the threshold, or on which side of the runs it lies."""
        if self.fit is not None:
            return str(self.fit)
        return "beyond the largest n" if self.shares[0] else "below the smallest n"

    def near(self, goal: float) -> bool:
        """Return whether the threshold is within a tenth of a value."""
        return self.fit is not None and abs(self.fit.middle - goal) < 0.1 * goal


def _part(points: list[Run], results: list[Mapping[str, float]]) -> _Part:
    sizes, success = runs.successes(points, results)
    kinds, shares = runs.shares_of(sizes, success)
    losses = runs.shares_of(sizes, np.array([result["loss"] for result in results]))[1]
    return _Part(kinds, shares, losses, threshold(sizes, success))


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
    claims = (*_transition_claims(dimension, *parts.values()), _loss_claim(parts["stated width"]))
    return Findings((_figure(dimension, parts),), claims)


def _figure(dimension: int, parts: Mapping[str, _Part]) -> Figure:
    curves = []
    for name, part in parts.items():
        curves.append(Series(part.sizes, part.shares, name, style="points", tone=TONES[name]))
        if part.fit is not None:
            x = np.linspace(part.sizes[0], part.sizes[-1], 200)
            curves.append(Series(x, part.fit(x), tone=TONES[name], style="dashed"))
    stated = parts["stated width"]
    losses = (
        Series(stated.sizes, 100 * stated.losses, "mean over networks", tone="blue"),
        Series(stated.sizes, 100 / stated.sizes, "one example", style="dashed", tone="muted"),
    )
    return Figure(
        "fig2",
        f"Probability of convergence in dimension {dimension}",
        (
            Panel(tuple(curves), "probability that Σr² < 1", "n", "share of networks"),
            Panel(losses, "last loss over first, stated width", "n", "per cent", y_scale="symlog"),
        ),
        "Points: shares of networks; dashed: logistic fits. A network that converged counts with loss 0.",
    )


def _transition_claims(dimension: int, stated: _Part, authors: _Part, wide: _Part) -> tuple[Claim, ...]:
    goal = PUBLISHED * dimension
    near, near_wide = stated.near(goal), wide.near(goal)
    return (
        Claim(
            "Convergence is likely for few samples and almost impossible for many",
            "likely for n ≤ 2900, almost never for n ≥ 3100 (d = 100)",
            f"{stated.shares[0]:.0%} of networks at n = {stated.sizes[0]:.0f}, {stated.shares[-1]:.0%} at "
            f"n = {stated.sizes[-1]:.0f}; N = {stated}",
            bool(stated.shares[0] >= 0.8 and stated.shares[-1] <= 0.2),
        ),
        _sharpness_claim(stated.fit),
        Claim(
            "The transition is at n ≈ 3000 for d = 100 with the stated number of neurons",
            f"n ≈ 3000, here 30·d = {goal:.0f}",
            f"N = {stated} (95 %), d = {dimension}",
            near,
            "" if near else "the stated number of neurons is too small for it; see the next claim",
        ),
        Claim(
            "(not claimed) Four times the stated number of neurons moves it there",
            f"n ≈ {goal:.0f}",
            f"N = {wide}",
            near_wide,
            "" if near_wide else "N is not proportional to d, so that 30·d is right near d = 100 only",
        ),
        Claim(
            "(not claimed) The authors' initial weights U(±1/√d) give the threshold of the printed ones",
            "the paper does not distinguish them",
            f"N = {authors} beside {stated}",
            stated.fit is not None and authors.near(stated.fit.middle),
        ),
    )


def _sharpness_claim(fit: Threshold | None) -> Claim:
    """Judge where the fit falls from 90 % to 10 %, 2 ln 9 of its widths: up to twice the published range."""
    spread = np.inf if fit is None else 2 * np.log(9) * fit.width / fit.middle
    sharp = bool(spread <= 2 * SHARP)
    return Claim(
        "The transition is sharp",
        f"from n = 2900 to 3100, {SHARP:.0%} of N",
        "no transition among these n" if fit is None else f"from 90 % to 10 % within {spread:.0%} of N",
        sharp,
        "" if sharp else "more than twice the published range",
    )


def _loss_claim(part: _Part) -> Claim:
    rare = part.shares < 0.2
    beyond = int(np.argmax(rare)) if rare.any() else len(part.sizes) - 1
    return Claim(
        "Beyond the transition all but one example are fitted",
        "0.6 % of the initial loss",
        f"{100 * part.losses[beyond]:.2g} % at n = {part.sizes[beyond]:.0f}, where one example is "
        f"{100 / part.sizes[beyond]:.2g} %; {100 * part.losses[-1]:.2g} % at n = {part.sizes[-1]:.0f}",
        bool(0.5 < part.losses[-1] * part.sizes[-1] < 2),
        "at n = 3000 one example is 0.033 % of the loss, not 0.6 %; the loss grows on with n",
    )


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

    def words(self, symbol: str) -> str:
        """Return the thresholds and the power in words."""
        listed = ", ".join(f"N({value:.0f}) = {one}" for value, one in zip(self.x, self.found, strict=True))
        return f"{listed}; power of {symbol}: {self.fit}"

    def series(self, label: str, tone: str = "auto") -> Series:
        """Return the thresholds over x with their intervals."""
        band = ([one.low for one in self.found], [one.high for one in self.found])
        return Series(self.x, [one.middle for one in self.found], label, tone=tone, band=band)

    def figure(self, name: str, title: str, x_label: str) -> Figure:
        """Return the thresholds over x beside their law, and beside proportionality."""
        series = [self.series("threshold N", "blue")]
        if self.fit is not None:
            series.append(
                Series(self.x, self.fit(self.x), f"power {self.fit}", style="dashed", tone="orange")
            )
            proportional = self.found[-1].middle * self.x / self.x[-1]
            series.append(Series(self.x, proportional, "proportional", style="dashed", tone="muted"))
        panel = _threshold_panel(series, x_label)
        return Figure(name, title, (panel,), "Bands: 95 % intervals of the logistic fits.", columns=1)


def _threshold_panel(series: Sequence[Series], x_label: str) -> Panel:
    return Panel(tuple(series), "", x_label, "threshold N", "log", "log")


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
    linear = law.fit is not None and law.fit.covers(1.0)
    quotients = np.array([one.middle for one in law.found]) / law.x
    claim = Claim(
        "The threshold is linear in d: N(d, m) = C(m)·d",
        "a straight line through N(d, 30), d = 10 … 100",
        f"{law.words('d')}; N/d from {np.min(quotients):.1f} to {np.max(quotients):.1f}",
        linear,
        "" if linear else "over this range N grows faster than d",
    )
    title = f"Convergence threshold over the dimension, {parameters['width']} neurons"
    return Findings((law.figure("fig3", title, "dimension d"),), (claim,))


def run_fig4(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Measure N(30, m) over the number of neurons, and over the budget of epochs."""
    table = _laws("fig4", "width", parameters, sweep)
    law = table[parameters["budgets"][0]]
    sublinear = Claim(
        "The threshold grows sub-linearly in the number of neurons",
        "N(30, m) sub-linear, m = 50 … 400",
        law.words("m"),
        law.fit is not None and law.fit.high < 1,
    )
    title = f"Convergence threshold over the number of neurons, d = {parameters['dimension']}"
    series = [one.series(f"{budget:g} t_n") for budget, one in table.items() if one.found]
    budgets = _threshold_panel(series, "neurons m")
    figures = (
        law.figure("fig4", title, "neurons m"),
        Figure("fig4-budget", "The threshold depends on the epochs", (budgets,), columns=1),
    )
    return Findings(figures, (sublinear, _budget_claim(table)))


def _budget_claim(table: Mapping[float, Law]) -> Claim:
    """Compare the thresholds of the budgets at the smallest width at which all of them have one."""
    shared = set.intersection(*(set(law.x.tolist()) for law in table.values()))
    width = min(shared, default=np.nan)
    found = {
        budget: law.found[law.x.tolist().index(width)] for budget, law in table.items() if width in shared
    }
    grown = found[max(found)].middle / found[min(found)].middle if found else np.inf
    return Claim(
        "A network that has not converged by 1.5 t_n is not able to reach zero loss",
        "assumed in App. B",
        "; ".join(f"{budget:g} t_n: N({width:.0f}) = {one}" for budget, one in found.items())
        or "no number of neurons has a threshold for every budget",
        abs(grown - 1) < 0.05,
        f"N grows by a factor {grown:.2f} with {max(table) / min(table):g} times the epochs: it is a "
        "threshold of the budget, not of the network",
    )


_QUICK, _PAPER = ({"precision": "single", "repeats": repeats, "seed": 0} for repeats in (8, 25))

FIG2 = Experiment(
    "weak_interaction/fig2",
    "Probability of convergence over the number of samples",
    "Figure 2, §5.1, App. B",
    {
        "quick": {
            **_QUICK,
            "dimension": 30,
            "sizes": tuple(range(80, 281, 25)),
            "wider_sizes": tuple(range(150, 401, 50)),
            "wider_repeats": 8,
        },
        "paper": {
            **_PAPER,
            "dimension": 100,
            "sizes": (*range(1200, 2101, 100), 2300, 2500, 2800, 3100, 3500),
            "wider_sizes": (2500, 2800, 3100, 3400, 3700),
            "wider_repeats": 10,
        },
    },
    run_fig2,
    sweeps=True,
    cost={"quick": 6, "paper": 840},
)
FIG3 = Experiment(
    "weak_interaction/fig3",
    "Convergence threshold over the dimension",
    "Figure 3, §5.1, App. B",
    scales(
        {"width": 30, "guess": 0.67, "power": 1.65},
        quick={**_QUICK, "dimensions": (10, 20, 30, 40), "around": (0.6, 0.75, 0.9, 1.05, 1.2, 1.4)},
        paper={
            **_PAPER,
            "dimensions": tuple(range(10, 101, 10)),
            "around": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4),
        },
    ),
    run_fig3,
    sweeps=True,
    cost={"quick": 3.3, "paper": 260},
)
FIG4 = Experiment(
    "weak_interaction/fig4",
    "Convergence threshold over the number of neurons and the epochs",
    "Figure 4, §5.1, App. B",
    scales(
        {"power": 0.37},
        quick={
            **_QUICK,
            "dimension": 20,
            "widths": (25, 45, 80),
            "guess": 28.0,
            "budgets": (1.5, 6.0),
            "around": (0.6, 0.9, 1.2, 1.5, 2.0),
        },
        paper={
            **_PAPER,
            "dimension": 30,
            "widths": (50, 75, 100, 150, 200, 300, 400),
            "guess": 43.0,
            "budgets": (1.5, 3.0, 6.0, 12.0),
            "around": (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0),
        },
    ),
    run_fig4,
    sweeps=True,
    cost={"quick": 5.1, "paper": 2060},
)
