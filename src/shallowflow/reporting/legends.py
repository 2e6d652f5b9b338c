"""Legends that hide nothing: inside a panel where there is room, else below or beside the panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.panel_drawing import DOTTED, has_data, literal, look
from shallowflow.reporting.style import COLOURS

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
"""What a legend tells apart: label, tone, style, size."""


def draw_legends(
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
