"""One polar `Panel`: x is the angle in radians, y the radius; norm 0 lies on the circle of radius `inner`.

A neuron of norm r is thus a point at radius inner + r, so that directions stay readable at tiny norms. Radial
ticks are labelled with norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.projections.polar import PolarAxes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter

from shallowflow.experiments.figure import Panel
from shallowflow.reporting.panel_drawing import DOTTED, draw_series, has_data, literal, say_empty
from shallowflow.reporting.scales import set_scales, visible
from shallowflow.reporting.style import FAINT, INK, MUTED, PAPER, SMALL_TEXT

SECTORS = 16


def draw_polar_panel(axes: Axes, panel: Panel, tones: Sequence[str]) -> None:
    """Draw a polar panel; `tones` names the colour of each series, marks are rays at their angle."""
    polar = cast(PolarAxes, axes)
    set_scales(polar, panel)
    draw_series(polar, panel, tones)
    polar.set_title(literal(panel.title))
    polar.grid(color=FAINT)
    polar.spines["polar"].set_color(FAINT)
    polar.tick_params(labelsize=SMALL_TEXT, labelcolor=MUTED)
    if not any(has_data(series, panel) for series in panel.series):
        say_empty(polar)
        return
    polar.set_xticks(np.arange(0.0, 2 * np.pi, np.pi / 4))
    if panel.y_scale == "linear":
        _set_radii(polar, panel)
    _draw_rays(polar, panel)


def _set_radii(axes: PolarAxes, panel: Panel) -> None:
    """Set the radial limits, the inner circle, and a few circles labelled with norms."""
    largest = max(float(np.nanmax(visible(s, panel)[1])) for s in panel.series if has_data(s, panel))
    low, high = panel.y_limits or (0.0, 1.06 * max(largest, panel.inner) or 1.0)
    axes.set_ylim(low, high)
    norms = np.asarray(MaxNLocator(3).tick_values(0.0, high - panel.inner))
    norms = norms[(norms > 0) & (norms < 0.99 * (high - panel.inner))]
    axes.yaxis.set_major_locator(FixedLocator([float(panel.inner + norm) for norm in norms]))
    axes.yaxis.set_major_formatter(NullFormatter())
    angle = _emptiest_angle(panel)
    for norm in norms:
        label = axes.text(angle, panel.inner + norm, f"{norm:g}", ha="center", va="center", zorder=4)
        label.set(color=MUTED, fontsize=SMALL_TEXT, path_effects=[withStroke(linewidth=3, foreground=PAPER)])
    if panel.inner > 0:
        around = np.linspace(0.0, 2 * np.pi, 181)
        axes.plot(around, np.full_like(around, panel.inner), color=MUTED, linewidth=1.0, zorder=1.7)


def _emptiest_angle(panel: Panel) -> float:
    """Return the middle of the sector with the fewest points and no mark: room for the radial labels."""
    angles = np.concatenate([series.x[np.isfinite(series.x)] for series in panel.series])
    marked = np.array([angle for angle, _ in panel.marks])
    sectors, _ = np.histogram(angles % (2 * np.pi), SECTORS, (0.0, 2 * np.pi))
    taken, _ = np.histogram(marked % (2 * np.pi), SECTORS, (0.0, 2 * np.pi))
    return float((np.argmin(sectors + (taken > 0) * (1 + sectors.max())) + 0.5) * 2 * np.pi / SECTORS)


def _draw_rays(axes: PolarAxes, panel: Panel) -> None:
    marks = [(angle, text) for angle, text in panel.marks if np.isfinite(angle)]
    low, high = axes.get_ylim()
    start = panel.inner if panel.inner > 0 else low
    for angle, text in marks:
        axes.plot([angle, angle], [start, high], color=INK, linewidth=1.2, linestyle=DOTTED, zorder=3)
        if text and panel.y_scale == "linear":
            place = (angle, low + 1.08 * (high - low))
            axes.text(*place, literal(text), ha="center", va="center", fontsize=SMALL_TEXT + 1, color=INK)
    if any(text for _, text in marks):
        axes.set_xticklabels([])
