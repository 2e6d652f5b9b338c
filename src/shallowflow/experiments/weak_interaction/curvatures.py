"""Figure 5: how the local PL curvature scales with n on orthogonal inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.fits import Slope, slope
from shallowflow.experiments.weak_interaction.runs import curvature, stated_width
from shallowflow.studies import Study

MEASURES = {"last": "μ(t_∞)", "mean": "⟨μ⟩", "low": "μ_low", "high": "μ_upp"}
VARIANTS = {
    "as printed": ("printed", 1.0),
    "authors' programs": ("authors", 1.0),
    "printed, 4 × the neurons": ("printed", 4.0),
}
NEAR = 0.1
"""A slope is close to −½ if it differs by less than this, or if its interval contains −½."""


def run_fig5(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Train on orthogonal inputs for several n; fit lines through the logarithms of four measures."""
    points = [
        {
            "setting": setting,
            "size": size,
            "dimension": parameters["dimension"],
            "width": stated_width(size, factor),
            "precision": parameters["precision"],
        }
        for setting, factor in VARIANTS.values()
        for size in parameters["sizes"]
    ]
    repeats = parameters["repeats"]
    study = Study("weak_interaction/fig5", curvature, points, repeats, parameters["seed"])
    results = [result.metrics for result in sweep(study)]
    each = len(results) // len(VARIANTS)
    sizes = np.repeat(np.array(parameters["sizes"], dtype=float), repeats)
    parts = {name: results[k * each : (k + 1) * each] for k, name in enumerate(VARIANTS)}
    values = {
        name: {measure: np.array([result[measure] for result in part]) for measure in MEASURES}
        for name, part in parts.items()
    }
    fits = {
        name: {measure: slope(sizes, columns[measure]) for measure in MEASURES}
        for name, columns in values.items()
    }
    claims = tuple(_claim(name, measure, fits[name][measure]) for name in VARIANTS for measure in MEASURES)
    panels = tuple(_panel(name, sizes, values[name], fits[name]) for name in VARIANTS)
    figure = Figure(
        "fig5",
        f"Local PL curvature over n, orthogonal inputs in dimension {parameters['dimension']}",
        panels,
        "Means over networks, fitted lines and their slopes; the conjecture says −½ for all.",
        columns=3,
    )
    return Findings((figure,), claims)


def _claim(name: str, measure: str, fit: Slope) -> Claim:
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


def _panel(name: str, sizes: Floats, columns: Mapping[str, Floats], fits: Mapping[str, Slope]) -> Panel:
    kinds = np.unique(sizes)
    series = []
    for (measure, label), tone in zip(MEASURES.items(), ("blue", "orange", "green", "pink"), strict=True):
        means = [np.mean(columns[measure][sizes == kind]) for kind in kinds]
        series.append(
            Series(
                kinds,
                means,
                f"{label}, slope {fits[measure].value:.2f}".replace("-", "−"),
                style="points",
                tone=tone,
            )
        )
        series.append(Series(kinds, fits[measure](kinds), style="dashed", tone=tone))
    return Panel(
        tuple(series),
        title=name,
        x_label="n",
        y_label="curvature",
        x_scale="log",
        y_scale="log",
    )


FIG5 = Experiment(
    "weak_interaction/fig5",
    "The local PL curvature at the end of training scales like 1/√n",
    "Figure 5, §5.2, Conjecture 1, App. B",
    {
        "quick": {
            "dimension": 300,
            "sizes": (150, 180, 210, 250, 300),
            "repeats": 8,
            "precision": "double",
            "seed": 0,
        },
        "paper": {
            "dimension": 2000,
            "sizes": tuple(range(1000, 2001, 100)),
            "repeats": 25,
            "precision": "double",
            "seed": 0,
        },
    },
    run_fig5,
    sweeps=True,
    cost={"quick": 4.1, "paper": 280},
)
