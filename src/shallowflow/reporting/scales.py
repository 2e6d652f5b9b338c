"""Linear, logarithmic and symmetric logarithmic axes: what they can show, and ticks that can be read."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from shallowflow.arrays import Floats
from shallowflow.experiments.figure import Panel, Series

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
