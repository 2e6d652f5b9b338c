"""Pictures of a run and of a fit: `plot_run` and `animate_run` for a trajectory, `fit_figure` for pieces.

A run is shown by its loss over time and by what it learned: the function where the inputs lie on a line, else
its neurons. The neurons of a `ReLUNetwork` in the plane are shown by angle and norm; knots and steps by place
and outer weight; all others by the logarithms of ‖w_j‖ and |a_j|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, cast

import numpy as np
from matplotlib.figure import Figure as Canvas

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
from shallowflow.experiments.figure import (
    Animation,
    Figure,
    NeuronPanels,
    Panel,
    Series,
    function_on_line,
    function_panel,
    largest_norm,
    line_grid,
    on_a_line,
)
from shallowflow.files import as_path
from shallowflow.models import Loss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork
from shallowflow.reporting.figures.renderer import Film, Progress, draw, write_animation, write_figure

if TYPE_CHECKING:
    from shallowflow.estimators.base import Pieces

FIRST = 1e-6
"""The dense grid of times begins at this share of the run at the latest."""
DENSE = 240
MOST_NUMBERS = 20_000_000
"""Parameters times moments that are evaluated for a picture; wide networks are asked for at fewer moments."""
LONG = 100.0
"""Times that span more than this factor are shown on a logarithmic axis."""
FRAMES = 60
DRAWN = 4_000
"""Neurons shown in the plane."""
LARGEST_CLOUD = 5000
"""Of more data points every k-th is drawn."""


def plot_run(
    trajectory: Trajectory,
    dataset: Dataset | None = None,
    path: str | PathLike[str] | None = None,
    *,
    loss: Loss | None = None,
) -> Canvas | None:
    """Return a run as a matplotlib figure, or write it to a .png or .svg file.

    Shown are its loss, and its function (data on a line) or else its neurons. dataset: the training data,
    without which there is no function; loss: that of the run, by which the curve is sampled between records.
    """
    figure = run_figure(trajectory, dataset, loss)
    if path is None:
        return draw(figure)
    write_figure(figure, as_path(path))
    return None


def animate_run(
    trajectory: Trajectory,
    dataset: Dataset | None = None,
    path: str | PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
) -> Film | None:
    """Return a run as a film that a notebook shows, or write it to a .html or .gif file.

    Function (data on a line) and neurons (in the plane) over time; other runs and runs without data: the loss
    and the neurons. Frames follow the change, not the clock. progress: called with the share drawn.
    """
    animation = run_animation(trajectory, dataset)
    if path is None:
        return Film(animation, progress)
    write_animation(animation, as_path(path), progress=progress)
    return None


def run_figure(trajectory: Trajectory, dataset: Dataset | None = None, loss: Loss | None = None) -> Figure:
    """Return the loss curve of a run, and beside it the function before and after, or the neurons after."""
    _check(trajectory, dataset)
    if dataset is not None and on_a_line(dataset):
        second = _function(trajectory, dataset)
    else:
        second = _neuron_panels([trajectory.final], dataset)(trajectory.final, "Neurons at the end")
    panels = (_loss_panel(trajectory, Series(*_losses(trajectory, dataset, loss))), second)
    return Figure("run", f"{_title(dataset)}: {trajectory.outcome.status}", panels)


def run_animation(trajectory: Trajectory, dataset: Dataset | None = None) -> Animation:
    """Return a run over time: function and neurons in the plane; of other runs loss and neurons."""
    _check(trajectory, dataset)
    times = eventful_times(trajectory, FRAMES).tolist()
    networks = [trajectory(time) for time in times]
    neurons = _neuron_panels(networks, dataset)
    line = dataset if dataset is not None and on_a_line(dataset) else None
    curve = Series(trajectory.times, trajectory.losses, tone="blue")

    def panels(time: float, network: Network, label: str) -> tuple[Panel, ...]:
        if line is not None:
            function = function_panel(network, line, title=label)
            return (function, neurons(network, "")) if _in_the_plane(network) else (function,)
        if dataset is not None and _in_the_plane(network):
            return (neurons(network, ""),)
        now = np.interp(time, trajectory.times, trajectory.losses)
        point = Series([time], [now], style="points", tone="orange")
        return _loss_panel(trajectory, curve, point, title=label), neurons(network, "Neurons")

    labels = tuple(f"t = {time:.4g}" for time in times)
    frames = tuple(
        Figure("run", _title(dataset), panels(*moment))
        for moment in zip(times, networks, labels, strict=True)
    )
    few = f"{DRAWN:,} neurons are shown. " if _in_the_plane(networks[0]) and networks[0].width > DRAWN else ""
    caption = f"{few}Frames follow the change, not the clock: the time stands above them."
    return Animation("run", _title(dataset), frames, labels, caption)


def _check(trajectory: object, dataset: object) -> None:
    checked_trajectory(trajectory)
    if dataset is not None:
        checked_dataset(dataset)


def _title(dataset: Dataset | None) -> str:
    return "Training" if dataset is None else f"Training on {dataset.name or 'data'}"


def _loss_panel(trajectory: Trajectory, *series: Series, title: str = "Loss") -> Panel:
    times = trajectory.times[trajectory.times > 0]
    scale = "log" if times.size > 2 and times[-1] > LONG * times[0] else "linear"
    return Panel(series, title=title, x_label="time", y_label="loss", x_scale=scale, y_scale="log")


def _losses(trajectory: Trajectory, dataset: Dataset | None, loss: Loss | None) -> tuple[Floats, Floats]:
    """Return times and losses: the recorded ones and, where the path is continuous, a grid between them."""
    if loss is None or dataset is None or trajectory.path.kind == "snapshots":
        return trajectory.times, trajectory.losses
    grid = np.setdiff1d(dense_times(trajectory), trajectory.times)
    between = [loss.value(trajectory(t)(dataset.inputs), dataset.targets) for t in grid.tolist()]
    times, losses = np.append(trajectory.times, grid), np.append(trajectory.losses, between)
    order = np.argsort(times, kind="stable")
    return times[order], losses[order]


def _function(trajectory: Trajectory, dataset: Dataset) -> Panel:
    x = line_grid(dataset, 801)
    first, last = (function_on_line(one, x, dataset) for one in (trajectory.initial, trajectory.final))
    return Panel(
        (
            Series(x, first, "at the start", style="dashed", tone="muted"),
            Series(x, last, "at the end", tone="blue"),
            Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink", size=0.8),
        ),
        title="Function",
        x_label="x",
        y_label="f(x)",
    )


def _in_the_plane(network: Network) -> bool:
    return isinstance(network, ReLUNetwork) and network.dimension == 2


def _neuron_panels(networks: Sequence[Network], dataset: Dataset | None) -> Callable[[Network, str], Panel]:
    """Return the function that makes the panel of one of these networks, with axes that fit them all."""
    flat = [one for one in networks if isinstance(one, ReLUNetwork) and one.dimension == 2]
    if flat:
        in_the_plane = NeuronPanels(dataset, largest_norm(flat), flat[0].width, most=DRAWN)
        return lambda network, _: in_the_plane(cast(ReLUNetwork, network))
    places = np.concatenate([_places(network)[0] for network in networks], axis=1)
    limits = [_limits(row[np.isfinite(row)]) for row in places]
    on_line = not isinstance(networks[0], ReLUNetwork | LogScaledNetwork)

    def panel(network: Network, title: str) -> Panel:
        (x, y), positive = _places(network)
        return Panel(
            (
                Series(x[positive], y[positive], "a > 0", style="points", tone="blue"),
                Series(x[~positive], y[~positive], "a < 0", style="points", tone="orange"),
            ),
            title=title,
            x_label="place" if on_line else "ln ‖w‖",
            y_label="outer weight" if on_line else "ln |a|",
            x_limits=limits[0],
            y_limits=limits[1],
        )

    return panel


def _places(network: Network) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return where the neurons are drawn, (2, m), and which of them have a positive outer weight."""
    outer = network.outer.ravel()
    if isinstance(network, ReLUNetwork | LogScaledNetwork):
        scales = network.log_scales if isinstance(network, LogScaledNetwork) else np.zeros(network.width)
        with np.errstate(divide="ignore"):
            sizes = np.log([np.linalg.norm(network.inner, axis=1), np.abs(outer)])
        return scales + sizes, outer > 0
    x = network.knots if isinstance(network, KnotNetwork) else network.positions
    return np.array([x.ravel(), outer]), outer > 0


def _limits(values: Floats) -> tuple[float, float]:
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def dense_times(trajectory: Trajectory) -> Floats:
    """Return times at which the path is known, increasing: a logarithmic grid where it is continuous."""
    recorded = trajectory.path.times
    count = min(DENSE, max(60, MOST_NUMBERS // max(1, flatten(trajectory.initial).size)))
    if trajectory.path.kind == "snapshots" or recorded[-1] <= recorded[0]:
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


def fit_figure(pieces: Pieces, dataset: Dataset) -> Figure:
    """Return data and pieces in one panel, residuals in the other, for one-dimensional data."""
    every = -(-dataset.size // LARGEST_CLOUD)
    x, y = dataset.inputs[::every, 0], dataset.targets[::every]
    margin = 0.03 * (pieces.high - pieces.low) or 1.0
    inside = (pieces.knots > pieces.low - margin) & (pieces.knots < pieces.high + margin)
    knots, count = pieces.knots[inside], len(pieces.knots)
    corners = np.concatenate([[pieces.low - margin], knots, [pieces.high + margin]])
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
