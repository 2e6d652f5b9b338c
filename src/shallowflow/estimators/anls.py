"""`ANLSRegressor`: curves as straight pieces, with knots where the data want them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from shallowflow.arrays import Floats, count, one_of, shown, unit_interval
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.knot_fit import fitted_lines
from shallowflow.estimators.points import Points, merged_points
from shallowflow.estimators.search import SEARCHES, Progress, Step, best_on, starts, summary, useful, watched
from shallowflow.estimators.selection import default_largest, select
from shallowflow.estimators.taming import tamed
from shallowflow.estimators.univariate import UnivariateRegressor

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
        free_left, rng = self.left == "line", check_random_state(self.random_state)
        points = merged_points(x, targets, weights, centred=free_left)
        train, held_out = self._divided(points, rng)
        done, errors = self._best(train, held_out, rng, progress)
        knots = done.knots
        if held_out is not None and self.search == "relocation":
            # What was sane without the held-out points may not be so with them.
            knots, _ = tamed(knots, points, free_left)
        self._remember(points.pieces(knots, fitted_lines(points, knots, free_left)[1]))
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
        free_left, most = self.left == "line", np.inf if self.max_iter is None else self.max_iter
        found: list[tuple[Step, Floats]] = []
        for start in islice(self._starts(train, rng, progress), self.n_starts):
            steps = SEARCHES[self.search](train, start, free_left, most)
            if progress:
                steps = watched(steps, progress)
            if held_out is None:
                found.append((summary(steps), np.empty(0)))
            else:
                found.append(best_on(held_out, train, free_left, steps))
        return min(found, key=lambda one: float(one[0].losses[-1] if held_out is None else one[1].min()))

    def _starts(
        self, train: Points, rng: np.random.RandomState, progress: Progress | None
    ) -> Iterator[Floats]:
        """Yield starting knots without end."""
        free_left = self.left == "line"
        if isinstance(self.n_knots, str):
            largest = default_largest(train, free_left) if self.max_knots is None else self.max_knots
            largest = useful(largest, train, free_left)
            chosen = select(train, self.search, free_left, self.selection, largest, progress)
            yield chosen
            yield from islice(starts(len(chosen), train, free_left, rng), 1, None)
        else:
            yield from starts(useful(self.n_knots, train, free_left), train, free_left, rng)
