"""Arrays of kernels: begun at a cache line, or kept in order while their values move a little."""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL


def aligned(values: Floats) -> Floats:
    """Return a copy that begins at a cache line: no vector of it straddles two."""
    space = np.empty(values.size + 8)
    first = -space.ctypes.data % 64 // 8
    copy = space[first : first + values.size].reshape(values.shape)
    copy[...] = values
    return copy


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
