"""Figure 10: ReLU networks on the line and a piecewise affine target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.batch_training import (
    FAST,
    JUMPS,
    KINKS,
    SLOW,
    STEPS,
    Repeats,
    outcome_title,
    plan,
    positions,
    repeats,
    train,
)

READINGS = ("authors", "printed")


def run_fig10(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Fit a piecewise affine target by ReLU networks, in both regimes and readings."""
    panels, claims = list[Panel](), list[Claim]()
    for reading in READINGS:
        found = repeats(f"two_timescale/fig10, {reading}", parameters, reading, sweep)
        panels += [_kinks_panel(parameters, reading, epsilon) for epsilon in parameters["steps"]]
        claims.append(_fig10_claim(parameters, reading, found))
    caption = "Dotted: the kinks of the target. Points: the knots of the network."
    return Findings((Figure("fig10", "ReLU networks", tuple(panels), caption),), tuple(claims))


def _kinks_panel(parameters: Mapping[str, Any], reading: str, epsilon: float) -> Panel:
    run = train(
        plan(parameters, reading, epsilon, parameters["shown"]), np.random.SeedSequence(parameters["seed"])
    )
    x, knots = np.linspace(0.0, 1.0, 501), positions(run)[:, 0]
    return Panel(
        (
            Series(x, KINKS(x), "target", tone="sky", size=2.6),
            Series(x, run.final(x), "network", tone="orange"),
            Series(knots, run.final(knots), "knots", style="points", tone="orange"),
        ),
        outcome_title(run, f"{reading}, ε = {epsilon:g}"),
        "x",
        "f(x)",
        marks=tuple((kink, "") for kink in JUMPS),
        marks_label="kinks of the target",
        x_limits=(0.0, 1.0),
        y_limits=(-0.1, 0.8),
    )


def _fig10_claim(parameters: Mapping[str, Any], reading: str, of: Repeats) -> Claim:
    lost = {epsilon: float(np.mean([r["missed"] for r in of[epsilon]])) for epsilon in of}
    slow, fast = (np.median([r["distance"] for r in of[epsilon]]) for epsilon in (SLOW, FAST))
    fewer = lost[SLOW] < 0.5 * lost[FAST]
    return Claim(
        f"{reading}: kinks are not covered at ε = 1 and are at ε = 0.01",
        "some kinks have no neuron in the standard regime; all have one in the other",
        f"of 3 kinks, on average {lost[FAST]:.2f} have no knot within {parameters['within']:g} at ε = 1, "
        f"{lost[SLOW]:.2f} at ε = 0.01; median ∫(f − f*)² {fast:.2g} and {slow:.2g} "
        f"({parameters['repeats']} starts)",
        fewer and bool(slow < fast),
        "" if fewer else "knots stop on both sides of a kink rather than on it",
    )


_FIG10 = {
    "width": 10,
    "within": 2e-2,
    "steps": STEPS,
    "seed": 10,
    "shown": 0,
    "stable_step": 0.1,
    "dimension": 0,
}

FIG10 = Experiment(
    "two_timescale/fig10",
    "ReLU networks and a piecewise affine target",
    "Figure 10, App. C",
    {
        "quick": {**_FIG10, "batch": 200, "repeats": 2, "most_steps": 5000},
        "paper": {**_FIG10, "batch": 1000, "repeats": 20, "most_steps": 5000},
    },
    run_fig10,
    sweeps=True,
    cost={"quick": 4.4},
)
