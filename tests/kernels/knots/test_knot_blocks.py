"""Block summaries against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.knots.stage import summarize
from tests.kernels.knots.knot_entries import block_statistics


def exact_summary(x: list[float], y: list[float]) -> list[Fraction]:
    """(u, μ, ȳ, S, a, Q) of a set of points, exactly."""
    xs, ys = [Fraction(v) for v in x], [Fraction(v) for v in y]
    count = len(xs)
    centre, mean = sum(xs) / Fraction(count), sum(ys) / Fraction(count)
    spread = sum(((v - centre) ** 2 for v in xs), Fraction(0))
    moment = sum(((v - centre) * (w - mean) for v, w in zip(xs, ys, strict=True)), Fraction(0))
    slope = moment / spread if spread else Fraction(0)
    scatter = sum(((w - mean - slope * (v - centre)) ** 2 for v, w in zip(xs, ys, strict=True)), Fraction(0))
    return [Fraction(count), centre, mean, spread, slope, scatter]


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_narrow_blocks_far_from_the_origin_keep_all_their_digits(offset: float) -> None:
    rng = np.random.default_rng(0)
    x = np.sort(offset + rng.uniform(0, 1, 1000))
    y = np.sin(3 * (x - offset)) + 1e-3 * rng.normal(size=1000)
    starts, tree, _ = summarize(x, y)
    assert starts.tolist() == list(range(1000))
    summary = np.empty(6)
    for first, last in [(0, 1000), (3, 4), (500, 502), (17, 29), (700, 999), (1, 513)]:
        block_statistics(tree, first, last, summary)
        exact = exact_summary(x[first:last].tolist(), y[first:last].tolist())
        assert summary[0] == exact[0]
        # A centre is known to a rounding of x; beside the block's width this is all that can be lost.
        rounding = 2.3e-16 * (1 + offset)
        assert abs(summary[1] - float(exact[1])) <= 3 * rounding
        lost = 1e-14 + 20 * rounding / max(x[last - 1] - x[first], 1e-3)
        for got, want in zip(summary[2:].tolist(), exact[2:], strict=True):
            assert abs(got - float(want)) <= lost * float(abs(want)) + 1e-28


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    x=st.lists(st.integers(-8, 8), min_size=1, max_size=20),
    seed=st.integers(0, 999),
    bounds=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_repeated_x_form_one_location(x: list[int], seed: int, bounds: tuple[int, int]) -> None:
    points = np.sort(np.array(x, dtype=float)) / 4
    y = np.random.default_rng(seed).integers(-9, 9, points.size) / 8.0
    starts, tree, _ = summarize(points, y)
    assert points[starts].tolist() == np.unique(points).tolist()
    assert starts.tolist() == np.searchsorted(points, np.unique(points)).tolist()
    first, last = min(*bounds, starts.size), min(max(bounds), starts.size)
    summary = np.full(6, np.nan)
    block_statistics(tree, first, last, summary)
    begin = starts[first] if first < starts.size else points.size
    end = starts[last] if last < starts.size else points.size
    if begin == end:
        assert summary.tolist() == [0.0] * 6
        return
    exact = exact_summary(points[begin:end].tolist(), y[begin:end].tolist())
    np.testing.assert_allclose(summary, [float(v) for v in exact], rtol=1e-12, atol=1e-13)
    if last == first + 1:
        assert summary[3] == summary[4] == 0.0
