"""Knots that make f leave the range of the data are put where they do not.

The loss sees f at the data only. Between two data points least squares may send it to the moon: to please an
outlier, or to have one knot, where two lines far outside the data meet, do the work of two. Where |f| at a
knot among the data exceeds `LARGEST_VALUE` the knot is replaced by two, one on either data point beside it:
a straight line bridges the gap. The knot of least worth goes if there are too many. A gap that stays wild
loses its knot.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.estimators.knot_fit import fitted_lines, values
from shallowflow.estimators.points import Points

LARGEST_VALUE = 2.0
"""Bound on |f| at knots among the data, where the targets lie in [−1, 1]: half their range beyond them."""


def tamed(knots: Floats, points: Points, free_left: bool) -> tuple[Floats, float]:
    """Return as many knots (n,), sorted, with |f| ≤ LARGEST_VALUE at all among the data; and their loss.

    The wildest is treated first, one at a time, since its neighbours may be all right without it. Knots that
    have no use any more are dead (moved to the last data point).
    """
    bridged: set[int] = set()
    while True:
        loss, lines = fitted_lines(points, knots, free_left)
        among = (knots > points.x[0]) & (knots < points.x[-1])
        sizes = np.where(among, np.abs(values(knots, lines, knots)), 0.0)
        if not np.any(sizes > LARGEST_VALUE):
            return knots, loss
        wildest = int(np.argmax(sizes))
        gap = int(np.searchsorted(points.x, knots[wildest], side="right")) - 1
        ends = np.empty(0) if gap in bridged else points.x[gap : gap + 2]
        bridged.add(gap)
        knots = _exchanged(knots, wildest, ends, points, free_left)


def _exchanged(knots: Floats, out: int, ends: Floats, points: Points, free_left: bool) -> Floats:
    """Return as many knots (n,) with one out and those of `ends` in that are not there yet."""
    from shallowflow.kernels.knot_relocation import prices

    new = np.union1d(np.delete(knots, out), ends)
    if len(new) > len(knots):
        _, worth, _, _ = prices(new, *points.data, int(free_left))
        worth[np.isin(new[: len(worth)], ends)] = np.inf
        new = np.delete(new, np.argmin(worth)) if len(worth) == len(new) else new[:-1]
    return np.append(new, np.full(len(knots) - len(new), points.x[-1]))
