"""`StepRegressor`: recovery, invariances, scikit-learn's conventions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from shallowflow.errors import InvalidInputError
from shallowflow.estimators import StepRegressor
from shallowflow.estimators.base import merged_points
from shallowflow.estimators.cuts import pruned, refined, sums_of
from tests.estimators.test_conventions import FirstFeature

JUMPS, VALUES = np.array([0.2, 0.35, 0.5, 0.65, 0.8]), np.array([1.0, 4.0, 1.0, 2.0, 1.0, 4.0])


def stairs(size: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random(size)
    return x, VALUES[np.searchsorted(JUMPS, x)] + noise * rng.standard_normal(size)


class FirstStep(FirstFeature, StepRegressor):
    pass


@parametrize_with_checks([FirstStep(6), FirstStep(5, epsilon=0.1, max_iter=50), FirstStep(4, prune=False)])  # type: ignore[untyped-decorator]
def test_conventions_of_scikit_learn(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


def test_check_estimator_accepts_it() -> None:
    with pytest.warns(SkipTestWarning, match="requires input"):
        results = check_estimator(StepRegressor())
    assert all(result["status"] == "passed" for result in results)


@pytest.mark.parametrize("options", [{}, {"init": "uniform", "random_state": 3}, {"epsilon": 0.01}])
def test_all_jumps_are_found(options: dict[str, Any]) -> None:
    x, y = stairs(800, 0.2)
    model = StepRegressor(30, **options).fit(x[:, None], y)
    np.testing.assert_allclose(model.jumps_, JUMPS, atol=0.01)
    np.testing.assert_allclose(model.values_, VALUES, atol=0.1)
    assert model.n_jumps_ == 5


def test_values_are_means_and_the_network_is_the_function() -> None:
    x, y = stairs(300, 0.3)
    model = StepRegressor().fit(x[:, None], y)
    piece = np.searchsorted(model.jumps_, x)
    np.testing.assert_allclose(model.values_, [y[piece == k].mean() for k in range(model.n_jumps_ + 1)])
    np.testing.assert_allclose(model.network_(x), model.predict(x[:, None]), atol=1e-12)


def test_a_tree_with_as_many_leaves_is_hardly_better() -> None:
    x, y = stairs(1000, 0.3, seed=2)
    model = StepRegressor().fit(x[:, None], y)
    tree = DecisionTreeRegressor(max_leaf_nodes=model.n_jumps_ + 1).fit(x[:, None], y)
    ours, theirs = (np.mean((m.predict(x[:, None]) - y) ** 2) for m in (model, tree))
    assert ours < 1.02 * theirs


def test_noise_alone_has_no_jumps() -> None:
    rng = np.random.default_rng(5)
    model = StepRegressor().fit(rng.random((400, 1)), rng.standard_normal(400))
    assert model.n_jumps_ == 0
    unpruned = StepRegressor(prune=False).fit(rng.random((400, 1)), rng.standard_normal(400))
    assert unpruned.n_jumps_ > 10


@pytest.mark.parametrize(("size", "neurons"), [(5, 20), (10, 20), (20, 20), (24, 20), (30, 60)])
def test_noise_on_few_points_is_not_interpolated(size: int, neurons: int) -> None:
    x = np.arange(float(size))[:, None]
    draws = np.random.default_rng(11).standard_normal((20, size))
    found = np.array([StepRegressor(neurons).fit(x, y).n_jumps_ for y in draws])
    assert (found > 0).mean() <= 0.25
    assert found.max() <= 3


@pytest.mark.parametrize(
    ("values", "lengths"),
    [([0, 1], [2, 2]), ([0, 1], [1, 5]), ([0, 1], [5, 5]), ([3, 1], [9, 1]), ([0, 1, 0, 2], [2, 2, 2, 2])],
)
def test_jumps_without_noise_are_found_on_few_points(values: list[float], lengths: list[int]) -> None:
    y = np.repeat(np.array(values, dtype=np.float64), lengths)
    model = StepRegressor().fit(np.arange(float(len(y)))[:, None], y)
    np.testing.assert_array_equal(model.jumps_, np.cumsum(lengths)[:-1] - 0.5)
    np.testing.assert_allclose(model.values_, values, atol=1e-12)


def test_units_order_and_weights_make_no_difference() -> None:
    x, y = stairs(120, 0.3)
    plain = StepRegressor().fit(x[:, None], y)
    scaled = StepRegressor().fit(1000 * x[::-1, None] - 7, 1e-3 * y[::-1] + 2)
    np.testing.assert_allclose(scaled.jumps_, 1000 * plain.jumps_ - 7, rtol=1e-9)
    np.testing.assert_allclose(scaled.values_, 1e-3 * plain.values_ + 2, rtol=1e-9)
    weights = np.random.default_rng(0).integers(0, 3, 120)
    weighted = StepRegressor().fit(x[:, None], y, sample_weight=weights)
    repeated = StepRegressor().fit(np.repeat(x, weights)[:, None], np.repeat(y, weights))
    np.testing.assert_allclose(weighted.jumps_, repeated.jumps_)
    np.testing.assert_allclose(weighted.values_, repeated.values_)


def test_one_point_and_equal_targets_are_constant() -> None:
    assert StepRegressor().fit([[1.0]], [2.0]).predict([[5.0]]) == [2.0]
    model = StepRegressor().fit([[1.0], [2.0], [3.0]], [4.0, 4.0, 4.0])
    np.testing.assert_array_equal(model.predict([[0.0], [9.0]]), [4.0, 4.0])
    assert model.n_jumps_ == 0


def test_it_clones_and_refuses() -> None:
    x, y = stairs(100, 0.1)
    model = clone(StepRegressor(12, sharpness=0.02)).fit(x[:, None], y)
    assert model.trained_network_.sharpness == 0.02
    with pytest.raises(NotFittedError):
        StepRegressor().predict(x[:, None])
    with pytest.raises(InvalidInputError, match="n_neurons: must be >= 1"):
        StepRegressor(0).fit(x[:, None], y)
    with pytest.raises(InvalidInputError, match="init: must be one of even, uniform"):
        StepRegressor(init="odd").fit(x[:, None], y)
    with pytest.raises(InvalidInputError, match=r"X: must have shape \(n, 1\)"):
        StepRegressor().fit(np.column_stack([x, x]), y)


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


@pytest.mark.parametrize("bins", [2, 10, 20, 40])
def test_binned_x_has_its_jumps(bins: int) -> None:
    """Rows count, not distinct x: 5,000 rows on 10 or 20 of them had no jumps once."""
    rng = np.random.default_rng(0)
    x = np.floor(rng.random(5000) * bins) / bins + 0.5 / bins
    y = np.searchsorted(np.arange(1, 6) / 6, x) % 2 + 0.2 * rng.normal(size=5000)
    found = [StepRegressor(40, method=method).fit(x, y) for method in ("training", "exact")]
    means = np.array([y[x == place].mean() for place in np.unique(x)])
    expected = 1 + np.sum(np.abs(np.diff(means)) > 0.5) - 1
    assert found[1].n_jumps_ >= expected
    assert found[0].n_jumps_ == found[1].n_jumps_ or "exact" in " ".join(found[0].notes_)


def test_easy_fits_converge_or_say_what_ended_them() -> None:
    """Where `converged_` was False for 31 of 50 easy fits: one jump, 200 points."""
    rng, settled = np.random.default_rng(1), 0
    for _ in range(6):
        x = np.sort(rng.uniform(0, 1, 200))
        model = StepRegressor().fit(x, (x > 0.4) + 0.1 * rng.standard_normal(200))
        assert model.n_jumps_ == 1
        settled += model.converged_
        assert model.converged_ or "still changing" in model.notes_[0]
    assert settled >= 5
