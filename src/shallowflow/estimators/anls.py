"""`ANLSRegressor`: curves as straight pieces, and how many knots the data call for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from shallowflow.arrays import Bools, Floats, count, one_of, real, shown, unit_interval
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import MISSING, Points, Rows, distinct_rows, without_holes
from shallowflow.estimators.constraints import DIRECTIONS, FLAT, SHAPES, Constraints, checked, scaled
from shallowflow.estimators.cuts import MOST_JUMPS, jumping, other_pieces
from shallowflow.estimators.noise import (
    FEW,
    LEAST_NOISE,
    ROBUST,
    WHITE,
    choose,
    correlation,
    explained_by,
    outliers,
)
from shallowflow.estimators.search import (
    SEARCHES,
    Step,
    best_on,
    certified,
    divided,
    limit_overshoot,
    polished,
    relocation,
    starts,
    summary,
    useful,
    watched,
)
from shallowflow.estimators.selection import (
    BEYOND,
    Path,
    PathRow,
    Progress,
    Selected,
    Setting,
    constrained,
    default_largest,
    merged_enough,
    path_rows,
    refitted,
    robust_path,
    select,
    suspicious,
)
from shallowflow.estimators.summary import SummarisedRegressor

LARGE = 10_000
"""Above so many points the knots are found on merged ones, and polished on all."""
LEFT = ("line", "zero")
SELECTIONS = ("cv", "bic")
LOSSES = ("auto", "squared", *ROBUST)
WEIGHTS = ("repetition", "precision")
EXTRAPOLATIONS = ("linear", "constant", "error")
CERTIFY = ("auto", True, False)
SHORT_SHARE, SHORT_POINTS = 0.05, 5
"""An outer piece with less of the points, or fewer points, is no base to extrapolate from."""
FEW_A_PIECE = 8
"""With fewer points a piece, weak kinks are not found."""
NAMED_ROWS = 8
WORDS: dict[str, Any] = {"search": SEARCHES, "left": LEFT, "selection": SELECTIONS, "loss": LOSSES}
WORDS |= {"weights": WEIGHTS, "missing": MISSING, "extrapolation": EXTRAPOLATIONS}
WORDS |= {"monotone": DIRECTIONS, "shape": SHAPES, "flat": FLAT}
PLAIN = ("search", "left", "selection", "validation_fraction", "max_iter")
"""Options that belong to continuous fits without constraints."""


class ANLSRegressor(SummarisedRegressor):
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
    known_knots : places where f has a knot; `n_knots` counts them, too.
    through : points [(x, y), …] that f goes through.
    monotone : "increasing" or "decreasing"; shape : "convex" or "concave"; both hold beyond the data, too.
    flat : "left", "right" or "both": the outer pieces that are constant.
    continuous : False lets f jump at every knot; the best jumps there are, by dynamic programming.

    Attributes
    ----------
    pieces_ : `Pieces`, the fitted function.
    knots_ : (K,), increasing; dates if x are.
    slopes_ : (K + 1,), of the lines y = intercept + slope · x (per day for dates).
    intercepts_ : (K + 1,).
    n_knots_ : K.
    network_ : the same function as a `KnotNetwork` (see `Pieces.to_network`); None if it jumps.
    jumps_ : (K,), how far f jumps at its knots, 0 where it is continuous.
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
        known_knots: Any = None,
        through: Any = None,
        monotone: str | None = None,
        shape: str | None = None,
        flat: str | None = None,
        continuous: bool = True,
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
        self.known_knots = known_knots
        self.through = through
        self.monotone = monotone
        self.shape = shape
        self.flat = flat
        self.continuous = continuous

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
        own = scaled(self._obeys(), points)
        self._obeys_ = bool(own) or not self.continuous
        if self._obeys_:
            self._reflect(rows, *self._fit_obeying(rows, points, own, progress), x, targets, weights, kept)
            return self
        rng = check_random_state(self.random_state)
        train, held_out = divided(points, self.validation_fraction, rng)
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

    def _rows_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Floats, Floats, Floats, Bools | None]:
        """Return x, y and weights (n,) of the rows that have values, and which ones those are (None: all)."""
        kept = None
        if self.missing == "drop":
            X, y, sample_weight, kept = without_holes(X, y, sample_weight, vectors=self._vectors)
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
        for name, allowed in WORDS.items():
            if getattr(self, name) is not None or None not in allowed:
                one_of(getattr(self, name), name, [word for word in allowed if word])
        if not isinstance(self.continuous, bool | np.bool_):
            raise InvalidInputError(f"continuous: must be True or False, got {shown(self.continuous)}")
        if self.certify not in CERTIFY:
            raise InvalidInputError(f"certify: must be 'auto', True or False, got {shown(self.certify)}")
        count(self.n_starts, "n_starts")
        count(self.min_points, "min_points")
        count(self.min_knots, "min_knots", at_least=0)
        unit_interval(self.validation_fraction, "validation_fraction")
        for name in ("max_knots", "max_iter"):
            if getattr(self, name) is not None:
                count(getattr(self, name), name)

    def _obeys(self) -> Constraints:
        """Return what f must obey, in the user's units."""
        given = [] if self.through is None else list(self.through)
        if any(np.ndim(pair) != 1 or len(pair) != 2 for pair in given):
            raise InvalidInputError("through: must be points (x, y), as in [(0, 1), (2, 5)]")
        knots = self._as_places([] if self.known_knots is None else self.known_knots, "known_knots")
        x = self._as_places([pair[0] for pair in given], "through")
        points = np.stack([x, [real(pair[1], "through") for pair in given]], axis=1)
        own = checked(knots, points, self.monotone, self.shape, self.flat)
        usual = ANLSRegressor()
        for name in PLAIN if own or not self.continuous else ():
            if (asked := getattr(self, name)) != (default := getattr(usual, name)):
                raise InvalidInputError(f"{name}: must be {default!r} under constraints, got {shown(asked)}")
        if own and not self.continuous:
            raise InvalidInputError("continuous: must be True under other constraints, got False")
        return own

    def _fit_obeying(
        self, rows: Rows, points: Points, own: Constraints, progress: Progress | None
    ) -> tuple[Points, Selected]:
        """Fit under constraints, or with jumps; rows far off are judged by the fit without them."""
        exactly = None if isinstance(self.n_knots, str) else self.n_knots
        free = None
        doubt = self.loss == "auto" and self.continuous and suspicious(rows, self.weights == "precision")
        if self.loss in ROBUST or doubt:
            free = self._chosen(rows, points, progress)
            points = rows.points(None if free is None else free.factors)
        most = min(default_largest(points), MOST_JUMPS) if self.max_knots is None else self.max_knots
        bounds = self.min_knots, max(most, self.min_knots)
        if self.continuous:
            found = constrained(points, own, exactly, bounds=bounds, least=self.min_points, progress=progress)
        else:
            found = jumping(points, exactly, bounds, self.min_points)
        self.optimal_ = found.optimal
        self._remember(points.pieces(found.knots, found.lines, own.knots if self.continuous else found.knots))
        self.loss_history_ = points.half_sums(np.array([found.loss]))
        self.n_iter_, self.validation_history_ = 1, np.empty(0)
        chosen = Selected(found.knots, found.fits, found.criteria, noise=found.noise)
        if free is None or free.factors is None:
            return points, chosen
        return points, replace(chosen, loss=free.loss, factors=free.factors)

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

    def _set_notes(self, dropped: int, weights: Floats) -> None:
        """Set `noise_` and `notes_`."""
        points = self._points
        fitted = (self.pieces_.predict(points.low + points.half * points.x) - points.centre) / points.scale
        rest = np.sqrt(points.w) * (points.y - fitted)
        exact = float(rest @ rest) <= LEAST_NOISE**2 * float(points.w.sum())
        self.noise_ = WHITE if exact else correlation(rest, 2 * self.n_knots_ + 2)
        chosen = self._chosen_.noise if self._chosen_ is not None else self.noise_
        if self._obeys_:
            self.noise_ = chosen  # what a constraint keeps from fitting is no noise
        notes = []
        if dropped:
            notes.append(f"{dropped} row{'s' if dropped > 1 else ''} without a value left out.")
        used = chosen if chosen.tau > 1 and not exact else self.noise_
        if used.tau > 1:
            self.noise_ = used
            notes.append(
                f"Neighbouring residuals are correlated (ρ = {used.rho:.2f}): {points.size:g} points count "
                f"as {points.size / used.tau:.0f}."
            )
        if not exact and not explained_by(rest, self.noise_.rho):
            notes.append(
                "What is left is no such noise, but has a period or further bends: intervals are too short, "
                "and selection='cv' may predict better."
            )
        others = other_pieces(points, self._chosen_, self.jumps_) if self._comparable() else []
        self.notes_ = [*notes, *self._outlier_notes(), *self._piece_notes(weights), *others]

    def _comparable(self) -> bool:
        """Return whether it is cheap and fair to ask for jumps, or steps, instead."""
        free = not self._obeys_ or bool(self.jumps_.any())
        return free and self.n_knots == "auto" and self.loss_ == "squared" and self._points.free_left

    def _outlier_notes(self) -> list[str]:
        far = np.flatnonzero(self.outliers_)
        kind = self.loss_
        if len(far) == 0 or self._points.fit(np.empty(0))[0] == 0:
            return []
        named = ", ".join(str(i) for i in far[:NAMED_ROWS]) + (", …" if len(far) > NAMED_ROWS else "")
        points = f"{len(far)} point{'s lie' if len(far) > 1 else ' lies'} far off (rows {named})"
        if kind == "squared":
            return [f"{points}: loss='bisquare' counts such points for less."]
        return [f"{points} and count{'' if len(far) > 1 else 's'} for little: {kind} loss."]

    def _piece_notes(self, weights: Floats) -> list[str]:
        """Return what is doubtful about pieces, numbers and weights."""
        notes, points, K = list[str](), self._points, self.n_knots_
        x = points.low + points.half * points.x
        counts = np.diff(
            np.concatenate([[0], np.searchsorted(x, self.pieces_.knots, side="right"), [len(x)]])
        )
        for name, number in (("first", counts[0]), ("last", counts[-1])):
            if K and number < max(SHORT_POINTS, SHORT_SHARE * len(x)):
                notes.append(
                    f"The {name} piece rests on {number} of {len(x)} points: beyond the data it is a guess."
                )
        if self.n_knots == "auto" and K and len(x) < FEW_A_PIECE * (K + 1):
            notes.append(
                "Fewer than 8 points a piece: weak kinks are not found; a spline may predict better."
            )
        rows = int((weights > 0).sum())
        if self.weights == "repetition" and 2 * weights.sum() < rows:
            notes.append(
                f"Weights count as rows and sum to {weights.sum():.3g} for {rows} rows: for precisions say "
                "weights='precision'."
            )
        return notes
