"""Is a fit the best one with its number of knots? A proof by `kernels.fitting.exact`, or a better fit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.estimators.points import Points, values
from shallowflow.estimators.search import LARGEST_VALUE

CHEAP_POINTS, CHEAP_KNOTS = 200, 6
"""Up to here a proof is sought without being asked for."""
MOST_POINTS = 1000
"""Tables of blocks are quadratic in the points."""
CHEAP_BUDGET, BUDGET = 3_000_000, 60_000_000
"""Blocks that are looked at before the search gives up: about 0.1 and 2 seconds."""
AGREE = 1e-7
"""How well the loss of the knots must agree with that of their pattern."""
Line = tuple[float, float, float]
"""Centre, height, slope; NaN is an open slope."""


@dataclass(frozen=True, eq=False)
class Certified:
    """Knots (n,), their loss, and whether no other knots are better: True, False or None (not decided)."""

    knots: Floats
    loss: float
    optimal: bool | None


def certified(points: Points, knots: Floats, *, least: int = 1, cheap: bool = True) -> Certified:
    """Return the best knots there are, as many as given (n,), or those given if nothing was decided.

    Those of the optimum that let f leave the range of the data by far are not taken (`search`): then
    `optimal` is False. `cheap`: give up soon, and do not begin with many points or knots. With a fewest
    number of points per piece, `least` > 1, nothing is decided: the bounds of the proof do not hold then, as
    the best knots of a part of the data may leave too few points to a piece.
    """
    loss, _ = points.fit(knots)
    live = knots[(knots > points.x[0]) & (knots < points.x[-1])]
    most = CHEAP_POINTS if cheap else MOST_POINTS
    if least > 1 or not points.free_left or len(points.x) > most or (cheap and len(knots) > CHEAP_KNOTS):
        return Certified(knots, loss, None)
    if len(knots) == 0:
        return Certified(knots, loss, True)
    from shallowflow.kernels.fitting.exact import prove

    proof = prove(
        points.x,
        points.y,
        points.w,
        len(knots),
        loss,
        budget=CHEAP_BUDGET if cheap else BUDGET,
    )
    if not proof.complete:
        return Certified(knots, loss, None)
    if proof.loss is None or proof.pattern is None:
        return Certified(knots, loss, True)
    better = _knots_of(points, proof.pattern.begins, proof.pattern.kinds)
    better = np.sort(np.append(better, np.full(max(len(knots) - len(better), 0), points.x[-1])))
    new, lines = points.fit(better)
    if not new <= proof.loss * (1 + AGREE) + 1e-28 * float(points.w.sum()):
        # Rounding: the lines of the pattern do not cross where they should.
        return Certified(knots, loss, None)
    among = better[(better > points.x[0]) & (better < points.x[-1])]
    if np.abs(values(better, lines, among)).max(initial=0.0) > LARGEST_VALUE and len(live):
        return Certified(knots, loss, False)
    return Certified(better, new, True)


@dataclass
class _Component:
    """Points begin … stop − 1 under lines that share values at data (`inner` knots), its first and last line.

    free: whether it is joined to the component before by a free knot; slopes: what those of a single point
    may be.
    """

    begin: int
    stop: int
    inner: Floats
    first: Line
    last: Line
    free: bool
    slopes: tuple[float, float] = (-np.inf, np.inf)

    @property
    def single(self) -> bool:
        return self.stop == self.begin + 1


def _components(points: Points, begins: list[int], kinds: list[int]) -> list[_Component]:
    """Return the components of a pattern of blocks, each fitted by itself."""
    from shallowflow.kernels.fitting.exact import AT_DATUM, FREE

    x, places = points.x, np.arange(len(points.x))
    heads = [i for i, kind in enumerate(kinds) if kind != AT_DATUM]
    found = []
    for head, after in zip(heads, [*heads[1:], len(kinds)], strict=True):
        begin, stop = begins[head], begins[after] if after < len(kinds) else len(x)
        inner = x[[begins[i] - 1 for i in range(head + 1, after)]]
        lines = np.array([[x[begin], points.y[begin], np.nan]])
        if stop > begin + 1:
            lines = points.part((places >= begin) & (places < stop)).fit(inner)[1]
        if len(inner) and begins[head + 1] == begin + 1:
            lines[0] = inner[0], float(values(inner, lines, inner[:1])[0]), np.nan
        first, last = (tuple(map(float, line)) for line in (lines[0], lines[-1]))
        found.append(_Component(begin, stop, inner, first, last, kinds[head] == FREE))  # type: ignore[arg-type]
    return found


def _knots_of(points: Points, begins: list[int], kinds: list[int]) -> Floats:
    """Return the knots of a pattern of blocks."""
    x, components = points.x, _components(points, begins, kinds)
    _settle_open_lines(components, x)
    knots = [place for one in components for place in one.inner]
    for before, after in pairwise(components):
        lo, hi = x[after.begin - 1], x[after.begin]
        knots += [_crossing(before.last, after.first, lo, hi)] if after.free else [lo, hi]
    return np.sort(np.array(knots))


def _at(line: Line, place: float) -> float:
    return line[1] + line[2] * (place - line[0])


def _crossing(left: Line, right: Line, lo: float, hi: float) -> float:
    """Return where two lines cross between lo and hi; an open one is led to the end of the other."""
    if np.isnan(left[2]):
        return hi
    if np.isnan(right[2]):
        return lo
    at_lo, at_hi = _at(left, lo) - _at(right, lo), _at(left, hi) - _at(right, hi)
    share = at_lo / (at_lo - at_hi) if at_lo != at_hi else 0.5
    return float(lo + (hi - lo) * min(max(share, 0.0), 1.0))


def _settle_open_lines(components: list[_Component], x: Floats) -> None:
    """Give lines through single points slopes with which they cross their neighbours in the gaps, in place.

    Slopes are as near to 0 as they may be: those at the end of what is allowed cross at a datum.
    """
    for before, one in pairwise(components):
        if one.single and one.free:
            one.slopes = _slopes(x[one.begin], one.first[1], x[one.begin - 1], before.last, before.slopes)
    for i in range(len(components) - 1, -1, -1):
        one = components[i]
        if not one.single:
            continue
        low, high = one.slopes
        if i + 1 < len(components) and components[i + 1].free:
            after = components[i + 1].first
            bounds = _slopes(x[one.begin], one.first[1], x[one.begin + 1], after, (-np.inf, np.inf))
            low, high = max(low, bounds[0]), min(high, bounds[1])
        line = one.first[0], one.first[1], float(np.clip(0.0, low, max(low, high)))
        one.first = one.last = line


def _slopes(
    here: float, height: float, there: float, line: Line, slopes: tuple[float, float]
) -> tuple[float, float]:
    """Return the slopes of lines through (here, height) that cross `line` between here and there.

    An open line goes through its centre, `there`, with one of `slopes`.
    """
    if np.isnan(line[2]):
        through = (line[1] - height) / (there - here)
        if slopes[0] <= through <= slopes[1]:
            return -np.inf, np.inf
        return (through, np.inf) if slopes[1] < through else (-np.inf, through)
    bound = (_at(line, there) - height) / (there - here)
    # The line lies above: it is met by what is steep enough, towards the gap.
    upwards = (_at(line, here) > height) == (there < here)
    return (-np.inf, bound) if upwards else (bound, np.inf)
