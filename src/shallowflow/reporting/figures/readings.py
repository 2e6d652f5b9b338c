"""Pictures of readings and fits: the chapters of a run with the floors beneath its loss, the anatomy of one
state, and a fit of pieces on a matplotlib axis: data, pieces, band, and where the knots may be.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.files import as_path, write_atomically
from shallowflow.readings.diagnosis import Diagnosis
from shallowflow.reporting.figures.renderer import draw, write_figure
from shallowflow.reporting.figures.style import COLOURS, STYLE

if TYPE_CHECKING:
    from shallowflow.readings.story import Story

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
    panels = [_loss_panel(tale, scale, first)]
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


def _loss_panel(tale: Story, scale: str, first: float) -> Panel:
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


if TYPE_CHECKING:
    from shallowflow.estimators import ANLSRegressor

LARGEST_CLOUD = 20_000
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
    every = -(-len(rows.x) // LARGEST_CLOUD)
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
