"""Figure 5: how the local PL curvature scales with n on orthogonal inputs.

Proposition 3: what happens to two neurons without Assumption 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import collapse, curvature, smallest_ratio, stated_width
from shallowflow.readings.curves import Slope, slope
from shallowflow.studies import Study

MEASURES = {"last": "μ(t_∞)", "mean": "⟨μ⟩", "low": "μ_low", "high": "μ_upp"}
VARIANTS = {
    "as printed": ("printed", 1.0),
    "authors' programs": ("authors", 1.0),
    "printed, 4 × the neurons": ("printed", 4.0),
}
NEAR = 0.1
"""A slope is close to −½ if it differs by less than this."""
COLOURS = ("blue", "orange", "green", "pink")


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
    claims, drawn, left_out = list[Claim](), list[tuple[str, Floats, dict[str, Floats]]](), list[int]()
    for k, name in enumerate(VARIANTS):
        found = [result.metrics for result in results[k * each : (k + 1) * each]]
        good = np.array([metrics["good"] > 0 for metrics in found])
        columns = {measure: np.array([one[measure] for one in found])[good] for measure in MEASURES}
        fits = {measure: slope(sizes[good], column) for measure, column in columns.items()}
        claims += [slope_claim(name, measure, fit) for measure, fit in fits.items()]
        drawn.append((name, sizes[good], columns))
        left_out.append(int(np.sum(~good)))
    figure = Figure(
        "fig5",
        f"Local PL curvature over n, orthogonal inputs in dimension {parameters['dimension']}",
        _slope_panels(drawn),
        "Means over networks with their 95 % intervals, fitted lines and slopes; the conjecture says −½ for "
        "all. Networks in which a sample has no good neuron, which Conjecture 1 excludes, are left out: "
        f"{', '.join(str(number) for number in left_out)} of {each} in the three panels.",
        columns=3,
    )
    return Findings((figure,), tuple(claims))


def slope_claim(name: str, measure: str, fit: Slope) -> Claim:
    """A slope that is close to −½, not so, or not known well enough."""
    steeper = "steeper" if fit.value < -0.5 else "flatter"
    return Claim.that(
        f"{MEASURES[measure]} scales like 1/√n ({name})",
        "slope close to −½ in log-log (Conjecture 1)",
        Interval(fit.value, fit.low, fit.high),
        least=-0.5 - NEAR,
        most=-0.5 + NEAR,
        words="slope {}",
        reason=f"the slope is {steeper} than −½ in this range of n, as far as so many networks can tell",
    )


def _slope_panels(drawn: Sequence[tuple[str, Floats, Mapping[str, Floats]]]) -> tuple[Panel, ...]:
    """Return one panel per variant, all with the same y axis."""
    panels, lowest, highest = [], np.inf, 0.0
    for name, sizes, columns in drawn:
        kinds, series = np.unique(sizes), list[Series]()
        for (measure, label), tone in zip(MEASURES.items(), COLOURS, strict=True):
            means = [Interval.of_mean(columns[measure][sizes == kind]) for kind in kinds]
            fit = slope(sizes, columns[measure])
            label = f"{label}, slope {fit.value:.2f}".replace("-", "−")
            middle = np.array([one.value for one in means])
            band = [max(one.low, 0.5 * one.value) for one in means], [one.high for one in means]
            series.append(Series(kinds, middle, label, style="points", tone=tone, band=band))
            series.append(Series(kinds, fit(kinds), style="dashed", tone=tone))
            lowest, highest = min(lowest, float(middle.min())), max(highest, float(middle.max()))
        panels.append(Panel(tuple(series), name, "n", "curvature", "log", "log"))
    limits = 0.5 * lowest, 2 * highest
    return tuple(replace(panel, y_limits=limits) for panel in panels)


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

    def share(label: float, dominated: bool) -> tuple[list[float], tuple[list[float], list[float]]]:
        chosen = {"label": label, "dominated": dominated}
        kept = [one for one in results if chosen.items() <= one.parameters.items()]
        lost = [[one.metrics["lost"] for one in kept if one.parameters["ratio"] == r] for r in ratios]
        found = [Interval.of_share(int(sum(draws)), len(draws)) for draws in lost]
        return [one.value for one in found], ([one.low for one in found], [one.high for one in found])

    curves, marks = list[Series](), [(parameters["lowest"] / parameters["highest"], "(77)")]
    for label, tone in zip(labels, ("sky", "blue", "green"), strict=False):
        values, band = share(label, False)
        curves.append(Series(ratios, values, f"small a, y₁ = {label:g}", tone=tone, band=band))
        lower = smallest_ratio(parameters["highest"], label)
        if lower < marks[0][0]:
            marks.append((lower, f"(85), {label:g}"))
    curves.append(Series(ratios, share(labels[-1], True)[0], "|a| ≥ ‖w‖", tone="ink", style="dashed"))
    panel = Panel(tuple(curves), "", "λ = |y₂/y₁|", "share of draws", "log", marks=tuple(marks))
    figure = Figure(
        "prop3",
        "Two neurons: how often the smaller label is lost",
        (panel,),
        "Bands: 95 % intervals. Marks: for every draw (77) holds below its mark, (85) above that of its y₁; "
        "between them the loss of the label is proved (y₁ = 10 has no such range).",
        columns=1,
    )
    lost = [
        (bool(one.metrics["allowed"]), int(one.metrics["lost"]))
        for one in results
        if not one.parameters["dominated"]
    ]
    return Findings((figure,), collapse_claims(lost))


def collapse_claims(lost: Sequence[tuple[bool, int]]) -> tuple[Claim, ...]:
    """From draws (under (77) and (85), label lost): always under them, less often outside."""
    inside, outside = ([one for allowed, one in lost if allowed == under] for under in (True, False))
    within = Interval.of_share(sum(inside), len(inside)) if inside else Interval(0.0, 0.0, 1.0)
    return (
        Claim.that(
            "Under (77), with small a_j, the smaller label is lost: L stays above y₂²/4",
            "always, for δ small and y₁ large enough",
            within,
            least=0.95,
            words=f"lost in a share {{}} of {len(inside)} draws under (77), (85)",
            reason="δ and y₁ have no numbers in the paper",
        ),
        Claim.that(
            "Outside of (77) it is lost less often",
            "(77) is sufficient only",
            Interval.of_share(sum(outside), len(outside)) if outside else Interval(0.0, 0.0, 1.0),
            most=within.low,
            words=f"lost in a share {{}} of {len(outside)} draws",
            reason="only above the upper bound on λ; below the lower one the label is lost all the same",
            ours=True,
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
    cost={"quick": 4.1, "paper": 240},
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
    cost={"quick": 5.8, "paper": 83},
)
