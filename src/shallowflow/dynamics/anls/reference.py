"""Candidate losses by one least-squares problem per candidate: the plain meaning of [plateau] §4.3, Step 1.

Every other method is measured against this one. It costs a singular value decomposition of the m × n matrix
A_ij = relu(x_i − b_j) per candidate, and its losses carry the rounding of the ReLU basis (condition numbers
up to 10⁸ for 300 knots): relative errors of about 10⁻¹¹ there.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.anls.candidates import Candidate, candidates


def relu_matrix(knots: Floats, x: Floats) -> Floats:
    """Return A_ij = relu(x_i − knots_j), (m, n), [plateau] (4.1)."""
    return np.maximum(x[:, None] - knots, 0.0)


def best_loss(knots: Floats, x: Floats, y: Floats) -> float:
    """Return min_c ‖A c − y‖² for these knots, [plateau] (4.1); x, y: (m,), x may repeat."""
    matrix = relu_matrix(knots, x)
    coefficients, *_ = np.linalg.lstsq(matrix, y)
    residual = matrix @ coefficients - y
    return float(residual @ residual)


def moved(knots: Floats, candidate: Candidate) -> Floats:
    """Return the knots after a candidate move."""
    changed = knots.copy()
    changed[candidate.neuron] = candidate.position
    return changed


def losses_of_candidates(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
    """Return the candidates and min_c ‖A' c − y‖² of each, by `numpy.linalg.lstsq` on the ReLU matrix.

    knots: (n,) sorted; x: (m,) in any order, repeats allowed; y: (m,).
    """
    moves = candidates(knots, np.unique(x))
    return moves, np.array([best_loss(moved(knots, move), x, y) for move in moves])
