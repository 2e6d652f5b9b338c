"""The hierarchy of hat functions beside the plateau values written out."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.kernels.steps.hats import BLOCK, FAN, add_ramp, hats, swap, weights

WIDTH = 2 * BLOCK + 100


def start() -> tuple[Floats, tuple[Floats, Floats, Floats], tuple[Floats, Floats]]:
    a = np.random.default_rng(0).normal(size=WIDTH + 1)
    levels = hats(a)
    return a, levels, (np.arange(float(levels[0].size)), np.arange(float(FAN)))


def test_weights_are_stored_and_read() -> None:
    a, levels, _ = start()
    np.testing.assert_allclose(weights(*levels, WIDTH), a, atol=1e-12)


@pytest.mark.parametrize("place", [1.0, 31.6, 32.0, 33.0, BLOCK - 0.3, BLOCK, BLOCK + 40.25, WIDTH + 1.0])
def test_a_ramp_is_added(place: float) -> None:
    a, levels, rulers = start()
    add_ramp(*levels, rulers, float(place), 0.7)
    plateaus = np.cumsum(a) + 0.7 * np.minimum(np.arange(1, WIDTH + 2), place)
    np.testing.assert_allclose(np.cumsum(weights(*levels, WIDTH)), plateaus, atol=1e-10)


@pytest.mark.parametrize("slot", [0, FAN - 2, FAN - 1, BLOCK - 3, BLOCK - 2, BLOCK - 1, WIDTH - 2])
def test_a_swap_exchanges_two_weights(slot: int) -> None:
    a, levels, rulers = start()
    u, labels = np.linspace(0, 1, WIDTH), np.arange(WIDTH)
    expected = a.copy()
    expected[[slot + 1, slot + 2]] = a[[slot + 2, slot + 1]]
    swap(u, labels, *levels, rulers, slot)
    np.testing.assert_allclose(weights(*levels, WIDTH), expected, atol=1e-10)
    assert labels[slot] == slot + 1
    assert u[slot] > u[slot + 1]
