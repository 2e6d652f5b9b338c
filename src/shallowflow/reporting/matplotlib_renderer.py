"""`Figure` data drawn by matplotlib: the layout of panels, their colours, and the bytes of files.

Only matplotlib's object-oriented interface is used: no window, no global figure, no state left behind.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from shallowflow.arrays import one_of
from shallowflow.experiments.figure import Figure, Panel
from shallowflow.reporting.legends import draw_legends
from shallowflow.reporting.panel_drawing import draw_panel, literal, move_series
from shallowflow.reporting.polar_drawing import draw_polar_panel
from shallowflow.reporting.style import CYCLE, STYLE

FORMATS = ("svg", "png")
DOTS_PER_INCH = 160


def draw(figure: Figure) -> Canvas:
    """Return the figure as a matplotlib figure (Agg canvas), ready to be saved."""
    with _house_style():
        return _draw(figure)


def render(figure: Figure, format: str = "svg") -> bytes:
    """Return the figure as the bytes of an "svg" or "png" file; equal figures give equal bytes."""
    return render_all(figure, (one_of(format, "format", FORMATS),))[0]


def render_all(figure: Figure, formats: Sequence[str] = FORMATS) -> list[bytes]:
    """Return the figure in several formats, drawn once."""
    with _house_style():
        canvas = _draw(figure)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # the layout is settled: each format need not find it again
        return [_saved(canvas, format) for format in formats]


def redrawn(figures: Sequence[Figure], dots_per_inch: float) -> Iterator[Canvas]:
    """Yield figures of one layout, one after the other, on one canvas; only curves and titles change."""
    with _house_style():
        canvas = _draw(figures[0])
        canvas.set_dpi(dots_per_inch)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")
        yield canvas
        for figure in figures[1:]:
            for axes, panel in zip(canvas.axes, figure.panels, strict=False):
                move_series(axes, panel)
            yield canvas


@contextmanager
def _house_style() -> Iterator[None]:
    """Use matplotlib's defaults and the house style, whatever the user's own settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def _saved(canvas: Canvas, format: str) -> bytes:
    buffer = io.BytesIO()
    undated = {"Date": None} if format == "svg" else {"Software": None}
    canvas.savefig(buffer, format=format, dpi=DOTS_PER_INCH, metadata=undated)
    return buffer.getvalue()


def _draw(figure: Figure) -> Canvas:
    columns = max(1, min(figure.columns, len(figure.panels)))
    rows = [figure.panels[start : start + columns] for start in range(0, len(figure.panels), columns)]
    width = 7.2 if columns == 1 else 4.9 * columns
    heights = [4.3 if columns == 1 or any(panel.polar for panel in row) else 3.5 for row in rows]
    canvas = Canvas(figsize=(width, sum(heights, start=0.5) if rows else 2.0), layout="constrained")
    FigureCanvasAgg(canvas)
    if figure.title:
        title = "\n".join(textwrap.wrap(figure.title, int(8.2 * width)))
        canvas.suptitle(literal(title), x=0.012, ha="left")
    if not rows:
        return canvas
    tones = _tones(figure.panels)
    grid = canvas.add_gridspec(len(rows), columns, height_ratios=heights)
    pairs: list[Axes] = []
    for i, (panel, panel_tones) in enumerate(zip(figure.panels, tones, strict=True)):
        axes = canvas.add_subplot(grid[divmod(i, columns)], projection="polar" if panel.polar else None)
        wrapped = replace(panel, title="\n".join(textwrap.wrap(panel.title, int(10.5 * width / columns))))
        (draw_polar_panel if panel.polar else draw_panel)(axes, wrapped, panel_tones)
        pairs.append(axes)
    draw_legends(canvas, figure.panels, tones, pairs)
    return canvas


def _tones(panels: Sequence[Panel]) -> list[list[str]]:
    """Return the tone of every series: "auto" takes the next one free, and equal labels share theirs."""
    of_label: dict[str, str] = {}
    tones = []
    for panel in panels:
        named = {series.tone for series in panel.series}
        named |= {of_label[series.label] for series in panel.series if series.label in of_label}
        following = cycle([tone for tone in CYCLE if tone not in named] or CYCLE)
        row = []
        for series in panel.series:
            tone = series.tone
            if tone == "auto":
                tone = of_label.get(series.label) or next(following)
                if series.label:
                    of_label[series.label] = tone
            row.append(tone)
        tones.append(row)
    return tones
