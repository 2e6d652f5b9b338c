"""At which times to show a run: often where it changes, seldom where it rests.

The figure of one run: its loss over time and, for data on the line, the function before and after.

The animation of one run: its function and its neurons over time.

The figure of a fit: the data with the pieces and their knots, and what the fit leaves over.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import Snapshots, flatten
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.experiments.network_panels import (
    NeuronPanels,
    function_on_line,
    function_panel,
    largest_norm,
    line_grid,
    on_a_line,
)
from shallowflow.files import write_atomically
from shallowflow.models import Loss
from shallowflow.models.networks import Network, ReLUNetwork
from shallowflow.reporting.figures.renderer import render

if TYPE_CHECKING:
    from shallowflow.estimators.base import Pieces

FIRST = 1e-6
"""The dense grid begins at this share of the run at the latest."""
DENSE = 240
MOST_NUMBERS = 20_000_000
"""Parameters times moments that are evaluated for a picture; wide networks are asked for at fewer moments."""


def dense_times(trajectory: Trajectory) -> Floats:
    """Return times at which the path is known, increasing: a logarithmic grid where it is continuous."""
    recorded = trajectory.path.times
    count = min(DENSE, max(60, MOST_NUMBERS // max(1, flatten(trajectory.initial).size)))
    if isinstance(trajectory.path, Snapshots) or recorded[-1] <= recorded[0]:
        return np.unique(recorded[np.linspace(0, len(recorded) - 1, count).astype(np.int64)])
    start, end = float(recorded[0]), float(recorded[-1])
    first = min(max(float(recorded[1]) - start, FIRST * (end - start)), end - start)
    # What is slow on a logarithmic scale may be fast on a linear one, late in the run.
    late = np.linspace(start, end, count // 3)
    early = np.minimum(start + np.geomspace(first, end - start, count - len(late)), end)
    return np.unique([start, *early, *late, end])


def eventful_times(trajectory: Trajectory, frames: int) -> Floats:
    """Return up to so many times, the first and the last among them, at equal steps of change.

    Change is the mean of two lengths, each relative to its sum over the run: of the path of the parameters
    θ, and of the path of θ/‖θ‖, in which an alignment at tiny norms counts as much as the growth after it.
    """
    times = dense_times(trajectory)
    lengths, turns = np.zeros(len(times)), np.zeros(len(times))
    before = flatten(trajectory(float(times[0])))
    for i, time in enumerate(times[1:].tolist(), start=1):
        after = flatten(trajectory(time))
        lengths[i] = np.linalg.norm(after - before)
        turns[i] = np.linalg.norm(_direction(after) - _direction(before))
        before = after
    shares = [part / part.sum() for part in (lengths, turns) if 0 < part.sum() < np.inf]
    if not shares:
        return np.unique(times[[0, -1]])
    travelled = np.cumsum(np.sum(shares, axis=0))
    wanted = np.linspace(0.0, travelled[-1], frames)
    chosen = np.searchsorted(travelled, wanted * (1 - 1e-12))
    chosen[-1] = len(times) - 1
    return np.asarray(times[np.unique(chosen)])


def _direction(theta: Floats) -> Floats:
    norm = float(np.linalg.norm(theta))
    return theta / norm if norm > 0 else theta


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


FRAMES = 60
DRAWN = 4_000
"""Neurons shown."""


def check_animated(network: Network, dataset: Dataset, name: str = "animate") -> None:
    """Refuse a problem with neither a function on a line nor neurons in a plane: there is nothing to draw."""
    if not (on_a_line(dataset) or _in_the_plane(network)):
        raise InvalidInputError(
            f"{name}: needs data on a line or a ReLUNetwork in the plane, got dimension {dataset.dimension}"
        )


def _in_the_plane(network: Network) -> bool:
    return isinstance(network, ReLUNetwork) and network.dimension == 2


def run_animation(trajectory: Trajectory, dataset: Dataset) -> Animation:
    """Return the function (for data on a line) and the neurons (in the plane) of a run over time."""
    check_animated(trajectory.path.template, dataset, "trajectory")
    times = eventful_times(trajectory, FRAMES)
    networks = [trajectory(time) for time in times.tolist()]
    flat = [network for network in networks if isinstance(network, ReLUNetwork) and network.dimension == 2]
    neurons = NeuronPanels(dataset, largest_norm(flat), flat[0].width, most=DRAWN) if flat else None
    title = f"Training on {dataset.name or 'data'}"

    def panels(network: Network, label: str) -> tuple[Panel, ...]:
        shown = (function_panel(network, dataset, title=label),) if on_a_line(dataset) else ()
        if neurons is not None and isinstance(network, ReLUNetwork):
            shown = (*shown, neurons(network))
        return shown

    labels = tuple(f"t = {time:.4g}" for time in times.tolist())
    frames = tuple(
        Figure("run", title, panels(network, label)) for network, label in zip(networks, labels, strict=True)
    )
    few = "" if neurons is None or len(neurons.chosen) == flat[0].width else f"{DRAWN:,} neurons are shown. "
    return Animation(
        "run",
        title,
        frames,
        labels,
        f"{few}Frames follow the change, not the clock: the time stands above them.",
    )


LARGEST_CLOUD = 5000
"""Of more data points every k-th is drawn."""


def fit_figure(pieces: Pieces, dataset: Dataset) -> Figure:
    """Return data and pieces in one panel, residuals in the other, for one-dimensional data."""
    every = -(-dataset.size // LARGEST_CLOUD)
    x, y = dataset.inputs[::every, 0], dataset.targets[::every]
    margin = 0.03 * (pieces.high - pieces.low) or 1.0
    inside = (pieces.knots > pieces.low - margin) & (pieces.knots < pieces.high + margin)
    knots = pieces.knots[inside]
    corners = np.concatenate([[pieces.low - margin], knots, [pieces.high + margin]])
    count = len(pieces.knots)
    named = f"{count} knot" if count == 1 else f"{count} knots"
    fit = Panel(
        (
            Series(x, y, "data", style="points", tone="muted", size=0.8),
            Series(corners, pieces.predict(corners), "fit", tone="blue"),
            Series(knots, pieces.predict(knots), named, style="points", tone="orange", size=0.8),
        ),
        title="Fit",
        x_label="x",
    )
    residuals = Series(x, y - pieces.predict(x), style="points", tone="muted", size=0.8)
    zero = Series(corners[[0, -1]], [0.0, 0.0], tone="blue")
    rest = Panel((residuals, zero), title="Data minus fit", x_label="x")
    return Figure("fit", f"Fit of {dataset.name or 'data'}", (fit, rest))


def write_fit_figure(pieces: Pieces, dataset: Dataset, path: Path) -> None:
    """Draw the figure of a fit into a .png or .svg file, atomically."""
    content = render(fit_figure(pieces, dataset), path.suffix.lower().removeprefix("."))

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_atomically(path, write)
