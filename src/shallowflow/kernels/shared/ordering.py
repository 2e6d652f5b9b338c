"""The order of numbers that move a little from step to step."""

from __future__ import annotations

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL


@njit(cache=True, **INTERNAL)
def sort_order(values: Floats, order: Ints) -> None:
    """Make `order` (n,) sort the values (n,), in place; fast if it nearly does."""
    for p in range(1, order.size):
        moving = order[p]
        q = p
        while q > 0 and values[order[q - 1]] > values[moving]:
            order[q] = order[q - 1]
            q -= 1
        order[q] = moving
