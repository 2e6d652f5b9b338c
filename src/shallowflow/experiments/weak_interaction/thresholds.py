"""Figures 2, 3 and 4: up to which n does training reach zero loss, and how N depends on d, m and the epochs.

The paper trains in float32, and so do these runs ("precision"). A network has converged when Σr² < 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.fits import Slope, Threshold, exponent, threshold
from shallowflow.experiments.weak_interaction.runs import convergence, epochs, stated_width
from shallowflow.studies import Study

Run = dict[str, Any]
PUBLISHED = 30.0
"""The published transition n ≈ 3000 at d = 100, per dimension."""


def _plan(
    sizes: Sequence[int], dimension: int, widths: Sequence[int], parameters: Mapping[str, Any]
) -> list[Run]:
    """Return the parameters of a run for every size, with its width."""
    fixed = {
        "dimension": dimension,
        "setting": "printed",
        "budget": 1.5,
        "precision": parameters["precision"],
    }
    return [{**fixed, "size": size, "width": width} for size, width in zip(sizes, widths, strict=True)]


def _execute(
    name: str, plans: Sequence[list[Run]], parameters: Mapping[str, Any], sweep: Sweep
) -> list[tuple[list[Run], list[Mapping[str, float]]]]:
    """Train `repeats` networks at every point of the plans; return the runs of each with their numbers."""
    points = [point for plan in plans for point in plan]
    repeats = parameters["repeats"]
    study = Study(f"weak_interaction/{name}", convergence, points, repeats, parameters["seed"])
    numbers = [result.metrics for result in sweep(study)]
    ends = repeats * np.cumsum([len(plan) for plan in plans])
    runs = [[point for point in plan for _ in range(repeats)] for plan in plans]
    return [(part, numbers[end - len(part) : end]) for part, end in zip(runs, ends, strict=True)]


def _successes(
    runs: list[Run], results: Sequence[Mapping[str, float]], budget: float = 1.5
) -> tuple[Floats, Floats]:
    """Return sizes and successes (0 or 1) within the epochs of a budget."""
    sizes = np.array([run["size"] for run in runs], dtype=float)
    within = [
        result["converged"] and result["epoch"] <= epochs(run["size"], run["width"], budget)
        for run, result in zip(runs, results, strict=True)
    ]
    return sizes, np.array(within, dtype=float)


def _shares(sizes: Floats, values: Floats) -> tuple[Floats, Floats]:
    kinds = np.unique(sizes)
    return kinds, np.array([np.mean(values[sizes == kind]) for kind in kinds])


def _said(found: Threshold | None, successes: Floats) -> str:
    if found is not None:
        return str(found)
    return "beyond the largest n" if successes[0] else "below the smallest n"


def run_fig2(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Measure the probability of convergence over n: stated width, authors' weights, four times the width."""
    dimension, sizes = parameters["dimension"], parameters["sizes"]
    stated = _plan(sizes, dimension, [stated_width(n) for n in sizes], parameters)
    authors = [{**run, "setting": "authors"} for run in stated]
    wider_sizes = parameters["wider_sizes"]
    wider = _plan(wider_sizes, dimension, [stated_width(n, 4.0) for n in wider_sizes], parameters)
    first, second = _execute("fig2", [stated, authors], parameters, sweep)
    fewer = {**parameters, "repeats": parameters["wider_repeats"]}
    (third,) = _execute("fig2, wider", [wider], fewer, sweep)
    parts = {
        "stated width": (*first, "blue"),
        "authors' weights": (*second, "orange"),
        "4 × the width": (*third, "green"),
    }
    curves, fits = [], {}
    for label, (runs, found, tone) in parts.items():
        n, success = _successes(runs, found)
        fits[label] = (threshold(n, success), success)
        kinds, shares = _shares(n, success)
        curves.append(Series(kinds, shares, label, style="points", tone=tone))
        fit = fits[label][0]
        if fit is not None:
            x = np.linspace(kinds[0], kinds[-1], 200)
            curves.append(Series(x, fit(x), tone=tone, style="dashed"))
    n, success = _successes(*first)
    losses = np.array([result["loss"] for result in first[1]])
    kinds, shares = _shares(n, losses)
    claims = _fig2_claims(dimension, fits, (kinds, _shares(n, success)[1], shares))
    figure = Figure(
        "fig2",
        f"Probability of convergence in dimension {dimension}",
        (
            Panel(tuple(curves), title="probability that Σr² < 1", x_label="n", y_label="share of networks"),
            Panel(
                (
                    Series(kinds, 100 * shares, "mean over networks", tone="blue"),
                    Series(kinds, 100 / kinds, "one example", style="dashed", tone="muted"),
                ),
                title="last loss over first, stated width",
                x_label="n",
                y_label="per cent",
                y_scale="symlog",
            ),
        ),
        "Points: shares of networks; dashed: logistic fits. A network that converged counts with loss 0.",
    )
    return Findings((figure,), claims)


def _fig2_claims(
    dimension: int,
    fits: Mapping[str, tuple[Threshold | None, Floats]],
    table: tuple[Floats, Floats, Floats],
) -> tuple[Claim, ...]:
    stated, success = fits["stated width"]
    wide, wide_success = fits["4 × the width"]
    authors, authors_success = fits["authors' weights"]
    kinds, shares, losses = table
    goal = PUBLISHED * dimension
    near = stated is not None and abs(stated.middle - goal) < 0.1 * goal
    near_wide = wide is not None and abs(wide.middle - goal) < 0.1 * goal
    beyond = int(np.argmax(shares < 0.2)) if np.any(shares < 0.2) else len(kinds) - 1
    same = (
        stated is not None
        and authors is not None
        and abs(stated.middle - authors.middle) < 0.1 * stated.middle
    )
    ten_to_ninety = "" if stated is None else f"; from 90 % to 10 % within {4.4 * stated.width:.0f}"
    return (
        Claim(
            "Convergence changes from likely to unlikely within a short range of n",
            "likely for n ≤ 2900, almost never for n ≥ 3100 (d = 100)",
            f"N = {_said(stated, success)}{ten_to_ninety}",
            bool(shares[0] >= 0.8 and shares[-1] <= 0.2),
        ),
        Claim(
            "The transition is at n ≈ 3000 for d = 100 with the stated number of neurons",
            f"n ≈ 3000, here 30·d = {goal:.0f}",
            f"N = {_said(stated, success)} (95 %), d = {dimension}",
            near,
            "" if near else "the stated number of neurons is too small for it; see the next claim",
        ),
        Claim(
            "(not claimed) Four times the stated number of neurons moves it there",
            f"n ≈ {goal:.0f}",
            f"N = {_said(wide, wide_success)}",
            near_wide,
            "" if near_wide else "N is not proportional to d, so that 30·d is right near d = 100 only",
        ),
        Claim(
            "(not claimed) The authors' initial weights U(±1/√d) give the threshold of the printed ones",
            "the paper does not distinguish them",
            f"N = {_said(authors, authors_success)} beside {_said(stated, success)}",
            same,
        ),
        Claim(
            "Beyond the transition the loss is that of all but one example",
            "0.6 % of the initial loss",
            f"{100 * losses[beyond]:.2g} % at n = {kinds[beyond]:.0f}, where one example is "
            f"{100 / kinds[beyond]:.2g} %; {100 * losses[-1]:.2g} % at n = {kinds[-1]:.0f}",
            bool(0.5 < losses[-1] * kinds[-1] < 2),
            "at n = 3000 one example is 0.033 % of the loss, not 0.6 %; the loss grows on with n",
        ),
    )


def _around(
    cases: Sequence[tuple[int, int, float]], parameters: Mapping[str, Any], budget: float
) -> list[list[Run]]:
    """Return a plan for every case (dimension, width, guessed N), with sizes around its guess."""
    plans = []
    for dimension, width, guess in cases:
        sizes = np.unique(np.rint(guess * np.array(parameters["around"])).astype(int)).tolist()
        plan = _plan(sizes, dimension, [width] * len(sizes), parameters)
        plans.append([{**run, "budget": budget} for run in plan])
    return plans


def _law(x: Floats, found: list[Threshold | None]) -> tuple[Floats, list[Threshold], Slope | None]:
    """Return where there is a threshold, the thresholds, and their power law."""
    kept = [one for one in found if one is not None]
    places = np.array([value for value, one in zip(x, found, strict=True) if one is not None])
    return places, kept, exponent(places, kept) if len(kept) > 1 else None


def _law_figure(
    name: str, title: str, x_label: str, law: tuple[Floats, list[Threshold], Slope | None]
) -> Figure:
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
    parts = _execute("fig3", _around(cases, parameters, 1.5), parameters, sweep)
    found = [threshold(*_successes(runs, numbers)) for runs, numbers in parts]
    law = _law(dimensions, found)
    fit = law[2]
    measured = ", ".join(f"N({d:.0f}) = {one}" for d, one in zip(law[0], law[1], strict=True))
    linear = fit is not None and fit.covers(1.0)
    claim = Claim(
        "The threshold is linear in d: N(d, m) = C(m)·d",
        "a straight line through N(d, 30), d = 10 … 100",
        f"{measured}; power of d: {fit}",
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
    parts = _execute("fig4", _around(cases, parameters, max(budgets)), parameters, sweep)
    table = {
        budget: _law(
            widths,
            [threshold(*_successes(runs, numbers, budget)) for runs, numbers in parts],
        )
        for budget in budgets
    }
    law = table[budgets[0]]
    fit = law[2]
    measured = ", ".join(f"N({m:.0f}) = {one}" for m, one in zip(law[0], law[1], strict=True))
    first = {budget: part[1][0] for budget, part in table.items() if part[1]}
    grown = first[budgets[-1]].middle / first[budgets[0]].middle if len(first) > 1 else 1.0
    claims = (
        Claim(
            "The threshold grows sub-linearly in the number of neurons",
            "N(30, m) sub-linear, m = 50 … 400",
            f"{measured}; power of m: {fit}",
            fit is not None and fit.high < 1,
        ),
        Claim(
            "A network that has not converged by 1.5 t_n is not able to reach zero loss",
            "assumed in App. B",
            "; ".join(f"{budget:g} t_n: N({widths[0]:.0f}) = {one}" for budget, one in first.items()),
            abs(grown - 1) < 0.05,
            f"N grows by a factor {grown:.2f} with {budgets[-1] / budgets[0]:g} times the epochs: it is a "
            "threshold of the budget, not of the network",
        ),
    )
    title = f"Convergence threshold over the number of neurons, d = {parameters['dimension']}"
    budget_figure = Figure(
        "fig4-budget", "The threshold depends on the epochs", (_budget_panel(table),), columns=1
    )
    return Findings((_law_figure("fig4", title, "neurons m", law), budget_figure), claims)


def _budget_panel(table: Mapping[float, tuple[Floats, list[Threshold], Slope | None]]) -> Panel:
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
_QUICK = {"precision": "single", "repeats": 8, "seed": 0}
_PAPER = {"precision": "single", "repeats": 25, "seed": 0}

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
    cost={"quick": 8.3},
)
FIG3 = Experiment(
    "weak_interaction/fig3",
    "Convergence threshold over the dimension",
    "Figure 3, §5.1, App. B",
    {
        "quick": {
            **_QUICK,
            "dimensions": (10, 20, 30, 40),
            "width": 30,
            "guess": 0.67,
            "power": 1.65,
            "around": _QUICK_AROUND,
        },
        "paper": {
            **_PAPER,
            "dimensions": tuple(range(10, 101, 10)),
            "width": 30,
            "guess": 0.67,
            "power": 1.65,
            "around": _AROUND,
        },
    },
    run_fig3,
    sweeps=True,
    cost={"quick": 4.1},
)
FIG4 = Experiment(
    "weak_interaction/fig4",
    "Convergence threshold over the number of neurons and the epochs",
    "Figure 4, §5.1, App. B",
    {
        "quick": {
            **_QUICK,
            "dimension": 20,
            "widths": (25, 45, 80),
            "guess": 28.0,
            "power": 0.37,
            "budgets": (1.5, 6.0),
            "around": (0.6, 0.9, 1.2, 1.5, 2.0),
        },
        "paper": {
            **_PAPER,
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
    cost={"quick": 8.7},
)
