from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.kernels.fitting import chain
from shallowflow.kernels.fitting.chain import Data
from tests.kernels.entry import entry
from tests.kernels.fitting.exact_least_squares import fractions

block_of, zero_block = entry(chain.block_of), entry(chain.zero_block)
block_with, block_without = entry(chain.block_with), entry(chain.block_without)


def exact_block(x: Floats, y: Floats, w: Floats) -> list[float]:
    p, q, v = fractions(x), fractions(y), fractions(w)
    weight = sum(v, Fraction(0))
    mean_x = sum((a * b for a, b in zip(v, p, strict=True)), Fraction(0)) / weight
    mean_y = sum((a * b for a, b in zip(v, q, strict=True)), Fraction(0)) / weight
    sxx = sum((a * (b - mean_x) ** 2 for a, b in zip(v, p, strict=True)), Fraction(0))
    sxy = sum((a * (b - mean_x) * (c - mean_y) for a, b, c in zip(v, p, q, strict=True)), Fraction(0))
    slope = sxy / sxx if sxx else Fraction(0)
    rest = sum(
        (a * (c - mean_y - slope * (b - mean_x)) ** 2 for a, b, c in zip(v, p, q, strict=True)), Fraction(0)
    )
    return [float(value) for value in (weight, mean_x, mean_y, sxx, sxy, rest)]


def random_data(m: int, offset: float, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    x = offset + np.sort(rng.uniform(0.0, 1.0, m))
    return Data(x, np.sin(3.0 * x) + 1e-3 * rng.normal(size=m), rng.uniform(0.5, 2.0, m), 1)


@pytest.mark.parametrize("size", [1, 2, 3, 40])
def test_a_block_has_the_exact_statistics_far_from_the_origin(size: int) -> None:
    # The means are rounded at 100; centred sums, and above all the small Q, must not feel it.
    data = random_data(size + 2, 100.0, size)
    block = block_of(data, 1, size + 1)
    exact = exact_block(*(a[1 : size + 1] for a in data[:3]))
    np.testing.assert_allclose(block, exact, rtol=1e-11, atol=1e-28)
    if size <= 2:
        assert block[5] == 0.0
    if size == 1:
        assert block[3] == 0.0


def test_the_zero_line_costs_the_weighted_squares() -> None:
    data = random_data(20, 0.0, 0)
    assert zero_block(data, 7)[5] == pytest.approx(float((data[2] * data[1] ** 2)[:7].sum()), rel=1e-14)
    assert zero_block(data, 7)[0] == 0.0


@pytest.mark.parametrize("size", [5, 9, 60])
def test_adding_and_removing_an_end_point_restates_the_block(size: int) -> None:
    data = random_data(size, 2.0, size)
    whole, first, last = (
        block_of(data, 0, size),
        block_of(data, 0, size - 1),
        block_of(data, 1, size),
    )
    np.testing.assert_allclose(block_with(data, first, 0, size, size - 1), whole, rtol=1e-12)
    np.testing.assert_allclose(block_with(data, last, 0, size, 0), whole, rtol=1e-12)
    np.testing.assert_allclose(block_without(data, whole, 0, size - 1, size - 1), first, rtol=1e-11)
    np.testing.assert_allclose(block_without(data, whole, 1, size, 0), last, rtol=1e-11)


def test_removing_a_point_that_holds_the_block_does_not_cancel() -> None:
    # Twenty points within 1e-6 and one at distance 1: S_xx falls by a factor of 1e12 when that one leaves.
    data = random_data(21, 0.0, 3)
    x, y, w, _ = data
    x[:20] *= 1e-6
    x[20] = 1.0
    block = block_without(data, block_of(data, 0, 21), 0, 20, 20)
    np.testing.assert_allclose(block, exact_block(x[:20], y[:20], w[:20]), rtol=1e-11)


def test_all_blocks_follow_the_knots() -> None:
    data = random_data(12, 0.0, 4)
    starts = np.array([2, 2, 7])
    fill_blocks, blocks = entry(chain.fill_blocks), np.empty((4, 6))
    fill_blocks(data, starts, blocks)
    expected = [block_of(data, a, b) for a, b in [(0, 2), (2, 2), (2, 7), (7, 12)]]
    np.testing.assert_array_equal(blocks, np.array(expected))
    fill_blocks(data._replace(free_left=0), starts, blocks)
    np.testing.assert_array_equal(blocks[0], zero_block(data, 2))
    fill_blocks(data, starts[:0], blocks)
    np.testing.assert_array_equal(blocks[0], block_of(data, 0, 12))
