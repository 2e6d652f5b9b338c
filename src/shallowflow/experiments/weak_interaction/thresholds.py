"""Figures 3 and 4: up to which n training reaches zero loss, over dimension, neurons and epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.fits import Slope, Threshold, exponent, threshold
from shallowflow.experiments.weak_interaction.sweeps import PAPER, QUICK, Run, execute, plan, successes

Law = tuple[Floats, list[Threshold], Slope | None]
"""Where there is a threshold, the thresholds, and their power law."""


def _around(
    cases: Sequence[tuple[int, int, float]], parameters: Mapping[str, Any], budget: float
) -> list[list[Run]]:
    """Return a plan for every case (dimension, width, guessed N), with sizes around its guess."""
    plans = []
    for dimension, width, guess in cases:
        sizes = np.unique(np.rint(guess * np.array(parameters["around"])).astype(int)).tolist()
        runs = plan(sizes, dimension, [width] * len(sizes), parameters)
        plans.append([{**run, "budget": budget} for run in runs])
    return plans


def _law(x: Floats, found: list[Threshold | None]) -> Law:
    """Return where there is a threshold, the thresholds, and their power law."""
    kept = [one for one in found if one is not None]
    places = np.array([value for value, one in zip(x, found, strict=True) if one is not None])
    return places, kept, exponent(places, kept) if len(kept) > 1 else None


def _law_words(law: Law, symbol: str) -> str:
    x, found, fit = law
    listed = ", ".join(f"N({value:.0f}) = {one}" for value, one in zip(x, found, strict=True))
    return f"{listed}; power of {symbol}: {fit}"


def _law_figure(name: str, title: str, x_label: str, law: Law) -> Figure:
    x, found, fit = law
    band = ([one.low for one in found], [one.high for one in found])
    series = [Series(x, [one.middle for one in found], "threshold N", tone="blue", band=band)]
    if fit is not None:
        series.append(Series(x, fit(x), f"power {fit}", style="dashed", tone="orange"))
        proportional = found[-1].middle * x / x[-1]
        series.append(Series(x, proportional, "proportional", style="dashed", tone="muted"))
    panel = Panel(tuple(series), x_label=x_label, y_label="threshold N", x_scale="log", y_scale="log")
    return Figure(name, title, (panel,), "Bands: 95 % intervals of the logistic fits.", columns=1)


def run_fig3(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Measure N(d, 30) over the dimension."""
    dimensions = np.array(parameters["dimensions"], dtype=float)
    cases = [
        (int(d), parameters["width"], parameters["guess"] * d ** parameters["power"]) for d in dimensions
    ]
    parts = execute("fig3", _around(cases, parameters, 1.5), parameters, sweep)
    found = [threshold(*successes(runs, numbers)) for runs, numbers in parts]
    law = _law(dimensions, found)
    x, kept, fit = law
    linear = fit is not None and fit.covers(1.0)
    quotients = np.array([one.middle for one in kept]) / x
    claim = Claim(
        "The threshold is linear in d: N(d, m) = C(m)·d",
        "a straight line through N(d, 30), d = 10 … 100",
        f"{_law_words(law, 'd')}; N/d from {np.min(quotients):.1f} to {np.max(quotients):.1f}",
        linear,
        "" if linear else "over this range N grows faster than d",
    )
    title = f"Convergence threshold over the dimension, {parameters['width']} neurons"
    return Findings((_law_figure("fig3", title, "dimension d", law),), (claim,))


def run_fig4(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Measure N(30, m) over the number of neurons, and over the budget of epochs."""
    widths, budgets = np.array(parameters["widths"], dtype=float), parameters["budgets"]
    cases = [
        (parameters["dimension"], int(m), parameters["guess"] * m ** parameters["power"]) for m in widths
    ]
    parts = execute("fig4", _around(cases, parameters, max(budgets)), parameters, sweep)
    table = {
        budget: _law(widths, [threshold(*successes(runs, numbers, budget)) for runs, numbers in parts])
        for budget in budgets
    }
    law = table[budgets[0]]
    fit = law[2]
    sublinear = Claim(
        "The threshold grows sub-linearly in the number of neurons",
        "N(30, m) sub-linear, m = 50 … 400",
        _law_words(law, "m"),
        fit is not None and fit.high < 1,
    )
    title = f"Convergence threshold over the number of neurons, d = {parameters['dimension']}"
    budget_figure = Figure(
        "fig4-budget", "The threshold depends on the epochs", (_budget_panel(table),), columns=1
    )
    figures = _law_figure("fig4", title, "neurons m", law), budget_figure
    return Findings(figures, (sublinear, _budget_claim(table)))


def _budget_claim(table: Mapping[float, Law]) -> Claim:
    """Compare the thresholds of the budgets at the smallest width at which all of them have one."""
    shared = set.intersection(*(set(x.tolist()) for x, _, _ in table.values()))
    width = min(shared, default=np.nan)
    found = {
        budget: kept[x.tolist().index(width)] for budget, (x, kept, _) in table.items() if width in shared
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


def _budget_panel(table: Mapping[float, Law]) -> Panel:
    series = tuple(
        Series(
            x,
            [one.middle for one in found],
            f"{budget:g} t_n",
            band=([o.low for o in found], [o.high for o in found]),
        )
        for budget, (x, found, _) in table.items()
        if found
    )
    return Panel(series, x_label="neurons m", y_label="threshold N", x_scale="log", y_scale="log")


_AROUND = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4)
_QUICK_AROUND = (0.6, 0.75, 0.9, 1.05, 1.2, 1.4)

FIG3 = Experiment(
    "weak_interaction/fig3",
    "Convergence threshold over the dimension",
    "Figure 3, §5.1, App. B",
    {
        "quick": {
            **QUICK,
            "dimensions": (10, 20, 30, 40),
            "width": 30,
            "guess": 0.67,
            "power": 1.65,
            "around": _QUICK_AROUND,
        },
        "paper": {
            **PAPER,
            "dimensions": tuple(range(10, 101, 10)),
            "width": 30,
            "guess": 0.67,
            "power": 1.65,
            "around": _AROUND,
        },
    },
    run_fig3,
    sweeps=True,
    cost={"quick": 3.3, "paper": 260},
)
FIG4 = Experiment(
    "weak_interaction/fig4",
    "Convergence threshold over the number of neurons and the epochs",
    "Figure 4, §5.1, App. B",
    {
        "quick": {
            **QUICK,
            "dimension": 20,
            "widths": (25, 45, 80),
            "guess": 28.0,
            "power": 0.37,
            "budgets": (1.5, 6.0),
            "around": (0.6, 0.9, 1.2, 1.5, 2.0),
        },
        "paper": {
            **PAPER,
            "dimension": 30,
            "widths": (50, 75, 100, 150, 200, 300, 400),
            "guess": 43.0,
            "power": 0.37,
            "budgets": (1.5, 3.0, 6.0, 12.0),
            "around": (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0),
        },
    },
    run_fig4,
    sweeps=True,
    cost={"quick": 5.1, "paper": 2060},
)
