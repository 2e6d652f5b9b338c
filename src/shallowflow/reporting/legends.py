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
from shallowflow.reporting.panel_drawing import has_data, literal, look

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
LARGEST_HEADROOM = 0.4
"""An axis is extended for a legend that is at most so high, as a share of the panel."""

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
    columns = max(1, min(len(union), int(canvas.get_figwidth() * 11 / (6 + widest))))
    canvas.legend(*_handles(union), loc="outside lower center", ncols=columns)


def _entries(panel: Panel, tones: Sequence[str]) -> list[Entry]:
    pairs = zip(panel.series, tones, strict=True)
    labelled = [(series, tone) for series, tone in pairs if series.label and has_data(series, panel)]
    return list(dict.fromkeys((s.label, tone, s.style, s.size) for s, tone in labelled))


def _handles(entries: Sequence[Entry]) -> tuple[list[Line2D], list[str]]:
    """Return legend handles that are readable even where the cloud itself is of tiny faint dots."""
    samples = [(Series([], [], style=style, size=max(size, 0.8)), tone) for _, tone, style, size in entries]
    handles = [Line2D([], [], **look(series, tone, points=20)) for series, tone in samples]
    return handles, [literal(label) for label, *_ in entries]


def _settle(legend: Legend, panel: Panel) -> bool:
    """Move a legend to where no line, point or band lies under it; return whether there is such a place.

    Where all places are taken, but the panel leaves its limits to us, the axis is extended upwards.
    """
    axes = legend.axes
    if axes is None or panel.polar:
        return False
    legend.set_zorder(BEHIND_DATA)
    lines = axes.get_lines()
    data = [line for line in lines if line.get_transform() == axes.transData]  # all but the marks
    for obstacles in (lines, data):
        for place in PLACES:
            legend.set_loc(place)
            if not _covers(legend.get_window_extent(), obstacles, axes.collections):
                return True
    legend.set_loc(PLACES[0])
    height = legend.get_window_extent().height / axes.get_window_extent().height + 0.03
    if panel.y_limits is None and height < LARGEST_HEADROOM:
        scale = axes.yaxis.get_transform()
        low, high = scale.transform(axes.get_ylim())
        axes.set_ylim(top=float(scale.inverted().transform([low + (high - low) / (1 - height)])[0]))
        return True
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
