"""Velocity, loss and one-sided velocities of a stage against sums over all data points."""

import numpy as np
import pytest

from tests.kernels.knots.knot_entries import one_sided_velocities, stage_loss, summarize_blocks, velocity
from tests.kernels.knots.knot_layouts import kernel_arrays
from tests.kernels.knots.knot_reference import Stage

CASES = [(0, 1, 1, 9), (1, 3, 40, 9), (2, 25, 10, 9), (3, 30, 200, 1), (4, 12, 60, 1), (5, 40, 300, 9)]


@pytest.mark.parametrize(("seed", "width", "size", "decimals"), CASES)
def test_velocity_and_loss_equal_the_plain_sums(seed: int, width: int, size: int, decimals: int) -> None:
    stage = Stage.random(seed, width, size, held=0.2, decimals=decimals)
    sums, rate = np.zeros((2, width)), np.zeros((2, width))
    rates = (0.3, 1.7)
    state, arranged, order = kernel_arrays(stage, seed, rates)
    live = arranged.live
    velocity(state, arranged, sums, rate)
    expected = -(np.repeat(rates, width) * stage.gradient()).reshape(2, width)[:, order]
    scale = 1 + np.abs(stage.residual()).sum() * (1 + np.abs(stage.outer).max())
    np.testing.assert_allclose(rate, expected, atol=1e-13 * scale)
    np.testing.assert_allclose(
        sums[0, :live], (stage.residual() @ stage.active)[order][:live], atol=1e-13 * scale
    )
    assert stage_loss(state, arranged) == pytest.approx(0.5 * (stage.residual() ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("decimals", [1, 9])
def test_one_sided_velocities_equal_sums_with_and_without_the_point(decimals: int) -> None:
    for seed in range(10):
        stage = Stage.random(seed, 15, 30, held=0.6, decimals=decimals)
        state, arranged, order = kernel_arrays(stage, seed, (0.5, 1.0))
        sums, rate, sides = np.zeros((2, 15)), np.zeros((2, 15)), np.full((2, 15), np.nan)
        velocity(state, arranged, sums, rate)
        one_sided_velocities(state, arranged, sums[0], sides)
        for j in range(arranged.live):
            if arranged.layout[1, j] >= 0:
                left, right = stage.one_sided(int(order[j]), state[0, j])
                np.testing.assert_allclose(sides[:, j], [0.5 * left, 0.5 * right], atol=1e-11)
            else:
                assert np.isnan(sides[:, j]).all()


def test_only_changed_blocks_are_summarized_again() -> None:
    stage = Stage.random(7, 20, 80)
    _, arranged, _ = kernel_arrays(stage, 0)
    fresh, live, layout = arranged.blocks.copy(), arranged.live, arranged.layout
    spans, blocks = np.full((2, 21), -1), np.zeros((6, 21))
    arranged = arranged._replace(blocks=blocks)
    summarize_blocks(arranged, spans)
    np.testing.assert_array_equal(blocks[:, :live], fresh[:, :live])
    middle = live // 2
    layout[0, middle:live] = np.minimum(layout[0, middle:live] + 1, stage.x.size - 1)
    blocks[0, 0] = -1.0
    summarize_blocks(arranged, spans)
    assert blocks[0, 0] == -1.0
    blocks[0, 0] = fresh[0, 0]
    again = np.zeros((6, 21))
    summarize_blocks(arranged._replace(blocks=again), np.full((2, 21), -1))
    np.testing.assert_array_equal(blocks[:, :live], again[:, :live])


def test_dead_networks_have_the_loss_of_zero() -> None:
    stage = Stage.random(3, 4, 9)
    stage.knots += 5.0
    stage.active[:] = False
    state, arranged, _ = kernel_arrays(stage)
    assert arranged.live == 0
    assert stage_loss(state, arranged) == pytest.approx(0.5 * (stage.y**2).sum(), rel=1e-14)
    rate = np.zeros((2, 4))
    velocity(state, arranged, np.zeros((2, 4)), rate)
    assert not rate.any()
