"""Figures 1 and 2: the loss of gradient descent falls in stages; that of ANLS is not held up.

What the experiments of [plateau] share: training runs in iterations and mean squared errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import curve
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape.plateau.levels import plateau_level
from shallowflow.models import KnotNetwork, SquareLoss, initialize
from shallowflow.readings.plateaus import plateaus

RATE = 1e-3
STEP = 2 * RATE
"""The step on ½·mean that equals the paper's rate on the mean squared error."""
LOSS = SquareLoss()
SKETCH = {"points": tuple(float(k) for k in range(10)), "knots": (1.5, 3.25, 3.75, 5.5, 8.5)}
"""Five knots among ten points, as in Figures 3 and 6: U_2 is empty and U_5 has one point."""


@dataclass(frozen=True)
class Training:
    """A training run: its iterations (k,), mean squared errors (k,), and networks on the way."""

    name: str
    iterations: Floats
    errors: Floats
    trajectory: Trajectory

    @property
    def final(self) -> KnotNetwork:
        """The network at the end."""
        return self.network(float(self.iterations[-1]))

    @property
    def plateaus(self) -> list[tuple[float, float]]:
        """The plateaus of the error that it leaves again, in iterations."""
        return plateaus(self.iterations[1:], self.errors[1:])

    def network(self, iteration: float) -> KnotNetwork:
        """Return the network at a recorded iteration."""
        times, iterations = self.trajectory.times, self.iterations
        network = self.trajectory(float(times[int(np.searchsorted(iterations, iteration))]))
        assert isinstance(network, KnotNetwork)
        return network

    def series(self, tone: str = "auto") -> Series:
        """Return the error curve, from the first iteration on."""
        return Series(self.iterations[1:], self.errors[1:], self.name, tone=tone)

    def graph(self, name: str, tone: str) -> Series:
        """Return the graph of the network at the end on [−1, 1]."""
        x = np.linspace(-1.0, 1.0, 1001)
        return Series(x, self.final(x), name, tone=tone)


def start_of(parameters: Values) -> KnotNetwork:
    """Return the initial network: its width and its seed."""
    return initialize.he_knots(parameters["width"], seed=parameters["seed"])


def descend(dataset: Dataset, parameters: Values, progress: Callable[[float], None]) -> Training:
    """Train by gradient descent at the paper's rate."""
    trajectory = gradient_descent(
        start_of(parameters),
        dataset,
        step=STEP,
        steps=parameters["steps"],
        record=Record.geometric(parameters["points"]),
        progress=progress,
    )
    return Training("GD", trajectory.times / STEP, 2 * trajectory.losses, trajectory)


def anls(dataset: Dataset, parameters: Values, progress: Callable[[float], None] | None = None) -> Training:
    """Train by active neuron least squares."""
    trajectory = active_neuron_least_squares(start_of(parameters), dataset, loss=LOSS, progress=progress)
    return Training("ANLS", trajectory.times, 2 * trajectory.losses, trajectory)


def error_panel(series: tuple[Series, ...], title: str = "loss") -> Panel:
    """Return mean squared errors over iterations."""
    return Panel(series, title, "iterations", "mean squared error", "log", "log")


def _gradient_descent(parameters: Values, progress: Progress) -> tuple[Dataset, Training]:
    dataset = curve("sin_5pi", parameters["size"])
    return dataset, descend(dataset, parameters, lambda done: progress(0.95 * done, "gradient descent"))


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Descend on sin 5πx, and set the loss beside the level Q₀ of its activation pattern."""
    dataset, training = _gradient_descent(parameters, progress)
    levels = np.array([2 * plateau_level(training.network(k), dataset, LOSS) for k in training.iterations])
    found = training.plateaus
    literal = gradient_descent(start_of(parameters), dataset, step=RATE, steps=1000, loss=SquareLoss("sum"))
    below = float(np.max(levels / training.errors))
    claims = (
        Claim(
            "The loss alternates between slow and fast decay (plateau phenomenon)",
            "several plateaus within the training",
            f"{len(found)} plateaus left again, of lengths "
            + ", ".join(f"{last / first:.1f}×" for first, last in found)
            + " in iterations",
            len(found) >= 2,
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
    steps = Series(
        training.iterations[1:], levels[1:], "level Q₀ of the pattern", style="steps", tone="orange"
    )
    figure = Figure(
        "fig1",
        "sin 5πx by gradient descent: the loss falls in stages",
        (error_panel((training.series("blue"), steps), ""),),
        "Within a stage the loss can only approach the level of its activation pattern; it falls on when a "
        "knot passes a data point.",
        columns=1,
    )
    return Findings((figure,), claims)


def run_fig2(parameters: Values, progress: Progress) -> Findings:
    """Compare gradient descent with active neuron least squares on the task of Figure 1."""
    dataset, training = _gradient_descent(parameters, progress)
    found = anls(dataset, parameters)
    claims = (
        Claim(
            "ANLS ends at a much smaller loss than gradient descent",
            "ANLS well below GD",
            f"ANLS {found.errors[-1]:.2g} after {int(found.iterations[-1])} iterations, "
            f"GD {training.errors[-1]:.2g} after {int(training.iterations[-1]):,}",
            bool(training.errors[-1] / found.errors[-1] > 2),
        ),
        Claim(
            "ANLS has no plateaus", "steady decrease", f"{len(found.plateaus)} plateaus", not found.plateaus
        ),
    )
    data = Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="muted", size=0.4)
    functions = (data, training.graph("GD", "blue"), found.graph("ANLS", "orange"))
    figure = Figure(
        "fig2",
        "Gradient descent and active neuron least squares on sin 5πx",
        (
            error_panel((training.series("blue"), found.series("orange"))),
            Panel(functions, "trained networks", "x", "f(x)"),
        ),
    )
    return Findings((figure,), claims)


_SCALES = scales(
    {"width": 100, "size": 500, "points": 400, "seed": 0},
    quick={"steps": 1_000_000},
    paper={"steps": 100_000_000},
)

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
