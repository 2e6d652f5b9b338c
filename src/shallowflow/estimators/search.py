"""The search for a given number of knots: where it starts, how it goes on, what it may not do, and its proof.

Two searches, both over the chain elimination of `kernels.fitting.chain`:

* "anls": the moves of [plateau] §4.2 and nothing else;
* "relocation": ours (`kernels.fitting.search`). Useless knots go where they help most, and all settle in the
  best continuous places: on the curves of the paper, from the same start, losses 1.2 to 25 times lower.

The loss sees f at the data only: between two data points least squares may overshoot far outside the range of
the data, to fit an outlier, or to have one knot, where two lines far outside meet, do the work of two.
Relocation therefore limits the overshoot. Where |f| at a knot among the data exceeds `LARGEST_VALUE` the knot
is replaced by two, one on either data point beside it: a straight line bridges the gap. The knot of least
worth goes if there are too many. A gap in which f still overshoots loses its knot.

Where a loss is known by its values alone (`Losses`: fits under constraints), knots are moved one at a time,
over the whole room between their neighbours first, then closely; after each round all together, along what
the round has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from shallowflow.arrays import Floats
from shallowflow.estimators.base import Points, squared_errors, values

LARGEST_VALUE = 2.0
"""Bound on |f| at knots among the data, where the targets lie in [−1, 1]: half their range beyond them."""
MARGIN = 1e-8
"""Where rule 6 (iii) of [plateau] §4.2 puts a knot left of the data (of range 2, as the paper's)."""
POLISH_STEPS, POLISH_TOLERANCE = 20, 1e-7
"""On all points, when the knots were found on merged ones."""
CHUNK = 64
"""Moves of ANLS between two looks at the knots."""
ROOM, NEAR = 24, 6
"""Places that are tried for a knot: in all the room it has, and on either side of where it is."""
CLOSER = 1e-3
"""How closely the best place is found between two that were tried, in one round."""
ROUNDS, ROUGHLY, SETTLED = 40, 1e-4, 1e-10
"""Most rounds of moving every knot; the share of the loss below which a gain ends them: on the way, last."""


@dataclass(frozen=True, eq=False)
class Step:
    """Knots (n,) on the way of a search, the losses (k,) since the last step, and the iterations it took."""

    knots: Floats
    losses: Floats
    iterations: int


Search = Callable[[Points, Floats, float], Iterator[Step]]
"""(points, starting knots (n,), most iterations) → steps, the first one the start."""


def relocation(
    points: Points, knots: Floats, max_iter: float, width: int = 10, *, least: int = 1
) -> Iterator[Step]:
    """Rounds of relocation, sweeps and polish, until none of `width`² exchanges of a knot helps.

    `least`: the fewest points of a piece.
    """
    from shallowflow.kernels.fitting.anls import CONVERGED
    from shallowflow.kernels.fitting.search import improve

    knots, loss = _admissible(knots, points, least)
    yield Step(knots, np.array([loss]), 0)
    done, status = 0, None
    while done < max_iter and status != CONVERGED:
        new, _, status = improve(knots, *points.data, 1, width)
        new, new_loss = _admissible(new, points, least)
        done += 1
        if not new_loss < loss:
            break
        knots, loss = new, new_loss
        yield Step(knots, np.array([loss]), 1)


def polished(points: Points, knots: Floats) -> Iterator[Step]:
    """Newton steps on all points from knots found on fewer; dead and far ones stay as they are."""
    from shallowflow.kernels.fitting.sweep import polish

    knots, loss = limit_overshoot(knots, points)
    yield Step(knots, np.array([loss]), 0)
    new, losses, _ = polish(knots, *points.data, POLISH_STEPS, POLISH_TOLERANCE)
    new, after = limit_overshoot(new, points)
    if after < loss:
        yield Step(new, np.array([after]), len(losses) - 1)


def paper_moves(points: Points, knots: Floats, max_iter: float) -> Iterator[Step]:
    """Active Neuron Least Squares: the best move of one knot past one data point, until none helps."""
    from shallowflow.kernels.fitting.anls import PAUSED, run_windowed

    yield Step(knots, np.array([points.fit(knots)[0]]), 0)
    done, status = 0, PAUSED
    while done < max_iter and status == PAUSED:
        most = int(min(CHUNK, max_iter - done))
        run = run_windowed(knots, *points.data, MARGIN, most, most)
        knots, status = run.knots, run.status
        done += run.made
        if run.made:
            yield Step(knots, run.losses, run.made)


SEARCHES: dict[str, Search] = {"relocation": relocation, "anls": paper_moves}


def watched(steps: Iterable[Step], progress: Callable[[float | None, str], None]) -> Iterator[Step]:
    """Yield the same steps and report the iterations made; how many there will be is not known."""
    done = 0
    for step in steps:
        done += step.iterations
        progress(None, f"{len(step.knots):,} knots, {done:,} iterations")
        yield step


def summary(steps: Iterable[Step]) -> Step:
    """Return the last of some steps with the losses and the iterations of all."""
    made = list(steps)
    losses = np.concatenate([step.losses for step in made])
    return Step(made[-1].knots, losses, sum(step.iterations for step in made))


def best_on(held_out: Points, train: Points, steps: Iterable[Step]) -> tuple[Step, Floats]:
    """Return the same, but the knots that predict `held_out` best; and the mean squared error after each."""
    made = list(steps)
    squares = [squared_errors(step.knots, train, held_out) for step in made]
    errors = np.average(squares, axis=1, weights=held_out.w)
    whole, best = summary(made), made[int(np.argmin(errors))]
    return Step(best.knots, whole.losses, whole.iterations), errors


def divided(points: Points, fraction: float, rng: np.random.RandomState) -> tuple[Points, Points | None]:
    """Return the points for the search and those held out of it (at least one of each, if any are)."""
    size = len(points.x)
    held = min(max(round(fraction * size), 1), size - 1)
    if fraction == 0 or held == 0:
        return points, None
    out = np.zeros(size, dtype=np.bool_)
    out[rng.permutation(size)[:held]] = True
    return points.part(~out), points.part(out)


def useful(n_knots: int, points: Points, least: int = 1) -> int:
    """Return how many of n_knots can matter: with this many the points are interpolated.

    With `least` points in every piece there may be fewer.
    """
    most = max(len(points.x) - 2, 0) if points.free_left else len(points.x)
    return min(n_knots, most, max(len(points.x) // least - 1, 0) if least > 1 else most)


def starts(n_knots: int, points: Points, rng: np.random.RandomState) -> Iterator[Floats]:
    """Yield starting knots (n,) without end: at equal numbers of points, all dead, then at random."""
    fractions = np.arange(n_knots + 2) / (n_knots + 1)
    yield _among(points, fractions[1:-1] if points.free_left else fractions[:-2])
    yield np.full(n_knots, points.x[-1])
    while True:
        yield _among(points, np.sort(rng.random_sample(n_knots)))


def _among(points: Points, fractions: Floats) -> Floats:
    """Return knots (n,) right of these fractions of the points; a zero line ends before all points."""
    knots = np.interp(fractions * (len(points.x) - 1), np.arange(len(points.x)), points.x)
    if not points.free_left:
        knots[:1] = points.x[0] - MARGIN
    return knots


def _admissible(knots: Floats, points: Points, least: int) -> tuple[Floats, float]:
    """Return knots (n,) that do not overshoot, and leave `least` points to every piece; and their loss."""
    knots, loss = limit_overshoot(knots, points)
    return (knots, loss) if least == 1 else spaced(knots, points, least)


def spaced(knots: Floats, points: Points, least: int) -> tuple[Floats, float]:
    """Return as many knots (n,), sorted, with at least `least` points between neighbours; and their loss.

    Of a piece with fewer points one end moves out, or its knot is dead, whichever costs least.
    """
    x, end = points.x, points.x[-1]
    for _ in range(4 * len(knots)):
        live = knots[knots < end]
        edges = np.concatenate([[0], np.searchsorted(x, live, side="right"), [len(x)]])
        short = np.flatnonzero(np.diff(edges) < least)
        if len(short) == 0:
            break
        piece = int(short[0])
        trials = []
        for knot in (piece - 1, piece):
            if 0 <= knot < len(live):
                count = edges[piece + 1] - least if knot < piece else edges[piece] + least
                room = edges[knot] + least <= count <= edges[knot + 2] - least
                places = [end, x[count - 1]] if room else [end]
                trials += [np.sort(np.append(np.delete(knots, knot), place)) for place in places]
        knots = min(trials, key=lambda trial: points.fit(trial)[0])
    return knots, points.fit(knots)[0]


def limit_overshoot(knots: Floats, points: Points) -> tuple[Floats, float]:
    """Return as many knots (n,), sorted, with |f| ≤ LARGEST_VALUE at all among the data; and their loss.

    The largest overshoot is treated first, one at a time: its neighbours may need nothing after it. Knots
    without any use left are dead (moved to the last data point).
    """
    bridged: set[int] = set()
    while True:
        loss, lines = points.fit(knots)
        among = (knots > points.x[0]) & (knots < points.x[-1])
        sizes = np.where(among, np.abs(values(knots, lines, knots)), 0.0)
        if not np.any(sizes > LARGEST_VALUE):
            return knots, loss
        worst = int(np.argmax(sizes))
        gap = int(np.searchsorted(points.x, knots[worst], side="right")) - 1
        ends = np.empty(0) if gap in bridged else points.x[gap : gap + 2]
        bridged.add(gap)
        knots = _exchanged(knots, worst, ends, points)


def _exchanged(knots: Floats, out: int, ends: Floats, points: Points) -> Floats:
    """Return as many knots (n,) with one out and those of `ends` in that are not there yet."""
    from shallowflow.kernels.fitting.search import prices

    new = np.union1d(np.delete(knots, out), ends)
    if len(new) > len(knots):
        worth = prices(new, *points.data).costs
        worth[np.isin(new[: len(worth)], ends)] = np.inf
        new = np.delete(new, np.argmin(worth)) if len(worth) == len(new) else new[:-1]
    return np.append(new, np.full(len(knots) - len(new), points.x[-1]))


class Losses(Protocol):
    """A loss of free knots (n,), known by its values alone: ∞ where they may not be, or not below `below`.

    fixed: places that no knot may pass.
    """

    points: Points
    fixed: Floats

    def loss(self, free: Floats, below: float = np.inf) -> float:
        """Return the loss."""
        ...


def _places(x: Floats) -> Floats:
    """Return where a further knot is tried first: among the data, at equal numbers of points."""
    inner = np.unique(np.concatenate([x[1:-1], 0.5 * (x[1:] + x[:-1])]))
    return np.asarray(inner[np.unique(np.linspace(0, len(inner) - 1, 2 * ROOM).round().astype(int))])


def added(problem: Losses, free: Floats) -> Floats:
    """Return the knots and the one that gains most."""
    best, least = np.append(free, problem.points.x[-1]), np.inf
    for place in _places(problem.points.x):
        trial = np.sort(np.append(free, place))
        loss = problem.loss(trial, least)
        if loss < least:
            best, least = trial, loss
    return best


def exchanged(problem: Losses, free: Floats) -> Floats:
    """Return the knots after the best exchange of one for another anywhere."""
    trials = [added(problem, np.delete(free, k)) for k in range(len(free))]
    return min(trials, key=problem.loss)


def settled(problem: Losses, free: Floats, enough: float = ROUGHLY) -> tuple[Floats, float]:
    """Return the knots (n,) after moving them as long as that gains this share, and the loss."""
    free, loss = np.sort(free), problem.loss(free)
    if not len(free):
        return free, loss
    for round_ in range(ROUNDS):
        before, began = free, loss
        for k in range(len(free)):
            free, loss = _moved(problem, free, loss, k, wide=round_ % 4 == 0)
        further = free + (free - before)
        after = problem.loss(further) if np.all(np.diff(further) > 0) else np.inf
        if after < loss:
            free, loss = further, after
        if not began - loss > enough * began and np.isfinite(began):
            break
    return free, loss


def _moved(problem: Losses, free: Floats, loss: float, k: int, *, wide: bool) -> tuple[Floats, float]:
    """Return the knots with the k-th at its best place between its neighbours, and the loss."""
    fixed = np.append(problem.fixed, np.delete(free, k))
    low, high = fixed[fixed < free[k]].max(), fixed[fixed > free[k]].min()
    x = problem.points.x
    within = x[np.searchsorted(x, low, side="right") : np.searchsorted(x, high)]

    def cost(place: float, below: float = np.inf) -> float:
        trial = free.copy()
        trial[k] = place
        return problem.loss(trial, below)

    halves = 0.5 ** np.arange(1, NEAR + 1)
    trials = [free[k : k + 1], free[k] + (high - free[k]) * halves, free[k] - (free[k] - low) * halves]
    if wide and len(within):
        trials.append(within[np.unique(np.linspace(0, len(within) - 1, ROOM).round().astype(int))])
    places = np.unique(np.concatenate(trials))
    place, least = free[k], loss
    for trial in places:
        if (after := cost(trial, least)) < least:
            place, least = trial, after
    at = int(np.searchsorted(places, place))
    ends = places[max(at - 1, 0)], places[min(at + 1, len(places) - 1)]
    width = max(1e-9, CLOSER * (ends[1] - ends[0]))
    if np.isfinite(least):
        closer = minimize_scalar(
            lambda place: min(cost(place), 2 * least),
            bounds=ends,
            method="bounded",
            options={"xatol": width},
        )
        place, least = (closer.x, closer.fun) if closer.fun < least else (place, least)
    if not least < loss:
        return free, loss
    free = free.copy()
    free[k] = place
    return free, float(least)


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
