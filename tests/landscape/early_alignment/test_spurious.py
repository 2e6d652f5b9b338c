"""The least-squares line against the normal equations; Assumptions 3 to 6 against direct sampling and hand
calculation.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.landscape import cones, spurious_conditions
from shallowflow.landscape.early_alignment.ends import least_squares, smallest_eta
from tests.rounding import EPSILON


def test_three_points_have_the_published_line() -> None:
    """Normal equations by hand; the loss is 0.0875213675 (½ mean)."""
    dataset = sf.data.GENERATORS["three_points"]()
    x, y = dataset.inputs, dataset.targets
    fit = least_squares(dataset)
    np.testing.assert_allclose(fit.coefficients, np.linalg.solve(x.T @ x, x.T @ y), rtol=1e-12)
    assert fit.loss == pytest.approx(0.0875213675, abs=1e-10)


def test_undetermined_data_take_the_shortest_coefficients() -> None:
    fit = least_squares(sf.Dataset([[1.0, 1.0]], [2.0]))
    np.testing.assert_allclose(fit.coefficients, [1.0, 1.0])
    assert fit.loss <= 0.5 * (10 * EPSILON * 2.0) ** 2


FITTING = Dataset([[-0.95, 1.0], [0.0, 1.0], [0.95, 1.0]], [1.0, 0.05, 1.0])
COUNTEREXAMPLE = Dataset([[-0.84, 1.0], [-0.16, 1.16], [0.84, 1.16]], [1.0, 0.16, 1.16])


def assumption_3(eta: float, rng: np.random.Generator) -> Dataset:
    """Three points of Assumption 3 with this η, in a random order."""
    u = rng.uniform
    inputs = [
        [u(-1, -1 + eta), u(1, 1 + eta)],
        [u(-eta, eta), u(1 - eta, 1 + eta)],
        [u(1 - eta, 1), u(1, 1 + eta)],
    ]
    targets = [u(1, 1 + eta), u(0, eta), u(1, 1 + eta)]
    order = rng.permutation(3)
    return Dataset(np.array(inputs)[order], np.array(targets)[order])


def test_the_three_points_of_the_experiment_by_hand() -> None:
    """x₂ = (5x₁ + 2x₃)/7; see the residuals of Lemma 8: r₂ = q/(1 + 29/49), r₁ = −5r₂/7, r₃ = −2r₂/7."""
    found = spurious_conditions(three_points())
    middle = ((5 * 1.1 + 2 * 0.8) / 7 - 0.1) / (1 + 29 / 49)
    assert found.extreme == (0, 2)
    assert found.eta == np.inf
    assert found.correlation == pytest.approx(1 - 0.75 * 0.125)
    assert found.above == pytest.approx(2 / 7 * middle)
    # (15) and (16): only the border hyperplanes of x₁ and x₃ are approached.
    assert found.inward == pytest.approx(min(5 / 7 * middle * 1.5625, 2 / 7 * middle * 1.015625) / 3)
    first = 1.1 * 1.5625 - np.sqrt(1.86) * np.hypot(1.375, 0.90625)
    third = 0.8 * 1.015625 - np.sqrt(1.86) * np.hypot(0.9375, 0.90625)
    assert found.dominance == pytest.approx(min(first, third))
    assert (found.assumption_3, found.assumption_4, found.assumption_5, found.assumption_6) == (
        False,
        True,
        False,
        True,
    )


def test_points_like_the_papers_figure_satisfy_everything() -> None:
    found = spurious_conditions(FITTING)
    assert found.eta == pytest.approx(0.05)
    assert found.assumption_3
    assert found.assumption_4
    assert found.assumption_5
    assert found.assumption_6


def test_lemma_8_fails_for_assumption_5_and_holds_for_4_and_6() -> None:
    found = spurious_conditions(COUNTEREXAMPLE)
    assert found.eta == pytest.approx(0.16)
    x, y = COUNTEREXAMPLE.inputs, COUNTEREXAMPLE.targets
    right = np.linalg.norm(y) * np.hypot(x[1] @ x[0], x[2] @ x[0])
    assert y[0] * (x[0] @ x[0]) < right - 0.4
    assert found.assumption_3
    assert not found.assumption_5
    rng = np.random.default_rng(0)
    for eta in rng.uniform(0.01, 1 / 6, 60):
        conditions = spurious_conditions(assumption_3(float(eta), rng))
        assert conditions.eta <= eta
        assert conditions.assumption_4
        assert conditions.assumption_6


def is_extreme(x: Floats, k: int) -> bool:
    """Whether some w ≠ 0 has ⟨w, x_k⟩ = 0 and no negative product, by a linear program (x of full rank)."""
    bounded = np.vstack([-x, x.sum(axis=0)])
    right = np.append(np.zeros(len(x)), 1.0)
    result = linprog(-x.sum(axis=0), bounded, right, x[k : k + 1], [0.0], bounds=(None, None), method="highs")
    return bool(-result.fun > 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_extreme_points_and_the_worsening_agree_with_other_methods(seed: int) -> None:
    """K by linear programs, and (2) by the sign of G* at many w on which the data have both signs."""
    rng = np.random.default_rng(seed)
    dimension = 2 + seed % 2
    x = np.column_stack([rng.uniform(-1, 1, (6, dimension - 1)), np.ones(6)])
    y = 0.2 + np.sum(x**2, axis=1) if seed < 6 else rng.uniform(0.1, 2.0, 6)
    found = spurious_conditions(Dataset(x, y))
    assert found.extreme == tuple(k for k in range(6) if is_extreme(x, k))
    residual = (y - x @ np.linalg.lstsq(x, y)[0]) / 6
    w = rng.standard_normal((50_000, dimension))
    mixed = w[np.any(w @ x.T > 0, axis=1) & np.any(w @ x.T < 0, axis=1)]
    lowest = float(np.min(np.maximum(mixed @ x.T, 0.0) @ residual / np.linalg.norm(mixed, axis=1)))
    assert (lowest > 0) == (found.worse > 0)
    assert found.worse > 0 or seed >= 6 or dimension == 3
    assert found.above == pytest.approx(6 * residual[list(found.extreme)].min())


@pytest.mark.parametrize("seed", range(8))
def test_the_first_point_of_assumption_6_agrees_with_all_corners_of_the_gates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(-1, 1, (5, 2)), np.ones(5)])
    y = rng.uniform(0.1, 2.0, 5)
    data = Dataset(x, y)
    found = spurious_conditions(data)
    residual = (y - x @ np.linalg.lstsq(x, y)[0]) / 5
    smallest = np.inf
    for cone in cones(data):
        u = cone.pattern.astype(int)
        if not (np.any(u > 0) and np.any(u < 0)):
            continue
        touched = [k for k in found.extreme if u[k] and np.any(np.abs(cone.rays @ x[k]) < 1e-9)]
        for corner in product((0.0, 1.0), repeat=int(np.sum(u == 0))):
            gates = (u > 0).astype(np.float64)
            gates[u == 0] = corner
            gradient = (gates * residual) @ x
            smallest = min([smallest, *(float(u[k] * gradient @ x[k]) for k in touched)])
    assert found.inward == pytest.approx(smallest, rel=1e-9)


def test_data_that_a_line_fits_are_not_spurious() -> None:
    x = np.array([[-0.9, 1.0], [0.0, 1.0], [0.9, 1.0]])
    found = spurious_conditions(Dataset(x, x @ [0.1, 1.0]))
    assert found.above == 0
    assert found.worse == 0
    assert not found.assumption_6


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [
        ([[-1.0, 1.0], [0.0, 1.0], [0.9, 1.0]], [1.0, 0.1, 1.0]),
        ([[-0.9, 0.99], [0.0, 1.0], [0.9, 1.0]], [1.0, 0.1, 1.0]),
        ([[-0.9, 1.0], [0.0, 1.0], [0.9, 1.0]], [1.0, 0.0, 1.0]),
        ([[-0.9, 1.0], [0.0, 1.0], [0.9, 1.0]], [1.0, 0.1, 0.9]),
        ([[-0.9, 1.0], [0.9, 1.0]], [1.0, 1.0]),
    ],
)
def test_no_eta_fits_other_data(inputs: list[list[float]], targets: list[float]) -> None:
    assert smallest_eta(Dataset(inputs, targets)) == np.inf
