"""The fit for given knots: its loss, its lines, its errors elsewhere."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.estimators.points import Points


def fitted_lines(points: Points, knots: Floats, free_left: bool) -> tuple[float, Floats]:
    """Return the least sum of squares for given knots (n,) and its lines (n + 1, 3) as in `chain.fit`."""
    from shallowflow.kernels.chain import fit

    loss, lines = fit(knots, *points.data, int(free_left))
    return float(loss), lines


def values(knots: Floats, lines: Floats, x: Floats) -> Floats:
    """Return f at x (k,) from knots (n,) and lines (n + 1, 3) as above."""
    row = np.searchsorted(knots, x)
    return np.asarray(lines[row, 1] + lines[row, 2] * (x - lines[row, 0]))


def squared_errors(knots: Floats, train: Points, test: Points, free_left: bool) -> Floats:
    """Return (f − y)² at every point of `test`, (k,), f fitted to `train` with the given knots."""
    _, lines = fitted_lines(train, knots, free_left)
    return np.asarray((values(knots, lines, test.x) - test.y) ** 2)
