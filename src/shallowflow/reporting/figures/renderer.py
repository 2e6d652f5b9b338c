"""`Figure` data drawn by matplotlib: the layout of panels, their colours and legends, the bytes of files.

Only matplotlib's object-oriented interface is used: no window, no global figure, no state left behind. A
legend hides nothing: it lies inside a panel where there is room, else below or beside the panels.

`Animation` data become a film: a page with a scrubber (one file, nothing to load), or a GIF. Its frames are
drawn on one canvas whose layout is settled on the first of them, so that nothing jumps.
"""

from __future__ import annotations

import base64
import io
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from string import Template
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox
from PIL import Image

from shallowflow.arrays import one_of
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.files import write_atomically
from shallowflow.reporting.figures.panels import (
    COLOURS,
    CYCLE,
    DOTTED,
    FAINT,
    PAPER,
    STYLE,
    draw_panel,
    draw_polar_panel,
    has_data,
    literal,
    look,
    move_series,
)

FORMATS = ("svg", "png")
DOTS_PER_INCH = 160
PLACES: tuple[Any, ...] = (
    "upper right",
    "upper left",
    "lower left",
    "lower right",
    "upper center",
    "lower center",
    "center right",
    "center left",
)
BEHIND_DATA = 1.9
"""Drawing order: a legend covers grid and marks, never the data."""
MARKS = "marks"
"""The style of the entry that names the dotted marks of a panel."""

Entry = tuple[str, str, str, float]
"""What a legend distinguishes: label, tone, style, size."""


def draw(figure: Figure) -> Canvas:
    """Return the figure as a matplotlib figure (Agg canvas), ready to be saved."""
    with _house_style():
        return _draw(figure)


def render(figure: Figure, format: str = "svg") -> bytes:
    """Return the figure as the bytes of an "svg" or "png" file; equal figures give equal bytes."""
    return render_all(figure, (one_of(format, "format", FORMATS),))[0]


def write_figure(figure: Figure, path: Path) -> None:
    """Draw a figure into a .png or .svg file, atomically."""
    write_atomically(path, render(figure, path.suffix.lower().removeprefix(".")))


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
    heights = [4.3 if columns == 1 or any(p.polar or p.square for p in row) else 3.5 for row in rows]
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
    _draw_legends(canvas, figure.panels, tones, pairs)
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


def _draw_legends(
    canvas: Canvas, panels: Sequence[Panel], tones: Sequence[Sequence[str]], pairs: Sequence[Axes]
) -> None:
    """Draw one legend below all panels where they share labels or leave no room, else one per panel."""
    entries = [_entries(panel, row) for panel, row in zip(panels, tones, strict=True)]
    union = list(dict.fromkeys(entry for of_panel in entries for entry in of_panel))
    if not union:
        return
    labels, looks = {label for label, *_ in union}, {(tone, style) for _, tone, style, _ in union}
    unambiguous = len(labels) == len(looks) == len(union)
    shared = sum(map(len, entries)) > len(union)
    if not (unambiguous and shared):
        labelled = [
            (axes.legend(*_handles(of_panel), loc=PLACES[0]), panel)
            for axes, panel, of_panel in zip(pairs, panels, entries, strict=True)
            if of_panel
        ]
        canvas.draw_without_rendering()  # settles the layout, on which the free places depend
        homeless = [legend for legend, panel in labelled if not _settle(legend, panel)]
        if not homeless:
            return
        if not unambiguous:
            _put_outside(homeless)
            return
        for legend, _ in labelled:
            legend.remove()
    widest = max(len(label) for label in labels)
    letters = canvas.get_figwidth() * 11
    one_row = sum(6 + len(label) for label in labels) <= letters
    columns = len(union) if one_row else max(1, min(len(union), int(letters / (6 + widest))))
    canvas.legend(*_handles(union), loc="outside lower center", ncols=columns)


def _entries(panel: Panel, tones: Sequence[str]) -> list[Entry]:
    pairs = zip(panel.series, tones, strict=True)
    labelled = [(series, tone) for series, tone in pairs if series.label and has_data(series, panel)]
    marks = [(panel.marks_label, "muted", MARKS, 0.6)] if panel.marks and panel.marks_label else []
    return list(dict.fromkeys([*((s.label, tone, s.style, s.size) for s, tone in labelled), *marks]))


def _handles(entries: Sequence[Entry]) -> tuple[list[Line2D], list[str]]:
    """Return legend handles that are readable even where the cloud itself is of tiny faint dots."""
    return [_handle(*entry) for entry in entries], [literal(label) for label, *_ in entries]


def _handle(label: str, tone: str, style: str, size: float) -> Line2D:
    if style == MARKS:
        return Line2D([], [], color=COLOURS[tone], linewidth=1.2, linestyle=DOTTED)
    return Line2D([], [], **look(Series([], [], style=style, size=max(size, 0.8)), tone, points=20))


def _settle(legend: Legend, panel: Panel) -> bool:
    """Move a legend to where no line, mark, point or band lies under it; return whether there is a place."""
    axes = legend.axes
    if axes is None or panel.polar:
        return False
    legend.set_zorder(BEHIND_DATA)
    for place in PLACES:
        legend.set_loc(place)
        if not _covers(legend.get_window_extent(), axes.get_lines(), axes.collections):
            return True
    legend.set_loc(PLACES[0])
    return False


def _covers(box: Bbox, lines: Sequence[Line2D], bands: Iterable[Collection]) -> bool:
    return any(_meets(line, box) for line in lines) or any(
        band.get_transform().transform_path(path).intersects_bbox(box)
        for band in bands
        for path in band.get_paths()
    )


def _meets(line: Line2D, box: Bbox) -> bool:
    """Whether a line, or one of its points if they are not joined, lies in the box."""
    path = line.get_transform().transform_path(line.get_path())
    if line.get_linestyle() != "None":
        return path.intersects_bbox(box, filled=False)
    left, low, right, high = box.extents
    x, y = np.asarray(path.vertices).reshape(-1, 2).T
    return bool(np.any((left < x) & (x < right) & (low < y) & (y < high)))


def _put_outside(legends: Sequence[Legend]) -> None:
    for legend in legends:
        polar = legend.axes is not None and legend.axes.name == "polar"
        legend.set_bbox_to_anchor((0.5, -0.06) if polar else (1.02, 1.0))
        legend.set_loc("upper center" if polar else "upper left")


ENDINGS = (".html", ".gif")
FILM_DOTS_PER_INCH = 90
SHADES = 24
"""Between the paper and each colour of the house style: frames share this palette, and no colour wanders."""
FRAME_MILLISECONDS = 140
LAST_MILLISECONDS = 2_500
MARGIN = 120
"""Room for the caption and the slider around the frames, in pixels."""

Progress = Callable[[float], None]


def write_animation(animation: Animation, *paths: Path, progress: Progress | None = None) -> None:
    """Draw an animation once and write it to .html and .gif files, each whole or not at all."""
    for path in paths:
        one_of(path.suffix.lower(), "ending", ENDINGS)
    film = Film(animation, progress)
    for path in paths:
        write_atomically(path, film.page() if path.suffix.lower() == ".html" else film.gif())


class Film:
    """The frames of an animation, drawn once; a notebook shows it as the page that `page` returns."""

    def __init__(self, animation: Animation, progress: Progress | None = None) -> None:
        self.animation = animation
        self.pictures = list(frames(animation, progress))

    def page(self) -> bytes:
        """Return one HTML file with the frames inside, a play button and a slider."""
        encoded = [f"data:image/png;base64,{base64.b64encode(_png(one)).decode()}" for one in self.pictures]
        width, height = self.pictures[0].size
        template = files("shallowflow.reporting").joinpath("player.html").read_text(encoding="utf-8")
        fields: dict[str, Any] = {
            "title": escape(self.animation.title),
            "caption": escape(self.animation.caption),
            "first": encoded[0],
            "width": width,
            "height": height,
            "last": len(encoded) - 1,
            "milliseconds": FRAME_MILLISECONDS,
            # "<" inside a script could end it.
            "frames": json.dumps(encoded),
            "labels": json.dumps(self.animation.labels, ensure_ascii=True).replace("<", "\\u003c"),
        }
        return Template(template).substitute(fields).encode()

    def gif(self) -> bytes:
        """Return a GIF that runs for ever and rests on its last frame."""
        buffer = io.BytesIO()
        durations = [FRAME_MILLISECONDS] * (len(self.pictures) - 1) + [LAST_MILLISECONDS]
        first, rest = self.pictures[0], self.pictures[1:]
        first.save(buffer, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        width, height = (side + MARGIN for side in self.pictures[0].size)
        page = escape(self.page().decode())
        return f'<iframe srcdoc="{page}" width="{width}" height="{height}" frameborder="0"></iframe>'


def frames(animation: Animation, progress: Progress | None = None) -> Iterator[Image.Image]:
    """Yield the frames as pictures of one size and one palette."""
    palette = _palette()
    for number, canvas in enumerate(redrawn(animation.frames, FILM_DOTS_PER_INCH), start=1):
        agg: Any = canvas.canvas
        agg.draw()  # savefig would lay everything out twice
        picture = Image.frombytes("RGBA", agg.get_width_height(), bytes(agg.buffer_rgba())).convert("RGB")
        if progress:
            progress(number / len(animation.frames))
        yield picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _palette() -> Image.Image:
    """Return a picture with the palette of all frames: every colour of the style, faded towards the paper."""
    shares = np.linspace(0.1, 1.0, SHADES)[:, None]
    paper = np.array(to_rgb(PAPER))
    fading = [paper + shares * (np.array(to_rgb(colour)) - paper) for colour in (*COLOURS.values(), FAINT)]
    levels = np.rint(255 * np.concatenate([paper[None], *fading])).astype(int)
    holder = Image.new("P", (1, 1))
    holder.putpalette(levels.ravel().tolist())
    return holder


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
