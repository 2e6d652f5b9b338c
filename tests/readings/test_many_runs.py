"""Thresholds and slopes: recovered from data made with known ones."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.readings.curves import Threshold, exponent, log_slope, misfits, slope, threshold


def test_a_known_threshold_lies_in_its_interval() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(np.arange(50.0, 151.0, 10.0), 40)
    p = 1 / (1 + np.exp((x - 97.0) / 8.0))
    found = threshold(x, (rng.random(len(x)) < p).astype(float))
    assert found is not None
    assert found.low < 97.0 < found.high
    assert found.high - found.low < 12
    assert found.width == pytest.approx(8.0, rel=0.3)
    assert found(np.array([found.middle]))[0] == pytest.approx(0.5)


def test_separated_successes_put_the_threshold_between_them() -> None:
    x = np.repeat([10.0, 20.0, 30.0, 40.0], 5)
    found = threshold(x, (x < 25).astype(float))
    assert found is not None
    assert 20 < found.middle < 30
    assert threshold(x, np.ones(20)) is None


def test_a_power_law_is_recovered_with_its_error() -> None:
    rng = np.random.default_rng(1)
    x = np.repeat([100.0, 200.0, 400.0, 800.0], 30)
    y = 3 * x**-0.7 * rng.lognormal(0.0, 0.2, len(x))
    found = slope(x, y)
    assert found.covers(-0.7)
    assert found.high - found.low < 0.15
    np.testing.assert_allclose(found(np.array([100.0])), 3 * 100**-0.7, rtol=0.1)


def test_the_power_of_thresholds_has_the_interval_of_their_errors() -> None:
    x = np.array([10.0, 20.0, 40.0])
    sharp = [Threshold(v**1.5, 0.99 * v**1.5, 1.01 * v**1.5, 1.0) for v in x]
    vague = [Threshold(v**1.5, 0.5 * v**1.5, 2.0 * v**1.5, 1.0) for v in x]
    found = exponent(x, sharp)
    assert found.value == pytest.approx(1.5)
    assert not found.covers(1.0)
    assert exponent(x, vague).covers(1.0)


def test_the_logistic_fit_is_that_of_scikit_learn() -> None:
    """C = 1/RIDGE on the standardised x is the same penalised likelihood."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    x = np.repeat(np.arange(20.0, 120.0, 7.0), 9)
    success = (rng.random(len(x)) < 1 / (1 + np.exp((x - 60.0) / 11.0))).astype(float)
    found = threshold(x, success)
    spread, centre = x.std(), x.mean()
    peer = LogisticRegression(C=1 / 1e-2, tol=1e-10, max_iter=1000).fit(
        ((x - centre) / spread)[:, None], success
    )
    slope_, offset = float(peer.coef_[0, 0]), float(peer.intercept_[0])
    assert found is not None
    assert found.middle == pytest.approx(centre - spread * offset / slope_, rel=1e-6)
    assert found.width == pytest.approx(-spread / slope_, rel=1e-6)


def test_the_slope_of_a_power_is_its_exponent() -> None:
    x = np.geomspace(1.0, 1e3, 7)
    assert log_slope(x, 5 * x**1.25) == pytest.approx(1.25)


@pytest.mark.parametrize("kind", ["power", "logarithm"])
def test_the_misfit_is_least_for_the_law_behind_the_thresholds(kind: str) -> None:
    x = np.array([10.0, 30.0, 100.0, 300.0])
    values = 5 * x**0.8 if kind == "power" else 20 + 30 * np.log(x)
    power, logarithm = misfits(x, [Threshold(v, 0.98 * v, 1.02 * v, 1.0) for v in values])
    right, wrong = (power, logarithm) if kind == "power" else (logarithm, power)
    assert right < 1e-6
    assert wrong > 4
