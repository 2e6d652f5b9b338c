import numpy as np
import pytest

from shallowflow.estimators.points import merged_points, squared_errors, values
from tests.estimators.least_squares import features, half_loss


@pytest.mark.parametrize("line", [True, False])
def test_the_fit_for_given_knots_is_that_of_plain_least_squares(line: bool) -> None:
    rng = np.random.default_rng(3)
    x, y, weights = rng.uniform(0, 2, 40), rng.standard_normal(40), rng.uniform(0.1, 2, 40)
    points = merged_points(x, y, weights, free_left=line)
    knots = np.sort(rng.uniform(0.1, 1.9, 6))
    loss, lines = points.fit(knots)
    original = points.low + points.half * knots
    expected = half_loss(x, y, original, weights, line=line)
    assert points.half_sums(np.array([loss]))[0] == pytest.approx(expected, rel=1e-10)
    root = np.sqrt(weights)
    matrix = features(x, original, line=line)
    best = np.linalg.lstsq(matrix * root[:, None], y * root)[0]
    fitted = points.centre + points.scale * values(knots, lines, (x - points.low) / points.half)
    np.testing.assert_allclose(fitted, matrix @ best, rtol=1e-9, atol=1e-9)


def test_errors_elsewhere_are_those_of_the_training_fit() -> None:
    rng = np.random.default_rng(4)
    x, y = np.arange(20.0), rng.standard_normal(20)
    points = merged_points(x, y, np.ones(20), free_left=True)
    out = np.arange(20) % 5 == 2
    knots = np.array([0.8])
    errors = squared_errors(knots, points.part(~out), points.part(out))
    place = points.half * knots
    best = np.linalg.lstsq(features(x[~out], place, line=True), y[~out])[0]
    expected = ((features(x[out], place, line=True) @ best - y[out]) / points.scale) ** 2
    np.testing.assert_allclose(errors, expected, rtol=1e-9)
