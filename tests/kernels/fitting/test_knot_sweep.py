from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from shallowflow.arrays import Floats
from shallowflow.kernels.fitting.chain import Data, fit
from shallowflow.kernels.fitting.sweep import settle, sweep
from tests.kernels.knots.knot_problems import DEGENERATE, Problem, any_curve, projected_loss, random_curve


def settle_one(problem: Problem, free_left: int, k: int) -> tuple[Floats, float]:
    windows = np.array([[k, k]])
    start, x, y, w = problem
    knots, losses = settle(start, Data(x, y, w, free_left), windows, 1, 0.0, inf)
    return knots, float(losses[-1])


def scanned_place(problem: Problem, free_left: int, k: int) -> tuple[float, float]:
    """Best place of knot k between its neighbours and its loss: a scan of every gap, then a refinement."""
    knots, x, y, w = problem
    a = knots[k - 1] if k > 0 else 2.0 * x[0] - x[-1]
    c = knots[k + 1] if k + 1 < knots.size else x[-1]
    borders = np.unique(np.r_[a, x[(x > a) & (x < c)], c])

    def loss_at(place: float) -> float:
        return projected_loss(np.r_[knots[:k], place, knots[k + 1 :]], x, y, w, free_left)

    best = min((loss_at(place), place) for place in borders[0 if k == 0 else 1 : -1])
    for lo, hi in pairwise(borders):
        grid = np.linspace(lo, hi, 14)
        i = 1 + int(np.argmin([loss_at(place) for place in grid[1:-1]]))
        bounds = (grid[i - 1], grid[i + 1])
        found = minimize_scalar(loss_at, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        best = min(best, (float(found.fun), float(found.x)))
    return best[1], best[0]


@pytest.mark.parametrize("free_left", [0, 1])
def test_a_knot_goes_where_a_dense_scan_with_lstsq_finds_it_best(free_left: int) -> None:
    places = 0
    for seed in range(5):
        knots, x, y, w = problem = random_curve(seed, 16, 3)
        for k in range(3):
            moved, loss = settle_one(problem, free_left, k)
            place, scanned = scanned_place(problem, free_left, k)
            assert loss == pytest.approx(scanned, rel=1e-7)
            assert projected_loss(moved, x, y, w, free_left) == pytest.approx(loss, rel=1e-8)
            assert (np.delete(moved, k) == np.delete(knots, k)).all()
            nearby = [projected_loss(np.r_[moved[:k], moved[k] + d, moved[k + 1 :]], x, y, w, free_left)
                      for d in (-1e-3, 1e-3)]  # fmt: skip
            if min(nearby) > loss * (1.0 + 1e-6):
                places += 1
                assert moved[k] == pytest.approx(place, abs=1e-5)
    assert places >= 8


@pytest.mark.parametrize("free_left", [0, 1])
def test_swept_knots_are_each_at_their_best_place(free_left: int) -> None:
    problem = random_curve(11, 30, 4)
    knots, losses = sweep(*problem, free_left, 200, 0.0)
    assert losses.size > 1
    for k in range(4):
        _, scanned = scanned_place((knots, *problem[1:]), free_left, k)
        assert scanned >= losses[-1] * (1.0 - 1e-9)


@given(seed=st.integers(0, 10**6), free_left=st.integers(0, 1))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_every_sweep_lowers_the_exact_loss_and_can_be_continued(seed: int, free_left: int) -> None:
    knots, x, y, w = any_curve(seed)
    swept, losses = sweep(knots, x, y, w, free_left, 6, 0.0)
    assert np.isfinite(losses).all()
    assert (np.diff(losses) < 0).all()
    assert losses[0] == fit(knots, x, y, w, free_left)[0]
    assert losses[-1] == fit(swept, x, y, w, free_left)[0]
    assert (np.diff(swept) >= 0).all()
    assert (swept[knots >= x[-1]] == knots[knots >= x[-1]]).all()
    halfway, _ = sweep(knots, x, y, w, free_left, 3, 0.0)
    assert (sweep(halfway, x, y, w, free_left, 3, 0.0)[0] == swept).all()


def test_knots_outside_the_windows_stay_and_hopeless_sweeps_stop() -> None:
    knots, x, y, w = random_curve(2, 200, 12)
    windows = np.array([[2, 4], [8, 8]])
    settled, losses = settle(knots, Data(x, y, w, 1), windows, 50, 1e-9, inf)
    changed = np.flatnonzero(settled != knots)
    assert changed.size > 1
    assert set(changed) <= {2, 3, 4, 8}
    assert losses.size > 2
    _, given_up = settle(knots, Data(x, y, w, 1), windows, 50, 1e-9, 0.0)
    assert given_up.size < losses.size


def test_sweeps_reach_known_losses_on_the_sine() -> None:
    x = np.linspace(-1.0, 1.0, 100)
    _, losses = sweep(np.linspace(-1.0, 1.0, 12)[1:-1], x, np.sin(np.pi * x), np.ones(100), 1, 50, 1e-6)
    assert losses[0] / 2 == pytest.approx(4.369e-3, rel=1e-3)
    assert losses[-1] / 2 <= 2.1e-3


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data(name: str, free_left: int) -> None:
    knots, losses = sweep(*DEGENERATE[name], free_left, 50, 0.0)
    assert np.isfinite(knots).all()
    assert np.isfinite(losses).all()
    assert (np.diff(losses) < 0).all()
    assert (np.diff(knots) >= 0).all()
