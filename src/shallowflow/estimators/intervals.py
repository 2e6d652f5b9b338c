"""How sure? Covariances of a fit with its knots, and sets of places for each knot.

**Delta method.** With J = [1, x, (x − b_k)₊, −δ_k 1(x > b_k)], δ_k the turn at b_k, the estimates have the
covariance σ² (JᵀWJ)⁻¹, σ² = Σ w r²/(n − 2K − 2); knots are never taken for known. Where neighbours are
correlated, with R_ij = ρ^|i−j|, it is σ² (JᵀJ)⁻¹ JᵀRJ (JᵀJ)⁻¹, and σ² = Σ r²/tr(MR), M = I − J(JᵀJ)⁻¹Jᵀ.

**Places of a knot.** Near a weak kink the delta method covers 40 to 70 % where it says 95 %. So the set of
all places c with T(c) = ν log(RSS(c)/min RSS) below the quantile that T(c) has when the knot *is* at c, by
simulation, the other knots linearised. With M the projection that takes out all but knot k,
z_c = M(x − c)₊/‖·‖ and a_c = z_cᵀy, RSS(c) = ‖My‖² − a_c², and a simulated y* = a_c z_c + s_c e has
a*_c' = a_c z_cᵀz_c' + s_c z_c'ᵀe: all T* come from ZᵀZ and ZᵀE.

**Is there a break at all?** Simulated sup-F tests, with a null of correlated noise where the data are.

T = max_c a_c²/((‖My‖² − max a²)/ν) over places c of one more knot (`intervals`), M the projection that takes
out the fit without it. Under the null y is noise, so that T is a function of the noise alone: p is the share
of simulated T* at least as large, (1 + #{T* ≥ T})/(B + 1), exact for white Gaussian noise at any n.

Correlated noise is drawn as AR(1). From 100 points on ρ is that of the residuals with the best further knot,
plus k (1 + 2ρ)/m for the k parameters fitted; below, that of the residuals without it: then the level is
right, at the price of power.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import t as student

from shallowflow.arrays import Floats
from shallowflow.estimators.noise import LARGEST_RHO
from shallowflow.estimators.points import Points, values

DRAWS = 199
SPREAD, NEAR, REACH = 30, 41, 5.0
"""Candidates for a place: quantiles between the neighbours, and equally spaced within 5 standard errors."""
MOST_POINTS = 1000
"""More are merged before anything is simulated."""
DEGENERATE = 1e-9
NULL_DRAWS = 999
PLACES = 80
"""Candidates for the place of a further knot, at equal numbers of points."""
FEW_POINTS = 100


@dataclass(frozen=True, eq=False)
class Model:
    """A fit on its points, weights taken into x and y: √w y = √w f + noise.

    root: √w (m,); turns: δ (K,); size: n = Σ w in rows; rho: correlation of neighbours; unit: σ² of a row of
    weight 1 over σ² here, in the user's units.
    """

    points: Points
    knots: Floats
    turns: Floats
    root: Floats
    size: float
    rho: float

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

    def residual_squares(self) -> float:
        """Σ w r², scatter included."""
        return float(self.points.fit(self.knots)[0] + self.points.scatter.sum())

    def covariance(self) -> tuple[Floats, float]:
        """Return the covariance (2K + 2, 2K + 2) of line, turns and knots, and σ² (of weight 1 here)."""
        J = self.jacobian
        inverse = np.linalg.pinv(J.T @ J, hermitian=True)
        if self.rho == 0:
            variance = self.residual_squares() / self.freedom
            return np.asarray(variance * inverse, dtype=np.float64), variance
        spread = J.T @ correlated(J, self.rho)
        inner = inverse @ spread
        left = self.size - float(np.trace(inner))
        variance = self.residual_squares() / max(left, 1.0)
        return np.asarray(variance * inner @ inverse, dtype=np.float64), variance

    def noise(self, rng: np.random.Generator, draws: int) -> Floats:
        """Return unit noise (m, draws), correlated as that of the data."""
        e = rng.standard_normal((len(self.root), draws))
        if self.rho == 0:
            return e
        e[1:] *= np.sqrt(1 - self.rho**2)
        return np.asarray(lfilter([1.0], [1.0, -self.rho], e, axis=0))


class Interval(NamedTuple):
    """An estimate, its standard error, and the ends of its interval."""

    estimate: float
    error: float
    low: float
    high: float


def correlated(columns: Floats, rho: float) -> Floats:
    """Return R times columns (m, p), R_ij = ρ^|i−j|, in O(m p)."""
    forward = lfilter([1.0], [1.0, -rho], columns, axis=0)
    backward = lfilter([1.0], [1.0, -rho], columns[::-1], axis=0)[::-1]
    return np.asarray(forward + backward - columns)


def model_of(points: Points, knots: Floats, rho: float) -> Model:
    """Return the model of a fit; knots (n,) on the unit scale, those without a turn are left out."""
    points = points.coarser(MOST_POINTS)
    live = knots[(knots > points.x[0]) & (knots < points.x[-1])]
    live = live[np.append(True, np.diff(live) > 0)] if len(live) else live
    slopes = points.fit(live)[1][:, 2]
    turning = np.diff(slopes) != 0
    live, turns = live[turning], np.diff(slopes)[turning]
    size = float(points.w.sum()) * points.unit / points.scale**2
    return Model(points, live, turns, np.sqrt(points.w), size, rho)


def quantile(model: Model, level: float) -> float:
    """Return Student's quantile for two-sided intervals."""
    return float(student.ppf(0.5 + 0.5 * level, model.freedom))


def candidates(model: Model, k: int, error: float) -> tuple[Floats, float, float]:
    """Return places (c,) to try for knot k, increasing, and between which ends they lie."""
    x, knots = model.points.x, model.knots
    low = float(knots[k - 1]) if k > 0 else float(x[0])
    high = float(knots[k + 1]) if k + 1 < len(knots) else float(x[-1])
    inside = x[(x > low) & (x < high)]
    spread = np.quantile(inside, np.linspace(0, 1, SPREAD)) if len(inside) else np.empty(0)
    reach = REACH * error if np.isfinite(error) else 0.0
    near = np.linspace(knots[k] - reach, knots[k] + reach, NEAR)
    places = np.unique(np.concatenate([spread, near, knots[k : k + 1]]))
    return places[(places > low) & (places < high)], low, high


def hinges(model: Model, places: Floats, without: int | None) -> tuple[Floats, Floats, Floats]:
    """Return normed z_c (m, c), the places kept (those that the data can tell), and Q of the rest of J."""
    J = model.root[:, None] * model.columns(model.points.x, without)
    Q = np.linalg.qr(J)[0]
    Z = model.root[:, None] * np.maximum(model.points.x[:, None] - places, 0)
    before = np.linalg.norm(Z, axis=0)
    Z = Z - Q @ (Q.T @ Z)
    after = np.linalg.norm(Z, axis=0)
    known = after > DEGENERATE * np.maximum(before, 1e-300)
    return Z[:, known] / after[known], places[known], Q


def knot_set(
    model: Model, k: int, level: float, rng: np.random.Generator, error: float
) -> tuple[float, float]:
    """Return the ends of the set of places for knot k that the data do not rule out at this level."""
    places, low, high = candidates(model, k, error)
    Z, places, Q = hinges(model, places, k)
    if len(places) == 0:
        return low, high
    y = model.root * model.points.y
    rest = y - Q @ (Q.T @ y)
    scatter = float(model.points.scatter.sum())
    total, a = float(rest @ rest) + scatter, Z.T @ rest
    squares = np.maximum(total - a * a, 1e-300)
    found = model.freedom * np.log(squares / squares.min())
    E = model.noise(rng, DRAWS)
    E -= Q @ (Q.T @ E)
    G, power = Z.T @ E, np.sum(E * E, axis=0)
    further = model.size - len(model.root)
    if further > 0:
        power = power + rng.chisquare(further, DRAWS)
    shared = Z.T @ Z
    free = np.maximum(np.mean(power - G * G, axis=1), 1.0)
    accepted = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        size = np.sqrt(squares[i] / free[i])
        drawn = a[i] * shared[:, i : i + 1] + size * G
        whole = a[i] ** 2 + 2 * a[i] * size * G[i] + size**2 * power
        left = np.maximum(whole - drawn * drawn, 1e-300)
        simulated = model.freedom * np.log(left[i] / left.min(axis=0))
        accepted[i] = found[i] <= np.quantile(simulated, level)
    where = np.flatnonzero(accepted)
    if len(where) == 0:
        where = np.array([int(np.argmin(squares))])
    first, last = int(where[0]), int(where[-1])
    start = low if first == 0 else 0.5 * (places[first - 1] + places[first])
    stop = high if last == len(places) - 1 else 0.5 * (places[last] + places[last + 1])
    return float(start), float(stop)


def knot_intervals(model: Model, level: float, rng: np.random.Generator) -> list[Interval]:
    """Return an interval for every knot, on the unit scale."""
    covariance, _ = model.covariance()
    K = len(model.knots)
    errors = np.sqrt(np.maximum(np.diag(covariance)[2 + K :], 0))
    return [
        Interval(float(b), float(error), *knot_set(model, k, level, rng, float(error)))
        for k, (b, error) in enumerate(zip(model.knots, errors, strict=True))
    ]


def slope_intervals(model: Model, level: float) -> list[Interval]:
    """Return an interval for every slope, on the unit scale, by the delta method."""
    covariance, _ = model.covariance()
    K = len(model.knots)
    lines = model.points.fit(model.knots)[1]
    factor = quantile(model, level)
    found = []
    for j in range(K + 1):
        g = np.zeros(2 * K + 2)
        g[1 : 2 + j] = 1.0
        error = float(np.sqrt(max(float(g @ covariance @ g), 0.0)))
        slope = float(lines[j, 2])
        found.append(Interval(slope, error, slope - factor * error, slope + factor * error))
    return found


def band(model: Model, x: Floats, level: float, observation: bool) -> tuple[Floats, Floats, Floats]:
    """Return f, and the ends of its intervals, at places x (k,) on the unit scale.

    observation: for one more row of weight 1, not for f.
    """
    covariance, variance = model.covariance()
    J = model.columns(x)
    squares = np.sum((J @ covariance) * J, axis=1)
    if observation:
        squares = squares + variance * model.points.unit / model.points.scale**2
    reach = quantile(model, level) * np.sqrt(np.maximum(squares, 0))
    middle = values(model.knots, model.points.fit(model.knots)[1], x)
    return middle, middle - reach, middle + reach


def further_knot(model: Model, rng: np.random.Generator) -> float:
    """Return the p-value of one more knot anywhere, given those of the model."""
    x = model.points.x
    return _p_value(model, np.quantile(x, np.linspace(0, 1, PLACES + 2)[1:-1]), None, rng)


def each_knot(model: Model, rng: np.random.Generator) -> list[float]:
    """Return the p-value of every knot: of a break between its neighbours, given the others."""
    found = []
    for k, knot in enumerate(model.knots):
        low = model.knots[k - 1] if k > 0 else model.points.x[0]
        high = model.knots[k + 1] if k + 1 < len(model.knots) else model.points.x[-1]
        inside = model.points.x[(model.points.x > low) & (model.points.x < high)]
        places = np.quantile(inside, np.linspace(0, 1, PLACES)) if len(inside) else np.empty(0)
        found.append(_p_value(model, np.unique(np.append(places, knot)), k, rng))
    return found


def _p_value(model: Model, places: Floats, without: int | None, rng: np.random.Generator) -> float:
    Z, places, Q = hinges(model, np.unique(places), without)
    if len(places) == 0:
        return 1.0
    y = model.root * model.points.y
    rest = y - Q @ (Q.T @ y)
    scatter = float(model.points.scatter.sum())
    a = Z.T @ rest
    best = int(np.argmax(a * a))
    rho = _null_correlation(model, rest, rest - a[best] * Z[:, best], Q.shape[1])
    E = replace(model, rho=rho).noise(rng, NULL_DRAWS)
    E -= Q @ (Q.T @ E)
    power, G = np.sum(E * E, axis=0), np.max((Z.T @ E) ** 2, axis=0)
    further = model.size - len(model.root)
    if further > 0:
        power = power + rng.chisquare(further, NULL_DRAWS)
    found = float(a[best] ** 2) / max(float(rest @ rest) + scatter - float(a[best] ** 2), 1e-300)
    simulated = G / np.maximum(power - G, 1e-300)
    return float((1 + np.sum(simulated >= found)) / (NULL_DRAWS + 1))


def _null_correlation(model: Model, plain: Floats, bent: Floats, parameters: int) -> float:
    """Return ρ of the noise under the null, 0 if it may be 0."""
    size = len(plain)
    few = size < FEW_POINTS
    rest, parameters = (plain, parameters) if few else (bent, parameters + 2)
    power = float(rest @ rest)
    if power == 0.0 or size < 3:
        return 0.0
    rho = float(rest[1:] @ rest[:-1]) / power
    rho = rho if few else rho + parameters * (1 + 2 * rho) / size
    return float(min(rho, LARGEST_RHO)) if rho > 2 / np.sqrt(size) else 0.0
