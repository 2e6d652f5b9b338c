"""One `Panel` on one pair of axes, in the house style: series, bands, limits, positions, Cartesian or polar.

**Axes.** What a scale cannot show (NaN, infinities, values ≤ 0 on a logarithmic axis) leaves a gap; nothing
raises. A dollar sign in a text is a dollar sign; of formulas only short subscripts and powers are set (see
`reporting.summary`).

**Polar.** In a polar panel x is the angle in radians and y the radius. Norm 0 lies on the circle of radius
`inner`, a neuron of norm r at radius inner + r: directions stay readable at tiny norms. Radial ticks are
norms.

**Style.** Figures are readable from the back of a lecture hall and by colour-blind eyes: colours are those of
Okabe and Ito (2008, "Color Universal Design"), which stay apart under the three common kinds of colour
blindness; black and yellow are replaced by an ink and a muted grey. The font is the one that matplotlib ships
with, so that a figure looks the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patheffects import withStroke
from matplotlib.projections.polar import PolarAxes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from shallowflow.arrays import Floats
from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.summary import for_matplotlib

INK = "#1f2933"
MUTED = "#7b8794"
FAINT = "#e4e7eb"
PAPER = "#ffffff"

COLOURS: dict[str, str] = {
    "ink": INK,
    "muted": MUTED,
    "blue": "#0072b2",
    "orange": "#e69f00",
    "green": "#009e73",
    "pink": "#cc79a7",
    "sky": "#56b4e9",
    "red": "#d55e00",
}
"""The colour of every tone that a `Series` may name, "auto" excepted."""

CYCLE = ("blue", "red", "green", "pink", "orange", "sky")
"""The order in which "auto" takes tones: neighbours differ in lightness as well as in hue."""

LINE_WIDTH = 2.0
SMALL_TEXT = 9.5
TITLE_PAD = 9.0

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.use_mathtext": True,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11.5,
    "axes.linewidth": 0.9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": TITLE_PAD,
    "axes.titlesize": 12,
    "axes.xmargin": 0.02,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.hspace": 0.05,
    "figure.constrained_layout.wspace": 0.05,
    "figure.facecolor": PAPER,
    "figure.titlesize": 14.5,
    "figure.titleweight": "bold",
    "font.family": ["DejaVu Sans"],
    "font.size": 11,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "legend.borderaxespad": 0.4,
    "legend.borderpad": 0.7,
    "legend.edgecolor": "none",
    "legend.facecolor": PAPER,
    "legend.fontsize": 10.5,
    "legend.framealpha": 1.0,
    "legend.handlelength": 1.6,
    "legend.labelcolor": INK,
    "lines.dash_capstyle": "round",
    "lines.dashed_pattern": (3.2, 2.2),
    "lines.linewidth": LINE_WIDTH,
    "lines.solid_capstyle": "round",
    "mathtext.fontset": "dejavusans",
    "path.simplify": True,
    "savefig.facecolor": PAPER,
    # Text as outlines: a picture needs no font where it is looked at. Fixed salt: equal figures, equal bytes.
    "svg.fonttype": "path",
    "svg.hashsalt": "shallowflow",
    "text.color": INK,
    "text.usetex": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 10.5,
    "xtick.major.size": 4.0,
    "xtick.minor.size": 2.0,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 10.5,
    "ytick.major.size": 4.0,
    "ytick.minor.size": 2.0,
}
"""What is set, for the time of drawing only, on top of matplotlib's own defaults."""

SYMLOG_DECADES = 6
"""A symmetric logarithmic axis shows at most so many decades on each side of zero."""
SYMLOG_TICKS = 3
"""… and labels at most so many of them."""
SHORT_LOG = 2.0
"""A logarithmic axis of fewer decades is labelled 1, 2, 5, 10, … (or more densely) in plain numbers."""
ALMOST_LINEAR = 0.5
"""One that is shorter still has the ticks of a linear axis."""
TICK_INCHES = 0.5
"""A linear x axis has at most one tick in so many inches: longer numbers would run together."""
LONG_LOG = 5.0
"""One of more decades has no ticks between the powers of ten."""


def visible(series: Series, panel: Panel) -> tuple[Floats, Floats]:
    """Return x and y (k,) of a series with NaN where the panel's scales cannot show them."""
    return _on_scale(series.x, panel.x_scale), _on_scale(series.y, panel.y_scale)


def set_scales(axes: Axes, panel: Panel) -> None:
    """Set the scales of both axes."""
    axes.set_xscale(panel.x_scale, **_options(panel.x_scale, [series.x for series in panel.series]))
    axes.set_yscale(panel.y_scale, **_options(panel.y_scale, [series.y for series in panel.series]))


def tidy_ticks(axes: Axes, panel: Panel) -> None:
    """Thin out and simplify the tick labels, once the limits are known."""
    for axis, scale, limits in (
        (axes.xaxis, panel.x_scale, axes.get_xlim()),
        (axes.yaxis, panel.y_scale, axes.get_ylim()),
    ):
        low, high = min(limits), max(limits)
        if scale == "log":
            _tidy_log(axis, float(np.log10(high / low)))
        elif scale == "symlog":
            linear = float(getattr(axis.get_transform(), "linthresh", 1.0))
            axis.set_major_locator(FixedLocator(_symlog_ticks(low, high, linear)))
        elif axis is axes.xaxis:
            root = axes.get_figure(root=True)
            inches = axes.get_position().width * (root.get_figwidth() if root else 4.9)
            most = max(3, int(inches / TICK_INCHES))
            axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))


def _on_scale(values: Floats, scale: str) -> Floats:
    fits = np.isfinite(values) & ((values > 0) | (scale != "log"))
    return np.where(fits, values, np.nan)


def _options(scale: str, data: list[Floats]) -> dict[str, Any]:
    """Return the linear range of a symmetric logarithmic scale: the power of ten below the smallest value."""
    if scale != "symlog":
        return {}
    sizes = np.abs(np.concatenate([np.zeros(0), *data]))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return {"linthresh": 1.0}
    smallest = max(float(sizes.min()), float(sizes.max()) * 10.0**-SYMLOG_DECADES)
    return {"linthresh": 10.0 ** np.floor(np.log10(smallest)), "linscale": 0.6}


def _tidy_log(axis: Axis, decades: float) -> None:
    axis.set_minor_formatter(NullFormatter())
    if decades > LONG_LOG:
        axis.set_minor_locator(NullLocator())
    if decades < SHORT_LOG:
        subs = (1.0, 2.0, 5.0) if decades > 1 else (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
        axis.set_major_locator(LogLocator(10.0, subs=subs) if decades > ALMOST_LINEAR else MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _symlog_ticks(low: float, high: float, linear: float) -> list[float]:
    """Return 0 and a few powers of ten on each side, the largest ones first."""
    top = int(np.floor(np.log10(max(abs(low), abs(high), linear)) + 1e-9))
    bottom = int(np.round(np.log10(linear)))
    stride = max(1, -(-(top - bottom) // SYMLOG_TICKS))
    powers = [10.0**exponent for exponent in range(top, bottom, -stride)] or [10.0**top]
    return [tick for power in powers for tick in (-power, power)] + [0.0]


RASTER_POINTS = 500
"""Clouds of more points are drawn as pixels inside vector files."""
RASTER_LINE = 20_000
"""So are lines of more vertices."""
DOTTED = (0, (1, 1.6))
BOX_SHARE = 0.3
"""Width of a box in units of the distance to the next one."""
SECTORS = 16
"""Of a polar panel, among which the emptiest one has the radial labels."""


def literal(text: str) -> str:
    """Return text that matplotlib draws as it stands, t_n and 10^6 set (no hidden legend entries)."""
    escaped = for_matplotlib(text)
    return f" {escaped}" if escaped.startswith("_") else escaped


def draw_panel(axes: Axes, panel: Panel, tones: Sequence[str]) -> None:
    """Draw a panel; `tones` names the colour of each series."""
    set_scales(axes, panel)
    draw_series(axes, panel, tones)
    _set_limits(axes, panel)
    if panel.square:
        axes.set_box_aspect(1.0)
    rows = max(_draw_marks(axes, panel), _draw_headings(axes, panel))
    axes.set_xlabel(literal(panel.x_label))
    axes.set_ylabel(literal(panel.y_label))
    axes.set_title(literal(panel.title), pad=TITLE_PAD + 1.3 * SMALL_TEXT * rows)
    if any(has_data(series, panel) for series in panel.series):
        tidy_ticks(axes, panel)
        _name_ticks(axes, panel)
    else:
        say_empty(axes)


def draw_series(axes: Axes, panel: Panel, tones: Sequence[str]) -> None:
    """Draw the series of a panel with their bands."""
    for series, tone in zip(panel.series, tones, strict=True):
        x, y = visible(series, panel)
        if series.style == "boxes":
            _draw_boxes(axes, x, y, COLOURS[tone], BOX_SHARE * series.size)
            continue
        _draw_band(axes, series, COLOURS[tone])
        # matplotlib draws nothing for a line through a single point.
        single_point = {"marker": "o", "markersize": 5.0} if np.isfinite(x + y).sum() == 1 else {}
        axes.plot(x, y, **{**single_point, **look(series, tone, len(x))})


def move_series(axes: Axes, panel: Panel) -> None:
    """Give the series drawn by `draw_series` the data of another panel of the same make, and its title."""
    for line, series in zip(axes.lines, panel.series, strict=False):
        line.set_data(*visible(series, panel))
    axes.set_title(literal(panel.title))
    if panel.y_limits is None and not panel.polar:
        axes.relim()
        axes.autoscale_view()


def has_data(series: Series, panel: Panel) -> bool:
    """Whether the panel's scales can show any point of the series."""
    x, y = visible(series, panel)
    return bool(np.isfinite(x + y).any())


def say_empty(axes: Axes) -> None:
    """Say in the middle of the axes that there is nothing to see."""
    axes.set_xticks([], minor=False)
    axes.set_yticks([], minor=False)
    axes.minorticks_off()
    axes.text(0.5, 0.5, "no data to show", transform=axes.transAxes, ha="center", va="center", color=MUTED)


def look(series: Series, tone: str, points: int) -> dict[str, Any]:
    """Return the matplotlib line properties of a series that is drawn with so many points."""
    colour, width = COLOURS[tone], LINE_WIDTH * series.size
    if series.style not in ("points", "crosses"):
        return {
            "linestyle": "--" if series.style == "dashed" else "-",
            "drawstyle": "steps-post" if series.style == "steps" else "default",
            "linewidth": width,
            "color": colour,
            "rasterized": points > RASTER_LINE,
        }
    crowd = np.log10(max(points, 1))
    marker: dict[str, Any] = {
        "linestyle": "none",
        "markersize": series.size * float(np.interp(crowd, [1.0, 2.5, 4.5], [7.0, 4.5, 2.2])),
        "alpha": float(np.interp(crowd, [2.0, 4.5, 5.5], [1.0, 0.4, 0.2])),
        "color": colour,
        "rasterized": points > RASTER_POINTS,
    }
    if series.style == "crosses":
        # On top of dots: a cross on a dot shows both, a dot on a cross only itself.
        return {**marker, "marker": "x", "markeredgewidth": 0.9 * width, "zorder": 2.5}
    edges = {"markeredgecolor": PAPER, "markeredgewidth": 0.7} if points <= 300 else {"markeredgewidth": 0}
    return {**marker, **edges, "marker": "o"}


def _draw_band(axes: Axes, series: Series, colour: str) -> None:
    if series.low is None or series.high is None:
        return
    if series.style in ("points", "crosses"):
        axes.vlines(series.x, series.low, series.high, color=colour, linewidth=1.4, zorder=1.9)
        return
    # A lower edge ≤ 0 on a logarithmic axis reaches down to the frame, which is what it means.
    axes.fill_between(
        _finite(series.x),
        _finite(series.low),
        _finite(series.high),
        color=colour,
        alpha=0.18,
        linewidth=0,
        step="post" if series.style == "steps" else None,
        zorder=1.5,
    )


def _draw_boxes(axes: Axes, x: Floats, y: Floats, colour: str, share: float) -> None:
    """Draw a box plot of the values at every x; its width is a share of the least distance of two x."""
    shown = np.isfinite(x + y)
    places = np.unique(x[shown])
    if not places.size:
        return
    log = axes.get_xscale() == "log"
    apart = np.diff(np.log(places) if log else places).min(initial=1.0)
    widths = places * (np.exp(share * apart) - 1.0) if log else np.full(len(places), share * apart)
    line = {"color": colour, "linewidth": 1.6}
    axes.boxplot(
        [y[shown & (x == place)] for place in places],
        positions=places,
        widths=widths,
        manage_ticks=False,
        boxprops=line,
        whiskerprops=line,
        capprops=line,
        medianprops={**line, "linewidth": 2.6},
        flierprops={"marker": "o", "markersize": 4, "markerfacecolor": colour, "markeredgewidth": 0},
    )


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _set_limits(axes: Axes, panel: Panel) -> None:
    for limits, scale, set_limits in (
        (panel.x_limits, panel.x_scale, axes.set_xlim),
        (panel.y_limits, panel.y_scale, axes.set_ylim),
    ):
        if limits is not None:
            low, high = (value if value > 0 or scale != "log" else None for value in limits)
            set_limits(low, high)


def _draw_marks(axes: Axes, panel: Panel) -> int:
    """Draw dotted lines with flags above the frame; return the number of rows that the flags take."""
    marks = [(x, text) for x, text in panel.marks if np.isfinite(x) and (x > 0 or panel.x_scale != "log")]
    if panel.x_limits is not None:
        marks = [(x, text) for x, text in marks if min(panel.x_limits) <= x <= max(panel.x_limits)]
    for x, _ in marks:
        axes.axvline(x, color=MUTED, linewidth=1.2, linestyle=DOTTED, zorder=1.8)
    flags = _flags(axes, [mark for mark in marks if mark[1]])
    for x, row, text in flags:
        axes.annotate(
            f" {literal(text)}",
            (x, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 2 + 1.3 * SMALL_TEXT * row),
            textcoords="offset points",
            va="bottom",
            fontsize=SMALL_TEXT,
            color=INK,
            arrowprops={
                "arrowstyle": "-",
                "color": MUTED,
                "linewidth": 1.2,
                "linestyle": DOTTED,
                "relpos": (0, 0.3),
                "shrinkA": 0,
                "shrinkB": 0,
            },
            annotation_clip=False,
        )
    return 1 + max((row for _, row, _ in flags), default=-1)


def _draw_headings(axes: Axes, panel: Panel) -> int:
    """Write the headings above the frame; return the number of rows that they take."""
    for x, text in panel.headings:
        axes.annotate(
            literal(text),
            (x, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=SMALL_TEXT + 1,
            color=INK,
            annotation_clip=False,
        )
    return 1 + max((text.count("\n") for _, text in panel.headings), default=-1)


def _name_ticks(axes: Axes, panel: Panel) -> None:
    """Put the panel's own ticks in place of numbers."""
    for axis, ticks in ((axes.xaxis, panel.x_ticks), (axes.yaxis, panel.y_ticks)):
        if ticks is None:
            continue
        axis.set_ticks([value for value, _ in ticks], labels=[literal(text) for _, text in ticks])
        if not ticks:
            axes.spines["bottom" if axis is axes.xaxis else "left"].set_visible(False)


def _flags(axes: Axes, marks: list[tuple[float, str]]) -> list[tuple[float, int, str]]:
    """Return (x, row, text), right to left: each text starts at its mark, in the lowest row with room.

    Going from right to left, a flagpole never crosses the text of a lower row.
    """
    axes.get_xlim()  # settles limits that matplotlib computes only when asked
    root = axes.get_figure(root=True)
    letter = 0.64 * SMALL_TEXT * (root.dpi if root else 100.0) / 72
    starts: list[float] = []
    placed = []
    for x, text in sorted(marks, key=lambda mark: -mark[0]):
        start = float(axes.transData.transform((x, 1.0))[0])
        end = start + letter * (len(text) + 2)
        row = next((row for row, taken in enumerate(starts) if end < taken), len(starts))
        starts[row : row + 1] = [start]
        placed.append((x, row, text))
    return placed


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
