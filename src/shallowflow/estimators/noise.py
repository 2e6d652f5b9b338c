"""Noise as it is: correlated neighbours, outliers, and how large it is before anything is fitted.

**Correlation.** ρ, the lag-1 autocorrelation of residuals in the order of x, times √w, plus (2K + 2)/m for
what fitting K knots to m points takes away. Where ρ > 2/√m, n points count as n/τ, τ = (1 + ρ)/(1 − ρ).
Intervals and tests reckon with every ρ by its restricted likelihood (Patterson and Thompson 1971), which does
not take the residuals of a fit for noise.

**Size.** σ̂ = 1.4826 · median |e_i|: e_i the distance of a point from the line through its neighbours, or of
a row from the mean of the rows with the same x, each over what unit noise would make of it. It needs no fit.

**Outliers** count for less with Huber's or Tukey's loss: rows are weighted by ψ(r/σ̂)/(r/σ̂), and fitted again
(Huber and Ronchetti 2009, Robust Statistics).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from shallowflow.arrays import Bools, Floats
from shallowflow.estimators.points import Points, Rows, values

LARGEST_RHO = 0.97
FEWEST = 10
"""Points below which no correlation is looked for."""
LAGS, DOUBT = 10, 0.01
"""Of the test whether what is left after ρ is white."""
RHOS = np.append(0.0, np.arange(0.04, LARGEST_RHO, 0.08))
"""The correlations that intervals and tests reckon with."""
MAD = 1.4826
LEAST_NOISE = 1e-12
"""Of targets in [−1, 1]: what is smaller is rounding."""
HUBER, BISQUARE = 1.345, 4.685
"""In units of σ̂; both keep 95 % of the efficiency of least squares on Gaussian noise."""
MANY = 5000
SUSPECT = 3.0
"""A point this many σ̂ from the line through its neighbours may be an outlier."""


class Correlation(NamedTuple):
    """ρ of neighbouring residuals, 0 if it may be 0, and τ = (1 + ρ)/(1 − ρ)."""

    rho: float
    tau: float


WHITE = Correlation(0.0, 1.0)


def residuals(points: Points, knots: Floats) -> Floats:
    """Return √w (y − f) at every point (m,), f fitted with these knots."""
    lines = points.fit(knots)[1]
    return np.asarray(np.sqrt(points.w) * (points.y - values(knots, lines, points.x)))


def correlation(rest: Floats, parameters: float) -> Correlation:
    """Return the correlation of neighbours among residuals (m,) of a fit with so many parameters."""
    size, power = len(rest), float(rest @ rest)
    if size < FEWEST or power == 0.0:
        return WHITE
    rho = float(rest[1:] @ rest[:-1]) / power + parameters / size
    if rho <= 2 / np.sqrt(size):
        return WHITE
    rho = min(rho, LARGEST_RHO)
    return Correlation(rho, (1 + rho) / (1 - rho))


def explained_by(rest: Floats, rho: float) -> bool:
    """Return whether residuals (m,) are no more than noise with correlation ρ of neighbours.

    What is left, r_i − ρ r_{i−1}, must be white: Ljung and Box's test over ten lags, at 1 %.
    """
    left = rest[1:] - rho * rest[:-1]
    size, power = len(left), float(left @ left)
    if size <= 2 * LAGS or power == 0.0:
        return True
    lags = np.arange(1, LAGS + 1)
    shares = np.array([left[lag:] @ left[:-lag] for lag in lags]) / power
    statistic = size * (size + 2) * np.sum(shares**2 / (size - lags))
    return bool(chi2.sf(statistic, LAGS - 1) > DOUBT)


def whitened(columns: Floats, rho: float) -> Floats:
    """Return columns (m,) or (m, p) times L⁻¹, LLᵀ = R, R_ij = ρ^|i−j|: (c_i − ρ c_{i−1})/√(1 − ρ²)."""
    found = columns.copy()
    found[1:] -= rho * columns[:-1]
    found[1:] /= np.sqrt(1 - rho * rho)
    return found


def restricted(J: Floats, Z: Floats, y: Floats, further: float, scatter: float) -> Floats:
    """Return the restricted log-likelihood of `RHOS` with columns J (m, p) and one of Z (m, c): (r, c).

    −½ log|R| − ½ log|XᵀR⁻¹X| − ½ (m + further − q) log(rᵀR⁻¹r + scatter), X the q columns, r what generalised
    least squares leaves of y (m,). Without columns Z: (r, 1). `further` rows, beyond one for each point, have
    the sum of squares `scatter` among their equals. Fewer than 10 points: ρ = 0 alone.
    """
    size, found = len(y), np.full((len(RHOS), max(Z.shape[1], 1)), -np.inf)
    left = size - J.shape[1] - min(Z.shape[1], 1)
    if size < FEWEST or left <= 0:
        found[0] = 0.0
        return found
    for i, rho in enumerate(RHOS):
        Q, R = np.linalg.qr(whitened(J, rho))
        v = whitened(y, rho)
        v = v - Q @ (Q.T @ v)
        squares, volume = np.array([float(v @ v)]), np.zeros(1)
        if Z.shape[1]:
            z = whitened(Z, rho)
            z -= Q @ (Q.T @ z)
            volume = np.sum(z * z, axis=0)
            squares = squares - (v @ z) ** 2 / volume
            volume = np.log(volume)
        known = np.abs(np.diag(R))
        volume = volume + 2 * np.log(known[known > 0]).sum()
        squares = np.maximum(squares + scatter, 1e-300)
        found[i] = -0.5 * ((size - 1) * np.log1p(-rho * rho) + volume + (left + further) * np.log(squares))
    return found


def distances(rows: Rows, precision: bool) -> Floats:
    """Return how far each row is from its neighbours' line, or its equals' mean, over what unit noise makes.

    Rows that cannot be judged (at the ends) are 0. precision: weights are precisions 1/σ_i², not counts.
    """
    group, w = rows.group, rows.w
    weight, rows_there = np.bincount(group, w), np.bincount(group)
    means = np.bincount(group, w * rows.y) / weight
    places = rows.x[np.flatnonzero(np.diff(group, prepend=-1))]
    lone = np.zeros(len(weight))
    if len(places) > 2:
        share = (places[1:-1] - places[:-2]) / (places[2:] - places[:-2])
        line = means[:-2] + share * (means[2:] - means[:-2])
        spread = 1 / weight[1:-1] + (1 - share) ** 2 / weight[:-2] + share**2 / weight[2:]
        lone[1:-1] = (means[1:-1] - line) / np.sqrt(spread)
    own = w if precision else np.ones(len(w))
    left = 1 - np.minimum(own / weight[group], 0.75)
    among = (rows.y - means[group]) * np.sqrt(own / left)
    return np.asarray(np.where(rows_there[group] > 1, among, lone[group]))


def noise_size(rows: Rows, precision: bool) -> float:
    """Return σ̂ of rows of weight 1, on the unit scale; 0 if it is unknown."""
    found = np.abs(distances(rows, precision))
    counts = np.ones(len(found)) if precision else rows.w
    judged = found > 0
    if 2 * counts[judged].sum() < counts.sum() or judged.sum() < 3:
        return 0.0
    size = MAD * weighted_median(found[judged], counts[judged])
    return size if size > LEAST_NOISE else 0.0


def weighted_median(values: Floats, weights: Floats) -> float:
    """Return the value with half of the weight on either side: the median if a weight k is k equal values."""
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order]) / weights.sum()
    low = int(np.searchsorted(shares, 0.5 * (1 - 1e-12)))
    high = int(np.searchsorted(shares, 0.5 * (1 + 1e-12)))
    high = min(high, len(values) - 1)
    return float(0.5 * (values[order[low]] + values[order[high]]))


class Loss(NamedTuple):
    """A loss ρ(u) of residuals u in units of σ̂, and the weight ψ(u)/u that it gives them."""

    value: Callable[[Floats], Floats]
    weight: Callable[[Floats], Floats]


def _huber_value(u: Floats) -> Floats:
    size = np.abs(u)
    return np.asarray(np.where(size <= HUBER, 0.5 * u * u, HUBER * (size - 0.5 * HUBER)))


def _huber_weight(u: Floats) -> Floats:
    return np.asarray(HUBER / np.maximum(np.abs(u), HUBER))


def _bisquare_value(u: Floats) -> Floats:
    inside = 1 - np.minimum((u / BISQUARE) ** 2, 1.0)
    return np.asarray(BISQUARE**2 / 6 * (1 - inside**3))


def _bisquare_weight(u: Floats) -> Floats:
    return np.asarray((1 - np.minimum((u / BISQUARE) ** 2, 1.0)) ** 2)


ROBUST = {"huber": Loss(_huber_value, _huber_weight), "bisquare": Loss(_bisquare_value, _bisquare_weight)}


def outliers(rest: Floats, counts: Floats) -> Bools:
    """Return which of the residuals (k,), each so many times, lie beyond 4.685 σ̂, σ̂ from their median."""
    size = MAD * weighted_median(np.abs(rest), counts)
    # Of very many points some lie beyond 4.685 σ by chance.
    limit = max(BISQUARE, float(norm.isf(0.005 / max(float(counts.sum()), 1.0))))
    return np.asarray(np.abs(rest) > limit * size) if size > 0 else np.zeros(len(rest), np.bool_)
