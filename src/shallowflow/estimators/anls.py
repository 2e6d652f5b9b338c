"""`ANLSRegressor`: curves as straight pieces, and how many knots the data call for.

The number of knots is found by fits with more and more of them, each from the knots of the one before; the
numbers grow geometrically, then those around the best one are tried too. Two criteria:

* "cv": five folds, every fifth point left out in turn (which depends on nothing but the data). The least
  number of knots whose error is within one standard error of the smallest one; the standard error is that of
  the paired differences, so an outlier that no fit predicts does not count (Breiman et al. 1984; Hastie et
  al. 2009, §7.10).
* "bic": n log(Σ w r² / n) + (2K + 2) log n, counting K places, K turns and a line as parameters (Schwarz
  1978). It takes the noise for Gaussian: BIC keeps three knots around an outlier.

Of very many points neighbours are merged first: to find where one knot ends and the next begins, hundreds of
points suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from shallowflow.arrays import Bools, Floats, count, one_of, shown, unit_interval
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import UnivariateRegressor
from shallowflow.estimators.points import Points, merged_points, squared_errors
from shallowflow.estimators.search import (
    SEARCHES,
    Progress,
    Step,
    best_on,
    limit_overshoot,
    paper_moves,
    relocation,
    starts,
    summary,
    useful,
    watched,
)

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
LEFT = ("line", "zero")
SELECTIONS = ("cv", "bic")


class ANLSRegressor(UnivariateRegressor):
    """Fit a continuous piecewise linear function to one feature by least squares, its knots found by search.

    Minimises ½ Σ w_i (f(x_i) − y_i)² over the knots and the lines between them: Active Neuron Least Squares
    of [plateau] §4, and a relocation of knots that goes far beyond it. The order of the rows, the units of x
    and y and repeated x make no difference.

    Parameters
    ----------
    n_knots : number of knots, or "auto" for as many as the data call for.
    search : "relocation" (ours), or "anls": the moves of the paper and nothing else. Relocation lets f leave
        the range of y among the data by half of it at most. Knots of no use are left out, so that there may
        be fewer than n_knots.
    left : "line", a free line left of the first knot; or "zero", as in the paper: f vanishes there.
    selection : for "auto". "cv": five-fold cross-validation, the fewest knots within one standard error of
        the best; "bic": the least n log(Σ w r²/n) + (2K + 2) log n, four times faster, but it takes outliers
        for features. n is (Σ w)² / Σ w².
    max_knots : for "auto", the most knots to try; None: 200, or a quarter of the points if that is less.
    n_starts : searches from different knots, the best of which is kept: at equal numbers of points ("auto":
        what the selection found), from nothing, at random.
    validation_fraction : part of the points, chosen at random, to be held out of the search: of all knots on
        its way those that predict the held-out points best are kept, and the lines fitted to all points. A
        lower training loss does not always predict better.
    max_iter : most iterations (rounds of relocation, or moves of ANLS); None: until nothing helps.
    random_state : seed of the held-out points and of the random starts.

    Attributes
    ----------
    pieces_ : `Pieces`, the fitted function.
    knots_ : (K,), increasing.
    slopes_ : (K + 1,), of the lines y = intercept + slope · x.
    intercepts_ : (K + 1,).
    n_knots_ : K.
    network_ : the same function as a `KnotNetwork` (see `Pieces.to_network`).
    loss_history_ : ½ Σ w r² at the start and after every iteration, decreasing.
    validation_history_ : mean squared errors on held-out points, empty if there are none.
    n_iter_ : iterations made.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50)
    >>> model = ANLSRegressor(n_knots="auto").fit(x[:, None], np.abs(x - 0.2))
    >>> model.knots_.round(6), model.slopes_.round(6)
    (array([0.2]), array([-1.,  1.]))
    """

    def __init__(
        self,
        n_knots: int | str = 10,
        *,
        search: str = "relocation",
        left: str = "line",
        selection: str = "cv",
        max_knots: int | None = None,
        n_starts: int = 1,
        validation_fraction: float = 0.0,
        max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_knots = n_knots
        self.search = search
        self.left = left
        self.selection = selection
        self.max_knots = max_knots
        self.n_starts = n_starts
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Fit to X (n, 1) and y (n,) with weights ≥ 0 (n,); a weight k is worth k equal rows.

        `progress` is called on the way with the fraction done (None: not known) and what is being done.
        """
        self._check_parameters()
        x, targets = self._validated(X, y)
        weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        rng = check_random_state(self.random_state)
        points = merged_points(x, targets, weights, free_left=self.left == "line")
        train, held_out = self._divided(points, rng)
        done, errors = self._best(train, held_out, rng, progress)
        knots = done.knots
        if held_out is not None and self.search == "relocation":
            # With the held-out points the lines are others.
            knots, _ = limit_overshoot(knots, points)
        self._remember(points.pieces(knots, points.fit(knots)[1]))
        self.loss_history_ = train.half_sums(done.losses)
        self.n_iter_ = max(done.iterations, 1)
        self.validation_history_ = points.scale**2 * errors
        return self

    def _check_parameters(self) -> None:
        if isinstance(self.n_knots, str):
            if self.n_knots != "auto":
                raise InvalidInputError(
                    f"n_knots: must be an integer >= 0 or 'auto', got {shown(self.n_knots)}"
                )
        else:
            count(self.n_knots, "n_knots", at_least=0)
        one_of(self.search, "search", SEARCHES)
        one_of(self.left, "left", LEFT)
        one_of(self.selection, "selection", SELECTIONS)
        count(self.n_starts, "n_starts")
        unit_interval(self.validation_fraction, "validation_fraction")
        for name in ("max_knots", "max_iter"):
            if getattr(self, name) is not None:
                count(getattr(self, name), name)

    def _divided(self, points: Points, rng: np.random.RandomState) -> tuple[Points, Points | None]:
        """Return the points for the search and those held out of it (at least one of each, if any are)."""
        size = len(points.x)
        held = min(max(round(self.validation_fraction * size), 1), size - 1)
        if self.validation_fraction == 0 or held == 0:
            return points, None
        out = np.zeros(size, dtype=np.bool_)
        out[rng.permutation(size)[:held]] = True
        return points.part(~out), points.part(out)

    def _best(
        self, train: Points, held_out: Points | None, rng: np.random.RandomState, progress: Progress | None
    ) -> tuple[Step, Floats]:
        """Return the best of n_starts searches, and the errors on its way if points are held out."""
        most = np.inf if self.max_iter is None else self.max_iter
        found: list[tuple[Step, Floats]] = []
        for start in islice(self._starts(train, rng, progress), self.n_starts):
            steps = SEARCHES[self.search](train, start, most)
            if progress:
                steps = watched(steps, progress)
            if held_out is None:
                found.append((summary(steps), np.empty(0)))
            else:
                found.append(best_on(held_out, train, steps))
        return min(found, key=lambda one: float(one[0].losses[-1] if held_out is None else one[1].min()))

    def _starts(
        self, train: Points, rng: np.random.RandomState, progress: Progress | None
    ) -> Iterator[Floats]:
        """Yield starting knots without end."""
        if isinstance(self.n_knots, str):
            largest = default_largest(train) if self.max_knots is None else useful(self.max_knots, train)
            chosen = select(train, self.search, self.selection, largest, progress)
            yield chosen
            yield from islice(starts(len(chosen), train, rng), 1, None)
        else:
            yield from starts(useful(self.n_knots, train), train, rng)


class Growth:
    """Fits to the same points with different numbers of knots, each begun from the largest smaller one."""

    def __init__(self, points: Points, search: str) -> None:
        self.points, self._search = points, search
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
        return relocation(self.points, start, ROUNDS, WIDTH)

    def _moved(self, number: int) -> Iterator[Step]:
        """Search from the first start of all, since the moves of the paper bring no dead knot to life."""
        start = next(starts(number, self.points, np.random.RandomState(0)))
        return paper_moves(self.points, start, np.inf)


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


def default_largest(points: Points) -> int:
    """Return the most knots to try when the user does not say."""
    return useful(min(LARGEST, max(2, len(points.x) // POINTS_PER_KNOT)), points)


def select(
    points: Points, search: str, selection: str, largest: int, progress: Progress | None = None
) -> Floats:
    """Return as many fitted knots (n,) as the data call for, at most `largest`."""
    points = points.coarser(max(MERGED, MERGED_PER_KNOT * largest))
    growth = Growth(points, search)
    by_bic = selection == "bic" or len(points.x) < LEAST_FOR_FOLDS
    judge = _bic(growth) if by_bic else _cross_validation(points, search)
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


def _cross_validation(points: Points, search: str) -> Judge:
    number = min(FOLDS, len(points.x))
    places = np.arange(len(points.x)) % number
    folds = [_Fold(points, places == fold, search) for fold in range(number)]

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


class _Fold:
    """Some points left out, and the errors of fits to the others on them."""

    def __init__(self, points: Points, left_out: Bools, search: str) -> None:
        self.test = points.part(left_out)
        self._growth = Growth(points.part(~left_out), search)
        self._errors: dict[int, Floats] = {}

    def errors(self, number: int) -> Floats:
        """Return the squared errors (k,) of the fit with `number` knots at the points left out."""
        if number not in self._errors:
            knots = self._growth.knots(number)
            squares = squared_errors(knots, self._growth.points, self.test)
            self._errors[number] = np.maximum(squares, ROUNDING)
        return self._errors[number]
