"""Figures 1 and 2: the loss of gradient descent falls in stages; that of ANLS is not held up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import curve
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.training import RATE, Training, curve_series, descend
from shallowflow.landscape.plateau.levels import plateau_level
from shallowflow.models import SquareLoss, initialize

FLAT = 0.05
"""A plateau: the loss falls more slowly than iterations^(−FLAT) …"""
LONG = 1.25
"""… while the iterations grow by this factor at least."""
DROP = 0.9
"""A plateau is left when the loss falls below this share of its level."""


def plateaus(iterations: Floats, errors: Floats) -> list[tuple[float, float]]:
    """Return the spells (first, last iteration) in which the loss hardly falls, and which it leaves later."""
    slopes = -np.diff(np.log(errors)) / np.diff(np.log(iterations))
    spells, start = [], None
    for i, slope in enumerate([*slopes, np.inf]):
        if slope < FLAT and start is None:
            start = i
        elif slope >= FLAT and start is not None:
            long = iterations[i] >= LONG * iterations[start]
            if long and errors[-1] < DROP * errors[i]:
                spells.append((float(iterations[start]), float(iterations[i])))
            start = None
    return spells


def _gradient_descent(parameters: Mapping[str, Any], progress: Progress) -> tuple[Dataset, Training]:
    dataset = curve("sin_5pi", parameters["size"])
    network = initialize.he_knots(parameters["width"], seed=parameters["seed"])
    training = descend(
        network,
        dataset,
        parameters["steps"],
        points=parameters["points"],
        progress=lambda done: progress(0.95 * done, "gradient descent"),
    )
    return dataset, training


def run_fig1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Descend on sin 5πx, and set the loss beside the level Q₀ of its activation pattern."""
    dataset, training = _gradient_descent(parameters, progress)
    levels = np.array([2 * plateau_level(training.network(k), dataset) for k in training.iterations])
    spells = plateaus(training.iterations[1:], training.errors[1:])
    literal = gradient_descent(
        initialize.he_knots(parameters["width"], seed=parameters["seed"]),
        dataset,
        step=RATE,
        steps=1000,
        loss=SquareLoss("sum"),
    )
    below = float(np.max(levels / training.errors))
    claims = (
        Claim(
            "The loss alternates between slow and fast decay (plateau phenomenon)",
            "several plateaus within the training",
            f"{len(spells)} plateaus left again, of lengths "
            + ", ".join(f"{last / first:.1f}×" for first, last in spells)
            + " in iterations",
            len(spells) >= 2,
        ),
        Claim(
            "The loss never falls below the level Q₀ of its activation pattern (Theorem 3.1)",
            "L ≥ Q₀",
            f"largest Q₀/L at {len(levels)} iterations: {below:.6f}",
            below <= 1 + 1e-9,
        ),
        Claim(
            "Rate 10⁻³ trains this network with the loss ½Σr² (2.1)",
            "loss curve of Figure 1 at rate 10⁻³",
            f"{literal.outcome.status}: loss {literal.losses[0]:.0f} → {literal.losses[-1]:.0f}",
            literal.outcome.ok,
            "rate × λ_max is far above 2 with the sum; the mean squared error, used here, is stable and "
            "agrees with the figure",
        ),
    )
    panel = Panel(
        (
            training.series("blue"),
            Series(
                training.iterations[1:], levels[1:], "level Q₀ of the pattern", style="steps", tone="orange"
            ),
        ),
        x_label="iterations",
        y_label="mean squared error",
        x_scale="log",
        y_scale="log",
    )
    figure = Figure(
        "fig1",
        "sin 5πx by gradient descent: the loss falls in stages",
        (panel,),
        "Within a stage the loss can only approach the level of its activation pattern; it falls on when a "
        "knot passes a data point.",
        columns=1,
    )
    return Findings((figure,), claims)


def run_fig2(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Compare gradient descent with active neuron least squares on the task of Figure 1."""
    dataset, training = _gradient_descent(parameters, progress)
    trajectory = active_neuron_least_squares(
        initialize.he_knots(parameters["width"], seed=parameters["seed"]), dataset, loss=SquareLoss()
    )
    anls = Training("ANLS", trajectory.times, 2 * trajectory.losses, trajectory)
    ratio = training.errors[-1] / anls.errors[-1]
    claims = (
        Claim(
            "ANLS ends at a much smaller loss than gradient descent",
            "ANLS well below GD",
            f"ANLS {anls.errors[-1]:.2g} after {int(anls.iterations[-1])} iterations, "
            f"GD {training.errors[-1]:.2g} after {int(training.iterations[-1]):,}",
            bool(ratio > 2),
        ),
        Claim(
            "ANLS has no plateaus",
            "steady decrease",
            f"{len(plateaus(anls.iterations[1:], anls.errors[1:]))} plateaus",
            not plateaus(anls.iterations[1:], anls.errors[1:]),
        ),
    )
    losses = Panel(
        (training.series("blue"), anls.series("orange")),
        title="loss",
        x_label="iterations",
        y_label="mean squared error",
        x_scale="log",
        y_scale="log",
    )
    functions = Panel(
        (
            Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="muted", size=0.4),
            curve_series("GD", training.final, "blue"),
            curve_series("ANLS", anls.final, "orange"),
        ),
        title="trained networks",
        x_label="x",
        y_label="f(x)",
    )
    figure = Figure(
        "fig2", "Gradient descent and active neuron least squares on sin 5πx", (losses, functions)
    )
    return Findings((figure,), claims)


_TASK = {"width": 100, "size": 500, "points": 400, "seed": 0}
_SCALES = {"quick": {**_TASK, "steps": 1_000_000}, "paper": {**_TASK, "steps": 100_000_000}}

FIG1 = Experiment(
    "plateau/fig1",
    "The plateau phenomenon on sin 5πx",
    "Figure 1, §1",
    _SCALES,
    run_fig1,
    cost={"quick": 2, "paper": 42},
)
FIG2 = Experiment(
    "plateau/fig2", "ANLS beside gradient descent", "Figure 2, §1", _SCALES, run_fig2, cost={"quick": 1}
)
