"""How sure? Covariances of a fit with its knots, sets of places for each knot, tests of a break.

The noise may be correlated: neighbours by ρ, R_ij = ρ^|i−j|, with weights π(ρ) for what ρ may be
(`noise.restricted`, half of the prior on ρ = 0). Few residuals tell little of ρ, and a fit lowers it: sets
that take one estimate for the truth cover 81 to 91 % at n = 50, ρ = 0.5 where they say 95 %. So nothing here
has one ρ; covariances and p-values are averages over π.

**Delta method.** With J = [1, x, (x − b_k)₊, −δ_k 1(x > b_k)], δ_k the turn at b_k, the estimates have the
covariance σ² (JᵀJ)⁻¹ JᵀRJ (JᵀJ)⁻¹, σ² = Σ r²/tr(MR), M = I − J(JᵀJ)⁻¹Jᵀ, rows times √w; knots are never
taken for known.

**Places of a knot.** Near a weak kink the delta method covers 40 to 70 % where it says 95 %. So the set of
all places c where T(c) = ν log(RSS(c)/min RSS) is not larger than chance makes it when the knot *is* at c, by
simulation, the other knots linearised. All columns are whitened by ρ first: then RSS is that of generalised
least squares and the noise is white, for each ρ. With M the projection that takes out all but knot k,
z_c = M(x − c)₊/‖·‖ and a_c = z_cᵀy, RSS(c) = ‖My‖² − a_c², and a simulated y* = a_c z_c + s_c e has
a*_c' = a_c z_cᵀz_c' + s_c z_c'ᵀe: all T* come from ZᵀZ and ZᵀE. c is kept if Σ π(ρ) P_ρ(T* ≥ T) ≥ 5 %. π is
the posterior of ρ integrated over the places. (Ordinary squares with correlated draws cover 90 to 92 % even
with ρ known, since s_c then varies with few effective points; π given c keeps nearly every place.)

**Is there a break at all?** Simulated sup-F tests: T = max_c a_c²/((‖My‖² − max a²)/ν) over places c of one
more knot, whitened likewise, M the projection that takes out the fit without it. Under the null y is noise,
so T is a function of the noise alone: for each ρ p is the share of simulated T* at least as large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import t as student

from shallowflow.arrays import Floats
from shallowflow.estimators.base import Points, values
from shallowflow.estimators.noise import LEAST_NOISE, RHOS, restricted, whitened

DRAWS = 299
SPREAD, NEAR, REACH = 30, 41, 5.0
"""Candidates for a place: quantiles between the neighbours, and equally spaced within 5 standard errors."""
MOST_POINTS = 1000
"""More are merged before anything is simulated."""
DEGENERATE = 1e-9
NULL_DRAWS = 999
PLACES = 80
"""Candidates for the place of a further knot, at equal numbers of points."""
WEAK, SLOPE_PLACES = 1.5, 12
"""A set of places so many times as long as the delta method's counts for slopes, at so many of its places."""
FEWEST_DRAWS, LEAST_WEIGHT = 10, 0.005
"""Of a ρ that counts; one of less weight does not."""


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
        return _weights(self, logs)

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


class Interval(NamedTuple):
    """An estimate, its standard error, the ends of its interval, and for a knot the places tried in it."""

    estimate: float
    error: float
    low: float
    high: float
    places: tuple[float, ...] = ()


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


def _weights(model: Model, logs: Floats, gaps: Floats | float = 1.0) -> Floats:
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


def quantile(model: Model, level: float) -> float:
    """Return Student's two-sided quantile."""
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


class Profile(NamedTuple):
    """One ρ with its weight: whitened, projected and normed hinges Z (m, c), a = Zᵀy, and what is left.

    squares: RSS(c); draws: so many simulated noises, projected, as G = ZᵀE (c, b) and power eᵀe (b,).
    """

    weight: float
    hinges: Floats
    a: Floats
    squares: Floats
    G: Floats
    power: Floats


def profiles(
    model: Model, places: Floats, without: int | None, rng: np.random.Generator, draws: int
) -> tuple[Floats, Iterator[Profile]]:
    """Return the places kept (c,), those that the data can tell, and a profile for every ρ that counts."""
    J = model.root[:, None] * model.columns(model.points.x, without)
    Z = model.root[:, None] * np.maximum(model.points.x[:, None] - places, 0)
    Q = np.linalg.qr(J)[0]
    left = np.linalg.norm(Z - Q @ (Q.T @ Z), axis=0)
    known = left > DEGENERATE * np.maximum(np.linalg.norm(Z, axis=0), 1e-300)
    places, Z = places[known], Z[:, known]
    if len(places) == 0:
        return places, iter(())
    logs = restricted(J, Z, model.targets, model.further, model.scatter)
    gaps = np.gradient(places) if len(places) > 1 else np.ones(1)
    weights = _weights(model, logs, gaps)

    def made() -> Iterator[Profile]:
        for rho, weight in zip(RHOS, weights, strict=True):
            if weight > 0:
                yield _profile(model, (J, Z), float(rho), float(weight), rng, draws)

    return places, made()


def _profile(
    model: Model,
    columns: tuple[Floats, Floats],
    rho: float,
    weight: float,
    rng: np.random.Generator,
    draws: int,
) -> Profile:
    J, Z = (whitened(part, rho) for part in columns)
    Q = np.linalg.qr(J)[0]
    y = whitened(model.targets, rho)
    y = y - Q @ (Q.T @ y)
    Z = Z - Q @ (Q.T @ Z)
    Z = Z / np.linalg.norm(Z, axis=0)
    a = Z.T @ y
    squares = np.maximum(float(y @ y) + model.scatter - a * a, 1e-300)
    E = rng.standard_normal((len(y), max(round(weight * draws), FEWEST_DRAWS)))
    E -= Q @ (Q.T @ E)
    power = np.sum(E * E, axis=0)
    if model.further > 0:
        power = power + rng.chisquare(model.further, E.shape[1])
    return Profile(weight, Z, a, squares, Z.T @ E, power)


def knot_set(
    model: Model, k: int, level: float, rng: np.random.Generator, error: float
) -> tuple[float, float, tuple[float, ...]]:
    """Return the ends of the places for knot k that the data do not rule out, and those of them tried."""
    places, low, high = candidates(model, k, error)
    places, found = profiles(model, places, k, rng, DRAWS)
    if len(places) == 0:
        return low, high, ()
    chances, likely = np.zeros(len(places)), np.zeros(len(places))
    for one in found:
        chances += one.weight * _chances(one, model.freedom)
        likely -= one.weight * np.log(one.squares)
    where = np.flatnonzero(chances >= 1 - level)
    if len(where) == 0:
        where = np.array([int(np.argmax(likely))])
    first, last = int(where[0]), int(where[-1])
    start = low if first == 0 else 0.5 * (places[first - 1] + places[first])
    stop = high if last == len(places) - 1 else 0.5 * (places[last] + places[last + 1])
    return float(start), float(stop), tuple(places[where])


def _chances(one: Profile, freedom: float) -> Floats:
    """Return for every place c the share of draws with the knot at c whose T*(c) is at least T(c)."""
    shared = one.hinges.T @ one.hinges
    ratios = np.log(one.squares / one.squares.min())
    sizes = np.sqrt(one.squares / (freedom + 1))
    chances = np.empty(len(ratios))
    for i, (a, size) in enumerate(zip(one.a, sizes, strict=True)):
        drawn = a * shared[:, i : i + 1] + size * one.G
        whole = a**2 + 2 * a * size * one.G[i] + size**2 * one.power
        left = np.maximum(whole - drawn * drawn, 1e-300)
        chances[i] = np.mean(np.log(left[i] / left.min(axis=0)) >= ratios[i])
    return chances


def knot_intervals(model: Model, level: float, rng: np.random.Generator) -> list[Interval]:
    """Return an interval for every knot, on the unit scale."""
    errors = np.sqrt(np.maximum(np.diag(model.covariance)[2 + len(model.knots) :], 0))
    return [
        Interval(float(b), float(error), *knot_set(model, k, level, rng, float(error)))
        for k, (b, error) in enumerate(zip(model.knots, errors, strict=True))
    ]


def slope_intervals(model: Model, level: float, knots: list[Interval]) -> list[Interval]:
    """Return an interval for every slope, on the unit scale, by the delta method.

    Beside a knot whose set of places is much longer than the delta method says, the slopes of the pieces that
    meet there reach over their intervals with the knot at any of these places. knots: `knot_intervals`.
    """
    factor = quantile(model, level)
    found = []
    for j, slope in enumerate(model.points.fit(model.knots)[1][:, 2]):
        reach = factor * (error := _slope_error(model.covariance, j))
        found.append(Interval(float(slope), error, float(slope) - reach, float(slope) + reach))
    for k, knot in enumerate(knots):
        places = knot.places
        if not places or knot.high - knot.low <= WEAK * 2 * factor * knot.error:
            continue
        for i in np.unique(np.linspace(0, len(places) - 1, SLOPE_PLACES).round().astype(int)):
            for j, (least, most) in _slopes_beside(model, k, places[i], factor).items():
                one = found[j]
                found[j] = one._replace(low=min(one.low, least), high=max(one.high, most))
    return found


def _slope_error(covariance: Floats, j: int) -> float:
    g = np.zeros(len(covariance))
    g[1 : 2 + j] = 1.0
    return float(np.sqrt(max(float(g @ covariance @ g), 0.0)))


def _slopes_beside(model: Model, k: int, place: float, factor: float) -> dict[int, tuple[float, float]]:
    """Return intervals of the slopes left and right of knot k, were it at this place, by piece."""
    x, hinge = model.points.x, 2 + k
    J = np.insert(model.columns(x, k), hinge, np.maximum(x - place, 0), axis=1) * model.root[:, None]
    best = np.linalg.lstsq(J, model.targets, rcond=None)[0]
    rest = model.targets - J @ best
    covariance = model.spread(J, float(rest @ rest) + model.scatter)
    slopes = np.cumsum(best[1 : 3 + k])
    reaches = [factor * _slope_error(covariance, j) for j in (k, k + 1)]
    return {k + i: (float(slopes[k + i] - reaches[i]), float(slopes[k + i] + reaches[i])) for i in (0, 1)}


def band(model: Model, x: Floats, level: float, observation: bool) -> tuple[Floats, Floats, Floats]:
    """Return f, and the ends of its intervals, at places x (k,) on the unit scale.

    observation: for one more row of weight 1, not for f.
    """
    J = model.columns(x)
    squares = np.sum((J @ model.covariance) * J, axis=1)
    if observation:
        squares = squares + model.row_variance
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
    places, found = profiles(model, np.unique(places), without, rng, NULL_DRAWS)
    if len(places) == 0:
        return 1.0
    p = 0.0
    for one in found:
        gain = float(np.max(one.a**2))
        share = gain / max(float(one.squares[0] + one.a[0] ** 2) - gain, 1e-300)
        drawn = np.max(one.G**2, axis=0)
        simulated = drawn / np.maximum(one.power - drawn, 1e-300)
        p += one.weight * float(np.mean(simulated >= share))
    return (1 + NULL_DRAWS * p) / (NULL_DRAWS + 1)
