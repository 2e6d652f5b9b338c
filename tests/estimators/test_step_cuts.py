"""Cuts beside brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from shallowflow.estimators.points import merged_points
from shallowflow.estimators.step import pruned, refined, sums_of


def brute(y: np.ndarray, cuts: tuple[int, ...]) -> float:
    return sum(float(np.sum((part - part.mean()) ** 2)) for part in np.split(y, cuts))


def test_misfit_equals_sums_of_squares_and_refined_cuts_are_the_best() -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate([np.zeros(6), np.ones(5), np.full(5, 3.0)]) + 0.1 * rng.standard_normal(16)
    points = merged_points(np.arange(16.0), y, np.ones(16), free_left=True)
    sums = sums_of(points)
    for cuts in ((4, 9), (1, 15)):
        assert np.isclose(points.unit * sums.total(np.array(cuts)), brute(y, cuts))
    best = min(combinations(range(1, 16), 2), key=lambda cuts: brute(y, cuts))
    np.testing.assert_array_equal(refined(np.array([4, 9]), sums, 16), best)
    np.testing.assert_array_equal(refined(np.array([4, 9]), sums, 1)[0] <= 6, True)


def test_pruning_keeps_the_cuts_that_pay() -> None:
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, 2.0, 1.0], 40) + 0.2 * rng.standard_normal(120)
    points = merged_points(np.arange(120.0), y, np.ones(120), free_left=True)
    sums = sums_of(points)
    found = pruned(np.arange(5, 120, 10), sums, 6, 0.0)
    np.testing.assert_allclose(found, [40, 80], atol=1)


def test_pruning_is_by_the_criterion() -> None:
    """Beside the criterion written out, on all subsets of four cuts; `reach` 0 keeps them where they are."""
    rng = np.random.default_rng(3)
    places = np.array([10, 30, 35, 50])
    chosen = set()
    for size in (0.3, 1.0, 2.0):
        y = size * np.repeat([0.0, 1.0, 0.4], [30, 20, 14]) + 0.5 * rng.standard_normal(64)
        sums = sums_of(merged_points(np.arange(64.0), y, np.ones(64), free_left=True))

        def value(cuts: tuple[int, ...], y: np.ndarray = y) -> float:
            lengths = np.diff([0, *cuts, 64])
            penalty = 3 * len(cuts) * np.log(64) + float(np.log(lengths / 64).sum())
            return float((63 - 2 * len(cuts)) * np.log(brute(y, cuts) / brute(y, ())) + penalty)

        subsets = [c for k in range(5) for c in combinations(places.tolist(), k)]
        best = min(subsets, key=value)
        np.testing.assert_array_equal(pruned(places, sums, 0, 0.0), best)
        chosen.add(best)
    assert len(chosen) > 1
