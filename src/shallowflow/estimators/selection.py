"""The number of knots: the best fit for every number, and the choice among them, robust where it must be.

**The path.** Forward, each fit begins from the one before with a knot more, put where it gains most.
Backward, each begins from the one with more knots without the cheapest, and the better fit stays. From 20
knots on the numbers grow by a factor ⁴√2, and those around the chosen one are filled in.

**The choice**, along a path:

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from shallowflow.arrays import Bools, Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Points, Rows, squared_errors, values
from shallowflow.estimators.constraints import ConstrainedFit, Constraints
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
    criterion,
    distances,
    noise_size,
    outliers,
    residuals,
)
from shallowflow.estimators.search import (
    SETTLED,
    Losses,
    added,
    exchanged,
    paper_moves,
    relocation,
    settled,
    starts,
    summary,
    useful,
)

LARGEST, POINTS_PER_KNOT, TIED_POINTS_PER_KNOT = 200, 5, 2
"""The most knots that are tried unless the user says otherwise, and the fewest points for each.

Where the rows are at least twice as many as the distinct x, fewer of these are needed for each knot.
"""
BEYOND = 2
"""For a given number of knots the path goes so many further, and back."""
REFINED = 6
"""How many numbers are tried between two neighbours of the geometric series."""
ROUNDS, WIDTH = 10, 3
"""How far each search by relocation goes on the way."""
SEARCHED_POINTS, SETTLED_POINTS = 2_000, 20_000
"""Neighbours are merged to so many for the search, and for the last moves of the knots."""
PAST = 3
"""The walk ends so many knots after the best number by the criterion."""
EXCHANGED = 4
"""Up to so many knots each is tried elsewhere, too, where a loss is known by its values alone."""

Progress = Callable[[float | None, str], None]
"""Called with the fraction done, None where that is not known, and what is being done."""
Found = dict[int, tuple[Floats, float]]
"""Knots and their loss, by their number."""


def numbers_up_to(largest: int) -> list[int]:
    """Return 0, 1, …, 20, then growing by ⁴√2, up to `largest`."""
    if largest <= FEW:
        return list(range(largest + 1))
    beyond = {round(FEW * 2 ** (i / 4)) for i in range(1, 4 * largest.bit_length())}
    return [*range(FEW + 1), *sorted(number for number in beyond if number < largest), largest]


def between(numbers: Sequence[int], chosen: int) -> list[int]:
    """Return the numbers to try between the neighbours of `chosen` in an increasing list."""
    place = list(numbers).index(chosen)
    new: set[int] = set()
    for low, high in pairwise(numbers[max(place - 1, 0) : place + 2]):
        new |= {round(number) for number in np.linspace(low, high, REFINED + 2)}
    return sorted(new - set(numbers))


def default_largest(points: Points) -> int:
    """Return the most knots to try when the user does not say."""
    size = len(points.x)
    each = TIED_POINTS_PER_KNOT if points.size >= 2 * size else POINTS_PER_KNOT
    return useful(min(LARGEST, max(2, size // each)), points)


class PathRow(NamedTuple):
    """A number of knots, ½ Σ w r² with it, its criterion, its error by cross-validation (NaN: none), knots.

    With a robust loss, σ̂² Σ w ρ(r/σ̂) in the place of ½ Σ w r².
    """

    n_knots: int
    loss: float
    criterion: float
    cv_error: float
    knots: Any


class Path:
    """Fits to the same points with different numbers of knots."""

    def __init__(self, points: Points, search: str = "relocation", least: int = 1) -> None:
        self.points, self._search, self._least = points, search, least
        self._knots: dict[int, Floats] = {}
        self.losses: dict[int, float] = {}
        self._offer(0, np.empty(0))

    @property
    def numbers(self) -> list[int]:
        """The numbers of knots there are fits with, increasing."""
        return sorted(self.losses)

    def knots(self, number: int) -> Floats:
        """Return `number` knots (some perhaps dead), fitted, begun from the largest smaller number."""
        if number not in self.losses:
            if self._search == "relocation":
                fewer = self._knots[max(known for known in self._knots if known <= number)]
                dead = np.full(number - len(fewer), self.points.x[-1])
                self._offer(number, self._settled(np.append(fewer, dead)))
            else:
                # The moves of the paper bring no dead knot to life: each number from its own start.
                start = next(starts(number, self.points, np.random.RandomState(0)))
                self._offer(number, summary(paper_moves(self.points, start, np.inf)).knots)
        return self._knots[number]

    def walk(self, numbers: Sequence[int], progress: Progress | None = None) -> None:
        """Fit all these numbers (increasing), forward (beyond 20 every other one), then backward."""
        many = [number for number in numbers if number > FEW]
        ahead = [*(number for number in numbers if number <= FEW), *many[-1::-2][::-1]]
        done, all_of_it = 0, sum(ahead) + sum(numbers) or 1
        for number in ahead:
            if progress:
                progress(done / all_of_it, f"trying {number:,} knots")
            self.knots(number)
            done += number
        if self._search != "relocation":
            return
        for fewer, number in reversed(list(pairwise(numbers))):
            if progress:
                progress(done / all_of_it, f"back to {fewer:,} knots")
            self._offer(fewer, self._settled(self._without(self._knots[number], number - fewer)))
            done += number

    def fitted(self) -> dict[int, Fitted]:
        """Return all fits; losses with the scatter of merged points."""
        scatter = float(self.points.scatter.sum())
        return {
            number: Fitted(knots, self.losses[number] + scatter, residuals(self.points, knots))
            for number, knots in sorted(self._knots.items())
        }

    def _offer(self, number: int, knots: Floats) -> None:
        """Keep a fit if it is the best one with its number of knots."""
        loss, _ = self.points.fit(knots)
        if number not in self.losses or loss < self.losses[number]:
            self._knots[number], self.losses[number] = knots, loss

    def _settled(self, knots: Floats) -> Floats:
        return summary(relocation(self.points, knots, ROUNDS, WIDTH, least=self._least)).knots

    def _without(self, knots: Floats, out: int) -> Floats:
        """Return the knots without the `out` cheapest, no two of them neighbours where that can be."""
        from shallowflow.kernels.fitting.search import prices

        costs = prices(knots, *self.points.data).costs
        dead = len(knots) - len(costs)
        if dead >= out:
            return knots[: len(knots) - out]
        taken = np.zeros(len(costs) + 2, dtype=bool)
        order = [int(i) for i in np.argsort(costs, kind="stable")]
        chosen = list[int]()
        for spaced in (True, False):
            for i in order:
                if len(chosen) < out - dead and i not in chosen and not (spaced and taken[i : i + 3].any()):
                    chosen.append(i)
                    taken[i + 1] = True
        return np.delete(knots[: len(costs)], chosen)


def walked(
    problem: Losses,
    most: int,
    begin: Callable[[int], list[Floats]],
    enough: Callable[[Found], bool],
    progress: Progress | None = None,
) -> Found:
    """Return the best free knots (n,) and their loss for n = 0, …, most; forward until that is `enough`.

    For losses known by their values alone; `begin` returns knots to start from besides those of the walk.
    """
    found: Found = {0: settled(problem, np.empty(0))}

    def offer(number: int, start: Floats) -> None:
        if len(start) == number and (number not in found or problem.loss(start) < np.inf):
            new = settled(problem, start)
            if number not in found or new[1] < found[number][1]:
                found[number] = new

    for number in range(1, most + 1):
        if progress:
            progress(None, f"trying {number:,} knots")
        for start in (added(problem, found[number - 1][0]), *begin(number)):
            offer(number, start)
        if enough(found):
            break
    for number in range(max(found) - 1, 0, -1):
        if progress:
            progress(None, f"back to {number:,} knots")
        more = found[number + 1][0]
        offer(number, min((np.delete(more, k) for k in range(number + 1)), key=problem.loss))
        if number <= EXCHANGED:
            offer(number, exchanged(problem, found[number][0]))
    return found


@dataclass(frozen=True, eq=False)
class Obeying:
    """The path, its criterion and noise; the fit: its loss, knots (n,), lines (n + 1, 3), if it is best."""

    fits: dict[int, Fitted]
    criteria: dict[int, float]
    noise: Correlation
    loss: float
    knots: Floats
    lines: Floats
    optimal: bool | None = None


def constrained(
    points: Points,
    own: Constraints,
    exactly: int | None,
    *,
    bounds: tuple[int, int],
    least: int = 1,
    progress: Progress | None = None,
) -> Obeying:
    """Return the best fit with `exactly` so many knots, or as many as the criterion calls for (None).

    bounds: the fewest and the most knots; known ones count. The criterion counts what is searched for.
    """
    known, coarse = len(own.knots), points.coarser(SEARCHED_POINTS)
    problem = ConstrainedFit(coarse, own, least)
    if exactly is not None and exactly < known:
        raise InvalidInputError(f"n_knots: must count the {known} known knots, got {exactly}")
    seed, scatter = problem.seed(), float(coarse.scatter.sum())
    most = bounds[1] - known if exactly is None else exactly - known + BEYOND
    most = max(useful(max(most, 0), coarse, least), len(seed))

    def enough(found: Found) -> bool:
        fits = {n: loss + scatter for n, (_, loss) in found.items() if np.isfinite(loss)}
        if exactly is not None or not fits or max(found) < len(seed):
            return False
        start = min(fits)
        values = criterion({n - start: loss for n, loss in fits.items()}, points.size, float(coarse.w.sum()))
        return max(found) - start >= min(values, key=lambda n: values[n]) + PAST

    begin = _Starts(coarse, own, seed, least)
    found = walked(problem, most, begin, enough, progress)
    fits = {n: _fitted(problem, free) for n, (free, loss) in found.items() if np.isfinite(loss)}
    if not fits:
        raise InvalidInputError(f"through: no function with {most + known} knots or fewer obeys")
    start, total = min(fits), float(coarse.w.sum())
    # What a constraint keeps from fitting is no noise: its correlation is that of the fit without it.
    noise = choose(begin.fitted(), points.size, total).noise
    values_ = criterion({n - start: fit.loss for n, fit in fits.items()}, points.size, total, noise.tau)
    number = max(min(values_, key=lambda n: values_[n]) + start, min(bounds[0] - known, max(fits)))
    if exactly is not None:
        number = min(exactly - known, max(fits))
        if number not in fits:
            raise InvalidInputError(f"n_knots: {start + known} are needed to obey, got {exactly}")
    free, _ = settled(ConstrainedFit(points.coarser(SETTLED_POINTS), own, least), found[number][0], SETTLED)
    loss, knots, lines = ConstrainedFit(points, own, least).lines(free)
    return Obeying(
        {n + known: fit for n, fit in fits.items()},
        {n + start + known: value for n, value in values_.items()},
        noise,
        loss,
        knots,
        lines,
    )


def _fitted(problem: ConstrainedFit, free: Floats) -> Fitted:
    loss, knots, lines = problem.lines(free)
    points = problem.points
    rest = np.sqrt(points.w) * (points.y - values(knots, lines, points.x))
    return Fitted(knots, loss + float(points.scatter.sum()), rest)


class _Starts:
    """Knots to start from: those of fits without constraints, and those with which there is a fit."""

    def __init__(self, points: Points, own: Constraints, seed: Floats, least: int) -> None:
        self._path, self._own, self._seed = Path(points, least=least), own, seed

    def fitted(self) -> dict[int, Fitted]:
        """Return the fits without constraints, with up to 20 knots."""
        self._path.walk(range(min(default_largest(self._path.points), FEW) + 1))
        return self._path.fitted()

    def __call__(self, number: int) -> list[Floats]:
        x = self._path.points.x
        knots = self._path.knots(useful(number + len(self._own.knots), self._path.points))
        knots = knots[(knots > x[0]) & (knots < x[-1])]
        for known in self._own.knots:
            if len(knots):
                knots = np.delete(knots, int(np.argmin(np.abs(knots - known))))
        return [knots, self._seed]


FOLDS, LEAST_FOR_FOLDS = 5, 3
"""Fewer points are not divided."""
MERGED, MERGED_PER_KNOT = 2_000, 20
"""Neighbours are merged if there are more points than this, and more than this for each knot."""
FIRST_REWEIGHTS, REWEIGHTS, FINAL_REWEIGHTS = 8, 3, 10
ROBUST_ROUNDS, ROBUST_WIDTH = 3, 3
FACTORS_SETTLED = 1e-6
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
        if np.abs(new - factors).max() < FACTORS_SETTLED or not new.any():
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
