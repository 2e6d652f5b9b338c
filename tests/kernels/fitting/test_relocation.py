from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.fitting.chain import Data, fit
from shallowflow.kernels.fitting.search import (
    distant_pairs,
    prices,
    swap_many,
    swap_one,
    use_dead_knots,
)
from tests.kernels.knots.knot_problems import DEGENERATE, any_curve, projected_loss, random_curve, task


@given(seed=st.integers(0, 10**6), free_left=st.integers(0, 1))
@settings(deadline=None, derandomize=True, max_examples=150)
def test_prices_are_differences_of_losses(seed: int, free_left: int) -> None:
    knots, x, y, w = any_curve(seed)
    loss, costs, gains, places = prices(knots, x, y, w, free_left)
    n = int((knots < x[-1]).sum())
    assert (costs.size, gains.size, places.size) == (n, n + 1, n + 1)
    assert loss == fit(knots, x, y, w, free_left)[0]
    scale = 1e-12 * float((w * y * y).sum())
    for k in range(n):
        without = fit(np.delete(knots, k), x, y, w, free_left)[0]
        assert costs[k] == pytest.approx(without - loss, rel=1e-9, abs=scale)
    for k in range(n + 1):
        if gains[k] > 0.0:
            with_it = fit(np.insert(knots, k, places[k]), x, y, w, free_left)[0]
            assert gains[k] == pytest.approx(loss - with_it, rel=1e-9, abs=scale)


@pytest.mark.parametrize("free_left", [0, 1])
def test_no_other_place_of_a_block_gains_more(free_left: int) -> None:
    for seed in range(4):
        knots, x, y, w = random_curve(seed, 20, 3)
        loss, _, gains, _ = prices(knots, x, y, w, free_left)
        borders = np.r_[2.0 * x[0] - x[-1], knots, x[-1]]
        for k in range(4):
            scan = np.linspace(borders[k], borders[k + 1], 150)[1:-1]
            scanned = min(projected_loss(np.insert(knots, k, b), x, y, w, free_left) for b in scan)
            assert loss - scanned <= gains[k] + 1e-9 * loss
            assert loss - scanned >= 0.8 * gains[k] - 1e-9 * loss


def test_dead_knots_make_a_greedy_start() -> None:
    x, y, w, n = task("five sines")
    knots, losses = use_dead_knots(np.full(n, x[-1]), Data(x, y, w, 1))
    assert (knots < x[-1]).all()
    assert (np.diff(losses) < 0).all()
    assert losses[-1] == fit(knots, x, y, w, 1)[0]
    assert losses[-1] < fit(np.sort(np.random.default_rng(0).uniform(-1, 1, n)), x, y, w, 1)[0] / 10


def test_an_exact_fit_needs_no_more_knots() -> None:
    x = np.linspace(-1.0, 1.0, 40)
    knots, losses = use_dead_knots(np.full(9, 1.0), Data(x, np.abs(x - 0.3), np.ones(40), 1))
    assert (knots < 1.0).sum() == 1
    assert knots[0] == pytest.approx(0.3, abs=1e-12)
    assert losses[-1] < 1e-26


def test_pairs_are_cheap_promising_and_apart() -> None:
    rng = np.random.default_rng(1)
    costs, gains = rng.exponential(size=60), rng.exponential(size=61)
    removed, blocks = distant_pairs(costs, gains, 100, 1.0)
    assert 3 < removed.size < 20
    assert (np.diff(costs[removed]) >= 0).all()
    assert (np.diff(gains[blocks]) <= 0).all()
    assert (costs[removed] < gains[blocks]).all()
    assert removed[0] == np.argmin(costs)
    # Knot k touches the blocks k and k + 1; no block is touched twice, nor next to a touched one.
    touched = np.sort(np.r_[removed, blocks])
    ends = np.sort(np.r_[removed + 1, blocks])
    assert (touched[1:] - ends[:-1] >= 2).all()
    assert distant_pairs(costs, gains, 2, 1.0)[0].tolist() == removed[:2].tolist()
    assert distant_pairs(np.full(60, 2.0), np.ones(61), 9, 1.0)[0].size == 0
    assert distant_pairs(np.empty(0), np.ones(1), 9, 1.0)[0].size == 0


@pytest.mark.parametrize("settled", [False, True])
def test_crowded_knots_are_spread(settled: bool) -> None:
    x, y, w, n = task("five sines")
    crowd = np.sort(np.r_[np.linspace(-0.99, -0.9, n // 2), np.linspace(-0.88, 0.98, n // 2)])
    knots, losses = swap_many(crowd, Data(x, y, w, 1), 10, settled=settled)
    assert len(losses) == 2
    assert losses[0] == fit(crowd, x, y, w, 1)[0]
    assert losses[1] == fit(knots, x, y, w, 1)[0]
    assert losses[1] < 0.8 * losses[0]
    assert (knots < -0.9).sum() <= n // 2 - 5


def test_one_exchange_leaves_a_point_where_every_knot_is_at_its_best_place() -> None:
    x, y, w, _ = task("sine")
    # Five knots where two would do, and two where five are wanted: no move between neighbours helps quickly.
    knots = np.sort(np.r_[np.linspace(-0.1, 0.1, 5), -0.5, -0.7, 0.4, 0.6, 0.8])
    better, losses = swap_one(knots, Data(x, y, w, 1), 5)
    assert len(losses) == 2
    assert losses[1] == fit(better, x, y, w, 1)[0] < losses[0] == fit(knots, x, y, w, 1)[0]
    assert swap_one(knots, Data(x, y, w, 1), 0)[1] == losses[:1]


@pytest.mark.parametrize("free_left", [0, 1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data(name: str, free_left: int) -> None:
    knots, x, y, w = DEGENERATE[name]
    problem = Data(x, y, w, free_left)
    loss, costs, gains, _ = prices(knots, *problem)
    assert np.isfinite(np.r_[loss, costs, gains]).all()
    knots, losses = use_dead_knots(knots, problem)
    for relocated, after in (
        swap_many(knots, problem, 3, settled=False),
        swap_many(knots, problem, 3, settled=True),
        swap_one(knots, problem, 3),
    ):
        assert np.isfinite(relocated).all()
        assert (np.diff(np.r_[losses, after[1:]]) < 0).all()
        assert after[-1] == fit(relocated, *problem)[0]
