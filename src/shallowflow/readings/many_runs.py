"""What many runs show together: where they stop to succeed, and by which power a quantity grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats

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
