"""The choice of the number of knots: along a path, by criterion or cross-validation, robust where it must be.

* "bic" (`criterion`): the least of Schwarz's criterion with degrees of freedom and effective sample size.
* "cv": five folds, every fifth point left out in turn (which depends on nothing but the data). The least
  number of knots whose error is within one standard error of the smallest one; the standard error is that of
  the paired differences, so an outlier that no fit predicts does not count (Breiman et al. 1984; Hastie et
  al. 2009, §7.10). Correlated noise deceives it.

With a robust loss the path is made of fits whose rows are weighted by their residuals, and 2 Σ w ρ(r/σ̂) takes
the place of Σ w r². "auto" asks whether a point lies beyond 4.685 σ̂ of the bisquare fit; if none does, the
squares are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from shallowflow.arrays import Bools, Floats
from shallowflow.estimators.noise import (
    FEW,
    MANY,
    ROBUST,
    ROUNDING,
    SUSPECT,
    WHITE,
    Choice,
    Correlation,
    Fitted,
    Loss,
    choose,
    distances,
    noise_size,
    outliers,
    residuals,
)
from shallowflow.estimators.path import Path, PathRow, Progress, between, default_largest, numbers_up_to
from shallowflow.estimators.points import Points, Rows, squared_errors, values
from shallowflow.estimators.search import relocation, summary, useful

FOLDS, LEAST_FOR_FOLDS = 5, 3
"""Fewer points are not divided."""
MERGED, MERGED_PER_KNOT = 2_000, 20
"""Neighbours are merged if there are more points than this, and more than this for each knot."""
FIRST_REWEIGHTS, REWEIGHTS, FINAL_REWEIGHTS = 8, 3, 10
ROBUST_ROUNDS, ROBUST_WIDTH = 3, 3
SETTLED = 1e-6
"""Change of the factors below which they are not renewed."""


@dataclass(frozen=True)
class Setting:
    """What a user decided about the choice: see `ANLSRegressor`."""

    search: str = "relocation"
    selection: str = "bic"
    loss: str = "auto"
    min_points: int = 1
    min_knots: int = 0
    max_knots: int | None = None
    precision: bool = False


@dataclass(frozen=True, eq=False)
class Selected:
    """Knots (n,), the fits along the path with their criterion, errors by cross-validation, and the noise.

    loss: which one was taken; factors: of the rows' weights (k,), None where all are 1; sigma: σ̂.
    """

    knots: Floats
    fits: Mapping[int, Fitted]
    criteria: Mapping[int, float]
    errors: Mapping[int, float] = field(default_factory=dict)
    noise: Correlation = WHITE
    loss: str = "squared"
    factors: Floats | None = None
    sigma: float = 0.0


def select(rows: Rows, points: Points, setting: Setting, progress: Progress | None = None) -> Selected:
    """Return as many fitted knots as the data call for, along the whole path of numbers."""
    robust = setting.loss if setting.loss in ROBUST else None
    if setting.loss == "auto" and setting.selection == "bic" and suspicious(rows, setting.precision):
        found = robust_path(rows, setting, "bisquare")
        if found is not None and _far_off(rows, found, setting.precision).any():
            return found
    if robust and setting.selection == "bic":
        found = robust_path(rows, setting, robust)
        if found is not None:
            return found
    largest = largest_number(points, setting)
    coarse = points.coarser(max(MERGED, MERGED_PER_KNOT * largest))
    if setting.selection == "cv" and len(coarse.x) >= LEAST_FOR_FOLDS:
        return _by_folds(coarse, largest, setting, progress)
    return _by_criterion(coarse, largest, setting, progress)


def largest_number(points: Points, setting: Setting) -> int:
    """Return the most knots to try."""
    most = default_largest(points) if setting.max_knots is None else setting.max_knots
    return useful(max(most, setting.min_knots), points, setting.min_points)


def _by_criterion(points: Points, largest: int, setting: Setting, progress: Progress | None) -> Selected:
    path = Path(points, setting.search, setting.min_points)
    numbers = numbers_up_to(largest)
    path.walk(numbers, progress)
    choice = _chosen(path.fitted(), points, setting)
    if choice.number > FEW:
        if progress:
            progress(None, f"trying numbers around {choice.number:,} knots")
        nearby = between(numbers, choice.number)
        path.walk([number for number in path.numbers if number < min(nearby, default=0)][-1:] + nearby)
        choice = _chosen(path.fitted(), points, setting)
    return Selected(path.knots(choice.number), path.fitted(), choice.values, noise=choice.noise)


def _chosen(fits: Mapping[int, Fitted], points: Points, setting: Setting) -> Choice:
    """Return the choice among the fits, with at least `min_knots`."""
    choice = choose(fits, points.size, float(points.w.sum()))
    if choice.number >= setting.min_knots:
        return choice
    allowed = {number: value for number, value in choice.values.items() if number >= setting.min_knots}
    return choice._replace(number=min(allowed, key=lambda number: allowed[number]))


def suspicious(rows: Rows, precision: bool) -> bool:
    """Return whether a row lies so far from its neighbours that it may be an outlier."""
    sigma = noise_size(rows, precision)
    size = len(rows.x)
    limit = SUSPECT if size <= MANY else float(norm.isf(0.05 / size))
    return sigma > 0 and float(np.abs(distances(rows, precision)).max()) > limit * sigma


def _units(rows: Rows, knots: Floats, points: Points, sigma: float, precision: bool) -> Floats:
    """Return the rows' residuals (k,) in units of σ̂."""
    rest = rows.y - values(knots, points.fit(knots)[1], rows.x)
    return np.asarray(rest * (np.sqrt(rows.w) if precision else 1.0) / sigma)


def _far_off(rows: Rows, found: Selected, precision: bool) -> Bools:
    """Return which rows (k,) are outliers of a robust fit."""
    u = _units(rows, found.knots, rows.points(found.factors), found.sigma, precision)
    return outliers(u, np.ones(len(u)) if precision else rows.w)


def reweighted(
    rows: Rows, knots: Floats, factors: Floats, kind: str, sigma: float, setting: Setting, times: int
) -> tuple[Floats, Floats, float]:
    """Return knots, factors (k,) and 2 Σ w ρ(u) after `times` rounds of search and new factors."""
    loss: Loss = ROBUST[kind]
    for _ in range(times):
        points = rows.points(factors).coarser(MERGED)
        if len(knots):
            found = relocation(points, knots, ROBUST_ROUNDS, ROBUST_WIDTH, least=setting.min_points)
            knots = summary(found).knots
        u = _units(rows, knots, points, sigma, setting.precision)
        new = loss.weight(u)
        if np.abs(new - factors).max() < SETTLED or not new.any():
            break
        factors = new
    counts = np.ones(len(u)) if setting.precision else rows.w
    return knots, factors, 2 * float(counts @ loss.value(u))


def robust_path(rows: Rows, setting: Setting, kind: str, exactly: int | None = None) -> Selected | None:
    """Return what the criterion chooses (or `exactly` so many knots) with a robust loss.

    None if the size of the noise is unknown. Forward only as far as 20 knots.
    """
    sigma = noise_size(rows, setting.precision)
    if sigma == 0:
        return None
    start = rows.points()
    largest = min(largest_number(start, setting), FEW) if exactly is None else exactly
    factors, knots, fits, kept = np.ones(len(rows.x)), np.empty(0), dict[int, Fitted](), dict[int, Floats]()
    for number in range(largest + 1):
        times = REWEIGHTS if number else FIRST_REWEIGHTS
        if number:
            knots = np.append(knots, start.x[-1])
        knots, factors, value = reweighted(rows, knots, factors, kind, sigma, setting, times)
        points = rows.points(factors)
        fits[number] = Fitted(knots, value, residuals(points, knots))
        kept[number] = factors
    for number in range(largest - 1, 0, -1):
        above = Path(rows.points(kept[number + 1]).coarser(MERGED))
        fewer = above._without(fits[number + 1].knots, 1)
        other, weights, value = reweighted(rows, fewer, kept[number + 1], kind, sigma, setting, REWEIGHTS)
        if value < fits[number].loss:
            fits[number] = Fitted(other, value, residuals(rows.points(weights), other))
            kept[number] = weights
    total = float(rows.w.sum())
    choice = choose(fits, total, total)
    number = max(choice.number, min(setting.min_knots, largest)) if exactly is None else exactly
    knots, factors, _ = reweighted(
        rows, fits[number].knots, kept[number], kind, sigma, setting, FINAL_REWEIGHTS
    )
    return Selected(knots, fits, choice.values, noise=choice.noise, loss=kind, factors=factors, sigma=sigma)


def _by_folds(points: Points, largest: int, setting: Setting, progress: Progress | None) -> Selected:
    """Return what cross-validation chooses."""
    path = Path(points, setting.search, setting.min_points)
    folds = _Folds(points, setting)
    numbers = numbers_up_to(largest)
    for i, number in enumerate(numbers):
        if progress:
            progress(sum(numbers[:i]) / max(sum(numbers), 1), f"trying {number:,} knots")
        folds.errors(number)
    chosen = folds.judge(numbers)
    if chosen > FEW:
        if progress:
            progress(None, f"trying numbers around {chosen:,} knots")
        numbers = sorted([*numbers, *between(numbers, chosen)])
        chosen = folds.judge(numbers)
    chosen = max(chosen, min(setting.min_knots, largest))
    path.walk([number for number in numbers if number <= chosen or number <= min(chosen + 2, FEW)])
    fits = path.fitted()
    choice = choose(fits, points.size, float(points.w.sum()))
    errors = {number: folds.mean(number) for number in numbers}
    return Selected(path.knots(chosen), fits, choice.values, errors, choice.noise)


class _Folds:
    """Points left out in turn, and the errors of fits to the others on them."""

    def __init__(self, points: Points, setting: Setting) -> None:
        number = min(FOLDS, len(points.x))
        places = np.arange(len(points.x)) % number
        self._tests = [points.part(places == fold) for fold in range(number)]
        trains = [points.part(places != fold) for fold in range(number)]
        self._paths = [Path(train, setting.search, setting.min_points) for train in trains]
        weights = np.concatenate([test.w for test in self._tests])
        self._weights = weights / weights.sum()
        self._errors: dict[int, Floats] = {}

    def errors(self, number: int) -> Floats:
        """Return the squared errors (m,) at all points, each left out of the fit."""
        if number not in self._errors:
            squares = [
                squared_errors(path.knots(useful(number, path.points)), path.points, test)
                for path, test in zip(self._paths, self._tests, strict=True)
            ]
            self._errors[number] = np.maximum(np.concatenate(squares), ROUNDING)
        return self._errors[number]

    def mean(self, number: int) -> float:
        """Return the mean squared error."""
        return float(self.errors(number) @ self._weights)

    def judge(self, numbers: list[int]) -> int:
        """Return the least number within one standard error of the best one."""
        table = np.array([self.errors(number) for number in numbers])
        excess = table - table[np.argmin(table @ self._weights)]
        means = excess @ self._weights
        deviations = np.sqrt(((excess - means[:, None]) * self._weights) ** 2 @ np.ones(len(self._weights)))
        return numbers[int(np.argmax(means <= deviations))]


def merged_enough(points: Points, largest: int) -> Points:
    """Return the points, neighbours merged where there are very many."""
    return points.coarser(max(MERGED, MERGED_PER_KNOT * largest))


def refitted(rows: Rows, selected: Selected, kind: str, setting: Setting) -> Selected:
    """Return the same number of knots, fitted with a robust loss."""
    again = robust_path(rows, setting, kind, exactly=len(selected.knots))
    if again is None:
        return selected
    return replace(again, fits=selected.fits, criteria=selected.criteria, errors=selected.errors)


def path_rows(selected: Selected, points: Points, shown: Callable[[Floats], Any]) -> list[PathRow]:
    """Return the path in the user's units."""
    unit = points.unit if selected.sigma == 0 else (selected.sigma * points.scale) ** 2
    found = []
    for number, fit in sorted(selected.fits.items()):
        live = fit.knots[(fit.knots > points.x[0]) & (fit.knots < points.x[-1])]
        error = selected.errors.get(number, np.nan) * points.scale**2
        criterion = selected.criteria.get(number, np.nan)
        place = shown(points.low + points.half * live)
        found.append(PathRow(number, 0.5 * unit * fit.loss, criterion, error, place))
    return found
