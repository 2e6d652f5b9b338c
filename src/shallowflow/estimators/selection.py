"""The number of knots that the data call for: by BIC, or by cross-validation.

Fits with more and more knots, each from the knots of the one before; the numbers grow geometrically, then
those around the best one are tried too.

* "cv": five folds, every fifth point left out in turn (which depends on nothing but the data). The least
  number of knots whose error is within one standard error of the smallest one; the standard error is that of
  the paired differences, so an outlier that no fit predicts does not count (Breiman et al. 1984; Hastie et
  al. 2009, §7.10).
* "bic": n log(Σ w r² / n) + (2K + 2) log n, counting K places, K turns and a line as parameters (Schwarz
  1978). It takes the noise for Gaussian: to BIC three knots around an outlier are worth their price.

Of very many points neighbours are merged first: where one knot ends and the next begins, hundreds of points
are as good as thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.estimators.knot_fit import squared_errors
from shallowflow.estimators.points import Points
from shallowflow.estimators.search import Progress, Step, paper_moves, relocation, starts, summary, useful

FOLDS = 5
LEAST_FOR_FOLDS = 3
"""Fewer points are not divided."""
MERGED, MERGED_PER_KNOT = 10_000, 20
"""Neighbours are merged if there are more points than this, and more than this for each knot."""
LARGEST, POINTS_PER_KNOT = 200, 4
"""The most knots that are tried unless the user says otherwise, and the fewest points for each."""
LOOK_AHEAD, ALWAYS = 4, 64
"""The search goes on to this multiple of the best number so far, and to this number in any case."""
REFINED = 6
"""How many numbers are tried between two neighbours of the geometric series."""
ROUNDS, WIDTH = 10, 3
"""How far each search by relocation goes on the way."""
ROUNDING = 1e-28
"""Squares below this (of targets in [−1, 1]) are rounding."""


class Growth:
    """Fits to the same points with different numbers of knots, each begun from the largest smaller one."""

    def __init__(self, points: Points, search: str, free_left: bool) -> None:
        self.points, self._search, self._free_left = points, search, free_left
        self._knots: dict[int, Floats] = {0: np.empty(0)}
        self.losses: dict[int, float] = {}

    def knots(self, number: int) -> Floats:
        """Return `number` knots, fitted."""
        if number not in self.losses:
            steps = self._relocated(number) if self._search == "relocation" else self._moved(number)
            done = summary(steps)
            self._knots[number], self.losses[number] = done.knots, float(done.losses[-1])
        return self._knots[number]

    def _relocated(self, number: int) -> Iterator[Step]:
        """Search on from fewer knots and dead ones, for which a relocation finds places."""
        fewer = self._knots[max(known for known in self._knots if known <= number)]
        start = np.append(fewer, np.full(number - len(fewer), self.points.x[-1]))
        return relocation(self.points, start, self._free_left, ROUNDS, WIDTH)

    def _moved(self, number: int) -> Iterator[Step]:
        """Search from the first start of all, since the moves of the paper bring no dead knot to life."""
        start = next(starts(number, self.points, self._free_left, np.random.RandomState(0)))
        return paper_moves(self.points, start, self._free_left, np.inf)


def geometric_numbers(largest: int) -> list[int]:
    """Return 0, 1, 2, 3, 4, 6, 8, 11, 16, … up to `largest`: powers of √2."""
    powers = {round(2 ** (i / 2)) for i in range(2 * max(largest, 1).bit_length())}
    return [0, *sorted(power for power in powers if power < largest), largest] if largest else [0]


def between(numbers: list[int], chosen: int) -> list[int]:
    """Return the numbers to try between the neighbours of `chosen` in an increasing list."""
    place = numbers.index(chosen)
    near = numbers[max(place - 1, 0) : place + 2]
    new: set[int] = set()
    for low, high in pairwise(near):
        new |= {round(number) for number in np.linspace(low, high, REFINED + 2)}
    return sorted(new - set(numbers))


def default_largest(points: Points, free_left: bool) -> int:
    """Return the most knots to try when the user does not say."""
    return useful(min(LARGEST, max(2, len(points.x) // POINTS_PER_KNOT)), points, free_left)


def select(
    points: Points,
    search: str,
    free_left: bool,
    selection: str,
    largest: int,
    progress: Progress | None = None,
) -> Floats:
    """Return as many fitted knots (n,) as the data call for, at most `largest`."""
    points = points.coarser(max(MERGED, MERGED_PER_KNOT * largest))
    growth = Growth(points, search, free_left)
    by_bic = selection == "bic" or len(points.x) < LEAST_FOR_FOLDS
    judge = _bic(growth) if by_bic else _cross_validation(points, search, free_left)
    numbers, tried = geometric_numbers(largest), list[int]()
    for number in numbers:
        if progress:
            # More knots take more time; the search may well end before the largest number.
            progress(sum(tried) / max(sum(numbers), 1), f"trying {number:,} knots")
        tried.append(number)
        chosen = judge(tried)
        if number >= max(ALWAYS, LOOK_AHEAD * chosen):
            break
    if progress:
        progress(None, f"trying numbers around {chosen:,} knots")
    chosen = judge(sorted([*tried, *between(tried, chosen)]))
    for number in tried:
        if number < chosen:
            growth.knots(number)
    return growth.knots(chosen)


Judge = Callable[[list[int]], int]
"""Increasing numbers of knots → the one to be preferred."""


def _bic(growth: Growth) -> Judge:
    points = growth.points
    n, total = points.effective, float(points.w.sum())

    def criterion(number: int) -> float:
        growth.knots(number)
        mean = (growth.losses[number] + points.scatter.sum()) / total
        return float(n * np.log(max(mean, ROUNDING)) + (2 * number + 2) * np.log(n))

    return lambda numbers: min(numbers, key=criterion)


def _cross_validation(points: Points, search: str, free_left: bool) -> Judge:
    folds = [_Fold(points, left_out, search, free_left) for left_out in _folds(len(points.x))]

    def errors(number: int) -> Floats:
        return np.concatenate([fold.errors(number) for fold in folds])

    weights = np.concatenate([fold.test.w for fold in folds])
    weights = weights / weights.sum()

    def judge(numbers: list[int]) -> int:
        table = np.array([errors(number) for number in numbers])
        excess = table - table[np.argmin(table @ weights)]
        means = excess @ weights
        deviations = np.sqrt(((excess - means[:, None]) * weights) ** 2 @ np.ones(len(weights)))
        return numbers[int(np.argmax(means <= deviations))]

    return judge


def _folds(size: int) -> list[Bools]:
    """Return which points each fold leaves out."""
    folds = min(FOLDS, size)
    return [np.arange(size) % folds == offset for offset in range(folds)]


class _Fold:
    """Some points left out, and the errors of fits to the others on them."""

    def __init__(self, points: Points, left_out: Bools, search: str, free_left: bool) -> None:
        self.test, self._free_left = points.part(left_out), free_left
        self._growth = Growth(points.part(~left_out), search, free_left)
        self._errors: dict[int, Floats] = {}

    def errors(self, number: int) -> Floats:
        """Return the squared errors (k,) of the fit with `number` knots at the points left out."""
        if number not in self._errors:
            knots = self._growth.knots(number)
            squares = squared_errors(knots, self._growth.points, self.test, self._free_left)
            self._errors[number] = np.maximum(squares, ROUNDING)
        return self._errors[number]
