from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from shallowflow.arrays import Floats
from shallowflow.kernels.fitting import chain, sweep
from shallowflow.kernels.fitting.chain import Data, Fitted, fit, fitted
from shallowflow.kernels.fitting.sweep import NEAREST, crossing_rates, in_order, knot_steps, polish
from tests.kernels.entry import entry
from tests.kernels.knots.knot_problems import (
    DEGENERATE,
    Problem,
    any_curve,
    design,
    projected_loss,
    random_curve,
)

block_of, pass_soft, soften = (
    entry(chain.block_of),
    entry(sweep.pass_soft),
    entry(sweep.soften),
)


def projected_gradient(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int) -> Floats:
    """∂L/∂b_j = −2 c_j Σ_{x_i > b_j} w_i r_i of the projected loss, (n,); 0 for dead knots."""
    _, chain, lines = fitted(knots, Data(x, y, w, free_left))
    row = np.searchsorted(chain.knots, x)
    residual = lines[row, 1] + lines[row, 2] * (x - lines[row, 0]) - y
    pulls = (x[:, None] > chain.knots).T @ (w * residual)
    return np.append(-2.0 * np.diff(lines[:, 2]) * pulls, np.zeros(knots.size - chain.knots.size))


def separated_curve(seed: int) -> Problem:
    """Five knots, 0.01 or more from all data, with about ten of these between any two."""
    _, x, y, w = random_curve(seed, 60, 0)
    middles = 0.5 * (x[:-1] + x[1:])[np.diff(x) > 0.02]
    return middles[np.searchsorted(middles, [-0.7, -0.35, 0.0, 0.35, 0.7])], x, y, w


@pytest.mark.parametrize("free_left", [0, 1])
def test_the_gradient_is_that_of_the_loss_by_lstsq(free_left: int) -> None:
    step = 1e-5
    for seed in range(6):
        knots, x, y, w = separated_curve(seed)
        gradient = projected_gradient(np.r_[knots, 2.0], x, y, w, free_left)
        assert gradient[-1] == 0.0
        for j in range(5):
            shift = step * np.eye(5)[j]
            ahead, behind = (projected_loss(knots + s, x, y, w, free_left) for s in (shift, -shift))
            assert gradient[j] == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-7)


def dense_steps(fit_: Fitted, x: Floats, y: Floats, w: Floats, kappas: Floats, free_left: int) -> Floats:
    """The model's minimiser with one free line per block and the jumps between them penalised, by lstsq."""
    (knots, starts, *_), lines = fit_.chain, fit_.lines
    n = knots.size
    rows, targets = [], []
    for i, place in enumerate(x):
        block = np.searchsorted(starts, i, side="right")
        row = np.zeros((n + 1, 2))
        row[block] = (1.0, place)
        rows.append(np.sqrt(w[i]) * row.ravel())
        targets.append(np.sqrt(w[i]) * y[i])
    jumps = np.zeros((n, n + 1, 2))
    for j, place in enumerate(knots):
        jumps[j, j], jumps[j, j + 1] = (-1.0, -place), (1.0, place)
    matrix = np.array(rows)
    jump_rows = jumps.reshape(n, -1)
    kept = slice(0 if free_left else 2, None)
    normal = matrix.T @ matrix + jump_rows.T @ (kappas[:, None] * jump_rows)
    solution = np.zeros(2 * n + 2)
    solution[kept] = np.linalg.solve(normal[kept, kept], (matrix.T @ np.array(targets))[kept])
    steps: Floats = -(jump_rows @ solution) / np.diff(lines[:, 2])
    return steps


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("bend", [0.0, 1.0, -0.02])
def test_the_step_is_the_minimiser_of_the_model(bend: float, free_left: int) -> None:
    for seed in range(6):
        knots, x, y, w = separated_curve(seed)
        data = Data(x, y, w, free_left)
        fit_ = fitted(knots, data)
        blocks, turns = fit_.chain.blocks, np.diff(fit_.lines[:, 2])
        rates, damping = bend * turns, 0.03
        kappas = damping * (blocks[:-1, 0] + blocks[1:, 0]) + bend
        steps = knot_steps(fit_, data, rates, damping)
        expected = dense_steps(fit_, x, y, w, kappas, free_left)
        np.testing.assert_allclose(steps, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_a_fixed_value_is_the_limit_of_stiff_messages() -> None:
    _, x, y, w = random_curve(1, 9, 0)
    for start, stop in ((0, 9), (3, 4), (5, 5)):
        block = block_of(Data(x, y, w, 1), start, stop)
        fixed, stiff = (pass_soft(precision, 0.3, 1.1, -1.2, block) for precision in (inf, 1e12))
        np.testing.assert_allclose(fixed, stiff, rtol=1e-9)
    assert soften(inf, 2.0) == pytest.approx(soften(1e15, 2.0))
    assert soften(3.0, inf) == 3.0


@pytest.mark.parametrize("free_left", [0, 1])
def test_strongly_damped_steps_go_down_the_gradient(free_left: int) -> None:
    knots, x, y, w = random_curve(4, 80, 6)
    data = Data(x, y, w, free_left)
    fit_ = fitted(knots, data)
    blocks, turns, damping = fit_.chain.blocks, np.diff(fit_.lines[:, 2]), 1e7
    weights = blocks[:-1, 0] + blocks[1:, 0]
    steps = knot_steps(fit_, data, np.zeros(6), damping)
    gradient = projected_gradient(knots, x, y, w, free_left)
    np.testing.assert_allclose(-2.0 * damping * weights * turns**2 * steps, gradient, rtol=1e-4)


def test_crossing_rates_are_residual_times_density() -> None:
    x = np.linspace(-1.0, 1.0, 20001)
    knots, w = np.array([-0.55, -0.1, 0.2, 0.7]) + 1e-6, np.full(20001, 0.5)
    data = Data(x, np.exp(x), w, 1)
    fit_ = fitted(knots, data)
    columns = design(knots, x, 1)
    coefficients = np.linalg.lstsq(columns, np.exp(x))[0]
    residual = design(knots, knots, 1) @ coefficients - np.exp(knots)
    np.testing.assert_allclose(crossing_rates(fit_, data), residual * 5000.0, rtol=0.02)


def test_places_in_order_are_an_isotonic_regression() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        knots = np.sort(rng.uniform(0.1, 0.9, 12))
        steps = rng.normal(0.0, 0.1, 12)
        places = in_order(knots, steps, 0.0, 1.0)
        kept = NEAREST * np.r_[0.0, np.cumsum(np.diff(knots))]
        nearest = isotonic_regression(knots + steps - kept).x
        lo, hi = knots[0] * NEAREST, knots[-1] + (1.0 - NEAREST) * (1.0 - knots[-1]) - kept[-1]
        np.testing.assert_allclose(places, np.clip(nearest, lo, hi) + kept, atol=1e-14)
        assert (np.diff(places) >= NEAREST * np.diff(knots) - 1e-15).all()


def test_a_few_steps_lead_from_equidistant_knots_to_the_optimum() -> None:
    m, n = 20_000, 20
    x = np.linspace(-1.0, 1.0, m)
    y, w, start = np.exp(2.0 * x), np.full(m, 1.0 / m), np.linspace(-1.0, 1.0, n + 2)[1:-1]
    # Best free knots for a smooth curve: mean square (∫ |y''|^(2/5))⁵ / (720 pieces⁴ length).
    root = np.trapezoid((4.0 * y) ** 0.4, x)
    optimum = root**5 / (720.0 * (n + 1) ** 4 * 2.0)
    knots, losses, _ = polish(start, x, y, w, 1, 8, 0.0)
    assert losses[0] > 4.0 * optimum
    assert losses[-1] == pytest.approx(optimum, rel=5e-3)
    assert losses[-1] == fit(knots, x, y, w, 1)[0]


@given(seed=st.integers(0, 10**6), free_left=st.integers(0, 1))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_every_kept_step_lowers_the_exact_loss(seed: int, free_left: int) -> None:
    knots, x, y, w = any_curve(seed)
    polished, losses, damping = polish(knots, x, y, w, free_left, 30, 0.0)
    assert np.isfinite(np.r_[polished, losses, damping]).all()
    assert (np.diff(losses) < 0).all()
    assert losses[0] == fit(knots, x, y, w, free_left)[0]
    assert losses[-1] == fit(polished, x, y, w, free_left)[0]
    assert (np.diff(polished) >= 0).all()
    assert (polished[knots >= x[-1]] == knots[knots >= x[-1]]).all()


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data(name: str, free_left: int) -> None:
    knots, losses, damping = polish(*DEGENERATE[name], free_left, 60, 0.0)
    assert np.isfinite(np.r_[knots, losses, damping]).all()
    assert (np.diff(losses) < 0).all()
    assert (np.diff(knots) >= 0).all()
