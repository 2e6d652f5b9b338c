"""What a fit says: intervals that cover, tests with the right level, habits of analysts, formulas."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import t as student

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators import ANLSRegressor, StepRegressor
from shallowflow.estimators.noise import RHOS

X = np.linspace(0, 10, 120)
Y = np.interp(X, [0, 4, 10], [1.0, 5.0, 2.0]) + 0.2 * np.random.default_rng(0).standard_normal(120)


@pytest.fixture(scope="module")
def model() -> ANLSRegressor:
    return ANLSRegressor(1).fit(X, Y)


@pytest.mark.parametrize(("turn", "size", "rho"), [(2.0, 60, 0.0), (0.7, 100, 0.0), (2.0, 50, 0.5)])
def test_sets_of_knots_cover_clear_and_weak_kinks(turn: float, size: int, rho: float) -> None:
    """40 data sets: fewer than 34 covered has probability 0.3 % at 95 %."""
    held = []
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        x = np.sort(rng.uniform(0, 1, size))
        e = rng.standard_normal(size)
        e[1:] *= np.sqrt(1 - rho**2)
        y = x - turn * np.maximum(x - 0.4, 0) + 0.2 * lfilter([1.0], [1.0, -rho], e)
        low, high = ANLSRegressor(1, certify=False).fit(x, y).knot_intervals()[0]
        held.append(low <= 0.4 <= high)
    assert sum(held) >= 34


def averaged(design: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The covariance of least squares averaged over ρ, and the weights of ρ: whole matrices R = ρ^|i−j|."""
    size, number = design.shape
    order, inverse = np.arange(size), np.linalg.inv(design.T @ design)
    rest = y - design @ (inverse @ (design.T @ y))
    logs, parts = [], []
    for rho in RHOS:
        R = rho ** np.abs(order[:, None] - order)
        precision = np.linalg.inv(R)
        inner = design.T @ precision @ design
        best = np.linalg.solve(inner, design.T @ precision @ y)
        squares = (y - design @ best) @ precision @ (y - design @ best)
        volumes = np.linalg.slogdet(R)[1] + np.linalg.slogdet(inner)[1]
        logs.append(-0.5 * (volumes + (size - number) * np.log(squares)))
        left = np.trace(R - design @ inverse @ design.T @ R)
        parts.append(rest @ rest / left * inverse @ design.T @ R @ design @ inverse)
    weights = np.exp(np.array(logs) - max(logs)) * np.append(
        0.5, np.full(len(RHOS) - 1, 0.5 / (len(RHOS) - 1))
    )
    weights /= weights.sum()
    weights[weights < 0.005] = 0
    weights /= weights.sum()
    return np.tensordot(weights, np.array(parts), 1), weights


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_without_knots_intervals_are_those_of_a_line(rho: float) -> None:
    e = np.random.default_rng(2).standard_normal(120)
    for i in range(1, 120):
        e[i] = rho * e[i - 1] + np.sqrt(1 - rho**2) * e[i]
    y = X + e
    line = ANLSRegressor(0).fit(X, y)
    design = np.stack([np.ones_like(X), X], axis=1)
    rest = y - design @ np.linalg.lstsq(design, y)[0]
    covariance, weights = averaged(design, y)
    assert RHOS @ weights == pytest.approx(rho, abs=0.15)
    reach = student.ppf(0.95, 118) * np.sqrt(covariance[1, 1])
    low, high = line.slope_intervals(0.9)[0]
    np.testing.assert_allclose([low, high], line.slopes_[0] + np.array([-reach, reach]), rtol=1e-6)
    place = np.array([1.0, 3.0])
    half = student.ppf(0.95, 118) * np.sqrt(place @ covariance @ place)
    band = line.predict_interval([3.0], 0.9)[0]
    np.testing.assert_allclose(band, line.predict([3.0]) + np.array([-half, half]), rtol=1e-6)
    wide = line.predict_interval([3.0], 0.9, kind="observation")[0]
    new = student.ppf(0.95, 118) * np.sqrt(place @ covariance @ place + rest @ rest / 118)
    np.testing.assert_allclose(wide, line.predict([3.0]) + np.array([-new, new]), rtol=1e-6)


def test_merged_points_and_many_rows_have_the_same_intervals() -> None:
    """4,000 correlated rows are judged by 1,000 means: intervals are right, not √4 too narrow."""
    rng = np.random.default_rng(5)
    x, covered, widths = np.linspace(0, 1, 4000), 0, []
    for _ in range(20):
        e = lfilter([1.0], [1.0, -0.8], 0.6 * rng.standard_normal(4200))[200:]
        fitted = ANLSRegressor(0, loss="squared").fit(x, e)
        low, high = fitted.slope_intervals()[0]
        covered += low <= 0 <= high
        widths.append(high - low)
    # The variance of a mean of AR(0.8) noise is 9 times that of white noise; a slope's is 12 times a mean's.
    expected = 2 * student.ppf(0.975, 1000) * np.sqrt(9 * 12 / 4000)
    assert np.median(widths) == pytest.approx(expected, rel=0.15)
    assert covered >= 16  # at 95 %: fewer has probability 0.3 %


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_correlated_noise_is_not_taken_for_a_break(rho: float) -> None:
    """60 series of 50 points: at 5 % more than 8 has probability 0.4 % (a white null: 46, 81 %)."""
    found = 0
    for seed in range(60):
        rng = np.random.default_rng([11, seed])
        e = lfilter([1.0], [1.0, -rho], np.sqrt(1 - rho**2) * rng.standard_normal(250))[200:]
        found += ANLSRegressor(0, loss="squared").fit(np.arange(50.0), e).break_test() <= 0.05
    assert found <= 8


def test_a_break_is_found_where_there_is_one_and_not_in_noise() -> None:
    assert ANLSRegressor(0).fit(X, Y).break_test() <= 0.01
    rng = np.random.default_rng(1)
    shares = [ANLSRegressor(0).fit(X, rng.standard_normal(120)).break_test() for _ in range(40)]
    assert sum(p <= 0.05 for p in shares) <= 6  # at 5 %: more has probability 1 %
    assert np.mean(shares) == pytest.approx(0.5, abs=0.15)


def test_the_summary_is_a_table_to_paste(model: ANLSRegressor) -> None:
    summary = model.summary()
    text = str(summary)
    assert text.startswith("2 straight pieces, 1 knot, 120 points")
    assert "95 % interval" in text
    assert "(proved)" in text
    assert summary.knots[0]["low"] < 4 < summary.knots[0]["high"]
    assert summary.knots[0]["p"] == 0.001
    assert summary.noise == pytest.approx(0.2, rel=0.2)
    assert summary.to_dict()["pieces"][0]["slope"] == model.slopes_[0]
    frame = model.to_frame()
    assert list(frame["slope"]) == list(model.slopes_)
    assert model.optimal_ is True


def test_formulas_are_the_function(model: ANLSRegressor) -> None:
    for fitted in (model, ANLSRegressor(1).fit(X + 1e6, Y)):
        code = fitted.formula("python")
        x = X if fitted is model else X + 1e6
        value = eval(code, {"np": np, "x": x})
        np.testing.assert_allclose(value, fitted.predict(x), atol=1e-6)
    assert model.formula().startswith("y = ")
    assert r"\max(0,\, x - " in model.formula("latex")


def test_vectors_series_frames_and_columns_are_the_same(model: ANLSRegressor) -> None:
    frame = pd.DataFrame({"dose": X, "response": Y})
    for x, y in (
        (X[:, None], Y),
        (list(X), list(Y)),
        (frame["dose"], frame["response"]),
        (frame[["dose"]], Y),
    ):
        other = ANLSRegressor(1).fit(x, y)
        assert other.pieces_ == model.pieces_
        np.testing.assert_array_equal(other.predict(x), model.predict(X))
    assert ANLSRegressor(1).fit(frame["dose"], Y).x_name_ == "dose"


def test_dates_come_back_as_dates() -> None:
    start = np.datetime64("2024-01-01")
    days = start + np.arange(120)
    y = np.abs(np.arange(120) - 50.0)
    kinds: list[Any] = [
        days,
        pd.Series(days),
        pd.Series(pd.to_datetime(days).tz_localize("UTC")),
        [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(120)],
    ]
    for x in kinds:
        fitted = ANLSRegressor().fit(x, y)
        assert fitted.knots_[0] == np.datetime64("2024-02-20")
        np.testing.assert_allclose(fitted.slopes_, [-1, 1], atol=1e-9)
        np.testing.assert_allclose(fitted.predict(x), y, atol=1e-9)
    with pytest.raises(InvalidInputError, match="must be dates as in the fit, got numbers"):
        fitted.predict([1.0])
    jump = StepRegressor().fit(days, np.where(days < np.datetime64("2024-03-01"), 0.0, 1.0))
    assert np.datetime64("2024-02-29") <= jump.jumps_[0] <= np.datetime64("2024-03-01")


def test_rows_with_holes_are_dropped_if_that_is_asked_for(model: ANLSRegressor) -> None:
    x, y = np.append(X, [np.nan, 3.0]), np.append(Y, [1.0, np.nan])
    dropped = ANLSRegressor(1, missing="drop").fit(x, y)
    assert dropped.pieces_ == model.pieces_
    assert "2 rows without a value left out." in dropped.notes_
    assert len(dropped.outliers_) == 122
    with pytest.raises(ValueError, match="NaN"):
        ANLSRegressor(1).fit(x, y)


def test_beyond_the_data(model: ANLSRegressor) -> None:
    assert model.predict([20.0])[0] == pytest.approx(model.predict([10.0])[0] + 10 * model.slopes_[-1])
    flat = ANLSRegressor(1, extrapolation="constant").fit(X, Y)
    assert flat.predict([20.0])[0] == flat.predict([10.0])[0]
    with pytest.raises(InvalidInputError, match="must lie in the range"):
        ANLSRegressor(1, extrapolation="error").fit(X, Y).predict([20.0])
    steep = np.where(X > 9.7, 50 * (X - 9.7), 0.0)
    short = ANLSRegressor(1, loss="squared").fit(X, steep + 0.01 * Y)
    assert any("last piece rests on" in note for note in short.notes_)


def test_precisions_are_scaled_and_small_weights_are_questioned() -> None:
    w = np.full(120, 1e-4)
    assert ANLSRegressor(weights="precision").fit(X, Y, sample_weight=w).n_knots_ == 1
    questioned = ANLSRegressor().fit(X, Y, sample_weight=w)
    assert any("weights='precision'" in note for note in questioned.notes_)


def test_a_picture_on_an_axis_or_in_a_file(model: ANLSRegressor, tmp_path: Any) -> None:
    axis = model.plot()
    assert next(text.get_text() for text in axis.get_legend().get_texts()) == "data"
    model.plot(path=tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 5000
    with pytest.raises(InvalidInputError, match="must end in"):
        model.plot(path=tmp_path / "fit.pdf")


def test_slopes_beside_a_weak_kink_reach_over_all_its_places() -> None:
    """With the knot at any place of its set, the slope by plain least squares lies within its interval."""
    rng = np.random.default_rng(8)
    x = np.sort(rng.uniform(0, 1, 100))
    y = x - 0.7 * np.maximum(x - 0.4, 0) + 0.2 * rng.standard_normal(100)
    weak = ANLSRegressor(1).fit(x, y)
    low, high = weak.knot_intervals()[0]
    intervals = weak.slope_intervals()
    for place in np.linspace(low, high, 9)[1:-1]:
        design = np.stack([np.ones(100), x, np.maximum(x - place, 0)], axis=1)
        best = np.linalg.lstsq(design, y)[0]
        assert intervals[0, 0] <= best[1] <= intervals[0, 1]
        assert intervals[1, 0] <= best[1] + best[2] <= intervals[1, 1]


def test_the_path_is_drawn_and_names_come_from_series(model: ANLSRegressor, tmp_path: Any) -> None:
    axis = model.plot_path(path=tmp_path / "path.png")
    assert (tmp_path / "path.png").stat().st_size > 1000
    numbers, values = axis.get_lines()[0].get_data()
    assert list(numbers) == [row.n_knots for row in model.path_ if np.isfinite(row.criterion)]
    assert numbers[np.argmin(values)] == model.n_knots_
    table = pd.DataFrame({"dose": [0.0, 1.0, np.nan, 2.0, 3.0], "response": [0.0, 1.0, 1.5, 1.0, 0.0]})
    named = ANLSRegressor(1, missing="drop").fit(table[["dose"]], table["response"])
    drawn = named.plot()
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("dose", "response")
    with pytest.raises(InvalidInputError, match="path_: is empty"):
        ANLSRegressor(2, search="anls").fit([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 1.0]).plot_path()
