"""Cuts of sorted data into pieces, constant or straight: their best places, and which of them pay.

**Straight pieces that jump.** Between two cuts f is the line of least squares: the sides of a jump do not see
each other, so the best cuts come from dynamic programming (`kernels.fitting.exact`). A jump has a place,
a height and a turn, three parameters: 3 log n in the criterion of `criterion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.estimators.base import Points, values
from shallowflow.estimators.noise import ROUNDING, WHITE, Choice, Fitted, correlation, criterion
from shallowflow.estimators.selection import Obeying, Selected
from shallowflow.kernels.fitting.exact import divisions

ROUNDS = 50
"""Of moving every cut to its best place."""
PER_JUMP = 3
"""Parameters of a jump between straight pieces."""
MOST_JUMPS, JUMP_POINTS = 40, 2000
"""The most jumps that are tried unasked, and how many points dynamic programming is given."""
ASKED_POINTS, ASKED_JUMPS, CLEARLY = 500, 8, 2.0
"""Where other pieces are looked for unasked, and by how much their criterion must be lower.

2 is positive evidence (Kass and Raftery 1995, J. Am. Stat. Assoc. 90). Continuous pieces draw a jump as a
steep one, with two knots: that costs them log n more, and no more than that.
"""


class Misfits(Protocol):
    """The misfit of any piece."""

    @property
    def size(self) -> int:
        """The number of points."""
        ...

    def misfit(self, begin: int | Ints, end: int | Ints) -> Floats:
        """Return the least Σ w r² over the points begin … end − 1."""
        ...


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


def refined(cuts: Ints, sums: Misfits, reach: int) -> Ints:
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


@dataclass(frozen=True, eq=False)
class LineSums:
    """Running sums over sorted points, (n + 1, 6), for pieces that are straight: as `Sums`."""

    sums: Floats

    @property
    def size(self) -> int:
        """The number of points."""
        return len(self.sums) - 1

    def misfit(self, begin: int | Ints, end: int | Ints) -> Floats:
        """Return the least Σ w r² of a line over the points begin … end − 1."""
        w, x, y, xx, xy, yy = (self.sums[end] - self.sums[begin]).T
        sxx, sxy = xx - x * x / w, xy - x * y / w
        slope = np.divide(sxy, sxx, out=np.zeros_like(sxy), where=np.asarray(end - begin) > 1)
        return np.asarray(np.maximum(yy - y * y / w - slope * sxy, 0.0))


def line_sums(points: Points) -> LineSums:
    """Return the sums of sorted, merged points."""
    w = points.w
    x, y = (column - np.average(column, weights=w) for column in (points.x, points.y))
    rows = np.stack([w, w * x, w * y, w * x * x, w * x * y, w * y * y], axis=1)
    return LineSums(np.concatenate([np.zeros((1, 6)), np.cumsum(rows, axis=0)]))


def lines_between(points: Points, cuts: Ints) -> tuple[Floats, Floats, float]:
    """Return where the cuts are, (n,), the lines between, (n + 1, 3), and their loss."""
    x, y, w = points.x, points.y, points.w
    edges, lines, loss = [0, *map(int, cuts), len(x)], [], 0.0
    for begin, end in pairwise(edges):
        part = slice(begin, end)
        mean_x, mean_y = (float(np.average(column[part], weights=w[part])) for column in (x, y))
        spread = w[part] * (x[part] - mean_x)
        slope = float(spread @ (y[part] - mean_y) / (spread @ (x[part] - mean_x))) if end > begin + 1 else 0.0
        rest = y[part] - mean_y - slope * (x[part] - mean_x)
        loss += float(w[part] @ (rest * rest))
        lines.append((mean_x, mean_y, slope))
    return 0.5 * (x[cuts - 1] + x[cuts]), np.array(lines), loss


def jumping(points: Points, exactly: int | None, bounds: tuple[int, int], least: int = 1) -> Obeying:
    """Return straight pieces with `exactly` so many jumps, or as many as the criterion calls for (None).

    bounds: the fewest and the most jumps. Beyond 2,000 points neighbours are merged, the cuts then refined.
    """
    coarse = points.coarser(JUMP_POINTS)
    least = min(max(least, 2), len(coarse.x))
    most = max(min(bounds[1] if exactly is None else exactly, len(coarse.x) // least - 1), 0)
    costs, found = divisions(coarse.x, coarse.y, coarse.w, most, lines=True, least=least)
    fits = {k: _jump_fit(coarse, cuts) for k, cuts in enumerate(found) if np.isfinite(costs[k])}
    choice = choose_jumps(fits, points.size, float(coarse.w.sum()))
    number = max(fits) if exactly is not None else max(choice.number, min(bounds[0], max(fits)))
    cuts, merged = found[number], len(coarse.x) < len(points.x)
    if merged:
        size = -(-len(points.x) // JUMP_POINTS)
        cuts = refined(cuts * size, line_sums(points), 2 * size)
        if exactly is None:
            cuts = _unmerged(points, cuts, 2 * size, choice.noise.tau, bounds[0])
    knots, lines, loss = lines_between(points, cuts)
    return Obeying(fits, choice.values, choice.noise, loss, knots, lines, None if merged else True)


def _unmerged(points: Points, cuts: Ints, reach: int, tau: float, fewest: int) -> Ints:
    """Return the cuts without those that are of no use on all points: a merged point may straddle a jump."""
    sums, scatter = line_sums(points), float(points.scatter.sum())

    def total(cuts: Ints) -> float:
        edges = np.concatenate([[0], cuts, [sums.size]])
        return float(sums.misfit(edges[:-1], edges[1:]).sum()) + scatter

    while len(cuts) > fewest:
        fewer = min((np.delete(cuts, k) for k in range(len(cuts))), key=total)
        fewer = refined(fewer, sums, reach)
        losses = {0: total(cuts[:0]), len(cuts): total(cuts), len(fewer): total(fewer)}
        values = criterion(losses, points.size, float(points.w.sum()), tau, PER_JUMP)
        if values[len(fewer)] > values[len(cuts)]:
            break
        cuts = fewer
    return cuts


def _jump_fit(points: Points, cuts: Ints) -> Fitted:
    knots, lines, loss = lines_between(points, cuts)
    rest = np.sqrt(points.w) * (points.y - values(knots, lines, points.x))
    return Fitted(knots, loss + float(points.scatter.sum()), rest)


def choose_jumps(fits: Mapping[int, Fitted], size: float, total: float) -> Choice:
    """Return the number of jumps of least criterion; n points count as n/τ where residuals are correlated."""
    losses = {number: fit.loss for number, fit in fits.items()}
    found = criterion(losses, size, total, per_knot=PER_JUMP)
    number = min(found, key=lambda one: found[one])
    exact = fits[number].loss <= ROUNDING * total
    noise = WHITE if exact else correlation(fits[number].rest, PER_JUMP * number + 2)
    if noise.tau > 1:
        found = criterion(losses, size, total, noise.tau, PER_JUMP)
        number = min(found, key=lambda one: found[one])
    return Choice(number, found, noise)


def other_pieces(points: Points, chosen: Selected | None, jumps: Floats) -> list[str]:
    """Return a sentence if pieces that jump describe the data better, or, of those, constant ones."""
    if chosen is None or len(points.x) > ASKED_POINTS or len(points.x) < 8:
        return []
    total = float(points.w.sum())
    if not jumps.any():
        found = jumping(points, None, (0, ASKED_JUMPS))
        tau, best = found.noise.tau, min(found.criteria.values())
        own = criterion({k: fit.loss for k, fit in chosen.fits.items()}, points.size, total, tau)
        if len(found.knots) and best < min(own.values()) - CLEARLY:
            number = f"{len(found.knots)} jump{'s' if len(found.knots) > 1 else ''}"
            return [f"Straight pieces with {number} describe the data better: continuous=False."]
        return []
    sums, scatter, tau = sums_of(points), float(points.scatter.sum()), chosen.noise.tau
    cuts = exact_cuts(points, ASKED_JUMPS)
    losses = {2: sums.total(cuts) + scatter, 3: chosen.fits[len(jumps)].loss}
    parameters = {2: 1 + 2 * len(cuts), 3: 2 + 3 * len(jumps)}
    values = {
        kind: (points.size - p) / tau * np.log(max(losses[kind], ROUNDING * total))
        + p * np.log(points.size / tau)
        for kind, p in parameters.items()
    }
    if len(cuts) and values[2] < values[3] - CLEARLY:
        number = f"{len(cuts)} jump{'s' if len(cuts) > 1 else ''}"
        return [f"Constant pieces with {number} say as much with fewer parameters: StepRegressor."]
    return []
