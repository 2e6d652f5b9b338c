"""The hierarchy of hat functions beside the plateau values written out."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.steps import cells
from shallowflow.kernels.steps.cells import BLOCK, FAN, Hats, hat_weights
from tests.kernels.entry import entry

WIDTH = 2 * BLOCK + 100
swap = entry(cells.swap_hats)


@njit(cache=False)
def add_ramp(neurons: Hats, place: float, amount: float) -> None:
    cells.add_ramp(neurons, place, amount)


def start() -> tuple[Floats, Hats]:
    a = np.random.default_rng(0).normal(size=WIDTH + 1)
    return a, cells.new_hats(np.linspace(0, 1, WIDTH), np.arange(WIDTH), a)


def test_weights_are_stored_and_read() -> None:
    a, neurons = start()
    np.testing.assert_allclose(hat_weights(neurons), a, atol=1e-12)


@pytest.mark.parametrize("place", [1.0, 31.6, 32.0, 33.0, BLOCK - 0.3, BLOCK, BLOCK + 40.25, WIDTH + 1.0])
def test_a_ramp_is_added(place: float) -> None:
    a, neurons = start()
    add_ramp(neurons, float(place), 0.7)
    plateaus = np.cumsum(a) + 0.7 * np.minimum(np.arange(1, WIDTH + 2), place)
    np.testing.assert_allclose(np.cumsum(hat_weights(neurons)), plateaus, atol=1e-10)


@pytest.mark.parametrize("slot", [0, FAN - 2, FAN - 1, BLOCK - 3, BLOCK - 2, BLOCK - 1, WIDTH - 2])
def test_a_swap_exchanges_two_weights(slot: int) -> None:
    a, neurons = start()
    expected = a.copy()
    expected[[slot + 1, slot + 2]] = a[[slot + 2, slot + 1]]
    swap(neurons, slot)
    np.testing.assert_allclose(hat_weights(neurons), expected, atol=1e-10)
    assert neurons.labels[slot] == slot + 1
    assert neurons.u[slot] > neurons.u[slot + 1]
