"""Theorem 4.2, printed and stable: right on small problems; on the paper's f₂ the printed one is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.anls import LossesOfCandidates
from shallowflow.landscape.plateau.moves import (
    Candidate,
    Change,
    Problem,
    Update,
    best_loss,
    changes,
    decompose,
    losses_of_candidates,
    moved,
    pose,
    printed_update,
    stable_losses_of_candidates,
    stable_update,
)
from tests.dynamics.engines.anls_twin import losses_of_candidates as reference_losses
from tests.landscape.plateau.exact_losses import exact_losses_after
from tests.rounding import assert_rounded, condition

UPDATES = (printed_update, stable_update)


def low_rank(rng: np.random.Generator, rows: int, columns: int, rank: int) -> Floats:
    return np.asarray(rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns)))


def one_change(
    rng: np.random.Generator, matrix: Floats, difference: Floats, column: int = 1
) -> tuple[Problem, Change, Floats, Floats]:
    """Return the decomposed problem, the change, the changed matrix and the targets."""
    y = rng.standard_normal(len(matrix))
    problem = pose(matrix, y)
    (change,) = changes(problem, y, [column], difference[:, None])
    changed = matrix.copy()
    changed[:, column] += difference
    return problem, change, changed, y


@pytest.mark.parametrize(("rows", "columns", "rank"), [(9, 5, 5), (9, 5, 3), (6, 6, 1)])
def test_decomposition(rows: int, columns: int, rank: int) -> None:
    matrix = low_rank(np.random.default_rng(rank), rows, columns, rank)
    parts = decompose(matrix)
    assert parts.triangle.shape == (rank, rank)
    assert np.array_equal(parts.triangle, np.triu(parts.triangle))
    z = np.column_stack([parts.row_basis, parts.null_basis])
    operations, size = 10 * rows * columns, float(np.linalg.norm(matrix))
    assert_rounded(z.T @ z, np.eye(columns), operations)
    assert_rounded(parts.range_basis @ parts.triangle @ parts.row_basis.T, matrix, operations, size=size)
    assert_rounded(matrix @ parts.null_basis, np.zeros((rows, columns - rank)), operations, size=size)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("rank", [5, 3])
def test_a_change_out_of_the_column_space(update: Update, rank: int) -> None:
    """Z̃_l = 0 (full rank) and Z̃_l ≠ 0 (rank 3), q² ≠ 0: loss and minimum-norm solution against A⁺y."""
    rng = np.random.default_rng(10 + rank)
    matrix = low_rank(rng, 9, 5, rank)
    problem, change, changed, y = one_change(rng, matrix, rng.standard_normal(9))
    assert change.is_free == (rank == 3)
    coefficients, loss = update(problem, change)
    expected = np.linalg.pinv(changed, rcond=1e-10) @ y
    np.testing.assert_allclose(coefficients, expected, atol=1e-11)
    assert loss == pytest.approx(float(np.sum((changed @ expected - y) ** 2)), rel=1e-11)


@pytest.mark.parametrize("update", UPDATES)
def test_a_change_inside_the_column_space_of_a_full_rank_matrix(update: Update) -> None:
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((9, 4))
    problem, change, changed, y = one_change(rng, matrix, matrix @ rng.standard_normal(4))
    assert (change.outside, change.is_free) == (0.0, False)
    coefficients, loss = update(problem, change)
    expected = np.linalg.pinv(changed) @ y
    np.testing.assert_allclose(coefficients, expected, rtol=1e-9)
    assert loss == pytest.approx(float(np.sum((changed @ expected - y) ** 2)), rel=1e-12)


def test_where_the_printed_solution_is_not_of_minimum_norm() -> None:
    """Z̃_l ≠ 0 and q² = 0: Theorem 4.2 has the right loss with a longer solution than A⁺y."""
    rng = np.random.default_rng(3)
    matrix = low_rank(rng, 9, 5, 3)
    problem, change, changed, y = one_change(rng, matrix, matrix @ rng.standard_normal(5))
    assert (change.outside, change.is_free) == (0.0, True)
    expected = np.linalg.pinv(changed, rcond=1e-10) @ y
    best = float(np.sum((changed @ expected - y) ** 2))
    printed, printed_loss = printed_update(problem, change)
    stable, stable_loss = stable_update(problem, change)
    assert printed_loss == pytest.approx(best, rel=1e-12)
    assert stable_loss == pytest.approx(best, rel=1e-12)
    assert float(np.sum((changed @ printed - y) ** 2)) == pytest.approx(best, rel=1e-12)
    np.testing.assert_allclose(problem.parts.null_basis.T @ printed, 0.0, atol=1e-12)  # d* makes x² = 0
    assert np.linalg.norm(printed) > 1.05 * np.linalg.norm(expected)
    np.testing.assert_allclose(stable, expected, atol=1e-12)


@pytest.mark.parametrize("update", UPDATES)
def test_a_change_that_loses_rank(update: Update) -> None:
    """Column 1 becomes a copy of column 0: least squares must be solved with one rank less."""
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((8, 4))
    problem, change, changed, y = one_change(rng, matrix, matrix[:, 0] - matrix[:, 1])
    coefficients, loss = update(problem, change)
    expected = np.linalg.pinv(changed, rcond=1e-10) @ y
    np.testing.assert_allclose(coefficients, expected, atol=1e-10)
    assert loss == pytest.approx(float(np.sum((changed @ expected - y) ** 2)), rel=1e-10)


def worst_condition(moves: list[Candidate], knots: Floats, x: Floats) -> float:
    """Return the largest condition number of the features after a move."""
    return max(condition(np.maximum(x[:, None] - moved(knots, move), 0.0), 1e-11) for move in moves)


POWERS = [(losses_of_candidates, 2), (stable_losses_of_candidates, 1)]
"""Losses are off by ε ‖y‖² times a power of the condition number: M, as printed, squares it."""


@pytest.mark.parametrize(("losses", "power"), POWERS)
@pytest.mark.parametrize("seed", range(4))
def test_candidate_losses_equal_exact_ones_on_small_problems(
    losses: LossesOfCandidates, power: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.choice(64, 14, replace=False)) / 64
    y = rng.integers(-64, 64, 14) / 64
    knots = np.sort(rng.integers(-8, 72, 6) / 64 + 1 / 128)
    knots[2] = knots[1] + 1 / 256  # no data between: rank deficiency
    moves, found = losses(knots, x, y)
    expected = exact_losses_after([(m.neuron, m.position) for m in moves], knots, x, y)
    assert_rounded(found, expected, knots.size, size=worst_condition(moves, knots, x) ** power * float(y @ y))


def test_both_agree_with_the_reference_on_f1() -> None:
    """The printed one to 2·10⁻⁸, as measured: the condition number is large where two knots nearly meet."""
    dataset = sf.data.GENERATORS["curve"]("sin_pi", 100)
    x, y = dataset.inputs[:, 0], dataset.targets
    for seed in range(3):
        knots = np.sort(sf.initialize.he_knots(10, seed=seed).knots)
        moves, expected = reference_losses(knots, x, y)
        worst = worst_condition(moves, knots, x)
        for method, power in POWERS:
            found, losses = method(knots, x, y)
            assert found == moves
            assert_rounded(losses, expected, knots.size, size=worst**power * float(y @ y))


def test_the_printed_theorem_is_wrong_on_f2_and_the_stable_variant_is_not() -> None:
    """Width 300, 1,000 random points of (5.2), the paper's example, at the start: every tenth candidate."""
    dataset = sf.data.GENERATORS["curve"]("jump", 1000, sampling="random", seed=0)
    x, y = dataset.inputs[:, 0], dataset.targets
    knots = np.sort(sf.initialize.he_knots(300, seed=0).knots)
    moves, printed = losses_of_candidates(knots, x, y)
    _, stable = stable_losses_of_candidates(knots, x, y)
    chosen = slice(None, None, 10)
    expected = np.array([best_loss(moved(knots, move), x, y) for move in moves[chosen]])
    printed_error = np.abs(printed[chosen] / expected - 1)
    stable_error = np.abs(stable[chosen] / expected - 1)
    assert printed_error.max() > 1e-3
    assert stable_error.max() < 1e-6


def test_remark_2_the_first_columns_of_q_are_enough() -> None:
    """‖y‖² = ‖p¹‖² + ‖p²‖² and ‖v‖² = ‖q¹‖² + ‖q²‖², though only Qᵀ's first r rows are computed."""
    rng = np.random.default_rng(5)
    matrix, difference = low_rank(rng, 12, 5, 3), rng.standard_normal(12)
    problem, change, _, y = one_change(rng, matrix, difference)
    assert problem.parts.range_basis.shape == (12, 3)
    p = problem.fitted @ problem.fitted + problem.residual @ problem.residual
    q = change.inside @ change.inside + change.outside**2
    assert_rounded(np.array([p, q]), np.array([y @ y, difference @ difference]), 12 * 12)
