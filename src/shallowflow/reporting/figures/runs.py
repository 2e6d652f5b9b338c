"""Pictures of a run, of its readings and of a fit: `plot_run`, `animate_run`, chapters of a story, pieces.

A run is shown by its loss over time and by what it learned: the function where the inputs lie on a line, else
its neurons. The neurons of a `ReLUNetwork` in the plane are shown by angle and norm; knots and steps by place
and outer weight; all others by the logarithms of ‖w_j‖ and |a_j|.

Readings and fits: the chapters of a run with the floors beneath its loss, the anatomy of one
state, and a fit of pieces on a matplotlib axis: data, pieces, band, and where the knots may be.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
from shallowflow.errors import InvalidInputError
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
from shallowflow.files import as_path, write_atomically
from shallowflow.models import Loss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork
from shallowflow.readings.diagnosis import Diagnosis
from shallowflow.reporting.figures.panels import COLOURS, STYLE
from shallowflow.reporting.figures.renderer import Film, Progress, draw, write_animation, write_figure

if TYPE_CHECKING:
    from shallowflow.estimators import ANLSRegressor
    from shallowflow.estimators.base import Pieces
    from shallowflow.readings.story import Story


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


BANDS = {
    "alignment": "sky",
    "jump": "orange",
    "plateau": "muted",
    "descent": "orange",
    "decay": "green",
    "waiting": "pink",
    "stuck": "red",
}
SHORT = 0.03
"""Chapters shorter than this share of a run are seen on a logarithmic axis only."""
PARTS = {
    "outer": "outer layer\nnot solved",
    "turning": "awake ones\nmust turn",
    "dormant": "dormant ones\nmust grow",
    "pattern": "pattern\nmust change",
}


def plot_reading(reading: Story | Diagnosis, path: str | PathLike[str] | None = None) -> Canvas | None:
    """Return a story or a diagnosis as a matplotlib figure, or write it to a .png or .svg file."""
    if path is None:
        return draw(reading.figure())
    write_figure(reading.figure(), as_path(path))
    return None


def story_figure(tale: Story) -> Figure:
    """Return the loss of a run with its chapters as bands and its floors, and its neurons over time."""
    scale, first = _axis(tale)
    panels = [_story_loss_panel(tale, scale, first)]
    if len(tale.moments):
        times = np.maximum(tale.moments, first) if scale == "log" else tale.moments
        counts = (
            Series(times, tale.awake, "awake", tone="blue"),
            Series(times, tale.effective_width, "acting as", style="dashed", tone="orange"),
            Series(times, tale.dormant, "dormant", tone="green"),
            Series(times, tale.dead, "dead", tone="muted"),
        )
        panels.append(Panel(counts, title="Neurons", x_label="time", x_scale=scale, y_label="number"))
    names = ", ".join(chapter.name for chapter in tale.chapters)
    return Figure("story", f"A run in chapters: {names}", tuple(panels))


def _axis(tale: Story) -> tuple[str, float]:
    """Return the scale of the time axis, and where it begins."""
    start, end = tale.chapters[0].start, tale.chapters[-1].end
    lengths = [chapter.end - chapter.start for chapter in tale.chapters]
    later = tale.times[tale.times > 0]
    if start > 0 or not later.size or min(lengths) >= SHORT * (end - start):
        return "linear", start
    borders = [chapter.end for chapter in tale.chapters if chapter.end > 0]
    return "log", max(float(later[0]), 0.02 * min(borders))


def _story_loss_panel(tale: Story, scale: str, first: float) -> Panel:
    positive = tale.losses[np.isfinite(tale.losses) & (tale.losses > 0)]
    levels = np.concatenate([tale.floor_awake, tale.floor_every, positive])
    levels = levels[np.isfinite(levels) & (levels > 0.1 * positive.min(initial=np.inf))]
    low, high = 0.7 * float(levels.min(initial=1.0)), 1.4 * float(positive.max(initial=1.0))
    bands = [
        Series(
            [max(chapter.start, first), max(chapter.end, first)],
            [np.nan, np.nan],
            tone=BANDS[chapter.name],
            band=([low, low], [high, high]),
        )
        for chapter in tale.chapters
        if chapter.end > first
    ]
    curves = [Series(tale.times, tale.losses, "loss", tone="blue")]
    for values, label in ((tale.floor_awake, "floor of the awake"), (tale.floor_every, "floor of all")):
        if np.isfinite(values).any():
            tone = "orange" if label.endswith("awake") else "ink"
            curves.append(Series(np.maximum(tale.moments, first), values, label, style="dashed", tone=tone))
    middle = [(_middle(max(c.start, first), c.end, scale), c.name) for c in tale.chapters if c.end > first]
    limits = (first, tale.chapters[-1].end)
    return Panel(
        (*bands, *curves),
        x_label="time",
        y_label="loss",
        x_scale=scale,
        y_scale="log",
        x_limits=limits,
        y_limits=(low, high),
        headings=_apart(middle, limits, scale),
    )


def _middle(start: float, end: float, scale: str) -> float:
    return float(np.sqrt(start * end)) if scale == "log" else 0.5 * (start + end)


def _apart(
    headings: list[tuple[float, str]], limits: tuple[float, float], scale: str
) -> tuple[tuple[float, str], ...]:
    """Return the headings that have room beside each other."""
    place = np.log if scale == "log" else np.asarray
    low, high = (float(place(limit)) for limit in limits)
    kept: list[tuple[float, str]] = []
    for x, text in headings:
        room = (float(place(x)) - float(place(kept[-1][0]))) / (high - low) if kept else 1.0
        if room > 0.011 * (len(text) + len(kept[-1][1]) if kept else 0):
            kept.append((x, text))
    return tuple(kept)


def diagnosis_figure(found: Diagnosis) -> Figure:
    """Return the parts of a loss as columns, and the neurons by the size of what they add."""
    panels = []
    if found.anatomy is not None:
        shares = found.anatomy.shares
        columns = tuple(
            Series([i - 0.4, i + 0.4], [shares[name]] * 2, tone=tone, band=([0.0, 0.0], [shares[name]] * 2))
            for i, (name, tone) in enumerate(zip(PARTS, ("blue", "orange", "green", "red"), strict=True))
        )
        ticks = tuple((float(i), words) for i, words in enumerate(PARTS.values()))
        panels.append(
            Panel(
                columns,
                title=f"What the loss {found.loss:.3g} is made of",
                y_label="share",
                y_limits=(0.0, 1.05),
                x_ticks=ticks,
            )
        )
    counted = found.census
    order = np.argsort(-counted.sizes, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    kinds = (("awake", counted.awake, "blue"), ("dormant", counted.dormant, "green"))
    clouds = tuple(
        Series(rank[which], _shown(counted.sizes[which]), word, style="points", tone=tone)
        for word, which, tone in kinds
        if which.any()
    )
    dead = int(counted.dead.sum())
    title = f"Neurons by output{f' ({dead} more are dead)' if dead else ''}"
    panels.append(Panel(clouds, title=title, x_label="rank", y_label="rms output", y_scale="log"))
    return Figure("diagnosis", f"Diagnosis: {found.cure}", tuple(panels))


def _shown(sizes: Floats) -> Floats:
    """Return sizes for a logarithmic axis: zeros have no place on it."""
    return np.where(sizes > 0, sizes, np.nan)


LARGEST_FIT_CLOUD = 20_000
"""More points are thinned out."""
GRID = 400
SIZE = (7.0, 4.2)


def plot_fit(model: ANLSRegressor, ax: Any, path: str | Path | None, level: float) -> Any:
    """Draw a fit on `ax` (None: on a new one), or write it to a .png or .svg file; return the axis."""
    return _drawn(lambda axis: _draw(model, axis, level), ax, path)


def plot_path(model: ANLSRegressor, ax: Any, path: str | Path | None) -> Any:
    """Draw criterion and loss over the numbers of knots tried, as `plot_fit` draws a fit; return the axis."""
    if not model.path_:
        raise InvalidInputError("path_: is empty, this search walked no path; n_knots='auto' does")
    return _drawn(lambda axis: _draw_path(model, axis), ax, path)


def _drawn(draw: Callable[[Any], None], ax: Any, path: str | Path | None) -> Any:
    if ax is not None:
        draw(ax)
    if ax is None or path is not None:
        with matplotlib.rc_context(STYLE):
            canvas = Canvas(figsize=SIZE, layout="constrained")
            FigureCanvasAgg(canvas)
            drawn = canvas.add_subplot()
            draw(drawn)
            if path is not None:
                _write(canvas, as_path(path))
            ax = drawn if ax is None else ax
    return ax


def _write(canvas: Canvas, path: Path) -> None:
    ending = path.suffix.lower()
    if ending not in (".png", ".svg"):
        raise InvalidInputError(f"path: must end in .png or .svg, got {str(path)!r}")
    stream = io.BytesIO()
    metadata = {"Date": None} if ending == ".svg" else None
    canvas.savefig(stream, format=ending[1:], dpi=160, metadata=metadata)
    write_atomically(path, stream.getvalue())


def _draw(model: ANLSRegressor, ax: Any, level: float) -> None:
    rows, pieces = model._rows, model.pieces_
    every = -(-len(rows.x) // LARGEST_FIT_CLOUD)
    x, y = rows.low + rows.half * rows.x[::every], rows.centre + rows.scale * rows.y[::every]
    ax.plot(model._shown(x), y, ".", color=COLOURS["muted"], alpha=0.6, markersize=4, label="data")
    grid = np.linspace(pieces.low, pieces.high, GRID)
    corners = np.unique(np.concatenate([grid, pieces.knots, np.nextafter(pieces.knots, np.inf)]))
    corners = corners[(corners >= pieces.low) & (corners <= pieces.high)]
    if not model._obeys_:
        _draw_uncertainty(model, ax, grid, level)
    jumps, heights = pieces.knots[pieces.jumps != 0], pieces.predict(corners)
    heights[np.isin(corners, np.nextafter(jumps, np.inf))] = np.nan
    ax.plot(model._shown(corners), heights, color=COLOURS["blue"], label="fit")
    places = model._shown(pieces.knots)
    if len(jumps):
        for i, place in enumerate(model._shown(jumps)):
            label = "jumps" if i == 0 else None
            ax.axvline(place, color=COLOURS["orange"], lw=1, ls="--", label=label, zorder=0)
    elif len(pieces.knots):
        ax.plot(places, pieces.predict(pieces.knots), "o", color=COLOURS["orange"], label="knots", zorder=3)
    ax.set_xlabel(model.x_name_ or "x")
    ax.set_ylabel(model.y_name_ or "y")
    ax.legend(frameon=False)


def _draw_path(model: ANLSRegressor, ax: Any) -> None:
    """Draw the criterion (or errors by cross-validation, if there are), the choice, and the loss."""
    rows = [row for row in model.path_ if np.isfinite(row.criterion)]
    numbers = [row.n_knots for row in rows]
    folds = [row for row in model.path_ if np.isfinite(row.cv_error)]
    if folds:
        name, values = "error by cross-validation", [row.cv_error for row in folds]
        numbers = [row.n_knots for row in folds]
    else:
        name, values = "criterion", [row.criterion for row in rows]
    ax.plot(numbers, values, ".-", color=COLOURS["blue"], label=name)
    at = len(model._chosen_.knots) if model._chosen_ is not None else model.n_knots_
    chosen = [value for number, value in zip(numbers, values, strict=True) if number == at]
    ax.plot([at] * len(chosen), chosen, "o", color=COLOURS["orange"], label=f"chosen: {at}", zorder=3)
    ax.set_xlabel("jumps" if model.jumps_.any() else "knots")
    ax.set_ylabel(name)
    ax.xaxis.get_major_locator().set_params(integer=True)
    other = ax.twinx()
    losses = [max(row.loss, np.finfo(float).tiny) for row in model.path_]
    other.semilogy([row.n_knots for row in model.path_], losses, ".:", color=COLOURS["muted"], label="loss")
    other.set_ylabel("loss (half the sum of squares)")
    other.grid(visible=False)
    other.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    other.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    other.yaxis.set_minor_formatter(NullFormatter())
    lines = [*ax.get_lines(), *other.get_lines()]
    ax.legend(lines, [line.get_label() for line in lines], frameon=False, loc="upper center")


def _draw_uncertainty(model: ANLSRegressor, ax: Any, grid: Floats, level: float) -> None:
    """Draw the band of f, and a bar at the foot over the places that a knot may have."""
    shown: Any = model._shown(grid)
    ends = model._band(grid, level)
    name = f"{100 * level:g} % band"
    ax.fill_between(shown, *ends.T, color=COLOURS["blue"], alpha=0.2, lw=0, label=name)
    foot = ax.get_ylim()[0]
    for i, (low, high) in enumerate(model.knot_intervals(level)):
        label = f"{100 * level:g} % of each knot" if i == 0 else None
        ax.plot([low, high], [foot, foot], color=COLOURS["orange"], lw=5, solid_capstyle="butt", label=label)
