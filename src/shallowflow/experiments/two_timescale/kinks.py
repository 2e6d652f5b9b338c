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
LONGER = 10


def run_fig10(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Fit a piecewise affine target by ReLU networks, in both regimes and readings, and for longer."""
    panels, claims = list[Panel](), list[Claim]()
    longer = {
        **parameters,
        "steps": {SLOW: LONGER * parameters["steps"][SLOW]},
        "repeats": parameters["longer_repeats"],
    }
    for reading in READINGS:
        found = repeats(f"two_timescale/fig10, {reading}", parameters, reading, sweep)
        later = repeats(f"two_timescale/fig10, {reading}, longer", longer, reading, sweep)
        panels += [_kinks_panel(parameters, reading, epsilon) for epsilon in parameters["steps"]]
        claims += _fig10_claims(parameters, reading, found, later)
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


def _fig10_claims(parameters: Mapping[str, Any], reading: str, of: Repeats, later: Repeats) -> list[Claim]:
    lost = {epsilon: [r["missed"] for r in of[epsilon]] for epsilon in of}
    slow, fast = (float(np.median([r["distance"] for r in of[epsilon]])) for epsilon in (SLOW, FAST))
    whole, late = sum(one == 0 for one in lost[SLOW]), [r["missed"] for r in later[SLOW]]
    ended, emptied = sum(one == 0 for one in late), sum(r["emptied"] > 0 for r in of[FAST])
    return [
        Claim(
            f"{reading}: kinks are left without a knot at ε = 1",
            "some kinks have no neuron in the standard regime",
            f"of 3 kinks, {np.mean(lost[FAST]):.2f} on average have no knot within {parameters['within']:g} "
            f"at ε = 1, {np.mean(lost[SLOW]):.2f} at ε = 0.01; median ∫(f − f*)² {fast:.2g} and {slow:.2g} "
            f"({parameters['repeats']} starts)",
            np.mean(lost[FAST]) > 2 * np.mean(lost[SLOW]) and slow < fast,
            f"{emptied} runs at ε = 1 have no knot left in [0, 1]: step 1 is too long for them"
            if emptied
            else "",
        ),
        Claim(
            f"{reading}: every kink has a knot at ε = 0.01",
            "all have one",
            f"from {whole} of {len(lost[SLOW])} starts; with {LONGER} times the steps from {ended} of "
            f"{len(late)}",
            whole > 0.9 * len(lost[SLOW]),
            ""
            if whole > 0.9 * len(lost[SLOW])
            else f"{parameters['steps'][SLOW]} steps are too few: knots are still on their way to a kink",
        ),
    ]


_FIG10 = {
    "width": 10,
    "within": 2e-2,
    "steps": STEPS,
    "seed": 10,
    "shown": 0,
    "dimension": 0,
}

FIG10 = Experiment(
    "two_timescale/fig10",
    "ReLU networks and a piecewise affine target",
    "Figure 10, App. C",
    {
        "quick": {**_FIG10, "batch": 200, "repeats": 2, "longer_repeats": 1, "most_steps": 50_000},
        "paper": {**_FIG10, "batch": 1000, "repeats": 20, "longer_repeats": 5, "most_steps": 50_000},
    },
    run_fig10,
    sweeps=True,
    cost={"quick": 9.3, "paper": 96},
)
