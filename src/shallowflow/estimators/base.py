"""What the estimators share: one column in, by scikit-learn's conventions and analysts' habits, `Pieces` out.

x may be a vector, a Series, a column of a table, or dates, which become days since 1970-01-01, in UTC. pandas
and polars are known by what they offer (`columns`, `name`, `__array__`), and imported by none of this.
`Pieces` is a piecewise linear function, kept as the line of every piece.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, increasing, real, vector
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import KnotNetwork, inputs_of

MEETING = 1e-8
"""Lines that are apart by less than this share of the function's size meet."""
MISSING = ("error", "drop")
MICROSECONDS_A_DAY = 86_400e6


class OneFeatureRegressor(RegressorMixin, BaseEstimator):
    """Base of regressors y ≈ f(x) for one feature x: a column, a vector, dates (`as_column`)."""

    _vectors = True
    """Whether a vector (n,) is taken for a column (n, 1); scikit-learn's own checks want it refused."""
    _dates = False
    x_name_: str | None
    y_name_: str | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # not any number of columns, which scikit-learn's checks assume
        return tags

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return x (n,) and y (n,) as checked numbers; remember the number and names of features."""
        column = as_column(X, vectors=self._vectors)
        inputs, targets = validate_data(self, column.values, y, dtype=np.float64, y_numeric=True)
        self._dates, self.x_name_ = column.dates, column.name
        name = getattr(y, "name", None)
        self.y_name_ = name if isinstance(name, str) else None
        return self._column(inputs), np.asarray(targets, dtype=np.float64)

    def _places(self, X: ArrayLike) -> Floats:
        """Return x (n,) of inputs to predict at: dates if dates were fitted."""
        check_is_fitted(self)
        column = as_column(X, vectors=self._vectors)
        if column.dates != self._dates:
            kinds = ("numbers", "dates")
            fitted, given = kinds[self._dates], kinds[column.dates]
            raise InvalidInputError(f"X: must be {fitted} as in the fit, got {given}")
        return self._column(validate_data(self, column.values, reset=False, dtype=np.float64))

    def _column(self, inputs: Floats) -> Floats:
        """Return the only column of the inputs."""
        if inputs.shape[1] != 1:
            raise InvalidInputError(
                f"X: must have shape (n, 1), got {inputs.shape}; choose one feature, as in X[:, [0]]"
            )
        return inputs[:, 0]

    def _as_places(self, values: Any, name: str) -> Floats:
        """Return places on the line as numbers; dates if x are."""
        if not len(values):
            return np.empty(0)
        column = as_column(np.asarray(values))
        if column.dates != self._dates:
            raise InvalidInputError(f"{name}: must be {'dates' if self._dates else 'numbers'} as x")
        return vector(np.ravel(column.values), name)

    def _shown(self, places: Floats) -> Any:
        """Return places on the line as the user has them: numbers or dates."""
        return to_dates(places) if self._dates else places


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Pieces(FrozenArrays):
    """f(x) = heights_j + slopes_j (x − centres_j) on (knots_{j−1}, knots_j]; the outer pieces have no end.

    knots: (K,) strictly increasing; centres, heights, slopes: (K + 1,); low, high: where the fitted data lie.
    A line is kept by its value amid its data: neither intercepts far from the data nor the coefficients of
    the ReLU basis, of condition 10⁶ to 10⁸, affect predictions.

    Examples
    --------
    >>> roof = Pieces([1.0], [0.5, 1.5], [0.5, 0.5], [1.0, -1.0], low=0.0, high=2.0)
    >>> roof.predict([0.0, 1.0, 3.0])
    array([ 0.,  1., -1.])
    >>> roof.intercepts
    array([0., 2.])
    """

    knots: Floats
    centres: Floats
    heights: Floats
    slopes: Floats
    low: float
    high: float

    def __init__(
        self,
        knots: ArrayLike,
        centres: ArrayLike,
        heights: ArrayLike,
        slopes: ArrayLike,
        low: float,
        high: float,
    ) -> None:
        fields = self.__dict__
        fields["knots"] = increasing(knots, "knots", allow_empty=True)
        for name, values in (("centres", centres), ("heights", heights), ("slopes", slopes)):
            fields[name] = vector(values, name)
            if len(fields[name]) != len(self.knots) + 1:
                raise InvalidInputError(
                    f"{name}: must be one more than the knots ({len(self.knots)}), got {len(fields[name])}"
                )
        fields["low"], fields["high"] = real(low, "low"), real(high, "high")

    @classmethod
    def of_network(cls, network: KnotNetwork, low: float, high: float) -> Self:
        """Return the pieces of Σ_j outer_j relu(x − knots_j); equal knots count as one."""
        knots, place = np.unique(network.knots, return_inverse=True)
        slopes = np.concatenate([[0.0], np.cumsum(np.bincount(place, network.outer))])
        heights = np.concatenate([[0.0, 0.0], np.cumsum(slopes[1:-1] * np.diff(knots))])
        return cls(knots, np.concatenate([knots[:1], knots]), heights, slopes, low, high)

    @property
    def lefts(self) -> Floats:
        """The left end of every piece, (K + 1,); −∞ for the first."""
        return np.concatenate([[-np.inf], self.knots])

    @property
    def rights(self) -> Floats:
        """The right end of every piece, (K + 1,); ∞ for the last."""
        return np.concatenate([self.knots, [np.inf]])

    @property
    def jumps(self) -> Floats:
        """How far f jumps at its knots, (K,); 0 where the lines meet, up to rounding."""
        left, right = (
            self.heights[piece] + self.slopes[piece] * (self.knots - self.centres[piece])
            for piece in (slice(None, -1), slice(1, None))
        )
        size = np.abs(self.heights).max() + np.abs(self.slopes).max() * (self.high - self.low)
        return np.asarray(np.where(np.abs(right - left) <= MEETING * size, 0.0, right - left))

    @property
    def continuous(self) -> bool:
        """Whether the lines meet at the knots, up to rounding."""
        return not self.jumps.any()

    @property
    def intercepts(self) -> Floats:
        """The value of every line at x = 0, (K + 1,)."""
        return self.heights - self.slopes * self.centres

    def predict(self, x: ArrayLike) -> Floats:
        """Return f at the points x, (k,) or (k, 1) → (k,)."""
        points = inputs_of(x, 1)[:, 0]
        piece = np.searchsorted(self.knots, points)
        return self.heights[piece] + self.slopes[piece] * (points - self.centres[piece])

    def to_network(self) -> KnotNetwork:
        """Return f as a network Σ_j outer_j relu(x − knots_j).

        Such a network vanishes left of its first knot. A first line other than zero is made by two extra
        knots left of all else, at one and two data ranges from it: right of the second one the network is f.
        """
        if not self.continuous:
            raise InvalidInputError("pieces: must meet at the knots to be a network, got a jump")
        outer = np.diff(self.slopes)
        if self.heights[0] == 0 and self.slopes[0] == 0:
            return KnotNetwork(self.knots, outer) if len(outer) else KnotNetwork([self.low], [0.0])
        reach = self.high - self.low or 1.0
        start = min([self.low, *self.knots[:1]]) - reach
        rise = (self.heights[0] + self.slopes[0] * (start - self.centres[0])) / reach
        knots = np.concatenate([[start - reach, start], self.knots])
        return KnotNetwork(knots, np.concatenate([[rise, self.slopes[0] - rise], outer]))

    def table(self) -> list[dict[str, float | int]]:
        """Return one row per piece: its number (from 1), left and right end, slope and intercept."""
        columns = zip(self.lefts, self.rights, self.slopes, self.intercepts, strict=True)
        names = ("left", "right", "slope", "intercept")
        return [
            {"piece": number, **dict(zip(names, map(float, row), strict=True))}
            for number, row in enumerate(columns, start=1)
        ]


class UnivariateRegressor(OneFeatureRegressor):
    """Base of regressors y ≈ f(x) for one feature x, f continuous and piecewise linear.

    After `fit`: `pieces_`, and from it `network_`, `knots_` (K,), `slopes_` and `intercepts_` (K + 1,),
    `n_knots_`.
    """

    extrapolation: str = "linear"
    pieces_: Pieces
    network_: KnotNetwork | None

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

    def _remember(self, pieces: Pieces) -> None:
        """Set the fitted attributes that follow from the pieces."""
        self.pieces_ = pieces
        self.jumps_ = pieces.jumps
        self.network_ = None if self.jumps_.any() else pieces.to_network()
        self.knots_ = self._shown(pieces.knots)
        self.slopes_, self.intercepts_ = pieces.slopes, pieces.intercepts
        self.n_knots_ = len(pieces.knots)


@dataclass(frozen=True, eq=False)
class Column:
    """x as scikit-learn takes it, whether it was dates, and its name if it has one."""

    values: Any
    dates: bool
    name: str | None


def as_column(X: Any, *, vectors: bool = True) -> Column:
    """Return x (n, 1) with dates as days; what else there is wrong with it, scikit-learn will say.

    vectors: whether a vector (n,) is taken for a column.
    """
    columns = getattr(X, "columns", None)
    name = columns[0] if columns is not None and len(columns) == 1 else getattr(X, "name", None)
    name = name if isinstance(name, str) else None
    array = _moments(X)
    if array is not None:
        days: Any = to_days(array)
        return Column(days[:, None] if days.ndim == 1 and vectors else days, True, name)
    if vectors and columns is None:
        try:
            plain = np.asarray(X)
        except ValueError:
            return Column(X, False, name)  # a ragged list
        if plain.ndim == 1 and plain.dtype.kind in "biufO" and plain.size:
            return Column(plain[:, None], False, name)
    return Column(X, False, name)


def _moments(X: Any) -> NDArray[np.datetime64] | None:
    """Return dates as an array, None if X does not consist of them."""
    if hasattr(X, "tocsr") or isinstance(X, str):
        return None
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind == "M":
        return array
    if array.dtype.kind != "O" or array.size == 0:
        return None
    first = next((one for one in array.flat if one is not None and one == one), None)
    if not isinstance(first, dt.date):
        return None
    moments = [np.datetime64("NaT") if one is None or one != one else _utc(one) for one in array.flat]
    return np.array(moments, dtype="datetime64[us]").reshape(array.shape)


def _utc(moment: Any) -> np.datetime64:
    """Return a date or a time; one with a zone in UTC."""
    if getattr(moment, "tzinfo", None) is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us")


def to_days(moments: NDArray[np.datetime64]) -> Floats:
    """Return dates as days since 1970-01-01; NaN where there is none."""
    exact = moments.astype("datetime64[us]")
    days = exact.astype(np.int64) / MICROSECONDS_A_DAY
    return np.asarray(np.where(np.isnat(exact), np.nan, days))


def to_dates(days: ArrayLike) -> NDArray[np.datetime64]:
    """Return days since 1970-01-01 as dates, to the second."""
    seconds = np.round(np.asarray(days, dtype=np.float64) * 86_400.0)
    return seconds.astype(np.int64).astype("datetime64[s]")


def complete_rows(x: Any, y: ArrayLike) -> Bools:
    """Return which rows (n,) have a value of both x (n, 1) and y (n,)."""
    try:
        there, targets = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"X, y: must be numbers or dates for missing='drop': {error}") from error
    if len(there) != len(targets):
        raise InvalidInputError(f"X, y: must have equal lengths, got {len(there)} and {len(targets)}")
    return ~(
        np.isnan(there).reshape(len(there), -1).any(axis=1) | np.isnan(targets).reshape(len(there), -1)[:, 0]
    )


def without_holes(X: Any, y: Any, sample_weight: Any, *, vectors: bool) -> tuple[Any, Any, Any, Bools | None]:
    """Return X, y and weights of the rows with values of both, and which ones those are (None: all)."""
    kept = complete_rows(as_column(X, vectors=vectors).values, y)
    if not kept.any():
        raise InvalidInputError("X, y: no row has a value of both, got missing ones only")
    if kept.all():
        return X, y, sample_weight, None
    X, y, weights = (  # a Series or a DataFrame keeps its name
        rows if rows is None else rows[kept] if hasattr(rows, "__array__") else np.asarray(rows)[kept]
        for rows in (X, y, sample_weight)
    )
    return X, y, weights, kept


@dataclass(frozen=True, eq=False)
class Points:
    """Data with equal inputs merged: Σ_i w_i (f(x_i) − y_i)² = unit · Σ_k (scatter_k + w_k (f_k − y_k)²).

    x: (m,) strictly increasing in [0, 2]; y: (m,) in [−1, 1]; w: (m,) in (0, 1]; scatter: (m,). The original
    inputs are low + half · x, the targets centre + scale · y. So a fit depends neither on units nor on the
    order of the rows, and no sum overflows. `size` is n = Σ w of the original rows, since a weight k is worth
    k equal rows. free_left: whether fits have a free line left of their first knot; else they vanish there,
    and centre = 0.
    """

    x: Floats
    y: Floats
    w: Floats
    scatter: Floats
    low: float
    half: float
    centre: float
    scale: float
    unit: float
    size: float
    free_left: bool = True

    @property
    def data(self) -> tuple[Floats, Floats, Floats, int]:
        """(x, y, w, free_left), as kernels take them."""
        return self.x, self.y, self.w, int(self.free_left)

    def part(self, keep: Bools) -> Points:
        """Return the points marked in `keep` (m,)."""
        x, y, w, scatter = (values[keep] for values in (self.x, self.y, self.w, self.scatter))
        return replace(self, x=x, y=y, w=w, scatter=scatter)

    def coarser(self, limit: int) -> Points:
        """Return at most about `limit` points: equal numbers of neighbours merged into their means."""
        size = -(-len(self.x) // limit)
        if size == 1:
            return self
        edges = np.arange(0, len(self.x), size)
        counts = np.diff(np.append(edges, len(self.x)))
        w = np.add.reduceat(self.w, edges)
        x = np.add.reduceat(self.w * self.x, edges) / w
        y = np.add.reduceat(self.w * self.y, edges) / w
        deviations = self.scatter + self.w * (self.y - np.repeat(y, counts)) ** 2
        return replace(self, x=x, y=y, w=w, scatter=np.add.reduceat(deviations, edges))

    def half_sums(self, losses: Floats) -> Floats:
        """Return ½ Σ w_i (f(x_i) − y_i)² in the original units from sums over these points."""
        return np.asarray(0.5 * self.unit * (losses + self.scatter.sum()))

    def fit(self, knots: Floats) -> tuple[float, Floats]:
        """Return the least Σ w (f − y)² for given knots (n,) and its lines (n + 1, 3) as in `chain.fit`."""
        from shallowflow.kernels.fitting.chain import fit

        loss, lines = fit(knots, *self.data)
        return float(loss), lines

    def pieces(self, knots: Floats, lines: Floats, known: Floats | tuple[()] = ()) -> Pieces:
        """Return the lines (n + 1, 3) of `kernels.fitting.chain.fit` with knots (n,) in the original units.

        Knots where the line does not change, dead or in a gap of the data, are left out, but for known ones.
        """
        places = self.low + self.half * knots
        kept = np.append(places[1:] > places[:-1], True)[: len(places)]
        places, lines, knots = places[kept], lines[np.concatenate([[True], kept])], knots[kept]
        turns = (lines[1:, 2] != lines[:-1, 2]) | np.isin(knots, known)
        places, lines = places[turns], lines[np.concatenate([[True], turns])]
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = lines[:, 2] * (self.scale / self.half)
        if not np.isfinite(slopes).all():
            raise InvalidInputError(f"X: the range must not be tiny beside that of y, got {2 * self.half:g}")
        centres = self.low + self.half * lines[:, 0]
        heights = self.centre + self.scale * lines[:, 1]
        return Pieces(places, centres, heights, slopes, self.low, self.low + 2 * self.half)


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct rows (x_i, y_i), sorted, on the unit scale of `Points`, with the sums w of their weights.

    x, y, w: (k,), w in the user's units; group: (k,), the point that each belongs to.
    """

    x: Floats
    y: Floats
    w: Floats
    group: Ints
    low: float
    half: float
    centre: float
    scale: float
    free_left: bool = True

    def points(self, factors: Floats | None = None) -> Points:
        """Return the points of these rows, the weights times `factors` ≥ 0 (k,); `size` does not change."""
        w, y, group = self.w, self.y, self.group
        if factors is not None:
            kept = factors * w > 0
            w, y, group = (factors * w)[kept], y[kept], self.group[kept]
        first = np.flatnonzero(np.diff(group, prepend=-1))
        x = (self.x if factors is None else self.x[kept])[first]
        group = np.cumsum(np.diff(group, prepend=group[0]) != 0)
        merged = np.bincount(group, w)
        means = y[first] + np.bincount(group, w * (y - y[first][group])) / merged
        scatter = np.bincount(group, w * (y - means[group]) ** 2)
        most = float(merged.max())
        unit = most * self.scale * self.scale
        if not np.isfinite(unit):
            raise InvalidInputError(f"y: squares must not overflow, got a range of {2 * self.scale:g}")
        columns = x, means, merged / most, scatter / most
        place = self.low, self.half, self.centre, self.scale
        return Points(*columns, *place, unit, float(self.w.sum()), self.free_left)


def distinct_rows(x: Floats, y: Floats, weights: Floats, *, free_left: bool = True) -> Rows:
    """Return the distinct ones of the rows (x_i, y_i) with weights ≥ 0, each (n,)."""
    order = np.lexsort((weights, y, x))
    order = order[weights[order] > 0]
    if len(order) == 0:
        raise InvalidInputError("sample_weight: must have a positive entry, got none")
    x, y, weights = x[order], y[order], weights[order]
    low, half = _range(x, "X")
    centre, scale = _range(y, "y") if free_left else (0.0, float(np.abs(y).max()) or 1.0)
    centre += scale if free_left else 0.0
    # Equal rows are one: then a row of weight 2 and two rows are the same to the last bit.
    distinct = np.flatnonzero((np.diff(x, prepend=np.nan) != 0) | (np.diff(y, prepend=np.nan) != 0))
    x, y, weights = x[distinct], y[distinct], np.add.reduceat(weights, distinct)
    x, y = (x - low) / half, (y - centre) / scale
    group = np.cumsum(np.diff(x, prepend=x[0]) != 0)
    return Rows(x, y, weights, group, low, half, centre, scale, free_left)


def merged_points(x: Floats, y: Floats, weights: Floats, *, free_left: bool = True) -> Points:
    """Return the points of the rows (x_i, y_i) with weights ≥ 0, each (n,)."""
    return distinct_rows(x, y, weights, free_left=free_left).points()


def _range(values: Floats, name: str) -> tuple[float, float]:
    """Return the least value and half of the range, 1 if there is none."""
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):
        raise InvalidInputError(f"{name}: the range must be finite, got {low:g} to {high:g}")
    return low, 0.5 * (high - low) or 1.0


def values(knots: Floats, lines: Floats, x: Floats) -> Floats:
    """Return f at x (k,) from knots (n,) and lines (n + 1, 3)."""
    row = np.searchsorted(knots, x)
    return np.asarray(lines[row, 1] + lines[row, 2] * (x - lines[row, 0]))


def squared_errors(knots: Floats, train: Points, test: Points) -> Floats:
    """Return (f − y)² at every point of `test`, (k,), f fitted to `train` with the given knots."""
    _, lines = train.fit(knots)
    return np.asarray((values(knots, lines, test.x) - test.y) ** 2)
