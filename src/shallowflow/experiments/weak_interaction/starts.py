"""Lemma 5 (how many neurons make a good start) and Proposition 3 (what happens without Assumption 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Ints
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.weak_interaction.runs import collapse
from shallowflow.landscape import (
    activation_probability,
    fair_activation_probability,
    lemma_5_widths,
    sampled_probability,
)
from shallowflow.studies import Study

TONES = ("sky", "blue", "green", "orange", "pink", "red")


def run_lemma5(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Set the exact probability of a good start beside Lemma 5's rules and Monte Carlo."""
    sizes, epsilon = parameters["sizes"], parameters["epsilon"]
    widths = np.arange(1, parameters["most"] + 1)
    exact = {n: np.array([fair_activation_probability(int(m), n) for m in widths]) for n in sizes}
    needed = {n: _fewest(widths, table >= 1 - epsilon) for n, table in exact.items()}
    rules = {n: lemma_5_widths(n, epsilon) for n in sizes}
    progress(0.2, "Monte Carlo")
    size, dimension, draws = parameters["sampled"], parameters["dimension"], parameters["draws"]
    checked = np.arange(6, 41, 4)
    flat = [sampled_probability(orthogonal(size, size), int(m), draws=draws, seed=int(m)) for m in checked]
    progress(0.6, "Monte Carlo")
    near = [sampled_probability(sphere(size, dimension), int(m), draws=draws, seed=int(m)) for m in checked]
    labels = np.sign(orthogonal(size, size).targets)
    plus = int(np.sum(labels > 0))
    truth = np.array([activation_probability(int(m), plus, size - plus) for m in checked])
    off = max(abs(p - t) / max(e, 1 / draws) for (p, e), t in zip(flat, truth, strict=True))
    inside = all(low <= needed[n] <= high for n, (low, high) in rules.items())
    gain = max(p - t for (p, _), t in zip(near, truth, strict=True))
    claims = (
        Claim(
            "4 ln(n/ε) neurons make a good start with probability 1 − ε",
            "P(𝓘) ≥ 1 − ε",
            "; ".join(f"n = {n}: {needed[n]:g} suffice, 4 ln(n/ε) = {rules[n][1]:.1f}" for n in sizes),
            all(needed[n] <= rules[n][1] for n in sizes),
        ),
        Claim(
            "P(𝓘) = 1 − ε implies m ∈ [3 ln(n/ε) − 2, 4 ln(n/ε)]",
            "both bounds",
            "; ".join(f"n = {n}: {needed[n]:g} in [{rules[n][0]:.1f}, {rules[n][1]:.1f}]" for n in sizes),
            inside,
            "true for orthogonal inputs by the exact formula, though the proof (14) of the lower bound fails",
        ),
        Claim(
            "The exact formula agrees with Monte Carlo on orthogonal inputs",
            "exact",
            f"largest difference {off:.1f} standard errors, n = {size}",
            off < 4,
        ),
        Claim(
            "(not claimed) Correlated inputs make a good start more likely",
            "Lemma 5 treats all inputs alike",
            f"n = {size} in dimension {dimension}: P(𝓘) larger by up to {gain:.2f}",
            gain > 0,
            "inputs that point in similar directions share their neurons",
        ),
    )
    curves = [Series(widths, exact[n], f"n = {n}", tone=tone) for n, tone in zip(sizes, TONES, strict=False)]
    marks = tuple((needed[n], "") for n in sizes if np.isfinite(needed[n]))
    left = Panel(
        (*curves, Series([1, widths[-1]], [1 - epsilon] * 2, "1 − ε", style="dashed", tone="muted")),
        title="exact, orthogonal inputs",
        x_label="neurons m",
        y_label="probability of a good start",
        marks=marks,
    )
    right = Panel(
        (
            Series(checked, truth, "exact, orthogonal", tone="blue"),
            Series(checked, [p for p, _ in flat], "sampled, orthogonal", style="points", tone="blue"),
            Series(checked, [p for p, _ in near], f"sampled, d = {dimension}", style="points", tone="orange"),
        ),
        title=f"n = {size}",
        x_label="neurons m",
        y_label="probability of a good start",
    )
    figure = Figure("lemma5", "How many neurons make a good start", (left, right))
    return Findings((figure,), claims)


def _fewest(widths: Ints, enough: Bools) -> float:
    """Return the smallest width that is enough; ∞ if none of them is."""
    return float(widths[np.argmax(enough)]) if enough.any() else float("inf")


def run_prop3(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Measure how often two neurons lose the smaller label, over the ratio λ of the labels."""
    ratios, labels = parameters["ratios"], parameters["labels"]
    names = ("bound", "lowest", "highest", "epochs")
    fixed = {name: parameters[name] for name in names}
    points = [
        {**fixed, "ratio": ratio, "label": label, "rate": parameters["pace"] / label, "dominated": dominated}
        for dominated in (False, True)
        for label in labels
        for ratio in ratios
    ]
    study = Study("weak_interaction/prop3", collapse, points, parameters["repeats"], parameters["seed"])
    rows = [(result.parameters, result.metrics) for result in sweep(study)]

    def share(label: float, ratio: float, dominated: bool) -> float:
        chosen = [
            result["lost"]
            for run, result in rows
            if (run["label"], run["ratio"], run["dominated"]) == (label, ratio, dominated)
        ]
        return float(np.mean(chosen))

    inside = [result["lost"] for run, result in rows if result["allowed"] and not run["dominated"]]
    outside = [result["lost"] for run, result in rows if not result["allowed"] and not run["dominated"]]
    control = [result["lost"] for run, result in rows if run["dominated"]]
    claims = (
        Claim(
            "Under (77), with small a_j, the smaller label is lost: L stays above y₂²/4",
            "always, for δ small and y₁ large enough",
            f"lost in {np.mean(inside):.0%} of {len(inside)} draws under (77), (85)",
            bool(inside) and min(inside) == 1,
            "" if inside and min(inside) == 1 else "δ and y₁ have no numbers in the paper",
        ),
        Claim(
            "(not claimed) Outside of (77) it is lost less often",
            "(77) is sufficient only",
            f"lost in {np.mean(outside):.0%} of {len(outside)} draws",
            float(np.mean(outside)) < float(np.mean(inside)),
            "only above the upper bound on λ; below the lower one the label is lost all the same",
        ),
        Claim(
            "With |a_j| ≥ ‖w_j‖ this collapse cannot happen",
            "never",
            f"lost in {np.mean(control):.0%} of {len(control)} draws with a = (1.1‖w₁‖, −1.1‖w₂‖)",
            max(control) == 0,
        ),
    )
    curves = [
        Series(
            ratios, [share(label, ratio, False) for ratio in ratios], f"small a, y₁ = {label:g}", tone=tone
        )
        for label, tone in zip(labels, TONES, strict=False)
    ]
    safe = Series(
        ratios, [share(labels[-1], ratio, True) for ratio in ratios], "|a| ≥ ‖w‖", tone="ink", style="dashed"
    )
    panel = Panel((*curves, safe), x_label="λ = |y₂/y₁|", y_label="share of draws", x_scale="log")
    figure = Figure("prop3", "Two neurons: how often the smaller label is lost", (panel,), columns=1)
    return Findings((figure,), claims)


LEMMA5 = Experiment(
    "weak_interaction/lemma5",
    "How many neurons make a good start",
    "Lemma 5, App. A.1",
    {
        scale: {
            "sizes": (10, 100, 1000, 10_000),
            "epsilon": 0.05,
            "most": 60,
            "sampled": 40,
            "dimension": 5,
            "draws": draws,
        }
        for scale, draws in (("quick", 1000), ("paper", 20_000))
    },
    run_lemma5,
    cost={"quick": 0.8},
)
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
    cost={"quick": 9.8},
)
