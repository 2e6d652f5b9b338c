"""Runs by the compiled chain elimination (`kernels.fitting.anls`), in pieces, with the places of every move.

The kernels report which knot passed a data point on which side; where it landed follows from the rules. A
run may be cut anywhere without changing it, which leaves room for progress on the way.
"""

from __future__ import annotations

import time

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.anls.candidates import MARGIN, Candidate, landing
from shallowflow.dynamics.anls.iteration import Meter, Moves
from shallowflow.dynamics.driver import PROGRESS_SECONDS, Progress
from shallowflow.dynamics.outer_weights import DistinctPoints

FIRST_PIECE, LARGEST_PIECE = 256, 2**20


def losses_of_candidates(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
    """Return the candidates and their losses by chain elimination; knots sorted, x strictly increasing."""
    from shallowflow.kernels.fitting.anls import candidates

    neurons, sides, places, losses = candidates(knots, x, y, np.ones(len(x)), 0, MARGIN)
    rows = zip(neurons.tolist(), sides.tolist(), places.tolist(), strict=True)
    return [Candidate(*row) for row in rows], losses


def run(
    windowed: bool,
    knots: Floats,
    points: DistinctPoints,
    *,
    max_iterations: int | None = None,
    progress: Progress | None = None,
) -> Moves:
    """Take the best candidate again and again, as `iteration.run` does; knots: (n,) sorted."""
    from shallowflow.kernels.fitting.anls import CONVERGED, PAUSED, ROUNDING, run_full, run_windowed

    kernel = run_windowed if windowed else run_full
    data = (points.x, points.y, points.weights)
    meter = Meter(progress, max_iterations)
    limit = np.iinfo(np.int64).max if max_iterations is None else max_iterations
    piece = LARGEST_PIECE if progress is None else FIRST_PIECE
    places, made, status = knots, 0, PAUSED
    neurons: list[Ints] = []
    directions: list[Ints] = []
    losses: list[Floats] = []
    while status == PAUSED and (made < limit or not losses):
        clock = time.perf_counter()
        steps = min(piece, limit - made)
        places, before, after, count, status, knot, side, path = kernel(
            places, *data, 0, MARGIN, steps, steps
        )
        if not losses:
            losses.append(np.array([before]))
        neurons.append(knot)
        directions.append(side)
        losses.append(path)
        made += count
        if count:
            meter.show(made, (before - after) / (before * count))
        if time.perf_counter() - clock < PROGRESS_SECONDS / 2:
            piece = min(2 * piece, LARGEST_PIECE)
    meter.finish()
    notes = {
        PAUSED: f"{made} moves made",
        CONVERGED: f"no move lowers the loss after {made}",
        ROUNDING: f"after {made} moves gains are lost in rounding",
    }
    moved_knots, sides = np.concatenate(neurons), np.concatenate(directions)
    return Moves(
        moved_knots,
        sides,
        landings(knots, points.x, moved_knots, sides),
        np.concatenate(losses) + points.scatter,
        "completed" if status == PAUSED else "converged",
        notes[status],
    )


def landings(knots: Floats, x: Floats, neurons: Ints, directions: Ints) -> Floats:
    """Return where the moves (knot, direction) land, (k,), following them from `knots` (n,) sorted."""
    inactive = np.searchsorted(x, knots, side="right")
    living = int(np.sum(inactive < len(x)))
    places, counts, data = knots[:living].tolist(), inactive[:living].tolist(), x.tolist()
    landed = np.empty(len(neurons))
    for i, (k, direction) in enumerate(zip(neurons.tolist(), directions.tolist(), strict=True)):
        position = landing(k, direction, places, counts, data)
        assert position is not None, "the kernels and `candidates` follow the same rules"
        places[k] = landed[i] = position
        counts[k] += direction
    return landed
