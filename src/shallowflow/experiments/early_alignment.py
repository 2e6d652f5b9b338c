"""Early alignment in two-layer networks: the experiments of [early_alignment]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape.least_squares import least_squares
from shallowflow.models import ReLUNetwork, initialize

STAGES = ("start", "end of alignment", "growth", "convergence")


def run_fig2(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Train on the three points and show function and neurons at four times."""
    dataset = three_points()
    network = initialize.balanced(
        parameters["width"], 2, init_scale=parameters["init_scale"], seed=parameters["seed"]
    )
    times = np.array(parameters["times"])
    trajectory = gradient_descent(
        network,
        dataset,
        step=parameters["step"],
        steps=parameters["steps"],
        record=Record.at(np.unique(np.concatenate([times, np.geomspace(0.1, times[-1], 200)]))),
        progress=lambda fraction: progress(fraction, "training"),
    )
    return Findings(_fig2_figures(trajectory, dataset, times), _fig2_claims(trajectory, dataset))


def _fig2_claims(trajectory: Trajectory, dataset: Dataset) -> tuple[Claim, ...]:
    line = least_squares(dataset)
    distance = float(np.max(np.abs(trajectory.final(dataset.inputs) - dataset.inputs @ line.coefficients)))
    loss = float(trajectory.losses[-1])
    return (
        Claim(
            "The network converges to the least-squares line (Theorem 2)",
            "the estimated function is the line β*",
            f"largest distance to the line on the data {distance:.2g}",
            distance < 1e-3,
        ),
        Claim(
            "Training ends at a spurious stationary point: the loss stays positive",
            f"loss > 0 although two neurons fit the data (the line's loss is {line.loss:.7f})",
            f"loss {loss:.7f}",
            abs(loss - line.loss) < 1e-3 * line.loss and loss > 0,
        ),
    )


def _fig2_figures(trajectory: Trajectory, dataset: Dataset, times: Floats) -> tuple[Figure, ...]:
    panels: list[Panel] = []
    for time, stage in zip(times, STAGES, strict=True):
        network = trajectory(float(time))
        assert isinstance(network, ReLUNetwork)
        panels += [
            _function_panel(network, dataset, f"{stage}, t = {time:g}"),
            _polar_panel(network, dataset),
        ]
    loss = Panel(
        (Series(trajectory.times[1:], trajectory.losses[1:], "loss"),),
        x_label="time (step × iterations)",
        y_label="½ mean squared error",
        x_scale="log",
        marks=tuple((float(t), stage) for t, stage in zip(times[1:], STAGES[1:], strict=True)),
    )
    return (
        Figure(
            "fig2",
            "Three points: estimated function and neurons at four times",
            tuple(panels),
            "Left: the estimated function and the data. Right: the neurons w_j in the plane of slope and "
            "bias, radius shifted so that norm 0 is the inner circle; blue outer weight > 0, orange < 0.",
        ),
        Figure("fig2-loss", "Training loss on the three points", (loss,), columns=1),
    )


def _function_panel(network: ReLUNetwork, dataset: Dataset, title: str) -> Panel:
    x = np.linspace(-1.0, 0.5, 301)
    line = least_squares(dataset).coefficients
    inputs = np.column_stack([x, np.ones_like(x)])
    return Panel(
        (
            Series(x, inputs @ line, "least squares", style="dashed", tone="muted"),
            Series(x, network(inputs), "network", tone="blue"),
            Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink"),
        ),
        title=title,
        x_label="x",
        y_label="h(x)",
        y_limits=(-0.2, 1.4),
    )


def _polar_panel(network: ReLUNetwork, dataset: Dataset) -> Panel:
    """Show the neurons by angle and norm, with the borders of the activation cones."""
    angle = np.arctan2(network.inner[:, 1], network.inner[:, 0])
    norm = np.linalg.norm(network.inner, axis=1)
    top = max(float(norm.max()), 1e-12)
    radius = 1.0 + norm / top
    border = np.arctan2(dataset.inputs[:, 0], -dataset.inputs[:, 1])
    clouds = [
        Series(angle[chosen], radius[chosen], label, style="points", tone=tone, size=0.4)
        for chosen, label, tone in (
            (network.outer > 0, "a > 0", "blue"),
            (network.outer < 0, "a < 0", "orange"),
        )
    ]
    rays = [
        Series([ray, ray], [1.0, 2.1], style="dashed", tone="muted", size=0.5)
        for ray in np.concatenate([border, border + np.pi])
    ]
    return Panel(
        (*rays, *clouds), title=f"neurons, largest norm {top:.1e}", polar=True, inner=1.0, y_limits=(0.0, 2.1)
    )


FIG2 = Experiment(
    name="early_alignment/fig2",
    title="Three points: early alignment ends in a spurious stationary point",
    source="Figure 2, §6, App. B.1",
    parameters={
        "quick": {
            "width": 2_000,
            "init_scale": 1e-3,
            "step": 1e-2,
            "steps": 20_000,
            "times": (0.0, 6.0, 12.0, 200.0),
            "seed": 0,
        },
        "paper": {
            "width": 200_000,
            "init_scale": 1e-3,
            "step": 2e-3,
            "steps": 2_000_000,
            "times": (0.0, 6.0, 12.0, 4_000.0),
            "seed": 0,
        },
    },
    run=run_fig2,
)

EARLY_ALIGNMENT = (FIG2,)
