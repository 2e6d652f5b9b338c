"""Knots that make f leave the range of the data are put where they do not.

The loss sees f at the data only. Between two data points least squares may send it to the moon: to please an
outlier, or to have one knot, where two lines far outside the data meet, do the work of two. Where |f| at a
knot among the data exceeds `LARGEST_VALUE` the knot is replaced by two, one on either data point beside it:
a straight line bridges the gap. The knot of least worth goes if there are too many. A gap that stays wild
loses its knot.

The search for a given number of knots: where it starts and how it goes on.

Two searches, both over the chain elimination of `kernels.fitting.chain`:

* "anls": the moves of [plateau] §4.2 and nothing else;
* "relocation": ours (`kernels.fitting.search`). Useless knots go where they help most, and all settle in the
  best continuous places: on the curves of the paper, from the same start, losses 1.2 to 25 times lower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.estimators.points import Points, fitted_lines, squared_errors, values

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
    from shallowflow.kernels.fitting.relocation import prices

    new = np.union1d(np.delete(knots, out), ends)
    if len(new) > len(knots):
        worth = prices(new, *points.data, int(free_left)).costs
        worth[np.isin(new[: len(worth)], ends)] = np.inf
        new = np.delete(new, np.argmin(worth)) if len(worth) == len(new) else new[:-1]
    return np.append(new, np.full(len(knots) - len(new), points.x[-1]))


MARGIN = 1e-8
"""Where rule 6 (iii) of [plateau] §4.2 puts a knot left of the data (of range 2, as the paper's)."""
CHUNK = 64
"""Moves of ANLS between two looks at the knots."""


@dataclass(frozen=True, eq=False)
class Step:
    """Knots (n,) on the way of a search, the losses (k,) since the last step, and the iterations it took."""

    knots: Floats
    losses: Floats
    iterations: int


Progress = Callable[[float | None, str], None]
"""Called with the fraction done, None where that is not known, and what is being done."""

Search = Callable[[Points, Floats, bool, float], Iterator[Step]]
"""(points, starting knots (n,), free line on the left?, most iterations) → steps, the first one the start."""


def relocation(
    points: Points, knots: Floats, free_left: bool, max_iter: float, width: int = 10
) -> Iterator[Step]:
    """Rounds of relocation, sweeps and polish, until none of `width`² exchanges of a knot helps."""
    from shallowflow.kernels.fitting.anls import CONVERGED
    from shallowflow.kernels.fitting.search import improve

    knots, loss = tamed(knots, points, free_left)
    yield Step(knots, np.array([loss]), 0)
    done, status = 0, None
    while done < max_iter and status != CONVERGED:
        new, _, status = improve(knots, *points.data, int(free_left), 1, width)
        new, new_loss = tamed(new, points, free_left)
        done += 1
        if not new_loss < loss:
            break
        knots, loss = new, new_loss
        yield Step(knots, np.array([loss]), 1)


def paper_moves(points: Points, knots: Floats, free_left: bool, max_iter: float) -> Iterator[Step]:
    """Active Neuron Least Squares: the best move of one knot past one data point, until none helps."""
    from shallowflow.kernels.fitting.anls import PAUSED, run_windowed

    yield Step(knots, np.array([fitted_lines(points, knots, free_left)[0]]), 0)
    done, status = 0, PAUSED
    while done < max_iter and status == PAUSED:
        most = int(min(CHUNK, max_iter - done))
        run = run_windowed(knots, *points.data, int(free_left), MARGIN, most, most)
        knots, status = run.knots, run.status
        done += run.made
        if run.made:
            yield Step(knots, run.losses, run.made)


SEARCHES: dict[str, Search] = {"relocation": relocation, "anls": paper_moves}


def watched(steps: Iterable[Step], progress: Progress) -> Iterator[Step]:
    """Yield the same steps, and tell how many iterations were made; how many there will be nobody knows."""
    done = 0
    for step in steps:
        done += step.iterations
        progress(None, f"{len(step.knots):,} knots, {done:,} iterations")
        yield step


def summary(steps: Iterable[Step]) -> Step:
    """Return the last of some steps with the losses and the iterations of all."""
    story = list(steps)
    losses = np.concatenate([step.losses for step in story])
    return Step(story[-1].knots, losses, sum(step.iterations for step in story))


def best_on(held_out: Points, train: Points, free_left: bool, steps: Iterable[Step]) -> tuple[Step, Floats]:
    """Return the same, but the knots that predict `held_out` best; and the mean squared error after each."""
    story, errors = [], []
    for step in steps:
        story.append(step)
        squares = squared_errors(step.knots, train, held_out, free_left)
        errors.append(float(np.average(squares, weights=held_out.w)))
    whole, best = summary(story), story[int(np.argmin(errors))]
    return Step(best.knots, whole.losses, whole.iterations), np.array(errors)


def useful(n_knots: int, points: Points, free_left: bool) -> int:
    """Return how many of n_knots can matter: with this many the points are interpolated."""
    return min(n_knots, max(len(points.x) - 2, 0) if free_left else len(points.x))


def starts(n_knots: int, points: Points, free_left: bool, rng: np.random.RandomState) -> Iterator[Floats]:
    """Yield starting knots (n,) without end: at equal numbers of points, all dead, then at random."""
    fractions = np.arange(n_knots + 2) / (n_knots + 1)
    yield _among(points, fractions[1:-1] if free_left else fractions[:-2], free_left)
    yield np.full(n_knots, points.x[-1])
    while True:
        yield _among(points, np.sort(rng.random_sample(n_knots)), free_left)


def _among(points: Points, fractions: Floats, free_left: bool) -> Floats:
    """Return knots (n,) right of these fractions of the points; a zero line ends before all points."""
    knots = np.interp(fractions * (len(points.x) - 1), np.arange(len(points.x)), points.x)
    if not free_left:
        knots[:1] = points.x[0] - MARGIN
    return knots
