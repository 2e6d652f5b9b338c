"""Plateaus and falls of a loss curve: where it hardly falls, and how often it falls fast."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, same_length, vector

FLAT = 0.05
"""A plateau: the loss falls more slowly than times^(−FLAT) …"""
LONG = 1.25
"""… while the time grows by this factor at least."""
DROP = 0.9
"""A plateau is left when the loss falls below this share of its level."""


def plateaus(times: ArrayLike, losses: ArrayLike) -> list[tuple[float, float]]:
    """Return the intervals (first, last time) in which a loss hardly falls, and which it leaves later.

    times (k,) > 0, losses (k,) > 0. A plateau is a longest run of records with −d ln L/d ln t < `FLAT`, whose
    last time is at least `LONG` times its first, and below whose last loss, times `DROP`, the curve ends.

    Examples
    --------
    >>> t = np.geomspace(1, 1e4, 81)
    >>> [(round(first), round(last)) for first, last in plateaus(t, np.where(t < 99.0, 1.0, 0.1))]
    [(1, 89)]
    """
    moments, values = vector(times, "times"), vector(losses, "losses")
    same_length(moments, values, "times, losses")
    slopes = -np.diff(np.log(values)) / np.diff(np.log(moments))
    flat = np.concatenate([[False], slopes < FLAT, [False]]).astype(np.int8)
    starts, ends = (np.flatnonzero(np.diff(flat) == step) for step in (1, -1))
    left = (moments[ends] >= LONG * moments[starts]) & (values[-1] < DROP * values[ends])
    return [(float(moments[i]), float(moments[j])) for i, j in zip(starts[left], ends[left], strict=True)]


def falls(times: Floats, losses: Floats) -> int:
    """Return how often a loss begins to fall faster than from its first value to 0 over all the times."""
    fast = -np.diff(losses) / np.diff(times) > losses[0] / (times[-1] - times[0])
    return int(np.sum(np.diff(fast.astype(int)) == 1))
