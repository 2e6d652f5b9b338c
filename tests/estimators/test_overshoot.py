import numpy as np

from shallowflow.estimators.points import merged_points, values
from shallowflow.estimators.search import LARGEST_VALUE, limit_overshoot


def test_a_spike_around_an_outlier_is_cut() -> None:
    """Between data, knots 10⁻⁹ beyond an outlier make a spike a million times as high as the data."""
    x = np.linspace(0, 2, 21)
    y = np.where(np.arange(21) == 10, 1.0, 0.0)
    points = merged_points(x, y, np.ones(21), free_left=True)
    knots = np.array([0.92, 0.95, 1.0 + 1e-9])
    _, lines = points.fit(knots)
    assert np.abs(values(knots, lines, knots)).max() > 1e6
    kept, loss = limit_overshoot(knots, points)
    assert len(kept) == 3
    assert np.all(np.diff(kept) >= 0)
    expected, lines = points.fit(kept)
    assert loss == expected
    assert np.abs(values(kept, lines, kept)).max() <= LARGEST_VALUE


def test_sane_knots_stay_and_so_does_a_zero_line_far_below_the_data() -> None:
    x = np.linspace(0, 2, 21)
    knots = np.array([-0.5, -0.1, 1.0])
    points = merged_points(x, 100.0 + np.abs(x - 1), np.ones(21), free_left=False)
    kept, _ = limit_overshoot(knots, points)
    np.testing.assert_array_equal(kept, knots)
    assert limit_overshoot(np.empty(0), points)[0].size == 0


X = np.concatenate([np.linspace(0, 0.5, 20), np.linspace(1.5, 2, 20)])


def test_a_gap_is_bridged_by_two_knots_instead_of_one_far_outside() -> None:
    """The two lines meet at x = 1, as far below the data as these reach."""
    knots = np.array([1.0, 2.0])
    steep = merged_points(X, np.where(X < 1, -X, X - 2), np.ones(40), free_left=True)
    _, lines = steep.fit(knots)
    assert abs(values(knots, lines, knots)[0]) > LARGEST_VALUE
    kept, loss = limit_overshoot(knots, steep)
    np.testing.assert_array_equal(kept, [0.5, 1.5])
    assert loss < 1e-25


def test_without_a_spare_knot_the_one_of_least_worth_goes() -> None:
    bent = np.where(X < 1, np.where(X < 0.3, 0.0, -5 * (X - 0.3)), 10 * X - 15)
    points = merged_points(X, bent, np.ones(40), free_left=True)
    knots = np.array([0.1, 0.3, 0.9])  # at 0.1 nothing happens
    kept, loss = limit_overshoot(knots, points)
    np.testing.assert_array_equal(kept, [0.3, 0.5, 1.5])
    assert loss < 1e-25
