"""What a fit says for itself: a table to paste, intervals, tests, sentences, a formula, a frame, a picture.

Intervals of slopes and bands are those of the covariance (`noise`).

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student
from sklearn.utils.validation import check_is_fitted

from shallowflow.arrays import Bools, Floats, one_of, probability
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Pieces, Points, Rows, UnivariateRegressor, values
from shallowflow.estimators.noise import (
    RHOS,
    Correlation,
    Model,
    model_of,
    restricted,
    rho_weights,
    whitened,
)
from shallowflow.estimators.selection import Selected
from shallowflow.lazy import function

KINDS = ("mean", "observation")
STYLES = ("text", "latex", "python")
FAR_ORIGIN = 10.0
"""A formula has its origin at the first datum if x = 0 is this many ranges away."""
DRAWS, FEWEST_DRAWS = 299, 10
"""Simulations for a place, over all ρ and of a ρ that counts."""
SPREAD, NEAR, REACH = 30, 41, 5.0
"""Candidates for a place: quantiles between the neighbours, and equally spaced within 5 standard errors."""
DEGENERATE = 1e-9
NULL_DRAWS = 999
PLACES = 80
"""Candidates for the place of a further knot, at equal numbers of points."""
WEAK, SLOPE_PLACES = 1.5, 12
"""A set of places so many times as long as the delta method's counts for slopes, at so many of its places."""


def quantile(model: Model, level: float) -> float:
    """Return Student's two-sided quantile."""
    return float(student.ppf(0.5 + 0.5 * level, model.freedom))


class Interval(NamedTuple):
    """An estimate, its standard error, the ends of its interval, and for a knot the places tried in it."""

    estimate: float
    error: float
    low: float
    high: float
    places: tuple[float, ...] = ()


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
    weights = rho_weights(model, logs, gaps)

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


@dataclass(frozen=True)
class Summary:
    """A fit in tables: `knots` and `pieces` are rows (dictionaries), `lines` are sentences; print it.

    p: of each knot; further: of one more knot anywhere (0 knots: of a break at all). Under constraints and
    with jumps there are no intervals and tests: None.
    """

    title: str
    level: float
    knots: list[dict[str, Any]]
    pieces: list[dict[str, Any]]
    noise: float
    further: float | None
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share = f"{100 * self.level:g} % interval"
        known = {"low": share, "high": ""} if self.further is not None else {}
        parts = [self.title, ""]
        if self.knots:
            names = {"number": "knot", "estimate": "at", **known, "p": "p", "jump": "jump"}
            parts += [*_columns([{"number": i} | row for i, row in enumerate(self.knots, 1)], names), ""]
        parts += _columns(
            self.pieces, {"piece": "piece", "left": "from", "right": "to", "slope": "slope", **known}
        )
        parts += ["", f"noise: standard deviation {self.noise:.4g}"]
        if self.further is not None:
            what = "one more knot" if self.knots else "a break"
            parts.append(f"test of {what}: p = {self.further:.3g}")
        return "\n".join([*parts, *self.lines])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts."""
        return {
            "title": self.title,
            "level": self.level,
            "knots": self.knots,
            "pieces": self.pieces,
            "noise": self.noise,
            "p_further_knot": self.further,
            "notes": self.lines,
        }


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(value)
        return text.removesuffix("T00:00:00")
    if isinstance(value, float):
        return "-∞" if value == -np.inf else "∞" if value == np.inf else f"{value:.6g}"
    return str(value)


def _columns(rows: list[dict[str, Any]], names: dict[str, str]) -> list[str]:
    """Return a table of those of the columns that the rows have, by their names."""
    there = {key: name for key, name in names.items() if key in rows[0]}
    return _table(list(there.values()), [[_text(row[key]) for key in there] for row in rows])


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (heads, *rows)
    ]


class SummarisedRegressor(UnivariateRegressor):
    """Base of regressors that say how sure they are: tables, intervals, sentences, a formula, pictures."""

    n_knots: int | str
    weights: str
    random_state: Any
    optimal_: bool | None
    loss_: str
    outliers_: Bools
    noise_: Correlation
    notes_: list[str]
    _rows: Rows
    _points: Points
    loss_history_: Floats
    _chosen_: Selected | None
    _obeys_: bool
    """Whether there are constraints or jumps: then there are no intervals."""

    def summary(self, level: float = 0.95) -> Summary:
        """Return knots and slopes with intervals at this level, the noise, tests, and what there is to say.

        Intervals of knots are simulated likelihood-ratio sets, those of slopes by the delta method (beside a
        weak kink: over all its places): both with the number of knots taken for known. p-values are simulated
        sup-F tests. Under constraints and with jumps there are neither.
        """
        probability(level, "level")
        check_is_fitted(self)
        if self._obeys_:
            return self._plain_summary(level)
        model, rng = self._model(), self._generator()
        knots, tests = knot_intervals(model, level, rng), each_knot(model, rng)
        units = self._points
        rows = []
        for one, p in zip(knots, tests, strict=True):
            ends = self._shown(units.low + units.half * np.array([one.estimate, one.low, one.high]))
            rows.append(
                {
                    "estimate": ends[0],
                    "error": one.error * units.half,
                    "low": ends[1],
                    "high": ends[2],
                    "p": p,
                }
            )
        variance = model.row_variance * units.scale**2
        lines = [*self.notes_, *self._said()]
        title = self._title()
        return Summary(
            title,
            level,
            rows,
            self._piece_rows(slope_intervals(model, level, knots)),
            float(np.sqrt(variance)),
            further_knot(model, rng),
            lines,
        )

    def _plain_summary(self, level: float) -> Summary:
        """Return knots and slopes without intervals."""
        rows = [{"estimate": place} for place in self.knots_]
        jumps, K = self.jumps_, self.n_knots_
        if jumps.any():
            rows = [row | {"jump": float(jump)} for row, jump in zip(rows, jumps, strict=True)]
        points = self._points
        left = max(points.size - (3 if jumps.any() else 2) * K - 2, 1.0)
        noise = float(np.sqrt(2 * self.loss_history_[-1] / left))
        said = "Intervals and tests are for continuous fits without constraints: none are given."
        lines = [*self.notes_, *self._said(), said]
        return Summary(self._title(), level, rows, self._piece_rows([]), noise, None, lines)

    def knot_intervals(self, level: float = 0.95) -> Any:
        """Return the sets of places that the data do not rule out for each knot, (K, 2); dates if x are."""
        model = self._model()
        found = knot_intervals(model, probability(level, "level"), self._generator())
        ends = np.array([(one.low, one.high) for one in found]).reshape(-1, 2)
        return self._shown(self._points.low + self._points.half * ends)

    def slope_intervals(self, level: float = 0.95) -> Floats:
        """Return intervals of the slopes, (K + 1, 2)."""
        found = self._slopes(probability(level, "level"))
        factor = self._points.scale / self._points.half
        return factor * np.array([(one.low, one.high) for one in found])

    def predict_interval(self, X: ArrayLike, level: float = 0.95, *, kind: str = "mean") -> Floats:
        """Return intervals of f ("mean") or of one more row ("observation") at the rows of X, (n, 2)."""
        one_of(kind, "kind", KINDS)
        return self._band(self._places(X), level, observation=kind == "observation")

    def _band(self, places: Floats, level: float, *, observation: bool = False) -> Floats:
        """Return intervals of f, or of one more row, at places on the line, (n, 2)."""
        points = self._points
        x = (places - points.low) / points.half
        _, low, high = band(self._model(), x, probability(level, "level"), observation)
        return points.centre + points.scale * np.stack([low, high], axis=1)

    def break_test(self) -> float:
        """Return the p-value of one more knot: without knots, whether there is a break at all."""
        return further_knot(self._model(), self._generator())

    def formula(self, style: str = "text") -> str:
        """Return f as "text", "latex" or a "python" expression in x (days since 1970-01-01 for dates)."""
        return formula_of(self.pieces_, one_of(style, "style", STYLES))

    def to_frame(self, level: float = 0.95) -> Any:
        """Return one row per piece with its ends, slope, intercept and intervals, as a pandas DataFrame."""
        probability(level, "level")
        check_is_fitted(self)
        rows = self._piece_rows([] if self._obeys_ else self._slopes(level))
        return function("pandas:DataFrame")(rows)

    def plot(self, ax: Any = None, *, path: str | Path | None = None, level: float = 0.95) -> Any:
        """Draw data, fit, its band and the knots' intervals on a matplotlib axis, or write them to a file.

        Returns the axis.
        """
        check_is_fitted(self)
        return function("shallowflow.reporting.figures.runs:plot_fit")(self, ax, path, level)

    def plot_path(self, ax: Any = None, *, path: str | Path | None = None) -> Any:
        """Draw the criterion, and the loss, over the numbers of knots that were tried; return the axis."""
        check_is_fitted(self)
        return function("shallowflow.reporting.figures.runs:plot_path")(self, ax, path)

    def _model(self) -> Model:
        check_is_fitted(self)
        if self._obeys_:
            raise InvalidInputError("intervals: are for continuous fits without constraints, got another fit")
        points = self._points
        knots = (self.pieces_.knots - points.low) / points.half
        return model_of(points, knots)

    def _generator(self) -> np.random.Generator:
        seed = self.random_state
        return np.random.default_rng(seed if isinstance(seed, int) else 0)

    def _slopes(self, level: float) -> list[Interval]:
        model = self._model()
        return slope_intervals(model, level, knot_intervals(model, level, self._generator()))

    def _piece_rows(self, found: list[Interval]) -> list[dict[str, Any]]:
        """Return one row per piece; the model may have merged pieces that the data cannot tell apart.

        found: intervals of the slopes, none if there are no intervals.
        """
        factor = self._points.scale / self._points.half
        rows = self.pieces_.table()
        listed: list[dict[str, Any]] = [dict(row) for row in rows]
        for i, row in enumerate(listed):
            for end, place in (("left", self.pieces_.lefts[i]), ("right", self.pieces_.rights[i])):
                if np.isfinite(place):
                    row[end] = self._shown(np.array([place]))[0]
            if not found:
                continue
            if len(found) == len(rows):
                row |= {"low": factor * found[i].low, "high": factor * found[i].high}
            else:
                row |= {"low": -np.inf, "high": np.inf}
        return listed

    def _title(self) -> str:
        word = "jump" if self.jumps_.any() else "knot"
        knots = f"{self.n_knots_} {word}{'' if self.n_knots_ == 1 else 's'}"
        pieces = f"{len(self.pieces_.slopes)} straight piece{'s' if self.n_knots_ else ''}"
        return f"{pieces}, {knots}, {self._points.size:g} points"

    def _said(self) -> list[str]:
        optimal = self.optimal_
        if optimal and self.n_knots_:
            if self.jumps_.any():
                return ["No other jumps, as many as these, have a lower loss (proved)."]
            return ["No other knots, as many as these, have a lower loss (proved)."]
        return []


def formula_of(pieces: Pieces, style: str) -> str:
    """Return f(x) = a + s (x − o) + Σ δ_k (x − b_k)₊ + Σ h_k 1(x > b_k), h_k the jumps."""
    reach = pieces.high - pieces.low
    origin = 0.0 if abs(pieces.low) <= FAR_ORIGIN * reach else pieces.low
    digits = repr if style == "python" else (lambda value: f"{value:.6g}")

    def number(value: float) -> str:
        return digits(float(value))

    def shifted(place: float) -> str:
        if place == 0:
            return "x"
        return f"x - {number(place)}" if place > 0 else f"x + {number(-place)}"

    hinge = {"text": "max(0, {})", "latex": "\\max(0,\\, {})", "python": "np.maximum(0, {})"}[style]
    step = {"text": "(x > {})", "latex": "\\mathbf{{1}}(x > {})", "python": "(x > {})"}[style]
    dot = {"text": "·", "latex": " ", "python": "*"}[style]
    start, first = pieces.heights[0] + pieces.slopes[0] * (origin - pieces.centres[0]), pieces.slopes[0]
    inner = shifted(origin)
    inner = inner if inner == "x" else f"({inner})"
    text = f"{number(start)} {_sign(first)} {number(abs(first))}{dot}{inner}"
    for knot, turn, jump in zip(pieces.knots, np.diff(pieces.slopes), pieces.jumps, strict=True):
        text += f" {_sign(turn)} {number(abs(turn))}{dot}{hinge.format(shifted(knot))}"
        if jump:
            text += f" {_sign(jump)} {number(abs(jump))}{dot}{step.format(number(knot))}"
    return f"y = {text}" if style != "python" else text


def _sign(value: float) -> str:
    return "-" if value < 0 else "+"
