"""The path and the choice of the number of knots: the criterion written out, and the defects it repairs."""

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.data.generators import CURVES
from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.base import Points, distinct_rows, merged_points
from shallowflow.estimators.noise import (
    Fitted,
    choose,
    correlation,
    criterion,
    explained_by,
    noise_size,
    outliers,
    weighted_median,
)
from shallowflow.estimators.selection import Path, Setting, between, default_largest, numbers_up_to, select
from tests.estimators.least_squares import half_loss


def kinked(x: Floats) -> Floats:
    return np.interp(x, [0, 3, 4, 8, 10], [1, 2, 0, 0.5, 3])


def sample(size: int, noise: float, seed: int) -> Points:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, size)
    return merged_points(x, kinked(x) + noise * rng.standard_normal(size), np.ones(size), free_left=True)


def autoregressive(size: int, phi: float, rng: np.random.Generator) -> Floats:
    e = rng.standard_normal(size + 200)
    for i in range(1, size + 200):
        e[i] = phi * e[i - 1] + np.sqrt(1 - phi**2) * e[i]
    return e[200:]


def test_numbers_are_dense_and_then_grow_by_the_fourth_root_of_two() -> None:
    assert numbers_up_to(0) == [0]
    assert numbers_up_to(20) == list(range(21))
    numbers = numbers_up_to(5000)
    ratios = np.array(numbers[21:]) / np.array(numbers[20:-1])
    assert ratios.max() < 1.22
    assert numbers[-1] == 5000


def test_numbers_around_the_chosen_one_are_tried() -> None:
    assert between([0, 1, 2, 3, 4, 6, 8], 4) == [5]
    assert between([0, 1, 2, 3], 0) == []
    refined = between([64, 91, 128], 91)
    assert len(refined) == 12
    assert 64 < refined[0] < refined[-1] < 128


def test_the_path_falls_and_the_way_back_makes_nothing_worse() -> None:
    points = sample(120, 0.1, 0)
    ahead, both = Path(points), Path(points)
    for number in range(10):
        ahead.knots(number)
    both.walk(range(10))
    for number in range(10):
        assert both.losses[number] <= ahead.losses[number]
        assert both.losses[number] == pytest.approx(points.fit(both.knots(number))[0])
        live = both.knots(number)
        squares = 2 * half_loss(points.x, points.y, live[live < points.x[-1]])
        assert both.losses[number] == pytest.approx(squares, rel=1e-6)
    assert np.all(np.diff([both.losses[number] for number in range(10)]) < 0)


def test_the_criterion_is_that_of_its_formula() -> None:
    losses = {0: 5.0, 1: 3.0, 4: 1.0, 30: 0.1}
    found = criterion(losses, 60.0, 60.0, tau=1.0)
    assert found[0] == 0
    assert found[4] == pytest.approx((60 - 10) * np.log(1 / 5) + 2 * 4 * np.log(60))
    assert found[30] == np.inf
    slow = criterion(losses, 60.0, 60.0, tau=3.0)
    assert slow[4] == pytest.approx((60 - 10) / 3 * np.log(1 / 5) + 2.5 * 4 * np.log(20))


def test_correlation_of_neighbours_and_what_it_explains() -> None:
    rng = np.random.default_rng(0)
    noise = autoregressive(2000, 0.6, rng)
    found = correlation(noise, 0)
    assert found.rho == pytest.approx(0.6, abs=0.05)
    assert found.tau == pytest.approx((1 + found.rho) / (1 - found.rho))
    assert correlation(rng.standard_normal(400), 2) == (0.0, 1.0)
    assert explained_by(noise, found.rho)
    wave = np.sin(np.arange(2000) * 2 * np.pi / 12)
    assert not explained_by(wave, correlation(wave, 0).rho)
    rest = rng.standard_normal(50)
    fits = {0: Fitted(np.empty(0), 9.0, rest), 1: Fitted(np.zeros(1), 8.9, rest)}
    assert choose(fits, 50.0, 50.0).number == 0


def test_the_size_of_the_noise_is_known_before_any_fit() -> None:
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 2000))
    y = kinked(x) + 0.2 * rng.standard_normal(2000)
    y[::200] += 10
    rows = distinct_rows(x, y, np.ones(2000))
    assert noise_size(rows, False) * rows.scale == pytest.approx(0.2, rel=0.06)
    tied = distinct_rows(np.round(x), y, np.ones(2000))
    within = y - np.array([np.mean(y[np.round(x) == place]) for place in np.round(x)])
    # The root of W/(W − 1) for the mean of about 200 rows is less than 1 %.
    expected = 1.4826 * np.median(np.abs(within))
    assert noise_size(tied, False) * tied.scale == pytest.approx(expected, rel=0.01)


def test_a_weighted_median_is_that_of_repeated_values() -> None:
    rng = np.random.default_rng(2)
    for size in (1, 2, 5, 8):
        values, counts = rng.standard_normal(size), rng.integers(1, 4, size)
        assert weighted_median(values, counts.astype(float)) == pytest.approx(
            np.median(np.repeat(values, counts))
        )
    assert outliers(np.append(rng.standard_normal(50), 20.0), np.ones(51)).tolist() == [False] * 50 + [True]


@pytest.mark.parametrize("selection", ["cv", "bic"])
@pytest.mark.parametrize("search", ["relocation", "anls"])
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_number_of_kinks_is_found(selection: str, search: str, noise: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, 300)
    model = ANLSRegressor(selection=selection, search=search, loss="squared", max_knots=20)
    model.fit(x, kinked(x) + noise * rng.standard_normal(300))
    if search == "relocation":
        assert model.n_knots_ == 3
        np.testing.assert_allclose(model.knots_, [3, 4, 8], atol=0.2)
    else:
        assert 3 <= model.n_knots_ <= 20  # knots that only pass one point at a time need company


@pytest.mark.parametrize("selection", ["cv", "bic"])
def test_noise_alone_gets_hardly_any_knots(selection: str) -> None:
    numbers = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = ANLSRegressor(selection=selection, max_knots=12)
        numbers.append(model.fit(rng.uniform(0, 1, 150), rng.standard_normal(150)).n_knots_)
    assert np.median(numbers) == 0
    assert max(numbers) <= 1


def test_correlated_noise_alone_gets_hardly_any_knots() -> None:
    """Neighbours that lean on each other got 13 to 31 knots by cross-validation, 4 to 29 by plain BIC."""
    numbers = []
    for seed in range(10):
        y = autoregressive(200, 0.8, np.random.default_rng([2814, seed]))
        numbers.append(ANLSRegressor().fit(np.arange(200.0), y))
    assert sum(model.n_knots_ <= 2 for model in numbers) >= 9
    assert all("correlated" in " ".join(model.notes_) for model in numbers if model.n_knots_ == 0)


def test_waves_get_their_knots() -> None:
    """61 periods of 12 points: plain BIC stopped at 64 knots and returned none."""
    x = np.arange(732) / 732
    y = np.sin(2 * np.pi * 61 * x) + 0.1 * np.random.default_rng(0).standard_normal(732)
    assert 110 <= ANLSRegressor().fit(x, y).n_knots_ <= 135


def test_what_is_no_noise_is_said() -> None:
    """Short waves in noise are too dear for the criterion; correlated noise is not taken for them."""
    rng = np.random.default_rng(2)
    wave = np.sin(np.arange(732) * np.pi / 6) + 0.3 * rng.standard_normal(732)
    model = ANLSRegressor().fit(np.arange(732.0), wave)
    assert "has a period or further bends" in " ".join(model.notes_)
    said = 0
    for rho in (0.0, 0.5) * 20:
        noise = autoregressive(200, rho, rng)
        said += "further bends" in " ".join(ANLSRegressor(0).fit(np.arange(200.0), noise).notes_)
    assert said <= 3  # at 1 %: more than 3 of 40 has probability 0.1 %


def test_outliers_are_named_and_count_for_little() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 10, 300)
    y = kinked(x) + 0.1 * rng.standard_normal(300)
    far = np.sort(rng.choice(300, 9, replace=False))
    y[far] += 4.0
    model = ANLSRegressor().fit(x, y)
    assert (model.n_knots_, model.loss_) == (3, "bisquare")
    assert set(far) <= set(np.flatnonzero(model.outliers_)) <= set(range(300))
    assert model.outliers_.sum() <= 11
    assert f"{model.outliers_.sum()} points lie far off" in " ".join(model.notes_)
    grid = np.linspace(0, 10, 500)
    assert np.sqrt(np.mean((model.predict(grid) - kinked(grid)) ** 2)) < 0.05
    given = ANLSRegressor(3).fit(x, y)
    assert given.loss_ == "squared"
    assert "loss='bisquare'" in " ".join(given.notes_)
    robust = ANLSRegressor(3, loss="huber").fit(x, y)
    assert robust.loss_ == "huber"
    assert (
        np.abs(robust.predict(grid) - kinked(grid)).mean() < np.abs(given.predict(grid) - kinked(grid)).mean()
    )


def test_clean_data_keep_their_squares() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 10, 200)
        model = ANLSRegressor().fit(x, kinked(x) + 0.1 * rng.standard_normal(200))
        assert model.loss_ == "squared"


def test_the_path_is_told_in_the_units_of_the_data() -> None:
    rng = np.random.default_rng(3)
    x = 100 * rng.uniform(0, 10, 150)
    y = 7 * kinked(x / 100) + 0.5 * rng.standard_normal(150)
    model = ANLSRegressor().fit(x, y)
    row = model.path_[model.n_knots_]
    assert [one.n_knots for one in model.path_][:6] == [0, 1, 2, 3, 4, 5]
    assert row.loss == pytest.approx(model.loss_history_[-1], rel=1e-6)
    assert row.criterion == min(one.criterion for one in model.path_)
    np.testing.assert_allclose(row.knots, model.knots_, rtol=1e-3)
    assert np.isnan(row.cv_error)
    folds = ANLSRegressor(selection="cv").fit(x, y)
    assert 0 < folds.path_[3].cv_error < folds.path_[0].cv_error


def test_many_points_are_merged_and_polished_on_all() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, 30_000)
    y = kinked(x) + 0.1 * rng.standard_normal(30_000)
    model = ANLSRegressor().fit(x, y)
    np.testing.assert_allclose(model.knots_, [3, 4, 8], atol=0.02)
    whole = merged_points(x, y, np.ones(30_000))
    slow = select(distinct_rows(x, y, np.ones(30_000)), whole, Setting(max_knots=5))
    assert 2 * model.loss_history_[-1] <= (whole.fit(slow.knots)[0]) * whole.unit * (1 + 1e-3)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("selection", ["cv", "bic"])
@pytest.mark.parametrize("free_left", [True, False])
def test_few_points_are_enough(size: int, selection: str, free_left: bool) -> None:
    x = np.arange(float(size))
    rows = distinct_rows(x, x**2 + 1, np.ones(size), free_left=free_left)
    setting = Setting(selection=selection)
    assert len(select(rows, rows.points(), setting).knots) <= default_largest(rows.points()) <= size


def test_a_piece_may_be_asked_to_have_some_points() -> None:
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(-1, 1, 60))
    y = CURVES["sin_5pi"](x) + 0.3 * rng.standard_normal(60)
    for options in ({"n_knots": 6}, {"n_knots": 9}, {"n_knots": "auto"}):
        model = ANLSRegressor(min_points=5, **options).fit(x, y)
        edges = [0, *np.searchsorted(x, model.knots_, side="right"), 60]
        assert np.diff(edges).min() >= 5
    assert ANLSRegressor(min_knots=2).fit(x, x).n_knots_ <= 2
    noisy = rng.standard_normal(60)
    assert ANLSRegressor(min_knots=2, loss="squared").fit(x, noisy).n_knots_ == 2
