"""What a fit says: intervals that cover, tests with the right level, habits of analysts, formulas."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from shallowflow.errors import InvalidInputError
from shallowflow.estimators import ANLSRegressor, StepRegressor

X = np.linspace(0, 10, 120)
Y = np.interp(X, [0, 4, 10], [1.0, 5.0, 2.0]) + 0.2 * np.random.default_rng(0).standard_normal(120)


@pytest.fixture(scope="module")
def model() -> ANLSRegressor:
    return ANLSRegressor(1).fit(X, Y)


@pytest.mark.parametrize(("turn", "size"), [(2.0, 60), (0.7, 100)])
def test_sets_of_knots_cover_clear_and_weak_kinks(turn: float, size: int) -> None:
    """40 data sets: fewer than 34 covered has probability 0.3 % at 95 %."""
    held = []
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        x = np.sort(rng.uniform(0, 1, size))
        y = x - turn * np.maximum(x - 0.4, 0) + 0.2 * rng.standard_normal(size)
        low, high = ANLSRegressor(1, certify=False).fit(x, y).knot_intervals()[0]
        held.append(low <= 0.4 <= high)
    assert sum(held) >= 34


def test_without_knots_intervals_are_those_of_a_line() -> None:
    y = X + np.random.default_rng(2).standard_normal(120)
    line = ANLSRegressor(0).fit(X, y)
    design = np.stack([np.ones_like(X), X], axis=1)
    rest = y - design @ np.linalg.lstsq(design, y)[0]
    covariance = rest @ rest / 118 * np.linalg.inv(design.T @ design)
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
