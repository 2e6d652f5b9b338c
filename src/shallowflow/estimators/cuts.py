"""Cuts of sorted data into constant pieces: their best places, and which of them pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.estimators.points import Points
from shallowflow.kernels.fitting.partition import divisions

ROUNDS = 50
"""Of moving every cut to its best place."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Running sums of weights, of w·y and of w·y² over sorted points, (n + 1,) each, 0 first."""

    w: Floats
    wy: Floats
    wyy: Floats

    @property
    def size(self) -> int:
        """The number of points."""
        return len(self.w) - 1

    def misfit(self, begin: int | Ints, end: int | Ints) -> Floats:
        """Return Σ w (y − mean)² over the points begin … end − 1."""
        w, wy = self.w[end] - self.w[begin], self.wy[end] - self.wy[begin]
        squares = np.asarray(self.wyy[end] - self.wyy[begin] - wy * wy / w, dtype=np.float64)
        return np.maximum(squares, 0.0)

    def means(self, cuts: Ints) -> Floats:
        """Return the mean of every piece, (K + 1,)."""
        edges = np.concatenate([[0], cuts, [self.size]])
        means: Floats = np.diff(self.wy[edges]) / np.diff(self.w[edges])
        return means

    def total(self, cuts: Ints) -> float:
        """Return the misfit of all pieces."""
        edges = np.concatenate([[0], cuts, [self.size]])
        return float(self.misfit(edges[:-1], edges[1:]).sum())


def sums_of(points: Points) -> Sums:
    """Return the sums of sorted, merged points; y is centred so that its squares keep their digits."""
    y = points.y - np.average(points.y, weights=points.w)

    def running(values: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(values)])

    return Sums(running(points.w), running(points.w * y), running(points.w * y * y))


def refined(cuts: Ints, sums: Sums, reach: int) -> Ints:
    """Return cuts moved one at a time to the best place within `reach` points, between neighbours."""
    cuts = cuts.copy()
    for _ in range(ROUNDS):
        before = cuts.copy()
        for k in range(len(cuts)):
            low = cuts[k - 1] if k > 0 else 0
            high = cuts[k + 1] if k + 1 < len(cuts) else sums.size
            places = np.arange(max(low + 1, cuts[k] - reach), min(high, cuts[k] + reach + 1))
            losses = sums.misfit(low, places) + sums.misfit(places, high)
            best = int(np.argmin(losses))
            # Ties stay where they are, or rounding would let cuts wander.
            if losses[best] < losses[cuts[k] - places[0]]:
                cuts[k] = places[best]
        if np.array_equal(before, cuts):
            break
    return cuts


def pruned(cuts: Ints, sums: Sums, reach: int, scatter: float, rows: float | None = None) -> Ints:
    """Return the cuts that are worth their parameters, after dropping the least useful one by one.

    A criterion with the penalty of Zhang and Siegmund (2007), Biometrics 63, 22–32, for K cuts into pieces of
    n_0, …, n_K of the n points: BIC takes log n for a parameter, which is too little for a place that was
    searched for and depends on the length of the pieces for their heights. Lowest is best,

        (n − 2K − 1) log(misfit_K/misfit_0) + 3K log n + Σ_i log(n_i/n).

    K places and K + 1 heights leave n − 2K − 1 degrees of freedom: with n instead, which is the same for
    n ≫ K, cuts as many as points would fit anything and pay for any penalty. More cuts than leave one do not
    compete. n is `rows`, the sum of the weights (None: the number of points), which is that of repeated rows;
    `scatter` is the misfit within merged points.
    """
    rows = sums.size if rows is None else rows
    best, lowest = cuts, criterion_of(cuts, sums, scatter, rows)
    while len(cuts):
        edges = np.concatenate([[0], cuts, [sums.size]])
        joined = sums.misfit(edges[:-2], edges[2:])
        apart = sums.misfit(edges[:-2], edges[1:-1]) + sums.misfit(edges[1:-1], edges[2:])
        # After a removal: a neighbour may have kept a cut from its best place.
        cuts = refined(np.delete(cuts, int(np.argmin(joined - apart))), sums, reach)
        value = criterion_of(cuts, sums, scatter, rows)
        if value <= lowest:
            best, lowest = cuts, value
    return best


def exact_cuts(points: Points, most: int) -> Ints:
    """Return the best cuts there are by the criterion of `pruned`, at most `most`, by dynamic programming."""
    most = min(most, len(points.x) - 1)
    _, found = divisions(points.x, points.y, points.w, most, lines=False)
    sums, scatter = sums_of(points), float(points.scatter.sum())
    return min(found, key=lambda cuts: criterion_of(cuts, sums, scatter, points.size))


def criterion_of(cuts: Ints, sums: Sums, scatter: float, size: float) -> float:
    """Return what `pruned` minimises; 0 without cuts."""
    freedom = size - 2 * len(cuts) - 1
    if not len(cuts):
        return 0.0
    if freedom <= 0:
        return np.inf
    whole = float(sums.wyy[-1]) + scatter
    # A misfit below the rounding of its sums is zero: no more cuts can lower it.
    misfit = max(sums.total(cuts) + scatter, np.finfo(np.float64).eps * size * whole)
    if misfit >= whole:
        return np.inf
    shares = np.diff(sums.w[np.concatenate([[0], cuts, [sums.size]])]) / sums.w[-1]
    penalty = 3.0 * len(cuts) * np.log(size) + np.log(shares).sum()
    return float(freedom * np.log(misfit / whole) + penalty)
