"""The list of crossings of samples by knots that the descent engines write."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

NO_EVENTS: IntArray = np.empty((0, 4), dtype=np.int64)


@njit(cache=True)
def record_crossings(events: IntArray, step: int, neuron: int, old: int, new: int) -> None:
    """Write the crossings of one knot on its way from gap `old` to gap `new` into the free rows `events`."""
    direction = 1 if new > old else -1
    sample = old if new > old else old - 1
    for i in range(min(abs(new - old), events.shape[0])):
        events[i, 0] = step
        events[i, 1] = neuron
        events[i, 2] = sample + direction * i
        events[i, 3] = direction
