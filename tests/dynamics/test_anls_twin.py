"""Least squares per candidate against exact rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.landscape.plateau.moves import best_loss
from tests.dynamics.engines.anls_twin import losses_of_candidates
from tests.landscape.plateau.exact_losses import exact_loss, exact_losses_after, relu_columns


@pytest.mark.parametrize("seed", range(6))
def test_losses_equal_exact_ones(seed: int) -> None:
    """Random data and knots on a grid of 1/64: with repeated inputs, equal, dead and idle knots."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 64, 14) / 64
    y = rng.integers(-64, 64, 14) / 64
    knots = np.sort(rng.integers(-16, 72, 6) / 64 + 1 / 128)
    if seed % 2:
        knots[2] = knots[1]
    assert best_loss(knots, x, y) == pytest.approx(float(exact_loss(relu_columns(knots, x), y)), rel=1e-11)
    moves, losses = losses_of_candidates(knots, x, y)
    expected = exact_losses_after([(m.neuron, m.position) for m in moves], knots, x, y)
    assert len(moves) >= 2
    np.testing.assert_allclose(losses, expected, rtol=1e-9, atol=1e-15)


def test_without_living_knots_the_loss_is_that_of_zero() -> None:
    x, y = np.array([0.0, 1.0]), np.array([3.0, 4.0])
    moves, losses = losses_of_candidates(np.array([2.0]), x, y)
    assert moves == []
    assert losses.shape == (0,)
    assert best_loss(np.array([2.0]), x, y) == 25.0
