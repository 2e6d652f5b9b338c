import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import merged_points, squared_errors, values
from tests.estimators.least_squares import features, half_loss

rows = st.lists(
    st.tuples(st.integers(-5, 5), st.integers(-9, 9), st.integers(0, 3)), min_size=1, max_size=12
).filter(lambda table: any(weight for _, _, weight in table))


def columns(table: list[tuple[int, int, int]]) -> tuple[Floats, Floats, Floats]:
    x, y, weights = np.array(table, dtype=np.float64).T
    return x, y, weights


@settings(deadline=None, derandomize=True, max_examples=60)
@given(table=rows, free_left=st.booleans(), slope=st.integers(-3, 3), offset=st.integers(-3, 3))
def test_sums_of_squares_are_those_of_the_rows(
    table: list[tuple[int, int, int]], free_left: bool, slope: int, offset: int
) -> None:
    x, y, weights = columns(table)
    points = merged_points(x, y, weights, free_left=free_left)
    expected = 0.5 * np.sum(weights * (offset + slope * x - y) ** 2)
    original = offset + slope * (points.low + points.half * points.x)
    unit = np.sum(points.w * ((original - points.centre) / points.scale - points.y) ** 2)
    assert points.half_sums(np.array(unit)) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert np.all(np.diff(points.x) > 0)
    assert points.x[0] == 0
    assert points.x[-1] in (0, 2)
    assert np.abs(points.y).max() <= 1
    assert points.w.max() == 1
    if not free_left:
        assert points.centre == 0


@settings(deadline=None, derandomize=True, max_examples=30)
@given(table=rows, seed=st.integers(0, 9))
def test_the_order_of_the_rows_does_not_matter(table: list[tuple[int, int, int]], seed: int) -> None:
    shuffled = [table[i] for i in np.random.default_rng(seed).permutation(len(table))]
    first = merged_points(*columns(table), free_left=True)
    second = merged_points(*columns(shuffled), free_left=True)
    for name in ("x", "y", "w", "scatter"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.size == second.size


def test_weights_count_as_so_many_rows() -> None:
    x, y = np.arange(7.0), np.arange(7.0) ** 2
    assert merged_points(x, y, np.full(7, 3.0), free_left=True).size == 21
    assert merged_points(x, y, np.array([5.0, 0, 0, 0, 0, 0, 5.0]), free_left=True).size == 10


def test_parts_keep_their_share_of_the_scatter() -> None:
    points = merged_points(np.array([0.0, 0, 1, 1]), np.array([0.0, 2, 5, 9]), np.ones(4), free_left=True)
    first = points.part(np.array([True, False]))
    assert first.half_sums(np.zeros(1)) == pytest.approx([0.5 * 2.0])
    assert points.half_sums(np.zeros(1)) == pytest.approx([0.5 * (2.0 + 8.0)])


def test_coarser_points_keep_the_sums_of_a_constant() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 1, 103), rng.standard_normal(103)
    points = merged_points(x, y, rng.uniform(0.5, 2, 103), free_left=True)
    coarse = points.coarser(20)
    assert len(coarse.x) == 18  # groups of six, the last one smaller
    assert coarse.w.sum() == pytest.approx(points.w.sum())
    for level in (-0.3, 0.0, 0.7):
        whole = np.sum(points.w * (level - points.y) ** 2) + points.scatter.sum()
        merged = np.sum(coarse.w * (level - coarse.y) ** 2) + coarse.scatter.sum()
        assert merged == pytest.approx(whole, rel=1e-12)
    assert points.coarser(103) is points


def test_lines_come_back_in_the_original_units_without_idle_knots() -> None:
    x = np.array([10.0, 12.0, 14.0])
    points = merged_points(x, np.array([1.0, 5.0, 3.0]), np.ones(3), free_left=True)
    # Knots at 11 (no turn), 12 and, dead, 14; lines as (centre, height, slope) on the unit scale.
    knots = np.array([0.5, 1.0, 2.0])
    lines = np.array([[0.0, -1.0, 2.0], [0.5, 0.0, 2.0], [1.0, 1.0, -1.0], [2.0, 0.0, -1.0]])
    pieces = points.pieces(knots, lines)
    np.testing.assert_array_equal(pieces.knots, [12.0])
    np.testing.assert_array_equal(pieces.slopes, [2.0, -1.0])
    np.testing.assert_array_equal(pieces.predict([10.0, 11.0, 12.0, 13.0, 14.0]), [1.0, 3.0, 5.0, 4.0, 3.0])


def test_what_cannot_be_scaled_is_refused() -> None:
    huge, two = np.array([-1e308, 1e308]), np.array([0.0, 1.0])
    with pytest.raises(InvalidInputError, match="X: the range must be finite, got -1e"):
        merged_points(huge, two, np.ones(2), free_left=True)
    with pytest.raises(InvalidInputError, match="y: the range must be finite"):
        merged_points(two, huge, np.ones(2), free_left=True)
    with pytest.raises(InvalidInputError, match="sample_weight: must have a positive entry"):
        merged_points(two, two, np.zeros(2), free_left=True)
    with pytest.raises(InvalidInputError, match="y: squares must not overflow"):
        merged_points(two, np.array([0.0, 1e200]), np.ones(2), free_left=True)
    points = merged_points(np.array([0.0, 1e-300]), np.array([0.0, 1e100]), np.ones(2), free_left=True)
    with pytest.raises(InvalidInputError, match="X: the range must not be tiny"):
        points.pieces(np.empty(0), np.array([[1.0, 0.0, 1.0]]))


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
