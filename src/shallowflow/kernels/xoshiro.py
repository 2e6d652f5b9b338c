"""The random numbers of the stochastic kernels: xoshiro256++ [Blackman & Vigna 2021], two nanoseconds each.

The state, four 64-bit words, is seeded by NumPy's `SeedSequence`, and travels as four scalars so that it
stays in registers. `uniform` returns a number of [0, 1) with 53 random bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]
UNIT = 2.0**-53


def seeded(seed: np.random.SeedSequence) -> Words:
    """Return a state (4,)."""
    return np.asarray(seed.generate_state(4, np.uint64), dtype=np.uint64)


@njit(cache=True)
def uniform(
    s0: np.uint64, s1: np.uint64, s2: np.uint64, s3: np.uint64
) -> tuple[float, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the next number and the next state."""
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return np.float64(word >> np.uint64(11)) * UNIT, s0, s1, s2, s3
