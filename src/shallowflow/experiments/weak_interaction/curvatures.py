"""Figure 5: how the local PL curvature scales with n on orthogonal inputs.

Proposition 3: what happens to two neurons without Assumption 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import collapse, curvature, stated_width
from shallowflow.readings.many_runs import Slope, slope
from shallowflow.studies import Result, Study

MEASURES = {"last": "μ(t_∞)", "mean": "⟨μ⟩", "low": "μ_low", "high": "μ_upp"}
VARIANTS = {
    "as printed": ("printed", 1.0),
    "authors' programs": ("authors", 1.0),
    "printed, 4 × the neurons": ("printed", 4.0),
}
NEAR = 0.1
"""A slope is close to −½ if it differs by less than this, or if its interval contains −½."""


def run_fig5(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Train on orthogonal inputs for several n; fit lines through the logarithms of four measures."""
    fixed = {name: parameters[name] for name in ("dimension", "precision")}
    points = [
        {**fixed, "setting": setting, "size": size, "width": stated_width(size, factor)}
        for setting, factor in VARIANTS.values()
        for size in parameters["sizes"]
    ]
    repeats = parameters["repeats"]
    results = sweep(Study("weak_interaction/fig5", curvature, points, repeats, parameters["seed"]))
    each = len(results) // len(VARIANTS)
    sizes = np.repeat(np.array(parameters["sizes"], dtype=float), repeats)
    claims, panels = list[Claim](), list[Panel]()
    for k, name in enumerate(VARIANTS):
        found = [result.metrics for result in results[k * each : (k + 1) * each]]
        columns = {measure: np.array([metrics[measure] for metrics in found]) for measure in MEASURES}
        fits = {measure: slope(sizes, column) for measure, column in columns.items()}
        claims += [_slope_claim(name, measure, fit) for measure, fit in fits.items()]
        panels.append(_slope_panel(name, sizes, columns, fits))
    figure = Figure(
        "fig5",
        f"Local PL curvature over n, orthogonal inputs in dimension {parameters['dimension']}",
        tuple(panels),
        "Means over networks, fitted lines and their slopes; the conjecture says −½ for all.",
        columns=3,
    )
    return Findings((figure,), tuple(claims))


def _slope_claim(name: str, measure: str, fit: Slope) -> Claim:
    close, covers = abs(fit.value + 0.5) <= NEAR, fit.covers(-0.5)
    steeper = "steeper" if fit.value < -0.5 else "flatter"
    reason = "" if close else f"the slope is {steeper} than −½ in this range of n"
    if covers and not close:
        reason = "the interval contains −½, but is wide"
    return Claim(
        f"{MEASURES[measure]} scales like 1/√n ({name})",
        "slope close to −½ in log-log",
        f"slope {fit}",
        close or covers,
        reason,
    )


def _slope_panel(name: str, sizes: Floats, columns: Mapping[str, Floats], fits: Mapping[str, Slope]) -> Panel:
    kinds = np.unique(sizes)
    series = []
    for (measure, label), tone in zip(MEASURES.items(), ("blue", "orange", "green", "pink"), strict=True):
        means = [np.mean(columns[measure][sizes == kind]) for kind in kinds]
        label = f"{label}, slope {fits[measure].value:.2f}".replace("-", "−")
        series.append(Series(kinds, means, label, style="points", tone=tone))
        series.append(Series(kinds, fits[measure](kinds), style="dashed", tone=tone))
    return Panel(tuple(series), name, "n", "curvature", "log", "log")


def run_prop3(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Measure how often two neurons lose the smaller label, over the ratio λ of the labels."""
    labels, ratios = parameters["labels"], parameters["ratios"]
    fixed = {name: parameters[name] for name in ("bound", "lowest", "highest", "epochs")}
    points = [
        {**fixed, "ratio": ratio, "label": label, "rate": parameters["pace"] / label, "dominated": dominated}
        for dominated in (False, True)
        for label in labels
        for ratio in ratios
    ]
    study = Study("weak_interaction/prop3", collapse, points, parameters["repeats"], parameters["seed"])
    results = sweep(study)

    def shares(label: float, dominated: bool) -> list[float]:
        chosen = {"label": label, "dominated": dominated}
        kept = [one for one in results if chosen.items() <= one.parameters.items()]
        lost = [[one.metrics["lost"] for one in kept if one.parameters["ratio"] == r] for r in ratios]
        return [float(np.mean(draws)) for draws in lost]

    curves = [
        Series(ratios, shares(label, False), f"small a, y₁ = {label:g}", tone=tone)
        for label, tone in zip(labels, ("sky", "blue", "green"), strict=False)
    ]
    curves.append(Series(ratios, shares(labels[-1], True), "|a| ≥ ‖w‖", tone="ink", style="dashed"))
    panel = Panel(tuple(curves), "", "λ = |y₂/y₁|", "share of draws", "log")
    figure = Figure("prop3", "Two neurons: how often the smaller label is lost", (panel,), columns=1)
    return Findings((figure,), _collapse_claims(results))


def _collapse_claims(results: Sequence[Result]) -> tuple[Claim, ...]:
    control = [r.metrics["lost"] for r in results if r.parameters["dominated"]]
    inside, outside = (
        [
            r.metrics["lost"]
            for r in results
            if bool(r.metrics["allowed"]) == allowed and not r.parameters["dominated"]
        ]
        for allowed in (True, False)
    )
    always = bool(inside) and min(inside) == 1
    return (
        Claim(
            "Under (77), with small a_j, the smaller label is lost: L stays above y₂²/4",
            "always, for δ small and y₁ large enough",
            f"lost in {sum(inside):.0f} of {len(inside)} draws under (77), (85)",
            always,
            "" if always else "δ and y₁ have no numbers in the paper",
        ),
        Claim(
            "(not claimed) Outside of (77) it is lost less often",
            "(77) is sufficient only",
            f"lost in {sum(outside):.0f} of {len(outside)} draws",
            float(np.mean(outside)) < float(np.mean(inside)),
            "only above the upper bound on λ; below the lower one the label is lost all the same",
        ),
        Claim(
            "With |a_j| ≥ ‖w_j‖ this collapse cannot happen",
            "never",
            f"lost in {sum(control):.0f} of {len(control)} draws with a = (1.1‖w₁‖, −1.1‖w₂‖)",
            max(control) == 0,
        ),
    )


FIG5 = Experiment(
    "weak_interaction/fig5",
    "The local PL curvature at the end of training scales like 1/√n",
    "Figure 5, §5.2, Conjecture 1, App. B",
    scales(
        {"precision": "double", "seed": 0},
        quick={"dimension": 300, "sizes": (150, 180, 210, 250, 300), "repeats": 8},
        paper={"dimension": 2000, "sizes": tuple(range(1000, 2001, 100)), "repeats": 25},
    ),
    run_fig5,
    sweeps=True,
    cost={"quick": 4.1, "paper": 280},
)
PROP3 = Experiment(
    "weak_interaction/prop3",
    "Without Assumption 1 the second layer can collapse",
    "Proposition 3, App. C.1",
    scales(
        {
            "ratios": (0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0),
            "labels": (10.0, 100.0, 1000.0),
            "bound": 0.01,
            "lowest": 0.3,
            "highest": 0.6,
            "pace": 0.05,
            "epochs": 20_000,
            "seed": 0,
        },
        quick={"repeats": 12},
        paper={"repeats": 200},
    ),
    run_prop3,
    sweeps=True,
    cost={"quick": 5.8, "paper": 80},
)
