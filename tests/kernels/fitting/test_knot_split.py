from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.fitting import chain, sweep
from shallowflow.kernels.fitting.chain import Block, Data
from shallowflow.kernels.fitting.sweep import new_suffixes
from tests.kernels.entry import entry
from tests.kernels.knots.knot_problems import projected_loss, random_curve

block_of, empty_block = entry(chain.block_of), entry(chain.empty_block)
best_place, grown, message_point = entry(sweep.best_place), entry(sweep.grown), entry(sweep.message_point)


@given(seed=st.integers(0, 10**6), m=st.integers(1, 30), mirrored=st.booleans())
@settings(deadline=None, derandomize=True, max_examples=60)
def test_a_block_grown_point_by_point_is_the_block(seed: int, m: int, mirrored: bool) -> None:
    _, x, y, w = random_curve(seed, m, 0)
    block = empty_block()
    for i in range(m)[:: -1 if mirrored else 1]:
        block = grown(block, x[i], y[i], w[i])
    np.testing.assert_allclose(block, block_of(Data(x, y, w, 1), 0, m), rtol=1e-10, atol=1e-13)


def test_an_infinite_weight_is_the_limit_of_large_ones() -> None:
    _, x, y, w = random_curve(3, 12, 0)
    tied, heavy = message_point(-1.5, inf, 0.0), message_point(-1.5, 1e6, 0.0)
    zero_line, heavy_line = Block(inf, 0.0, 0.0, inf, 0.0, 0.0), Block(1e12, 0.0, 0.0, 1e12, 0.0, 0.0)
    for i in range(12):
        tied, heavy = grown(tied, x[i], y[i], w[i]), grown(heavy, x[i], y[i], w[i])
        zero_line, heavy_line = grown(zero_line, x[i], y[i], w[i]), grown(heavy_line, x[i], y[i], w[i])
    np.testing.assert_allclose(tied[1:], heavy[1:], rtol=1e-8, atol=1e-9)
    assert zero_line[5] == pytest.approx(float((w * y * y).sum()), rel=1e-13)
    assert heavy_line[5] == pytest.approx(zero_line[5], rel=1e-9)


def test_two_points_at_one_place_have_a_mean_and_a_rest() -> None:
    block = grown(grown(empty_block(), 0.5, 1.0, 2.0), 0.5, 4.0, 1.0)
    assert block == pytest.approx((3.0, 0.5, 2.0, 0.0, 0.0, 6.0))


@pytest.mark.parametrize("kink", [0.37, 0.5])
def test_a_kink_is_found_between_the_data_and_on_a_datum(kink: float) -> None:
    x = np.linspace(0.0, 1.0, 11)
    data = Data(x, 1.0 - 3.0 * x + 5.0 * np.maximum(x - kink, 0.0), np.ones(11), 1)
    place, start, cost = best_place(data, 0, 11, -1.0, 1.0, empty_block(), empty_block(), new_suffixes(11))
    assert place == pytest.approx(kink, abs=1e-12)
    assert start == np.searchsorted(x, place, side="right")
    assert cost == pytest.approx(0.0, abs=1e-28)


def test_the_cost_is_the_loss_with_the_knot_there() -> None:
    on_data = 0
    for seed in range(20):
        _, x, y, w = random_curve(seed, 12, 0)
        scratch = new_suffixes(12)
        place, _, cost = best_place(
            Data(x, y, w, 1), 0, 12, -2.0, x[-1], empty_block(), empty_block(), scratch
        )
        assert cost == pytest.approx(projected_loss(np.array([place]), x, y, w, 1), rel=1e-9)
        on_data += place in x
    assert 0 < on_data < 20


def test_without_data_on_one_side_there_is_no_place() -> None:
    x = np.array([0.0])
    nothing, scratch = empty_block(), new_suffixes(1)
    assert best_place(Data(x, x, x + 1.0, 1), 0, 1, -1.0, 0.0, nothing, nothing, scratch)[2] == inf
