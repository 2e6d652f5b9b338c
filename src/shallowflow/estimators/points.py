"""`Rows` and `Points`: data on a line, sorted, merged, weighted, on a unit scale; the fit for given knots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Pieces


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
