"""`ANLSRegressor`: curves as straight pieces, and how many knots the data call for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from shallowflow.arrays import Bools, Floats, count, one_of, shown, unit_interval
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import UnivariateRegressor
from shallowflow.estimators.columns import MISSING, as_column, complete_rows
from shallowflow.estimators.criterion import FEW, choose
from shallowflow.estimators.exact import certified
from shallowflow.estimators.noise import ROBUST, outliers
from shallowflow.estimators.path import BEYOND, Path, PathRow, Progress
from shallowflow.estimators.points import Points, Rows, distinct_rows
from shallowflow.estimators.search import (
    SEARCHES,
    Step,
    best_on,
    limit_overshoot,
    polished,
    relocation,
    starts,
    summary,
    useful,
    watched,
)
from shallowflow.estimators.selection import (
    Selected,
    Setting,
    merged_enough,
    path_rows,
    refitted,
    robust_path,
    select,
)
from shallowflow.estimators.summary import Summarising

LARGE = 10_000
"""Above so many points the knots are found on merged ones, and polished on all."""
LEFT = ("line", "zero")
SELECTIONS = ("cv", "bic")
LOSSES = ("auto", "squared", *ROBUST)
WEIGHTS = ("repetition", "precision")
EXTRAPOLATIONS = ("linear", "constant", "error")
CERTIFY = ("auto", True, False)


class ANLSRegressor(Summarising, UnivariateRegressor):
    """Fit a continuous piecewise linear function to one feature by least squares, its knots found by search.

    Minimises ½ Σ w_i (f(x_i) − y_i)² over the knots and the lines between them: Active Neuron Least Squares
    of [plateau] §4, and a relocation of knots that goes far beyond it. The order of the rows, the units of x
    and y and repeated x make no difference. x may be a column, a vector, a Series, or dates.

    Parameters
    ----------
    n_knots : number of knots, or "auto" for as many as the data call for.
    search : "relocation" (ours), or "anls": the moves of the paper and nothing else. Relocation lets f leave
        the range of y among the data by half of it at most. Knots of no use are left out, so that there may
        be fewer than n_knots.
    left : "line", a free line left of the first knot; or "zero", as in the paper: f vanishes there.
    selection : for "auto". "bic": the least of Schwarz's criterion with degrees of freedom and, where
        neighbouring residuals are correlated, fewer effective points (`criterion`); "cv": five-fold
        cross-validation, the fewest knots within one standard error of the best, for prediction of smooth
        curves; correlated noise deceives it.
    max_knots : for "auto", the most knots to try; None: 200, or a fifth of the points if that is less.
    n_starts : searches from different knots, the best of which is kept: what the path over the numbers of
        knots found, then from equal numbers of points, from nothing, at random.
    validation_fraction : part of the points, chosen at random, to be held out of the search: of all knots on
        its way those that predict the held-out points best are kept, and the lines fitted to all points. A
        lower training loss does not always predict better.
    max_iter : most iterations (rounds of relocation, or moves of ANLS); None: until nothing helps.
    random_state : seed of the held-out points, of the random starts and of simulated intervals.
    loss : "squared"; "huber" or "bisquare", which count outliers for less; "auto": with n_knots "auto" and
        "bic", bisquare if a point lies beyond 4.685 robust standard deviations of it, else squared.
    min_knots, min_points : for "auto", the fewest knots; the fewest distinct x of a piece.
    certify : whether to prove that no other knots have a lower loss, and take them if they have: "auto" where
        that is cheap (200 points, 6 knots).
    weights : what sample weights mean: "repetition", a weight k is worth k equal rows; "precision", 1/σ_i² up
        to a factor: they are scaled to mean 1.
    missing : "error", or "drop": rows without a value of x or y are left out.
    extrapolation : beyond the data, "linear" goes along the outer pieces, "constant" stays at the last value,
        "error" refuses.

    Attributes
    ----------
    pieces_ : `Pieces`, the fitted function.
    knots_ : (K,), increasing; dates if x are.
    slopes_ : (K + 1,), of the lines y = intercept + slope · x (per day for dates).
    intercepts_ : (K + 1,).
    n_knots_ : K.
    network_ : the same function as a `KnotNetwork` (see `Pieces.to_network`).
    path_ : what was tried, a list of `PathRow`: n_knots, loss, criterion, cv_error, knots.
    optimal_ : whether these are the best knots there are: True, False or None (not tried or not decided).
    loss_ : "squared", "huber" or "bisquare"; `outliers_` : (n,), which rows lie beyond 4.685 robust σ.
    noise_ : ρ and τ, the correlation of neighbouring residuals, and how many points count as one.
    notes_ : sentences on what was found, left out, or is doubtful.
    loss_history_ : ½ Σ w r² at the start and after every iteration, decreasing.
    validation_history_ : mean squared errors on held-out points, empty if there are none.
    n_iter_ : iterations made.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50)
    >>> model = ANLSRegressor().fit(x, np.abs(x - 0.2))
    >>> model.knots_.round(6), model.slopes_.round(6)
    (array([0.2]), array([-1.,  1.]))
    """

    def __init__(
        self,
        n_knots: int | str = "auto",
        *,
        search: str = "relocation",
        left: str = "line",
        selection: str = "bic",
        max_knots: int | None = None,
        n_starts: int = 1,
        validation_fraction: float = 0.0,
        max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        loss: str = "auto",
        min_knots: int = 0,
        min_points: int = 1,
        certify: str | bool = "auto",
        weights: str = "repetition",
        missing: str = "error",
        extrapolation: str = "linear",
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
        self.loss = loss
        self.min_knots = min_knots
        self.min_points = min_points
        self.certify = certify
        self.weights = weights
        self.missing = missing
        self.extrapolation = extrapolation

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Fit to X (n, 1) or (n,) and y (n,) with weights ≥ 0 (n,); a weight k is worth k equal rows.

        `progress` is called on the way with the fraction done (None: not known) and what is being done.
        """
        self._check_parameters()
        x, targets, weights, kept = self._rows_of(X, y, sample_weight)
        rows = distinct_rows(x, targets, weights, free_left=self.left == "line")
        points = rows.points()
        rng = check_random_state(self.random_state)
        train, held_out = self._divided(points, rng)
        chosen = self._chosen(rows, train, progress)
        if chosen is not None and chosen.factors is not None:
            points = train = rows.points(chosen.factors)
        done, errors = self._best(train, held_out, rng, chosen, progress)
        knots = done.knots
        if held_out is not None and self.search == "relocation":
            # With the held-out points the lines are others.
            knots, _ = limit_overshoot(knots, points)
        knots, self.optimal_ = self._certified(points, knots)
        self._remember(points.pieces(knots, points.fit(knots)[1]))
        self.loss_history_ = np.minimum.accumulate(
            np.append(train.half_sums(done.losses), points.half_sums(np.array([points.fit(knots)[0]])))
            if self.optimal_ and held_out is None and points.fit(knots)[0] < done.losses[-1]
            else train.half_sums(done.losses)
        )
        self.n_iter_ = max(done.iterations, 1)
        self.validation_history_ = points.scale**2 * errors
        self._reflect(rows, points, chosen, x, targets, weights, kept)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return f at the rows of X, (n, 1) or (n,) → (n,)."""
        x, low, high = self._places(X), self.pieces_.low, self.pieces_.high
        if self.extrapolation == "error" and len(x) and (x.min() < low or x.max() > high):
            shown_low, shown_high = self._shown(np.array([low, high]))
            raise InvalidInputError(
                f"X: must lie in the range of the fitted data, {shown_low} to {shown_high}, "
                "with extrapolation='error'"
            )
        return self.pieces_.predict(np.clip(x, low, high) if self.extrapolation == "constant" else x)

    def _rows_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Floats, Floats, Floats, Bools | None]:
        """Return x, y and weights (n,) of the rows that have values, and which ones those are (None: all)."""
        kept = None
        if self.missing == "drop":
            column = as_column(X, vectors=self._vectors)
            kept = complete_rows(column.values, y)
            if not kept.any():
                raise InvalidInputError("X, y: no row has a value of both, got missing ones only")
            if kept.all():
                kept = None
            else:
                X, y = np.asarray(X)[kept], np.asarray(y)[kept]
                sample_weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
        x, targets = self._validated(X, y)
        weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if self.weights == "precision" and weights.sum() > 0:
            weights = weights * ((weights > 0).sum() / weights.sum())
        return x, targets, weights, kept

    def _check_parameters(self) -> None:
        if isinstance(self.n_knots, str):
            if self.n_knots != "auto":
                raise InvalidInputError(
                    f"n_knots: must be an integer >= 0 or 'auto', got {shown(self.n_knots)}"
                )
        else:
            count(self.n_knots, "n_knots", at_least=0)
        for name, allowed in (
            ("search", SEARCHES),
            ("left", LEFT),
            ("selection", SELECTIONS),
            ("loss", LOSSES),
            ("weights", WEIGHTS),
            ("missing", MISSING),
            ("extrapolation", EXTRAPOLATIONS),
        ):
            one_of(getattr(self, name), name, allowed)
        if self.certify not in CERTIFY:
            raise InvalidInputError(f"certify: must be 'auto', True or False, got {shown(self.certify)}")
        count(self.n_starts, "n_starts")
        count(self.min_points, "min_points")
        count(self.min_knots, "min_knots", at_least=0)
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

    def _chosen(self, rows: Rows, train: Points, progress: Progress | None) -> Selected | None:
        """Return the path and what is chosen on it; None where a search of a given number needs none."""
        setting = Setting(
            search=self.search,
            selection=self.selection,
            loss=self.loss if self.left == "line" else "squared",
            min_points=self.min_points,
            min_knots=self.min_knots,
            max_knots=self.max_knots,
            precision=self.weights == "precision",
        )
        if isinstance(self.n_knots, str):
            chosen = select(rows, train, setting, progress)
            if self.selection == "cv" and self.loss in ROBUST:
                chosen = refitted(rows, chosen, self.loss, setting)
            return chosen
        number = useful(self.n_knots, train, self.min_points)
        if setting.loss in ROBUST:
            return robust_path(rows, setting, setting.loss, exactly=number)
        plain = self.search == "relocation" and self.max_iter is None and self.validation_fraction == 0
        if number > FEW or not plain:
            return None
        path = Path(merged_enough(train, number), self.search, self.min_points)
        path.walk(range(useful(number + BEYOND, train, self.min_points) + 1))
        fits = path.fitted()
        choice = choose(fits, train.size, float(path.points.w.sum()))
        return Selected(path.knots(number), fits, choice.values, noise=choice.noise)

    def _best(
        self,
        train: Points,
        held_out: Points | None,
        rng: np.random.RandomState,
        chosen: Selected | None,
        progress: Progress | None,
    ) -> tuple[Step, Floats]:
        """Return the best of n_starts searches, and the errors on its way if points are held out."""
        if chosen is not None and chosen.factors is not None:
            return Step(chosen.knots, np.array([train.fit(chosen.knots)[0]]), 1), np.empty(0)
        found: list[tuple[Step, Floats]] = []
        for start in islice(self._starts(train, rng, chosen), self.n_starts):
            steps = self._searched(train, start)
            if progress:
                steps = watched(steps, progress)
            if held_out is None:
                found.append((summary(steps), np.empty(0)))
            else:
                found.append(best_on(held_out, train, steps))
        return min(found, key=lambda one: float(one[0].losses[-1] if held_out is None else one[1].min()))

    def _searched(self, train: Points, start: Floats) -> Iterator[Step]:
        """Yield the steps of the search from one start."""
        most = np.inf if self.max_iter is None else self.max_iter
        if self.search != "relocation":
            return SEARCHES[self.search](train, start, most)
        if len(train.x) <= LARGE or len(start) > len(train.x) // 20:
            return relocation(train, start, most, least=self.min_points)
        coarse = merged_enough(train, len(start))
        return polished(train, summary(relocation(coarse, start, most, least=self.min_points)).knots)

    def _starts(self, train: Points, rng: np.random.RandomState, chosen: Selected | None) -> Iterator[Floats]:
        """Yield starting knots without end."""
        if chosen is None:
            yield from starts(useful(int(self.n_knots), train, self.min_points), train, rng)
        else:
            yield chosen.knots
            yield from starts(len(chosen.knots), train, rng)

    def _certified(self, points: Points, knots: Floats) -> tuple[Floats, bool | None]:
        """Return the best knots there are if that is proved, and whether it is."""
        plain = self.search == "relocation" and self.max_iter is None and self.validation_fraction == 0
        if self.certify is False or (self.certify == "auto" and not plain):
            return knots, None
        found = certified(points, knots, least=self.min_points, cheap=self.certify == "auto")
        return found.knots, found.optimal

    def _reflect(
        self,
        rows: Rows,
        points: Points,
        chosen: Selected | None,
        x: Floats,
        targets: Floats,
        weights: Floats,
        kept: Bools | None,
    ) -> None:
        """Set what a reader of the fit wants to know beside the function."""
        self._rows, self._points, self._chosen_ = rows, points, chosen
        self.path_: list[PathRow] = [] if chosen is None else path_rows(chosen, points, self._shown)
        self.loss_ = "squared" if chosen is None else chosen.loss
        rest = (self.pieces_.predict(x) - targets) * (np.sqrt(weights) if self.weights == "precision" else 1)
        far = outliers(rest, np.ones(len(rest)) if self.weights == "precision" else weights) & (weights > 0)
        self.outliers_ = far if kept is None else np.isin(np.arange(len(kept)), np.flatnonzero(kept)[far])
        self._set_notes(int((~kept).sum()) if kept is not None else 0, weights)
