"""The figure of one run: its loss over time and, for data on the line, the function before and after."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.network_panels import function_on_line, line_grid, on_a_line
from shallowflow.files import write_atomically
from shallowflow.reporting.matplotlib_renderer import render

LONG = 100.0
"""Times that span more than this factor are shown on a logarithmic axis."""


def run_figure(trajectory: Trajectory, dataset: Dataset) -> Figure:
    """Return the loss curve of a run, and beside it the fitted function where the inputs lie on a line."""
    times = trajectory.times[trajectory.times > 0]
    long = times.size > 2 and times[-1] > LONG * times[0]
    loss = Panel(
        (Series(trajectory.times, trajectory.losses),),
        title="Loss",
        x_label="time",
        x_scale="log" if long else "linear",
        y_scale="log",
    )
    panels = (loss, _function(trajectory, dataset)) if on_a_line(dataset) else (loss,)
    name = dataset.name or "data"
    return Figure("run", f"Training on {name}: {trajectory.outcome.status}", panels, columns=len(panels))


def write_run_figure(trajectory: Trajectory, dataset: Dataset, path: Path) -> None:
    """Draw the figure of a run into a .png or .svg file, atomically."""
    content = render(run_figure(trajectory, dataset), path.suffix.lower().removeprefix("."))

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
    )
