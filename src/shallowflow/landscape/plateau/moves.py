"""The candidate moves of Active Neuron Least Squares: rules 1–6 of [plateau] §4.2.

One living knot passes one data point, to the left or to the right, and everything else stays:

1. only one knot moves;
2. the order of the knots is kept;
3. it passes exactly one data point;
4. a dead knot (no data to its right) does not move;
5. the last living knot does not pass the last data point: no knot dies;
6. it lands (i) in the middle of the two data points it comes to lie between; (ii) if its neighbouring knot is
   nearer than the second of them, in the middle of the data point it passed and that knot; (iii) left of all
   data, at `margin_of` the data from the first: 10⁻⁸ for data on [−1, 1], as printed.

Rule 6 (ii) is printed as "a data point and b_k", the knot's own old place; only the neighbouring knot
b_{k±1} gives a place beyond the data point, and the seven candidates of Fig. 6. A middle that rounds to one
of its ends passes nothing and is no candidate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats

LEFT, RIGHT = -1, 1
MARGIN = 1e-8
"""Distance from the first data point of a knot that passes it to the left, for data on [−1, 1]."""


def margin_of(x: Floats) -> float:
    """Return that distance for data x (m,), increasing: `MARGIN` of half their range, and a number at least.

    Rule 6 (iii) of [plateau] prints 10⁻⁸ whatever the units of x.

    Examples
    --------
    >>> margin_of(np.array([-1.0, 0.5, 1.0])), margin_of(np.array([0.0, 2e-9]))
    (1e-08, 1e-17)
    """
    half = 0.5 * float(x[-1] - x[0])
    return max(MARGIN * (half if half > 0 else 1.0), 2.0 * float(np.spacing(abs(x[0]))))


@dataclass(frozen=True)
class Candidate:
    """Knot number `neuron` (in sorted order) moves in `direction` (−1 left, +1 right) to `position`."""

    neuron: int
    direction: int
    position: float


def candidates(knots: Floats, x: Floats) -> list[Candidate]:
    """Return the candidate moves by knot, left before right; at most two per living knot.

    knots: (n,) sorted; x: (m,) strictly increasing. A data point x_i is active for knot k iff x_i > knots_k.

    Examples
    --------
    >>> candidates(np.array([0.5, 5.0]), np.array([0.0, 1.0, 2.0]))
    [Candidate(neuron=0, direction=-1, position=-1e-08), Candidate(neuron=0, direction=1, position=1.5)]
    """
    inactive = np.searchsorted(x, knots, side="right")
    living = int(np.sum(inactive < len(x)))
    places, counts, data = knots[:living].tolist(), inactive[:living].tolist(), x.tolist()
    moves, first = [], float(x[0]) - margin_of(x)
    for k in range(living):
        for direction in (LEFT, RIGHT):
            position = landing(k, direction, places, counts, data, first)
            if position is not None:
                moves.append(Candidate(k, direction, position))
    return moves


def landing(
    k: int, direction: int, knots: list[float], inactive: list[int], x: list[float], first: float
) -> float | None:
    """Return where knot k lands beyond the next data point in `direction`, or None if the rules forbid it.

    knots: the living ones, sorted; inactive: how many data points are ≤ each of them; x: the data points;
    first: the place left of all of them.
    """
    neighbour = k + direction
    alone = not 0 <= neighbour < len(knots)
    if direction == LEFT:
        passed, last = inactive[k] - 1, 0 if alone else inactive[neighbour]
        if passed < last:
            return None
        if passed == last and alone:
            return first
    else:
        passed, last = inactive[k], (len(x) if alone else inactive[neighbour]) - 1
        if passed > last or (passed == last and alone):
            return None
    beyond = knots[neighbour] if passed == last else x[passed + direction]
    position = 0.5 * (x[passed] + beyond)
    return position if min(x[passed], beyond) < position < max(x[passed], beyond) else None


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
