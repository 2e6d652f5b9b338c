from __future__ import annotations

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.kernels.fitting.anls import minimum_norm
from shallowflow.kernels.fitting.chain import fit
from tests.kernels.fitting.exact_least_squares import KINDS, exact_rank, random_problem
from tests.rounding import EPSILON


def truncated_inverse(matrix: Floats, cut: float) -> Floats:
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    kept = s > cut
    inverse: Floats = (vt[kept].T / s[kept]) @ u[:, kept].T
    return inverse


def reference(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int) -> Floats:
    """A⁺ y for the weighted rows; with a free line, after projecting that line out of A and y."""
    root = np.sqrt(w)
    a, t = np.maximum(x[:, None] - knots, 0.0) * root[:, None], y * root
    cut = 1e-10 * (1.0 + float(np.linalg.norm(a)))
    if free_left:
        line = np.stack([root, x * root], axis=1)
        project = np.eye(x.size) - line @ np.linalg.pinv(line)
        a, t = project @ a, project @ t
    solution: Floats = truncated_inverse(a, cut) @ t
    return solution


def grid_problem(rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """Benign numbers, every degeneracy: equal knots, knots on data, empty or one-point blocks, dead knots."""
    m, n = int(rng.integers(1, 11)), int(rng.integers(1, 10))
    x = np.sort(rng.choice(np.arange(16), m, replace=False)) / 4.0
    knots = np.sort(rng.choice(np.arange(-6, 36), n)) / 8.0
    w = np.ones(m) if rng.random() < 0.5 else rng.uniform(0.1, 3.0, m)
    return knots, x, rng.normal(size=m), w


@pytest.mark.parametrize("free_left", [0, 1])
def test_the_coefficients_are_those_of_the_pseudoinverse(free_left: int) -> None:
    rng = np.random.default_rng(0)
    deficient = 0
    for _ in range(400):
        knots, x, y, w = grid_problem(rng)
        c, rank, lines = minimum_norm(knots, x, y, w, free_left)
        expected = reference(knots, x, y, w, free_left)
        np.testing.assert_allclose(c, expected, atol=1e-11 * (1.0 + np.abs(expected).max()))
        deficient += rank < min(x.size, knots.size + 2 * free_left)
        # The lines are the same function, between and beyond the data too.
        z = np.linspace(-1.0, 5.0, 61)
        row = np.searchsorted(knots, z, side="left")
        network = np.maximum(z[:, None] - knots, 0.0) @ c
        if free_left:
            network += lines[0, 1] + lines[0, 2] * (z - lines[0, 0])
        values = lines[row, 1] + lines[row, 2] * (z - lines[row, 0])
        np.testing.assert_allclose(values, network, atol=1e-11 * (1.0 + np.abs(network).max()))
    assert deficient > 50


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_rank_is_the_exact_one_and_the_lines_attain_the_loss(kind: str, free_left: int) -> None:
    rng = np.random.default_rng(1 + KINDS.index(kind))
    for _ in range(80):
        knots, x, y, w = random_problem(kind, rng)
        if knots.size + free_left == 0:
            continue
        _, rank, lines = minimum_norm(knots, x, y, w, free_left)
        assert rank == exact_rank(knots, x, free_left)
        row = np.searchsorted(knots, x, side="left")
        tilts = lines[row, 2] * (x - lines[row, 0])
        residuals = lines[row, 1] + tilts - y
        loss, _ = fit(knots, x, y, w, free_left)
        rounding = 10 * x.size * EPSILON * (np.abs(lines[row, 1]) + np.abs(tilts) + np.abs(y))
        nothing = float((w * rounding**2).sum())
        assert float((w * residuals**2).sum()) == pytest.approx(loss, rel=1e-10, abs=nothing)


def test_neighbouring_open_runs_share_their_tilts() -> None:
    # One datum per gap and two knots in each gap: every line may tilt, and every tilt couples to the next.
    rng = np.random.default_rng(2)
    x = np.arange(12.0)
    knots = np.sort(np.r_[x - 0.3, x - 0.6])
    y, w = rng.normal(size=12), np.ones(12)
    c, rank, _ = minimum_norm(knots, x, y, w, 0)
    expected = reference(knots, x, y, w, 0)
    assert rank == 12
    np.testing.assert_allclose(c, expected, rtol=1e-11)
    np.testing.assert_allclose(np.maximum(x[:, None] - knots, 0.0) @ c, y, atol=1e-12)


def test_dead_knots_and_a_model_without_live_knots_get_zero() -> None:
    x, y, w = np.array([0.0, 1.0, 2.0]), np.array([1.0, -1.0, 3.0]), np.ones(3)
    c, rank, _ = minimum_norm(np.array([-1.0, 2.0, 2.5]), x, y, w, 0)
    slope = (x + 1.0) @ y / ((x + 1.0) @ (x + 1.0))
    np.testing.assert_allclose(c, [slope, 0.0, 0.0], rtol=1e-14)
    assert rank == 1
    c, rank, lines = minimum_norm(np.array([2.0]), x, y, w, 1)
    assert (c == 0.0).all()
    assert rank == 2
    assert lines[0, 2] == pytest.approx(1.0)
