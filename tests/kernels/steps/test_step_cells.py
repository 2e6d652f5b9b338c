"""The table of cells beside a direct classification of every cell."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.kernels.steps import cells as kernel
from shallowflow.kernels.steps.cells import PIECE_BITS, new_cells
from tests.kernels.entry import entry

CELLS = 64
refill, undisturbed = entry(kernel.refill), entry(kernel.undisturbed)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([0.0, 0.01, 0.1, 0.4]))
def test_codes_tell_plateau_and_piece(seed: int, width: int, eta: float) -> None:
    rng = np.random.default_rng(seed)
    u, breaks = np.sort(rng.uniform(-0.2, 1.2, width)), np.sort(rng.random(3))
    breaks[0] = 0.25  # on the edge of a cell
    breaks.sort()
    cells = new_cells(u, eta / 2, breaks, CELLS)
    codes, whole = cells.codes, cells.codes.copy()
    codes[:] = -7
    middle = int(rng.integers(0, CELLS))
    refill(cells, -5, middle)
    refill(cells, middle + 1, CELLS + 5)
    np.testing.assert_array_equal(codes, whole)
    for cell in range(CELLS):
        x = (cell + rng.random(50)) / CELLS
        if codes[cell] >= 0:
            assert np.all(np.abs(x[:, None] - u) >= eta / 2)
            np.testing.assert_array_equal((x[:, None] > u).sum(axis=1), codes[cell] >> PIECE_BITS)
            np.testing.assert_array_equal(
                np.searchsorted(breaks, x, side="right"), codes[cell] & ((1 << PIECE_BITS) - 1)
            )
        else:
            left, right = cell / CELLS, (cell + 1) / CELLS
            touched = np.any((u + eta / 2 >= left) & (u - eta / 2 <= right))
            assert touched or np.any((breaks > left) & (breaks < right))
            first = -1 - codes[cell]
            assert np.all(u[:first] + eta / 2 <= left)
            assert np.all(u[first:] + eta / 2 >= left)


def test_order_and_cells_of_a_moved_neuron() -> None:
    def holds(now: float) -> bool:
        return bool(undisturbed(np.array([0.1, now, 0.7]), 1, 0.405, 0.05, 10))

    assert [holds(x) for x in (0.405, 0.44, 0.449)] == [True, True, True]
    # A window's edge in another cell (0.35, 0.45 are the edges of the windows), a neighbour passed.
    assert [holds(x) for x in (0.46, 0.34, 0.05, 0.75)] == [False, False, False, False]
    ends = np.array([-0.5, 1.5])
    assert undisturbed(ends, 0, -0.9, 0.05, 10)
    assert undisturbed(ends, 1, 2.0, 0.05, 10)
