"""`Points`: data on a line, sorted, merged, weighted, on a unit scale, and the fit for given knots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Pieces


@dataclass(frozen=True, eq=False)
class Points:
    """Data with equal inputs merged: Σ_i w_i (f(x_i) − y_i)² = unit · Σ_k (scatter_k + w_k (f_k − y_k)²).

    x: (m,) strictly increasing in [0, 2]; y: (m,) in [−1, 1]; w: (m,) in (0, 1]; scatter: (m,). The original
    inputs are low + half · x, the targets centre + scale · y. So a fit depends neither on units nor on the
    order of the rows, and no sum overflows. `effective` is (Σ w)² / Σ w² of the original rows: how many equal
    weights they are worth. free_left: whether fits have a free line left of their first knot; else they
    vanish there, and centre = 0.
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
    effective: float
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

    def pieces(self, knots: Floats, lines: Floats) -> Pieces:
        """Return the lines (n + 1, 3) of `kernels.fitting.chain.fit` with knots (n,) in the original units.

        Knots where the line does not change, dead or in a gap of the data, are left out.
        """
        places = self.low + self.half * knots
        kept = np.append(places[1:] > places[:-1], True)[: len(places)]
        places, lines = places[kept], lines[np.concatenate([[True], kept])]
        turns = lines[1:, 2] != lines[:-1, 2]
        places, lines = places[turns], lines[np.concatenate([[True], turns])]
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = lines[:, 2] * (self.scale / self.half)
        if not np.isfinite(slopes).all():
            raise InvalidInputError(f"X: the range must not be tiny beside that of y, got {2 * self.half:g}")
        centres = self.low + self.half * lines[:, 0]
        heights = self.centre + self.scale * lines[:, 1]
        return Pieces(places, centres, heights, slopes, self.low, self.low + 2 * self.half)


def merged_points(x: Floats, y: Floats, weights: Floats, *, free_left: bool = True) -> Points:
    """Return the points of the rows (x_i, y_i) with weights ≥ 0, each (n,)."""
    rows = np.lexsort((weights, y, x))
    rows = rows[weights[rows] > 0]
    if len(rows) == 0:
        raise InvalidInputError("sample_weight: must have a positive entry, got none")
    x, y, weights = x[rows], y[rows], weights[rows]
    low, half = _range(x, "X")
    centre, scale = _range(y, "y") if free_left else (0.0, float(np.abs(y).max()) or 1.0)
    centre += scale if free_left else 0.0
    largest = float(weights.max())
    effective = float(np.sum(weights / largest) ** 2 / np.sum((weights / largest) ** 2))
    # Equal rows first: then a row of weight 2 and two rows are the same to the last bit.
    distinct = np.flatnonzero((np.diff(x, prepend=np.nan) != 0) | (np.diff(y, prepend=np.nan) != 0))
    x, y, weights = x[distinct], y[distinct], np.add.reduceat(weights, distinct)
    x, y = (x - low) / half, (y - centre) / scale
    x, first, group = np.unique(x, return_index=True, return_inverse=True)
    merged = np.bincount(group, weights)
    means = y[first] + np.bincount(group, weights * (y - y[first][group])) / merged
    scatter = np.bincount(group, weights * (y - means[group]) ** 2)
    most = float(merged.max())
    unit = most * scale * scale
    if not np.isfinite(unit):
        raise InvalidInputError(f"y: squares must not overflow, got a range of {2 * scale:g}")
    columns = x, means, merged / most, scatter / most
    return Points(*columns, low, half, centre, scale, unit, effective, free_left)


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
