"""A fit of pieces drawn on a matplotlib axis: data, pieces, band, and where the knots may be."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.files import as_path, write_atomically
from shallowflow.reporting.figures.style import COLOURS, STYLE

if TYPE_CHECKING:
    from shallowflow.estimators import ANLSRegressor

LARGEST_CLOUD = 20_000
"""More points are thinned out."""
GRID = 400
SIZE = (7.0, 4.2)


def plot_fit(model: ANLSRegressor, ax: Any, path: str | Path | None, level: float) -> Any:
    """Draw a fit on `ax` (None: on a new one), or write it to a .png or .svg file; return the axis."""
    if ax is not None:
        _draw(model, ax, level)
    if ax is None or path is not None:
        with matplotlib.rc_context(STYLE):
            canvas = Canvas(figsize=SIZE, layout="constrained")
            FigureCanvasAgg(canvas)
            drawn = canvas.add_subplot()
            _draw(model, drawn, level)
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
    if pieces.continuous:
        _draw_uncertainty(model, ax, grid, level)
    ax.plot(model._shown(corners), pieces.predict(corners), color=COLOURS["blue"], label="fit")
    if len(pieces.knots) and pieces.continuous:
        places = model._shown(pieces.knots)
        ax.plot(places, pieces.predict(pieces.knots), "o", color=COLOURS["orange"], label="knots", zorder=3)
    ax.set_xlabel(model.x_name_ or "x")
    ax.legend(frameon=False)


def _draw_uncertainty(model: ANLSRegressor, ax: Any, grid: Floats, level: float) -> None:
    """Draw the band of f, and a bar at the foot over the places that a knot may have."""
    shown: Any = model._shown(grid)
    ends = model.predict_interval(shown, level)
    name = f"{100 * level:g} % band"
    ax.fill_between(shown, *ends.T, color=COLOURS["blue"], alpha=0.2, lw=0, label=name)
    foot = ax.get_ylim()[0]
    for i, (low, high) in enumerate(model.knot_intervals(level)):
        label = f"{100 * level:g} % of each knot" if i == 0 else None
        ax.plot([low, high], [foot, foot], color=COLOURS["orange"], lw=5, solid_capstyle="butt", label=label)
