"""Curves of a loss, from times and values alone: where one stands and falls, and how far two are apart.

**Stretches.** On the intervals between records q = −Δ ln L/Δt is the mean speed, v = ln q. A **top** is a
local maximum of v that stands out by ln 10 from the valley on each side that has a higher top behind it. Its
**fast stretch** is the intervals around it with at least a tenth of its speed, if ln L falls by 0.1 in it.
The rest is slow. Mean speeds see a jump between two records too, so that thinning a record changes borders,
not names. Losses that rise (stochastic descent) are replaced by their running minimum; records closer than
10⁻⁴ of the run and 10⁻³ in ln L are skipped, because speeds between them are rounding.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Bools, Floats, same_length, vector

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


TENTH = float(np.log(10.0))
FALL = 0.1
"""ln L falls by this in a fast stretch at least …"""
SLOW_FALL = 0.05
"""… and by this in the second half of a slow last stretch that decays."""
CLOSE = 1e-4
"""Records are skipped that follow within this share of the run …"""
CLOSE_LOSS = 1e-3
"""… and within this in ln L."""
LOWEST = 1e-14
"""Losses below this share of the first are rounding."""


class Stretch(NamedTuple):
    """A stretch of time, first to last; fast: whether the loss falls fast in it."""

    start: float
    end: float
    fast: bool


def stretches(times: Floats, losses: Floats) -> list[Stretch]:
    """Return fast and slow stretches in turn; they cover the run without gaps.

    Examples
    --------
    >>> t = np.linspace(0.0, 10.0, 201)
    >>> losses = 1.0 - 0.9 / (1.0 + np.exp(-20.0 * (t - 5.0)))
    >>> [(round(one.start, 1), one.fast) for one in stretches(t, losses)]
    [(0.0, False), (4.9, True), (5.2, False)]
    """
    moments, logs = _thinned(times, losses)
    if len(moments) < 2:
        return [Stretch(float(times[0]), float(times[-1]), False)]
    duration = float(moments[-1] - moments[0])
    speeds = np.maximum(-np.diff(logs) / np.diff(moments), 1e-9 / duration)
    fast = _fast(np.log(speeds), logs)
    edges = np.flatnonzero(np.diff(np.concatenate([[-1], fast.astype(int), [-1]])))
    found = [
        Stretch(float(moments[a]), float(moments[b]), bool(fast[a])) for a, b in pairwise(edges.tolist())
    ]
    # What was dropped at the end belongs to the last stretch.
    found[-1] = found[-1]._replace(end=float(times[-1]))
    return found


def _thinned(times: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Return the times that count, and the logarithm of the running minimum of the loss there."""
    lowest = np.minimum.accumulate(losses)
    floor = LOWEST * lowest[0] if lowest[0] > 0 else 1.0
    logs = np.log(np.maximum(lowest, floor))
    usable = np.flatnonzero(lowest > floor)
    if not usable.size:
        return times[:1], logs[:1]
    duration = float(times[usable[-1]] - times[0])
    kept = [0]
    for i in usable[1:].tolist():
        apart = times[i] - times[kept[-1]]
        if apart > 0 and (apart >= CLOSE * duration or logs[kept[-1]] - logs[i] >= CLOSE_LOSS):
            kept.append(i)
    last = int(usable[-1])
    if kept[-1] != last and times[last] > times[kept[-1]]:
        kept.append(last)
    return times[kept], logs[kept]


def _fast(v: Floats, logs: Floats) -> Bools:
    """Return which intervals lie in a fast stretch."""
    fast = np.zeros(len(v), np.bool_)
    for top in _tops(v):
        low = high = top
        while low > 0 and v[low - 1] >= v[top] - TENTH:
            low -= 1
        while high + 1 < len(v) and v[high + 1] >= v[top] - TENTH:
            high += 1
        if logs[low] - logs[high + 1] >= FALL:
            fast[low : high + 1] = True
    return fast


def _tops(v: Floats) -> list[int]:
    """Return the local maxima that stand out, the first one of equal neighbours."""
    found = []
    for i in range(len(v)):
        if (i and v[i - 1] >= v[i]) or (i + 1 < len(v) and v[i + 1] > v[i]):
            continue
        sides = (v[:i][::-1], v[i + 1 :])
        if all(_stands_out(v[i], side) for side in sides):
            found.append(i)
    return found


def _stands_out(top: float, side: Floats) -> bool:
    """Whether a top is ln 10 above the valley between it and the next higher one on a side, if there is
    one."""
    higher = np.flatnonzero(side > top)
    return not higher.size or bool(top - side[: higher[0]].min(initial=top) >= TENTH)


def largest_gap(times: Floats, first: Floats, second: Floats, since: float = 0.0) -> float:
    """Return max |first − second| of two curves over the times t ≥ since·T, T the last one; all (k,)."""
    return float(np.abs(first - second)[times >= since * times[-1]].max())


def mean_gap(times: Floats, first: Floats, second: Floats) -> float:
    """Return (1/T) ∫ |first − second| dt of two curves from time 0 to T, by the trapezoidal rule."""
    return float(np.trapezoid(np.abs(first - second), times) / times[-1])
