"""The candidate moves of Active Neuron Least Squares, rules 1–6 of [plateau] §4.2, and their losses.

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

The losses of all candidates by one complete orthogonal decomposition: [plateau] Theorem 4.2, printed and
stable. With Qᵀ A Z = [[T, 0], [0, 0]], T (r, r) triangular, and Z = [Ẑ, Z̃] (Z̃ spans the null space of A),
changing column l of A by v changes the residual to (G.1)

    ‖T x¹ − p¹ + c_l q¹‖² + ‖c_l q² − p²‖²,   c_l = Ẑ_l x¹ + Z̃_l x²,   Qᵀv = (q¹, q²),   Qᵀy = (p¹, p²).

If Z̃_l ≠ 0, x² makes c_l free: c_l = d = ⟨p², q²⟩/‖q²‖² and x¹ = T⁻¹(p¹ − d q¹). If q² = 0 too, the theorem
sets d = Ẑ_l x¹ (so x² = 0), which defines d implicitly: d = Ẑ_l T⁻¹p¹ / (1 + Ẑ_l T⁻¹q¹); the loss is right,
but the solution is in general not the one of minimum norm that the theorem promises. If Z̃_l = 0, least
squares in x¹ is left:

* *printed*: normal equations, x¹ = M⁺ s with M = T̃ᵀT̃ + ‖q²‖² Ẑ_lᵀẐ_l, T̃ = T + q¹Ẑ_l, s = Tᵀp¹ + (yᵀv)
  Ẑ_lᵀ, and the loss ‖y‖² − sᵀx¹. M squares the condition number of A, and the loss is a small difference of
  large numbers. On 300 knots and 1,000 points of (5.2) the losses are wrong by 1 % to 100 % (largest
  relative error in six states of two runs, with the kindest cut-off of M⁺; others: up to 250 times the
  loss). Of three runs the first wrong choice was move 11, 20 and 42, and a choice that did not lower the
  loss at all ended them after 25, 51 and 58 moves, where exact ones make about 500. Kept for comparison only.
* *stable*: the orthogonal factorisation of the (r + 1) × r system [T̃; ‖q²‖ Ẑ_l] x¹ = [p¹; ⟨p², q²⟩/‖q²‖],
  whose residual is added to what no c_l can reach of p². In the same states: errors below 10⁻¹¹.

Either way the case distinction itself depends on a tolerance: Z̃ is only known up to rounding × condition
number (up to 3·10⁻⁹ was seen where Z̃_l = 0), and a zero taken for a free direction makes a loss too small.
(Remark 2 of the theorem should read ‖y‖² = ‖p¹‖² + ‖p²‖², Remark 1 v = relu(x − b'_l) − relu(x − b_l).)
"""

from __future__ import annotations

from collections.abc import Callable
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


RANK = 1e-12
"""Diagonal entries of a pivoted triangle below this share of the first are rounding."""
FREE = 1e-6
"""‖Z̃_l‖ below this is rounding: c_l is not free."""
CUT_OFF = 1e-13
"""Of M⁺, relative: from 10⁻¹⁷ to 10⁻¹⁰ the one with the smallest errors."""
INSIDE = 1e-10
"""‖q²‖ below this share of ‖v‖ is rounding: the change stays in the column space."""


@dataclass(frozen=True)
class Decomposition:
    """A = range_basis (m, r) · triangle (r, r, upper) · row_basisᵀ (r, n); null_basis: (n, n − r)."""

    range_basis: Floats
    triangle: Floats
    row_basis: Floats
    null_basis: Floats


def decompose(matrix: Floats) -> Decomposition:
    """Return the complete orthogonal decomposition of `matrix` (m, n), by pivoted QR and then RQ."""
    from scipy.linalg import qr, rq  # takes long to import: the compiled method needs none of it

    basis, triangle, order = qr(matrix, mode="economic", pivoting=True)
    rank = _rank(triangle)
    corner, rows = rq(triangle[:rank])
    unpivoted = np.empty_like(rows)
    unpivoted[:, order] = rows
    free = rows.shape[1] - rank
    return Decomposition(basis[:, :rank], corner[:, free:], unpivoted[free:].T, unpivoted[:free].T)


def _rank(triangle: Floats) -> int:
    diagonal = np.abs(np.diag(triangle))
    return int(np.sum(diagonal > RANK * diagonal[:1]))


@dataclass(frozen=True)
class Problem:
    """The present least-squares problem: decomposition, p¹ (r,), y − A c = p² as data (m,), TᵀT (r, r)."""

    parts: Decomposition
    fitted: Floats
    residual: Floats
    gram: Floats


@dataclass(frozen=True)
class Change:
    """What a change of column l by v looks like in the decomposition (the symbols of Theorem 4.2).

    row: Ẑ_l (r,); free: Z̃_l (n − r,); inside: q¹ (r,); outside: ‖q²‖ (0 if rounding); aligned: ⟨p²,
    q²⟩/‖q²‖; rest: ‖p² − aligned·q²/‖q²‖‖², what no choice of c_l can reach; product: yᵀv.
    """

    row: Floats
    free: Floats
    inside: Floats
    outside: float
    aligned: float
    rest: float
    product: float

    @property
    def is_free(self) -> bool:
        """Whether Z̃_l ≠ 0, so that c_l can be chosen whatever x¹ is."""
        return bool(np.linalg.norm(self.free) > FREE)


def pose(matrix: Floats, y: Floats) -> Problem:
    """Return the least-squares problem min_c ‖matrix·c − y‖² in decomposed form; matrix: (m, n), y: (m,)."""
    parts = decompose(matrix)
    fitted, residual = _split(parts.range_basis, y[:, None])
    return Problem(parts, fitted[:, 0], residual[:, 0], parts.triangle.T @ parts.triangle)


def changes(problem: Problem, y: Floats, columns: list[int], differences: Floats) -> list[Change]:
    """Return the change of column columns_i by differences_{:,i}, for every i; differences: (m, k)."""
    parts = problem.parts
    inside, outside = _split(parts.range_basis, differences)
    lengths = np.linalg.norm(outside, axis=0)
    lengths[lengths <= INSIDE * np.linalg.norm(differences, axis=0)] = 0.0
    units = outside / np.where(lengths > 0, lengths, np.inf)
    aligned = problem.residual @ units
    rests = np.sum((problem.residual[:, None] - aligned * units) ** 2, axis=0)
    products = y @ differences
    return [
        Change(
            parts.row_basis[column],
            parts.null_basis[column],
            inside[:, i],
            float(lengths[i]),
            float(aligned[i]),
            float(rests[i]),
            float(products[i]),
        )
        for i, column in enumerate(columns)
    ]


def _split(basis: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    """Return basisᵀ·vectors and the rest, orthogonal to the basis (once more: rounding is left behind)."""
    inside = basis.T @ vectors
    outside = vectors - basis @ inside
    again = basis.T @ outside
    return inside + again, outside - basis @ again


Update = Callable[[Problem, Change], tuple[Floats, float]]


def printed_update(problem: Problem, change: Change) -> tuple[Floats, float]:
    """Return the coefficients c̃ (n,) and the loss ‖Ã c̃ − y‖² of Theorem 4.2 as printed."""
    if change.is_free:
        if change.outside > 0:
            return _free_solution(problem, change, change.aligned / change.outside)
        start, slope = _inner_solutions(problem, change)
        return _free_solution(problem, change, float(change.row @ start / (1.0 + change.row @ slope)))
    row, inside, triangle = change.row, change.inside, problem.parts.triangle
    cross = np.outer(triangle.T @ inside, row)
    squared = inside @ inside + change.outside**2
    normal = problem.gram + cross + cross.T + squared * np.outer(row, row)
    right = triangle.T @ problem.fitted + change.product * row
    solution = np.linalg.pinv(normal, rcond=CUT_OFF, hermitian=True) @ right
    loss = problem.residual @ problem.residual + problem.fitted @ problem.fitted - right @ solution
    return problem.parts.row_basis @ solution, float(loss)


def stable_update(problem: Problem, change: Change) -> tuple[Floats, float]:
    """Return the coefficients of minimum norm (n,) and the loss, without normal equations."""
    if change.is_free:
        if change.outside > 0:
            return _free_solution(problem, change, change.aligned / change.outside)
        return _free_solution(problem, change, _cheapest_coefficient(problem, change))
    system = np.vstack(
        [problem.parts.triangle + np.outer(change.inside, change.row), change.outside * change.row]
    )
    goal = np.append(problem.fitted, change.aligned)
    from scipy.linalg import qr, solve_triangular

    basis, triangle, order = qr(system, mode="economic", pivoting=True)
    rank = _rank(triangle)
    reached, missed = _split(basis[:, :rank], goal[:, None])
    solution = np.empty(len(order))
    if rank == len(order):
        solution[order] = solve_triangular(triangle, reached[:, 0])
    else:
        solution[order] = np.linalg.lstsq(triangle[:rank], reached[:, 0])[0]
    return problem.parts.row_basis @ solution, change.rest + float(np.sum(missed**2))


def _inner_solutions(problem: Problem, change: Change) -> tuple[Floats, Floats]:
    """Return T⁻¹p¹ and T⁻¹q¹."""
    both = np.column_stack([problem.fitted, change.inside])
    from scipy.linalg import solve_triangular

    solved = solve_triangular(problem.parts.triangle, both)
    return solved[:, 0], solved[:, 1]


def _free_solution(problem: Problem, change: Change, coefficient: float) -> tuple[Floats, float]:
    """Return the solution with c_l = d = `coefficient`: x¹ = T⁻¹(p¹ − d q¹), x² ∝ Z̃_l; and its loss."""
    start, slope = _inner_solutions(problem, change)
    inner = start - coefficient * slope
    share = (coefficient - change.row @ inner) / (change.free @ change.free)
    return problem.parts.row_basis @ inner + problem.parts.null_basis @ (share * change.free), change.rest


def _cheapest_coefficient(problem: Problem, change: Change) -> float:
    """Return the d of least ‖x¹‖² + ‖x²‖², a quadratic in d, where the loss leaves d open (q² = 0)."""
    start, slope = _inner_solutions(problem, change)
    weight = 1.0 / (change.free @ change.free)
    lever = 1.0 + change.row @ slope
    top = start @ slope + weight * lever * (change.row @ start)
    return float(top / (slope @ slope + weight * lever**2))


def losses_of_candidates(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
    """Return the candidates and their losses by Theorem 4.2 as printed; arguments as in `reference`."""
    return _losses(knots, x, y, printed_update)


def stable_losses_of_candidates(knots: Floats, x: Floats, y: Floats) -> tuple[list[Candidate], Floats]:
    """Return the candidates and their losses by the stable update; arguments as in `reference`."""
    return _losses(knots, x, y, stable_update)


def _losses(knots: Floats, x: Floats, y: Floats, update: Update) -> tuple[list[Candidate], Floats]:
    moves = candidates(knots, np.unique(x))
    columns = [move.neuron for move in moves]
    matrix = relu_matrix(knots, x)
    differences = relu_matrix(np.array([move.position for move in moves]), x) - matrix[:, columns]
    problem = pose(matrix, y)
    losses = [update(problem, change)[1] for change in changes(problem, y, columns, differences)]
    return moves, np.array(losses)
