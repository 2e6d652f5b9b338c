"""Candidate losses by one least-squares problem per candidate: the plain meaning of [plateau] §4.3, Step 1.

Every method is measured against this one. It costs a singular value decomposition of the m × n matrix
A_ij = relu(x_i − b_j) per candidate, and its losses carry the rounding of the ReLU basis (condition numbers
up to 10⁸ for 300 knots): relative errors of about 10⁻¹¹ there.
"""

from __future__ import annotations

from functools import partial
from math import inf

import numpy as np

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.anls import IteratedANLS, LossesOfCandidates
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.trajectory import Setting
from shallowflow.landscape.plateau.moves import Candidate, best_loss, candidates, moved


def losses_of_candidates(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
    """Return the candidates and min_c ‖A' c − y‖² of each, by `numpy.linalg.lstsq` on the ReLU matrix.

    knots: (n,) sorted; x: (m,) in any order, repeats allowed; y: (m,).
    """
    moves = candidates(knots, np.unique(x))
    return moves, np.array([best_loss(moved(knots, move), x, y) for move in moves])


def reference_run(
    network: sf.KnotNetwork,
    dataset: sf.Dataset,
    *,
    method: LossesOfCandidates = losses_of_candidates,
    max_iterations: float = inf,
    loss: sf.SquareLoss | None = None,
    progress: Progress | None = None,
) -> sf.Trajectory[sf.KnotNetwork]:
    """Return the run by this method, or by another one, with the rules that all methods share."""
    make = partial(IteratedANLS, Task(network, dataset, loss or sf.SquareLoss()), "reference", method)
    return run(make, sf.Record.every(1), max_iterations, setting=Setting(), progress=progress)
