"""The figure of one run: its loss over time and, for data on the line, the function before and after."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.path import Snapshots
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.network_panels import function_on_line, line_grid, on_a_line
from shallowflow.files import write_atomically
from shallowflow.models import Loss
from shallowflow.reporting.matplotlib_renderer import render
from shallowflow.reporting.run_times import dense_times

LONG = 100.0
"""Times that span more than this factor are shown on a logarithmic axis."""


def run_figure(trajectory: Trajectory, dataset: Dataset, loss: Loss | None = None) -> Figure:
    """Return the loss curve of a run, and beside it the fitted function where the inputs lie on a line.

    loss: the loss of the run; with it the curve is sampled between the recorded times too.
    """
    times = trajectory.times[trajectory.times > 0]
    long = times.size > 2 and times[-1] > LONG * times[0]
    curve = Panel(
        (Series(*_losses(trajectory, dataset, loss)),),
        title="Loss",
        x_label="time",
        y_label="loss",
        x_scale="log" if long else "linear",
        y_scale="log",
    )
    panels = (curve, _function(trajectory, dataset)) if on_a_line(dataset) else (curve,)
    name = dataset.name or "data"
    return Figure("run", f"Training on {name}: {trajectory.outcome.status}", panels, columns=len(panels))


def _losses(trajectory: Trajectory, dataset: Dataset, loss: Loss | None) -> tuple[Floats, Floats]:
    """Return times and losses: the recorded ones and, where the path is continuous, a grid between them."""
    if loss is None or isinstance(trajectory.path, Snapshots):
        return trajectory.times, trajectory.losses
    grid = np.setdiff1d(dense_times(trajectory), trajectory.times)
    between = [loss.value(trajectory(t)(dataset.inputs), dataset.targets) for t in grid.tolist()]
    times, losses = np.append(trajectory.times, grid), np.append(trajectory.losses, between)
    order = np.argsort(times, kind="stable")
    return times[order], losses[order]


def write_run_figure(trajectory: Trajectory, dataset: Dataset, path: Path, loss: Loss | None = None) -> None:
    """Draw the figure of a run into a .png or .svg file, atomically."""
    content = render(run_figure(trajectory, dataset, loss), path.suffix.lower().removeprefix("."))

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_atomically(path, write)


def _function(trajectory: Trajectory, dataset: Dataset) -> Panel:
    x = line_grid(dataset, 801)
    return Panel(
        (
            Series(
                x,
                function_on_line(trajectory.initial, x, dataset),
                "at the start",
                style="dashed",
                tone="muted",
            ),
            Series(x, function_on_line(trajectory.final, x, dataset), "at the end", tone="blue"),
            Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink", size=0.8),
        ),
        title="Function",
        x_label="x",
        y_label="f(x)",
    )
