"""The path: the best fit found for every number of knots, forward and backward.

Forward, each fit begins from the one before with a knot more, put where it gains most. Backward, each begins
from the one with more knots without the cheapest, and the better fit stays. From 20 knots on the numbers grow
by a factor ⁴√2, and those around the chosen one are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.constraints import ConstrainedFit, Constraints
from shallowflow.estimators.noise import FEW, Correlation, Fitted, choose, criterion, residuals
from shallowflow.estimators.points import Points, values
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
        from shallowflow.kernels.fitting.relocation import prices

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
