"""Curves of a loss, from times and values alone: where one stands and falls, and what many show together.

**Stretches.** On the intervals between records q = −Δ ln L/Δt is the mean speed, v = ln q. A **top** is a
local maximum of v that stands out by ln 10 from the valley on each side that has a higher top behind it. Its
**fast stretch** is the intervals around it with at least a tenth of its speed, if ln L falls by 0.1 in it.
The rest is slow. Mean speeds see a jump between two records too, so that thinning a record changes borders,
not names. Losses that rise (stochastic descent) are replaced by their running minimum; records closer than
10⁻⁴ of the run and 10⁻³ in ln L are skipped, because speeds between them are rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Bools, Floats, same_length, vector

FLAT = 0.05
"""A plateau: the loss falls more slowly than times^(−FLAT) …"""
LONG = 1.25
"""… while the time grows by this factor at least."""
DROP = 0.9
"""A plateau is left when the loss falls below this share of its level."""


def plateaus(times: ArrayLike, losses: ArrayLike) -> list[tuple[float, float]]:
    """Return the intervals (first, last time) in which a loss hardly falls, and which it leaves later.

    times (k,) > 0, losses (k,) > 0. A plateau is a longest run of records with −d ln L/d ln t < `FLAT`, whose
    last time is at least `LONG` times its first, and below whose last loss, times `DROP`, the curve ends.

    Examples
    --------
    >>> t = np.geomspace(1, 1e4, 81)
    >>> [(round(first), round(last)) for first, last in plateaus(t, np.where(t < 99.0, 1.0, 0.1))]
    [(1, 89)]
    """
    moments, values = vector(times, "times"), vector(losses, "losses")
    same_length(moments, values, "times, losses")
    slopes = -np.diff(np.log(values)) / np.diff(np.log(moments))
    flat = np.concatenate([[False], slopes < FLAT, [False]]).astype(np.int8)
    starts, ends = (np.flatnonzero(np.diff(flat) == step) for step in (1, -1))
    left = (moments[ends] >= LONG * moments[starts]) & (values[-1] < DROP * values[ends])
    return [(float(moments[i]), float(moments[j])) for i, j in zip(starts[left], ends[left], strict=True)]


def falls(times: Floats, losses: Floats) -> int:
    """Return how often a loss begins to fall faster than from its first value to 0 over all the times."""
    fast = -np.diff(losses) / np.diff(times) > losses[0] / (times[-1] - times[0])
    return int(np.sum(np.diff(fast.astype(int)) == 1))


TENTH = float(np.log(10.0))
FALL = 0.1
"""ln L falls by this in a fast stretch at least …"""
SLOW_FALL = 0.05
"""… and by this in the second half of a slow last stretch that decays."""
CLOSE = 1e-4
"""Records are skipped that follow within this share of the run …"""
CLOSE_LOSS = 1e-3
"""… and within this in ln L."""
LOWEST = 1e-14
"""Losses below this share of the first are rounding."""


class Stretch(NamedTuple):
    """A stretch of time, first to last; fast: whether the loss falls fast in it."""

    start: float
    end: float
    fast: bool


def stretches(times: Floats, losses: Floats) -> list[Stretch]:
    """Return fast and slow stretches in turn; they cover the run without gaps.

    Examples
    --------
    >>> t = np.linspace(0.0, 10.0, 201)
    >>> losses = 1.0 - 0.9 / (1.0 + np.exp(-20.0 * (t - 5.0)))
    >>> [(round(one.start, 1), one.fast) for one in stretches(t, losses)]
    [(0.0, False), (4.9, True), (5.2, False)]
    """
    moments, logs = _thinned(times, losses)
    if len(moments) < 2:
        return [Stretch(float(times[0]), float(times[-1]), False)]
    duration = float(moments[-1] - moments[0])
    speeds = np.maximum(-np.diff(logs) / np.diff(moments), 1e-9 / duration)
    fast = _fast(np.log(speeds), logs)
    edges = np.flatnonzero(np.diff(np.concatenate([[-1], fast.astype(int), [-1]])))
    found = [
        Stretch(float(moments[a]), float(moments[b]), bool(fast[a])) for a, b in pairwise(edges.tolist())
    ]
    # What was dropped at the end belongs to the last stretch.
    found[-1] = found[-1]._replace(end=float(times[-1]))
    return found


def _thinned(times: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Return the times that count, and the logarithm of the running minimum of the loss there."""
    lowest = np.minimum.accumulate(losses)
    floor = LOWEST * lowest[0] if lowest[0] > 0 else 1.0
    logs = np.log(np.maximum(lowest, floor))
    usable = np.flatnonzero(lowest > floor)
    if not usable.size:
        return times[:1], logs[:1]
    duration = float(times[usable[-1]] - times[0])
    kept = [0]
    for i in usable[1:].tolist():
        apart = times[i] - times[kept[-1]]
        if apart > 0 and (apart >= CLOSE * duration or logs[kept[-1]] - logs[i] >= CLOSE_LOSS):
            kept.append(i)
    last = int(usable[-1])
    if kept[-1] != last and times[last] > times[kept[-1]]:
        kept.append(last)
    return times[kept], logs[kept]


def _fast(v: Floats, logs: Floats) -> Bools:
    """Return which intervals lie in a fast stretch."""
    fast = np.zeros(len(v), np.bool_)
    for top in _tops(v):
        low = high = top
        while low > 0 and v[low - 1] >= v[top] - TENTH:
            low -= 1
        while high + 1 < len(v) and v[high + 1] >= v[top] - TENTH:
            high += 1
        if logs[low] - logs[high + 1] >= FALL:
            fast[low : high + 1] = True
    return fast


def _tops(v: Floats) -> list[int]:
    """Return the local maxima that stand out, the first one of equal neighbours."""
    found = []
    for i in range(len(v)):
        if (i and v[i - 1] >= v[i]) or (i + 1 < len(v) and v[i + 1] > v[i]):
            continue
        sides = (v[:i][::-1], v[i + 1 :])
        if all(_stands_out(v[i], side) for side in sides):
            found.append(i)
    return found


def _stands_out(top: float, side: Floats) -> bool:
    """Whether a top is ln 10 above the valley between it and the next higher one on a side, if there is
    one."""
    higher = np.flatnonzero(side > top)
    return not higher.size or bool(top - side[: higher[0]].min(initial=top) >= TENTH)


def largest_gap(times: Floats, first: Floats, second: Floats, since: float = 0.0) -> float:
    """Return max |first − second| of two curves over the times t ≥ since·T, T the last one; all (k,)."""
    return float(np.abs(first - second)[times >= since * times[-1]].max())


def mean_gap(times: Floats, first: Floats, second: Floats) -> float:
    """Return (1/T) ∫ |first − second| dt of two curves from time 0 to T, by the trapezoidal rule."""
    return float(np.trapezoid(np.abs(first - second), times) / times[-1])


RESAMPLES = 200
RIDGE = 1e-2
"""Weight of the square of the slope (in units of the spread of x): keeps it finite if successes separate."""
ACCURATE = 1e-12
"""Relative error of the logistic fit."""
LEAST_SLOPE = 1e-6


@dataclass(frozen=True)
class Threshold:
    """Where the probability of success is ½, with a 95 % interval, and the width of the transition.

    P = 1/(1 + exp((x − middle)/width)).
    """

    middle: float
    low: float
    high: float
    width: float

    def __call__(self, x: Floats) -> Floats:
        """Return the fitted probability."""
        from scipy.special import expit

        return np.asarray(expit(-(x - self.middle) / self.width))

    def __str__(self) -> str:
        return f"{self.middle:.0f} [{self.low:.0f}, {self.high:.0f}]"


def threshold(x: Floats, successes: Floats, seed: int = 0) -> Threshold | None:
    """Fit a falling logistic curve to successes (0 or 1) at x; None if all or none succeed.

    The curve is the most likely one with a small ridge on its slope. The interval is that of 200 bootstrap
    samples, drawn among the runs at each x.
    """
    if np.all(successes == successes[0]):
        return None
    middle, width = _logistic(x, successes)
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(x == value) for value in np.unique(x)]
    found = []
    for _ in range(RESAMPLES):
        chosen = np.concatenate([rng.choice(group, len(group)) for group in groups])
        if np.any(successes[chosen] != successes[chosen[0]]):
            found.append(_logistic(x[chosen], successes[chosen])[0])
    low, high = np.quantile(found, [0.025, 0.975]) if found else (middle, middle)
    return Threshold(middle, float(low), float(high), width)


def _logistic(x: Floats, successes: Floats) -> tuple[float, float]:
    """Return middle and width of argmin_β Σ ln(1 + e^z) − s z + (RIDGE/2) β₁², z = β₀ + β₁(x − x̄)/std(x)."""
    from scipy.optimize import root
    from scipy.special import expit

    centre, spread = float(np.mean(x)), float(np.std(x)) or 1.0
    design, penalty = np.column_stack([np.ones_like(x), (x - centre) / spread]), np.diag([0.0, RIDGE])

    def gradient(weights: Floats) -> Floats:
        return np.asarray(design.T @ (expit(design @ weights) - successes) + penalty @ weights)

    def curvature(weights: Floats) -> Floats:
        p = expit(design @ weights)
        return np.asarray((design.T * (p * (1 - p))) @ design + penalty)

    # Convex: where the gradient vanishes is the minimum.
    found = root(gradient, np.zeros(2), jac=curvature, tol=ACCURATE)
    slope = min(float(found.x[1]), -LEAST_SLOPE)
    return centre - spread * float(found.x[0]) / slope, -spread / slope


@dataclass(frozen=True)
class Slope:
    """The slope of ln y over ln x with a 95 % interval."""

    value: float
    low: float
    high: float
    offset: float

    def __call__(self, x: Floats) -> Floats:
        """Return the fitted y."""
        values: Floats = np.exp(self.offset + self.value * np.log(x))
        return values

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def covers(self, value: float) -> bool:
        """Return whether the interval contains a value."""
        return self.low <= value <= self.high


def log_slope(x: Floats, y: Floats) -> float:
    """Return the slope of the least-squares line through (ln x, ln y)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def slope(x: Floats, y: Floats, seed: int = 0) -> Slope:
    """Fit ln y over ln x, the mean of y at each x first; bootstrap among the y at each x."""
    rng = np.random.default_rng(seed)
    values = np.unique(x)
    groups = [y[x == value] for value in values]

    def line(samples: list[Floats]) -> tuple[float, float]:
        means = np.log([np.mean(sample) for sample in samples])
        gradient, offset = np.polyfit(np.log(values), means, 1)
        return float(gradient), float(offset)

    gradient, offset = line(groups)
    drawn = [line([rng.choice(group, len(group)) for group in groups])[0] for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Slope(gradient, float(low), float(high), offset)


def exponent(x: Floats, found: list[Threshold], seed: int = 0) -> Slope:
    """Fit ln N over ln x through thresholds N, with an interval from the thresholds' own intervals."""
    rng = np.random.default_rng(seed)
    middles = np.log([one.middle for one in found])
    errors = np.array([np.log(one.high / one.low) / 3.92 for one in found])
    gradient, offset = np.polyfit(np.log(x), middles, 1)
    noise = errors * rng.standard_normal((RESAMPLES, len(found)))
    drawn = [np.polyfit(np.log(x), middles + row, 1)[0] for row in noise]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Slope(float(gradient), float(low), float(high), float(offset))


def misfits(x: Floats, found: list[Threshold]) -> tuple[float, float]:
    """Return Σ ((N − fit)/error)² of thresholds N for the best c·x^p, and for the best a + b ln x.

    Errors are those of the thresholds' intervals, (high − low)/3.92.
    """
    from scipy.optimize import curve_fit

    middles = np.array([one.middle for one in found])
    errors = np.array([max(one.high - one.low, 1e-9) / 3.92 for one in found])
    base, rise = np.polyfit(np.log(x), np.log(middles), 1)[::-1]
    (factor, power), _ = curve_fit(
        lambda at, c, p: c * at**p, x, middles, p0=(np.exp(base), rise), sigma=errors, absolute_sigma=True
    )
    slope, offset = np.polyfit(np.log(x), middles, 1, w=1 / errors)
    fits = factor * x**power, offset + slope * np.log(x)
    first, second = (float(np.sum(((middles - fit) / errors) ** 2)) for fit in fits)
    return first, second
