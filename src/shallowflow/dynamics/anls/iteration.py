"""A run of Active Neuron Least Squares, for any method of computing the losses of candidates.

Every method shares one tie rule and one stopping rule (`kernels.fitting.anls` has the same):

* of the candidates whose loss is within 10⁻¹⁰, relatively, of the best one's the first is taken (symmetric
  configurations have candidates of equal loss, which rounding would order); where even the best gain is
  that small, the first with at least half of it;
* a run ends when the best gain is ≤ 10⁻¹² of the loss, or when the loss after the move, computed afresh, is
  not smaller (the move is then undone).

Losses here are sums of squares Σ (f(x_i) − y_i)². Relative means relative to what a function of x can
change: the scatter of targets at equal x is taken off first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.anls.candidates import Candidate
from shallowflow.dynamics.anls.reference import best_loss, moved
from shallowflow.dynamics.driver import Progress

TIE = 1e-10
LEAST_GAIN = 1e-12
MISJUDGED = 1e-9
"""A promised relative gain above this that does not come true is the method's error, not rounding."""

LossesOfCandidates = Callable[[Floats, Floats, Floats], tuple[list[Candidate], Floats]]
"""(sorted knots (n,), x (m,), y (m,)) → the candidates and the sum of squares after each."""


@dataclass(frozen=True, eq=False)
class Moves:
    """What a run did: per move the knot (in sorted order), the direction and the new place, each (k,).

    losses: (k + 1,) sums of squares, the first before any move; status and note: how it ended.
    """

    neurons: Ints
    directions: Ints
    positions: Floats
    losses: Floats
    status: str
    note: str


def choose(losses: Floats, present: float, least_gain: float = LEAST_GAIN) -> int | None:
    """Return the candidate to take by the tie rule, or None if none gains more than least_gain · present."""
    if len(losses) == 0:
        return None
    best = float(losses.min())
    gain = present - best
    if not gain > least_gain * present:
        return None
    slack = min(TIE * max(best, 0.0), 0.5 * gain)
    return int(np.argmax(losses <= best + slack))


def run(
    losses_of_candidates: LossesOfCandidates,
    knots: Floats,
    x: Floats,
    y: Floats,
    *,
    max_iterations: int | None = None,
    least_gain: float = LEAST_GAIN,
    scatter: float = 0.0,
    progress: Progress | None = None,
) -> Moves:
    """Take the best candidate again and again, [plateau] §4.3; knots: (n,) sorted, x, y: (m,), x may repeat.

    `scatter` is the part of the loss that no function of x can change.
    """
    meter = Meter(progress, max_iterations)
    taken: list[Candidate] = []
    losses = [best_loss(knots, x, y)]
    status, note = "completed", f"{max_iterations} moves made"
    while max_iterations is None or len(taken) < max_iterations:
        moves, promised = losses_of_candidates(knots, x, y)
        present = losses[-1] - scatter
        chosen = choose(promised - scatter, present, least_gain)
        if chosen is None:
            status, note = "converged", f"no move lowers the loss after {len(taken)}"
            break
        changed = moved(knots, moves[chosen])
        loss = best_loss(changed, x, y)
        if not loss < losses[-1]:
            status, note = _disappointed(losses[-1] - promised[chosen], present, len(taken))
            break
        knots = changed
        taken.append(moves[chosen])
        losses.append(loss)
        meter.show(len(taken), (losses[-2] - loss) / present)
    meter.finish()
    return Moves(
        np.array([move.neuron for move in taken], dtype=np.int64),
        np.array([move.direction for move in taken], dtype=np.int64),
        np.array([move.position for move in taken]),
        np.array(losses),
        status,
        note,
    )


def _disappointed(gain: float, present: float, made: int) -> tuple[str, str]:
    """Return status and note of a run whose chosen move did not lower the loss."""
    if gain > MISJUDGED * present:
        return "stalled", (
            f"after {made} moves the loss of the chosen candidate was misjudged: "
            f"a relative gain of {gain / present:.2g} did not come true"
        )
    return "converged", f"after {made} moves gains are lost in rounding"


class Meter:
    """Progress of a run whose end may be unknown: then, how far the relative gain has fallen to its least."""

    def __init__(self, progress: Progress | None, max_iterations: int | None) -> None:
        self._progress, self._max_iterations, self._shown = progress, max_iterations, 0.0

    def show(self, done: int, relative_gain: float) -> None:
        """Report after `done` moves, the last with this relative gain."""
        if self._progress is None:
            return
        if self._max_iterations is not None:
            share = done / self._max_iterations
        else:
            share = log(min(max(relative_gain, LEAST_GAIN), 1.0)) / log(LEAST_GAIN)
        self._shown = max(self._shown, min(share, 0.99))
        self._progress(self._shown)

    def finish(self) -> None:
        """Report the end."""
        if self._progress is not None:
            self._progress(1.0)
