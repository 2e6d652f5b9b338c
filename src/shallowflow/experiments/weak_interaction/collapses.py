"""Proposition 3: what happens to two neurons without Assumption 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import collapse
from shallowflow.studies import Study

TONES = ("sky", "blue", "green")
Row = tuple[Mapping[str, Any], Mapping[str, float]]
"""The parameters of a run and its numbers."""


def run_prop3(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Measure how often two neurons lose the smaller label, over the ratio λ of the labels."""
    fixed = {name: parameters[name] for name in ("bound", "lowest", "highest", "epochs")}
    points = [
        {**fixed, "ratio": ratio, "label": label, "rate": parameters["pace"] / label, "dominated": dominated}
        for dominated in (False, True)
        for label in parameters["labels"]
        for ratio in parameters["ratios"]
    ]
    study = Study("weak_interaction/prop3", collapse, points, parameters["repeats"], parameters["seed"])
    rows = [(result.parameters, result.metrics) for result in sweep(study)]
    panel = _panel(rows, parameters["labels"], parameters["ratios"])
    figure = Figure("prop3", "Two neurons: how often the smaller label is lost", (panel,), columns=1)
    return Findings((figure,), _claims(rows))


def _claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    inside = [result["lost"] for run, result in rows if result["allowed"] and not run["dominated"]]
    outside = [result["lost"] for run, result in rows if not result["allowed"] and not run["dominated"]]
    control = [result["lost"] for run, result in rows if run["dominated"]]
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


def _panel(rows: Sequence[Row], labels: Sequence[float], ratios: Sequence[float]) -> Panel:
    def shares(label: float, dominated: bool) -> list[float]:
        kept = [row for row in rows if (row[0]["label"], row[0]["dominated"]) == (label, dominated)]
        return [
            float(np.mean([result["lost"] for run, result in kept if run["ratio"] == ratio]))
            for ratio in ratios
        ]

    curves = [
        Series(ratios, shares(label, False), f"small a, y₁ = {label:g}", tone=tone)
        for label, tone in zip(labels, TONES, strict=False)
    ]
    safe = Series(ratios, shares(labels[-1], True), "|a| ≥ ‖w‖", tone="ink", style="dashed")
    return Panel((*curves, safe), x_label="λ = |y₂/y₁|", y_label="share of draws", x_scale="log")


_PROP3 = {
    "ratios": (0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0),
    "labels": (10.0, 100.0, 1000.0),
    "bound": 0.01,
    "lowest": 0.3,
    "highest": 0.6,
    "pace": 0.05,
    "epochs": 20_000,
    "seed": 0,
}
PROP3 = Experiment(
    "weak_interaction/prop3",
    "Without Assumption 1 the second layer can collapse",
    "Proposition 3, App. C.1",
    {"quick": {**_PROP3, "repeats": 12}, "paper": {**_PROP3, "repeats": 200}},
    run_prop3,
    sweeps=True,
    cost={"quick": 5.8, "paper": 80},
)
