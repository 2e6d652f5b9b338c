"""[incremental] App. E with numbers: binomial tails by SciPy, Algorithm 1 on random masks, brute force."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import comb

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import binom

import shallowflow as sf
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.incremental import (
    HALVING_RATIO,
    _largest_sum,
    fitted_shares,
    jump_process,
    norm_bound,
    points_left,
)


@pytest.mark.parametrize(("size", "width", "delta"), [(1, 1, 0.5), (50, 6, 0.1), (700, 30, 1e-6)])
def test_the_bounds_are_quantiles_shared_among_all_sets_of_neurons(
    size: int, width: int, delta: float
) -> None:
    low, high = points_left(size, width, delta)
    assert low[0] == high[0] == size
    for u in range(1, width + 1):
        tail = delta / (2 * width * comb(width, u))
        assert binom.sf(high[u], size, 0.5**u) <= tail * (1 + 1e-9)
        assert high[u] == 0 or binom.sf(high[u] - 1, size, 0.5**u) > tail * (1 - 1e-9)
        assert binom.cdf(low[u] - 1, size, 0.5**u) <= tail * (1 + 1e-9)
        assert binom.cdf(low[u], size, 0.5**u) > tail * (1 - 1e-9)


def test_no_set_of_neurons_leaves_more_or_fewer_points_but_with_probability_delta() -> None:
    """All subsets of 8 neurons on 40 points, 300 draws: at most a share δ of the draws breaks a bound."""
    rng, delta = np.random.default_rng(0), 0.2
    low, high = points_left(40, 8, delta)
    broken = 0
    for _ in range(300):
        off = rng.random((8, 40)) < 0.5
        left = [
            (u, int(np.all(off[list(chosen)], axis=0).sum()))
            for u in range(1, 9)
            for chosen in combinations(range(8), u)
        ]
        broken += any(not low[u] <= number <= high[u] for u, number in left)
    assert 0 < broken / 300 <= delta


def test_the_largest_sum_is_that_of_a_numerical_maximisation() -> None:
    """max Σ √a_u subject to Σ_{v ≥ u} a_v ≤ high_{u−1}, a ≥ 0: concave, so local is global."""
    size, width, delta = 60, 7, 0.1
    ceiling = points_left(size, width, 2 * delta)[1][:-1]
    tails = LinearConstraint(np.triu(np.ones((width, width))), -np.inf, ceiling)
    found = minimize(
        lambda a: -np.sum(np.sqrt(a)),
        np.full(width, 0.1),
        jac=lambda a: -0.5 / np.sqrt(a),
        bounds=[(1e-6, size)] * width,
        constraints=[tails],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert _largest_sum(size, width, delta) == pytest.approx(-found.fun, rel=1e-5)


def test_the_bound_has_the_order_of_exact_halving_and_can_be_broken() -> None:
    """2(1 + √2) for equal labels of one sign and n → ∞; one neuron per point has 2Σ|y|, which is far more."""
    constants = [norm_bound(np.ones(n), 60) / np.sqrt(n) for n in (10**3, 10**5, 10**7)]
    assert all(after < before for before, after in pairwise(constants))
    assert 2 * HALVING_RATIO < constants[-1] < 2.02 * HALVING_RATIO
    single = jump_process(np.eye(64, dtype=bool), np.ones(64))
    assert single.squared_norm == pytest.approx(128.0)
    assert norm_bound(np.ones(64), 64) < 80.0
    assert norm_bound(np.ones(4), 64) == 8.0


def test_algorithm_1_keeps_the_bound_and_halves_what_is_left() -> None:
    size, width = 2000, 40
    firsts = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.standard_normal(size)
        mask = mask_of(rng.standard_normal((width, size)), rng.choice([-1.0, 1.0], width), y)
        process = jump_process(mask, y)
        assert process.squared_norm <= norm_bound(y, width)
        shares, numbers = fitted_shares(process, y)
        assert [round(s * n) for s, n in zip(shares, numbers, strict=True)] == [
            len(points) for points in process.fitted
        ]
        firsts.append(shares[0])
    # The first to jump has more than half of Σy², and so a little more than half of the points.
    assert 0.5 < np.mean(firsts) < 0.56


def test_labels_of_zero_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="targets: must not all be zero"):
        norm_bound(np.zeros(3), 4)
    with pytest.raises(sf.InvalidInputError, match=r"delta: must lie in \(0, 1\), got 2"):
        points_left(3, 4, 2.0)
