"""The methods of Active Neuron Least Squares beside one least-squares problem per candidate, move by move.

Every method must choose what the plain one chooses from the same knots, or a candidate whose loss, computed
plainly, is no worse by more than the tie rule's 10⁻¹⁰ and the rounding of both: N ε κ ‖y‖², κ the condition
of the ReLU matrix.
"""

from __future__ import annotations

import numpy as np

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.anls import TIE, Moves
from shallowflow.landscape.plateau.moves import best_loss
from tests.dynamics.engines.anls_twin import losses_of_candidates
from tests.dynamics.random_problems import Draw, Rng
from tests.rounding import EPSILON, condition

MOST_MOVES = 5
SUM = sf.SquareLoss("sum")


def rounding(knots: Floats, x: Floats, y: Floats) -> float:
    """Return what rounding may do to the sum of squares of the best fit with these knots."""
    relus = np.maximum(x[:, None] - knots, 0.0)
    living = relus[:, relus.any(axis=0)]
    kappa = condition(living, EPSILON * max(relus.shape)) if living.size else 1.0
    return float(relus.size * EPSILON * kappa * (y @ y))


def moves(method: str, draw: Draw, rng: Rng) -> tuple[float, float, str]:
    """Return the largest excess of a move over the best one, relative to ‖y‖², and its bound."""
    network, dataset, _ = draw(rng)
    assert isinstance(network, sf.KnotNetwork)
    run = sf.active_neuron_least_squares(network, dataset, method=method, max_iterations=MOST_MOVES, loss=SUM)
    path, x, y = run.path, dataset.inputs[:, 0], dataset.targets
    if not isinstance(path, Moves):
        return 0.0, EPSILON, "no move helps"
    knots, worst, bound, total = np.sort(network.knots), 0.0, 0.0, float(y @ y)
    for number, (neuron, place) in enumerate(zip(path.neurons, path.positions, strict=True)):
        _, losses = losses_of_candidates(knots, x, y)
        before = knots.copy()
        knots[neuron] = place
        loss = best_loss(knots, x, y)
        slack = rounding(before, x, y) + rounding(knots, x, y)
        excess = max(loss - losses.min() * (1.0 + TIE), abs(2.0 * run.losses[number + 1] - loss))
        if excess / total > worst or not bound:
            worst, bound = excess / total, slack / total
        if excess > slack:
            return excess / total, slack / total, ""
    return worst, bound or EPSILON, ""
