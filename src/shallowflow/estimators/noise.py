"""How many knots does noise leave? The criterion; correlated neighbours, outliers, the size of the noise.

**Criterion.** With K knots, R_K the least Σ w r², ν_K = n − 2K − 2 degrees of freedom, a cost c per knot, and
n points that count as n/τ, the least

    C_K = (ν_K/τ) log(R_K/R_0) + c K log(n/τ)

wins: Schwarz's criterion (1978) with ν_K in the place of n, which keeps small n from being interpolated, and
two parameters per knot, its place and its turn. c = 2, and 2.5 where the noise is correlated, since τ is then
an estimate. On white noise alone it places a knot in 8 % of data sets of 20 points, 5 % of 50, then ever
fewer.

**Correlation.** ρ, the lag-1 autocorrelation of residuals in the order of x, times √w, plus (2K + 2)/m for
what fitting K knots to m points takes away. Where ρ > 2/√m, n points count as n/τ, τ = (1 + ρ)/(1 − ρ).
Intervals and tests reckon with every ρ by its restricted likelihood (Patterson and Thompson 1971), which does
not take the residuals of a fit for noise: few residuals tell little of ρ, and a fit lowers it. Sets that take
one estimate for the truth cover 81 to 91 % at n = 50, ρ = 0.5 where they say 95 %. So covariances and
p-values are averages over ρ with weights π(ρ), half of the prior on ρ = 0.

**Covariance of a fit** (delta method). With J = [1, x, (x − b_k)₊, −δ_k 1(x > b_k)], δ_k the turn at b_k, the
estimates have the covariance σ² (JᵀJ)⁻¹ JᵀRJ (JᵀJ)⁻¹, R_ij = ρ^|i−j|, σ² = Σ r²/tr(MR), M = I − J(JᵀJ)⁻¹Jᵀ,
rows times √w; knots are never taken for known.

**Size.** σ̂ = 1.4826 · median |e_i|: e_i the distance of a point from the line through its neighbours, or of
a row from the mean of the rows with the same x, each over what unit noise would make of it. It needs no fit.

**Outliers** count for less with Huber's or Tukey's loss: rows are weighted by ψ(r/σ̂)/(r/σ̂), and fitted again
(Huber and Ronchetti 2009, Robust Statistics).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import chi2, norm

from shallowflow.arrays import Bools, Floats
from shallowflow.estimators.base import Points, Rows, values

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
MOST_POINTS, LEAST_WEIGHT = 1000, 0.005
"""More points are merged before anything is simulated; a ρ of less weight does not count."""
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


@dataclass(frozen=True, eq=False)
class Model:
    """A fit on its points, weights taken into x and y: √w y = √w f + noise.

    root: √w (m,); turns: δ (K,); size: n in rows, scatter: Σ w r² within the points (where neighbours were
    merged their means alone count: n = m, no scatter); row_variance: σ² of a row of weight 1, in units of y².
    """

    points: Points
    knots: Floats
    turns: Floats
    root: Floats
    size: float
    scatter: float
    row_variance: float

    @property
    def freedom(self) -> float:
        """ν = n − 2K − 2, at least 1."""
        return max(self.size - 2 * len(self.knots) - 2, 1.0)

    def columns(self, x: Floats, without: int | None = None) -> Floats:
        """Return J at places x (k,), perhaps without what belongs to one knot: (k, 2K + 2)."""
        ones = np.ones(len(x))
        kept = [k for k in range(len(self.knots)) if k != without]
        hinges = [np.maximum(x - self.knots[k], 0) for k in kept]
        steps = [-self.turns[k] * (x > self.knots[k]) for k in kept]
        return np.stack([ones, x, *hinges, *steps], axis=1)

    @property
    def jacobian(self) -> Floats:
        """√w J, (m, 2K + 2)."""
        return self.root[:, None] * self.columns(self.points.x)

    @property
    def targets(self) -> Floats:
        """√w y, (m,)."""
        return np.asarray(self.root * self.points.y)

    def residual_squares(self) -> float:
        """Σ w r², scatter included."""
        return float(self.points.fit(self.knots)[0]) + self.scatter

    @property
    def further(self) -> float:
        """Rows beyond one for each point."""
        return self.size - len(self.root)

    @property
    def exact(self) -> bool:
        """Whether what is left is rounding."""
        return self.residual_squares() <= LEAST_NOISE**2 * float(self.points.w.sum())

    @cached_property
    def weights(self) -> Floats:
        """Weights of the correlations `RHOS` around this fit."""
        logs = restricted(
            self.jacobian, np.empty((len(self.root), 0)), self.targets, self.further, self.scatter
        )
        return rho_weights(self, logs)

    def spread(self, J: Floats, squares: float) -> Floats:
        """Return the covariance (p, p) of least squares with columns J (m, p) that leaves these squares."""
        inverse = np.linalg.pinv(J.T @ J, hermitian=True)
        found = np.zeros_like(inverse)
        for rho, weight in zip(RHOS, self.weights, strict=True):
            if weight > 0:
                inner = inverse @ (J.T @ correlated(J, rho))
                left = max(self.size - float(np.trace(inner)), 1.0)
                found += weight * squares / left * inner @ inverse
        return found

    @cached_property
    def covariance(self) -> Floats:
        """Covariance (2K + 2, 2K + 2) of line, turns and knots."""
        return self.spread(self.jacobian, self.residual_squares())


def correlated(columns: Floats, rho: float) -> Floats:
    """Return R times columns (m, p), R_ij = ρ^|i−j|, in O(m p)."""
    forward = lfilter([1.0], [1.0, -rho], columns, axis=0)
    backward = lfilter([1.0], [1.0, -rho], columns[::-1], axis=0)[::-1]
    return np.asarray(forward + backward - columns)


def model_of(points: Points, knots: Floats) -> Model:
    """Return the model of a fit; knots (n,) on the unit scale, those without a turn are left out."""
    rows = float(points.w.sum()) * points.unit / points.scale**2
    merged = points.coarser(MOST_POINTS)
    live = knots[(knots > merged.x[0]) & (knots < merged.x[-1])]
    live = live[np.append(True, np.diff(live) > 0)] if len(live) else live
    slopes = merged.fit(live)[1][:, 2]
    turning = np.diff(slopes) != 0
    live, turns = live[turning], np.diff(slopes)[turning]
    squares = (float(points.fit(live)[0]) + float(points.scatter.sum())) * points.unit / points.scale**2
    variance = squares / max(rows - 2 * len(live) - 2, 1.0)
    # The scatter of merged neighbours is not that of their means if they are correlated.
    size, scatter = (rows, float(points.scatter.sum())) if merged is points else (float(len(merged.x)), 0.0)
    return Model(merged, live, turns, np.sqrt(merged.w), size, scatter, variance)


def rho_weights(model: Model, logs: Floats, gaps: Floats | float = 1.0) -> Floats:
    """Return the weights (r,) of the correlations `RHOS` from logarithms of likelihoods (r, c).

    gaps: (c,), how much each column counts. Half of the prior is on ρ = 0, the rest is uniform.
    """
    prior = np.where(RHOS == 0, 0.5, 0.5 / (len(RHOS) - 1))
    if model.exact:
        prior[RHOS > 0] = 0.0
    logs = np.where(prior[:, None] > 0, logs, -np.inf)
    weights = prior * np.sum(np.exp(logs - logs.max()) * gaps, axis=1)
    weights = np.where(weights >= LEAST_WEIGHT * weights.sum(), weights, 0.0)
    return np.asarray(weights / weights.sum())


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


COST, COST_CORRELATED = 2.0, 2.5
FEW = 20
"""Up to so many knots are judged first when the whole path wants more: noise may be correlated."""
ROUNDING = 1e-28
"""Mean squares below this (of targets in [−1, 1]) are rounding."""


class Fitted(NamedTuple):
    """Knots (K,), the loss R_K (scatter included), and residuals √w r at the points (m,)."""

    knots: Floats
    loss: float
    rest: Floats


class Choice(NamedTuple):
    """The number of knots, the criterion of every number, and the correlation it reckons with."""

    number: int
    values: dict[int, float]
    noise: Correlation


def criterion(
    losses: Mapping[int, float], size: float, total: float, tau: float = 1.0, per_knot: int = 2
) -> dict[int, float]:
    """Return C_K for every K of `losses` (R_K by K, R_0 among them).

    Symbols: `size` n; `total`, Σ w in the units of R; τ; `per_knot`, the parameters of a knot. Numbers that
    leave no degree of freedom are ∞.
    """
    cost = (COST if tau == 1.0 else COST_CORRELATED) * per_knot / 2
    least = ROUNDING * total
    start = np.log(max(losses[0], least))
    found = {}
    for number, loss in losses.items():
        freedom = size - per_knot * number - 2
        if freedom <= 0 or size <= tau:
            found[number] = np.inf if number else 0.0
            continue
        gain = np.log(max(loss, least)) - start
        found[number] = float(freedom / tau * gain + cost * number * np.log(size / tau))
    return found


def choose(fits: Mapping[int, Fitted], size: float, total: float) -> Choice:
    """Return the number of knots of least criterion among fits by their number of knots.

    ρ is that of the fit which white noise would call for. If that has more than 20 knots, noise with a
    correlation of neighbours may have called for them: so it is asked first whether such noise, around 20
    knots or fewer, explains the data. If it does not, the curve has many bends, and what correlation is left
    is that of pieces which are not quite straight: it does not count. With fewer knots ρ is taken again.
    """
    losses = {number: fit.loss for number, fit in fits.items()}
    white = criterion(losses, size, total)

    def noise(number: int) -> Correlation:
        if fits[number].loss <= ROUNDING * total:
            return WHITE
        return correlation(fits[number].rest, 2 * number + 2)

    first = _least({number: value for number, value in white.items() if number <= FEW})
    found = noise(first)
    if _least(white) > FEW and not explained_by(fits[first].rest, found.rho):
        found = WHITE
    values = criterion(losses, size, total, found.tau) if found.tau > 1 else white
    number = _least(values)
    again = noise(number)
    if 1 < found.tau < again.tau and explained_by(fits[number].rest, again.rho):
        # Too many knots had eaten some of the correlation.
        found, values = again, criterion(losses, size, total, again.tau)
    return Choice(_least(values), values, found)


def _least(values: Mapping[int, float]) -> int:
    """Return the least number with the least value."""
    return min(sorted(values), key=lambda number: values[number])
