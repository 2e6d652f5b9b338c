from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.kernels.fitting import chain
from shallowflow.kernels.fitting.chain import Block, fit
from tests.kernels.entry import entry
from tests.kernels.fitting.exact_least_squares import KINDS, exact_loss, random_problem

pass_block = entry(chain.pass_block)


def values_of(lines: Floats, knots: Floats, x: Floats) -> Floats:
    row = np.searchsorted(knots, x, side="left")
    values: Floats = lines[row, 1] + lines[row, 2] * (x - lines[row, 0])
    return values


def hat_functions(nodes: Floats, x: Floats) -> Floats:
    return np.stack([np.interp(x, nodes, unit) for unit in np.eye(nodes.size)], axis=1)


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_exact_one(kind: str, free_left: int) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    interpolated = 0
    for _ in range(60):
        knots, x, y, w = random_problem(kind, rng)
        loss, lines = fit(knots, x, y, w, free_left)
        exact, scale = exact_loss(knots, x, y, w, free_left), float((w * y * y).sum())
        interpolated += exact == 0.0
        assert loss == pytest.approx(exact, rel=1e-12, abs=1e-28 * scale)
        residuals = values_of(lines, knots, x) - y
        assert float((w * residuals**2).sum()) == pytest.approx(exact, rel=1e-11, abs=1e-28 * scale)
    assert 0 < interpolated < 60


def test_a_point_on_or_near_the_far_knot_says_nothing_or_little() -> None:
    # One point at distance δ from the far knot: ρ'² = W ρ² δ² / (ρ² h² + W d²), and exactly 0 for δ = 0.
    rng = np.random.default_rng(4)
    for _ in range(50):
        rho, tau, weight, y = rng.uniform(0.3, 3.0, 4)
        far = float(rng.uniform(0.5, 1.5))
        new_rho, _, cost = pass_block(0.0, far, rho, tau, Block(weight, far, y, 0.0, 0.0, 0.0))
        assert new_rho == 0.0
        miss = y - tau / rho
        assert cost == pytest.approx(weight * rho**2 / (weight + rho**2) * miss**2, rel=1e-11)
        x = far - 1e-10
        new_rho, _, cost = pass_block(0.0, far, rho, tau, Block(weight, x, y, 0.0, 0.0, 0.0))
        scale = np.sqrt(rho**2 * far**2 + weight * x**2)
        assert new_rho == pytest.approx(np.sqrt(weight) * rho * (far - x) / scale, rel=1e-14)
        assert cost == 0.0


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("kind", ["spread", "grid"])
def test_the_lines_are_continuous(kind: str, free_left: int) -> None:
    rng = np.random.default_rng(10)
    for _ in range(200):
        knots, x, y, w = random_problem(kind, rng)
        _, lines = fit(knots, x, y, w, free_left)
        left, right = lines[:-1], lines[1:]
        before = left[:, 1] + left[:, 2] * (knots - left[:, 0])
        after = right[:, 1] + right[:, 2] * (knots - right[:, 0])
        np.testing.assert_allclose(before, after, atol=1e-10 * (1.0 + np.abs(lines[:, 1:]).max()))
        if free_left == 0:
            assert (lines[0, 1:] == 0.0).all()


@pytest.mark.parametrize("free_left", [0, 1])
def test_a_larger_fit_agrees_with_lstsq_in_the_hat_basis(free_left: int) -> None:
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(-1.0, 1.0, 2000))
    y, w = np.sin(9.0 * x) + 0.1 * rng.normal(size=2000), rng.uniform(0.2, 2.0, 2000)
    knots = np.sort(rng.uniform(-0.95, 1.1, 80))
    live = knots[knots < x[-1]]
    hats = hat_functions(np.r_[x[0], live, x[-1]], x)
    if free_left == 0:
        hats = np.where((x > knots[0])[:, None], hat_functions(np.r_[live, x[-1]], x)[:, 1:], 0.0)
    root = np.sqrt(w)
    best = np.linalg.lstsq(hats * root[:, None], y * root)[0]
    loss, lines = fit(knots, x, y, w, free_left)
    assert loss == pytest.approx(float((w * (hats @ best - y) ** 2).sum()), rel=1e-12)
    np.testing.assert_allclose(values_of(lines, knots, x), hats @ best, atol=1e-11)


def test_a_free_line_is_two_more_knots_left_of_the_data() -> None:
    rng = np.random.default_rng(6)
    for kind in KINDS:
        for _ in range(50):
            knots, x, y, w = random_problem(kind, rng)
            outside = min(x[0], np.r_[knots, x][0]) - np.array([2.0, 1.0])
            loss, _ = fit(np.r_[outside, knots], x, y, w, 0)
            scale = float((w * y * y).sum())
            assert fit(knots, x, y, w, 1)[0] == pytest.approx(loss, rel=1e-10, abs=1e-28 * scale)


def test_without_live_knots_a_line_or_nothing_is_left() -> None:
    rng = np.random.default_rng(7)
    x, y, w = np.sort(rng.uniform(0.0, 1.0, 9)), rng.normal(size=9), rng.uniform(0.5, 1.5, 9)
    residual = np.polyval(np.polyfit(x, y, 1, w=np.sqrt(w)), x) - y
    for knots in (np.empty(0), np.array([x[-1], 2.0])):
        assert fit(knots, x, y, w, 0)[0] == pytest.approx(float((w * y * y).sum()), rel=1e-14)
        loss, lines = fit(knots, x, y, w, 1)
        assert loss == pytest.approx(float((w * residual**2).sum()), rel=1e-12)
        assert lines.shape == (knots.size + 1, 3)
        np.testing.assert_allclose(values_of(lines, knots, x) - y, residual, atol=1e-13)


@given(
    seed=st.integers(0, 10**6),
    shift=st.integers(-1000, 1000),
    power=st.integers(-30, 30),
    stretch=st.floats(0.01, 100.0),
    free_left=st.integers(0, 1),
)
@settings(deadline=None, derandomize=True, max_examples=100)
def test_the_loss_knows_no_origin_and_no_unit(
    seed: int, shift: int, power: int, stretch: float, free_left: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.choice(np.arange(400), 40, replace=False)) / 128.0
    knots = np.sort(rng.choice(np.arange(-20, 420), 12)) / 128.0
    y, w = rng.normal(size=40), rng.uniform(0.5, 2.0, 40)
    loss = fit(knots, x, y, w, free_left)[0]
    # Shifts of this grid are exact, so only the algorithm's own rounding is seen.
    assert fit(knots + shift, x + shift, y, w, free_left)[0] == pytest.approx(loss, rel=1e-9)
    unit = 2.0**power
    assert fit(knots * unit, x * unit, y, w, free_left)[0] == loss
    assert fit(knots, x, stretch * y, w, free_left)[0] == pytest.approx(stretch**2 * loss, rel=1e-12)
    assert fit(knots, x, y, stretch * w, free_left)[0] == pytest.approx(stretch * loss, rel=1e-12)
