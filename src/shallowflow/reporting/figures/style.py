"""The house style of figures, and axes whose scales show what they can, with ticks that can be read.

Figures are readable from the back of a lecture hall and by colour-blind eyes: colours are those of Okabe and
Ito (2008, "Color Universal Design"), which stay apart under the three common kinds of colour blindness; black
and yellow are replaced by an ink and a muted grey. The font is the one that matplotlib ships with, so that a
figure looks the same on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from shallowflow.arrays import Floats
from shallowflow.experiments.figure import Panel, Series

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
