"""The O(width) solve against dense linear algebra and finite differences of the velocity."""

import numpy as np
import pytest

from tests.kernels.knots.knot_entries import factorize, solve, velocity
from tests.kernels.knots.knot_layouts import kernel_arrays
from tests.kernels.knots.knot_reference import FloatArray, Stage

RATES = (0.37, 2.1)


def moving(stage: Stage) -> FloatArray:
    """Mask over (knots, outer) of the parameters that move: not dead, and no held knots."""
    alive = stage.active.any(axis=0)
    return np.concatenate([alive & (stage.held < 0), alive])


def riccati(stage: Stage, kappa: float, right: FloatArray, seed: int = 0) -> FloatArray | None:
    """u with (κ I − J) u = right in the caller's order, or None if not positive definite."""
    width = stage.knots.size
    state, arranged, order = kernel_arrays(stage, seed, RATES)
    sums, factors = np.zeros((2, width)), np.zeros((width, 11))
    velocity(state, arranged, sums, np.zeros((2, width)))
    diagonal = (kappa / RATES[0], kappa / RATES[1])
    if not factorize(state, arranged, sums[0], diagonal, factors):
        return None
    columns = np.ascontiguousarray(right.reshape(2, width)[:, order])
    solve(state, arranged, factors, columns)
    solution = np.empty((2, width))
    solution[:, order] = columns
    return solution.ravel()


def random_stages(fitted: bool) -> list[Stage]:
    stages = [
        Stage.random(
            seed, 1 + seed % 17, 3 + 5 * (seed % 23), held=0.25, decimals=9 if seed % 2 else 1, fitted=fitted
        )
        for seed in range(40)
    ]
    return [stage for stage in stages if moving(stage).any()]


@pytest.mark.parametrize("kappa", [1e3, 1.0, 1e-2, 1e-4])
def test_solution_equals_dense_solve_however_long_the_step(kappa: float) -> None:
    for seed, stage in enumerate(random_stages(fitted=True)):
        move = moving(stage)
        rates = np.repeat(RATES, stage.knots.size)
        matrix = (np.diag(kappa / rates) + stage.hessian())[np.ix_(move, move)]
        right = np.random.default_rng(seed).normal(size=rates.size) * move
        got = riccati(stage, kappa, right, seed)
        assert got is not None
        want = np.linalg.solve(matrix, (right / rates)[move])
        error = np.abs(got[move] - want).max() / np.abs(want).max()
        assert error <= 1e-12 if kappa >= 1 else error <= 1e-15 * np.linalg.cond(matrix)
        defect = np.abs(matrix @ got[move] - (right / rates)[move]).max()
        assert defect <= 1e-14 * (np.abs(matrix) @ np.abs(got[move])).max()


@pytest.mark.parametrize("kappa", [30.0, 3.0])
def test_factorization_knows_whether_the_matrix_is_positive_definite(kappa: float) -> None:
    definite = []
    for stage in random_stages(fitted=False):
        move = moving(stage)
        rates = np.repeat(RATES, stage.knots.size)
        matrix = (np.diag(kappa / rates) + stage.hessian())[np.ix_(move, move)]
        got = riccati(stage, kappa, np.ones(rates.size) * move)
        definite.append(got is not None)
        assert definite[-1] == (np.linalg.eigvalsh(matrix)[0] > 0)
        if got is not None:
            want = np.linalg.solve(matrix, (move / rates)[move])
            np.testing.assert_allclose(got[move], want, rtol=0, atol=1e-12 * np.abs(want).max())
    assert 3 <= sum(definite) <= len(definite) - 3


def test_solution_inverts_the_finite_difference_jacobian() -> None:
    stage = Stage.random(5, 12, 80, held=0.2)
    width, kappa, move = 12, 300.0, moving(stage)
    theta, eps = np.concatenate([stage.knots, stage.outer]), 1e-6

    def kernel_velocity(point: FloatArray) -> FloatArray:
        _, arranged, order = kernel_arrays(stage, 0, RATES)
        rate, out = np.zeros((2, width)), np.zeros((2, width))
        shifted = np.ascontiguousarray(point.reshape(2, width)[:, order])
        velocity(shifted, arranged, np.zeros((2, width)), rate)
        out[:, order] = rate
        return out.ravel()

    jacobian = np.column_stack(
        [
            (kernel_velocity(theta + eps * unit) - kernel_velocity(theta - eps * unit)) / (2 * eps)
            for unit in np.eye(2 * width)
        ]
    )
    u = np.random.default_rng(1).normal(size=2 * width) * move
    right = (kappa * u - jacobian @ u) * move
    got = riccati(stage, kappa, right)
    assert got is not None
    np.testing.assert_allclose(got[move], u[move], atol=1e-8)
