"""Thresholds and slopes with intervals: a logistic fit of successes, a line through logarithms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats

RESAMPLES = 200
RIDGE = 1e-2
"""Weight of the square of the slope (in units of the spread of x): keeps it finite if successes separate."""
ITERATIONS = 60


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
        values: Floats = 1.0 / (1.0 + np.exp(np.clip((x - self.middle) / self.width, -500, 500)))
        return values

    def __str__(self) -> str:
        return f"{self.middle:.0f} [{self.low:.0f}, {self.high:.0f}]"


def threshold(x: Floats, successes: Floats, seed: int = 0) -> Threshold | None:
    """Fit a falling logistic curve to successes (0 or 1) at x; None if all or none succeed.

    The interval is that of 200 bootstrap samples, drawn among the runs at each x.
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
    """Return middle and width of the most likely curve, by Newton's method on standardised x."""
    centre, spread = float(np.mean(x)), float(np.std(x)) or 1.0
    design = np.column_stack([np.ones_like(x), (x - centre) / spread])
    weights, penalty = np.zeros(2), np.diag([0.0, RIDGE])
    for _ in range(ITERATIONS):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (successes - p) - penalty @ weights
        curvature = (design * (p * (1 - p))[:, None]).T @ design + penalty + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step * min(1.0, 2.0 / float(np.max(np.abs(step)) + 1e-300))
        if np.max(np.abs(step)) < 1e-10:
            break
    slope = min(float(weights[1]), -1e-6)
    return centre - spread * float(weights[0]) / slope, -spread / slope


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
