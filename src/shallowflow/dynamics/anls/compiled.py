"""Runs by the compiled chain elimination (`kernels.fitting.anls`), in pieces.

A run may be cut anywhere without changing it, which leaves room for progress on the way.
"""

from __future__ import annotations

import time

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.anls.candidates import MARGIN, Candidate
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
    from shallowflow.kernels.fitting.anls import CONVERGED, PAUSED, ROUNDING, Run, run_windowed

    data = (points.x, points.y, points.weights)
    meter = Meter(progress, max_iterations)
    limit = np.iinfo(np.int64).max if max_iterations is None else max_iterations
    piece = LARGEST_PIECE if progress is None else FIRST_PIECE
    made, status = 0, PAUSED
    runs: list[Run] = []
    while status == PAUSED and (made < limit or not runs):
        clock = time.perf_counter()
        steps = min(piece if windowed else 1, limit - made)
        run = run_windowed(runs[-1].knots if runs else knots, *data, 0, MARGIN, steps, steps)
        runs.append(run)
        made, status = made + run.made, run.status
        if run.made:
            meter.show(made, (run.initial - run.loss) / (run.initial * run.made))
        if time.perf_counter() - clock < PROGRESS_SECONDS / 2:
            piece = min(2 * piece, LARGEST_PIECE)
    meter.finish()
    notes = {
        PAUSED: f"{made} moves made",
        CONVERGED: f"no move lowers the loss after {made}",
        ROUNDING: f"after {made} moves gains are lost in rounding",
    }
    losses = np.concatenate([[runs[0].initial], *(run.losses for run in runs)])
    return Moves(
        np.concatenate([run.neurons for run in runs]),
        np.concatenate([run.sides for run in runs]),
        np.concatenate([run.places for run in runs]),
        losses + points.scatter,
        "completed" if status == PAUSED else "converged",
        notes[status],
    )
