"""xoshiro256++ beside exact integer arithmetic."""

from __future__ import annotations

import numpy as np

from shallowflow.kernels.steps import sgd
from shallowflow.kernels.steps.sgd import Stream, seeded
from tests.kernels.entry import entry

MASK = (1 << 64) - 1
uniform = entry(sgd.uniform)


def rotated(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & MASK


def reference(state: list[int]) -> int:
    """Return the next word of the published generator, in Python's integers; changes `state`."""
    s = state
    result = (rotated((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
    t = (s[1] << 17) & MASK
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = rotated(s[3], 45)
    return result


def test_the_stream_is_that_of_the_published_generator() -> None:
    words = seeded(np.random.SeedSequence(5))
    state = [int(word) for word in words]
    now = Stream(*words)
    for _ in range(200):
        number, following = uniform(now)
        now = Stream(*(np.uint64(word) for word in following))
        assert number == (reference(state) >> 11) * 2.0**-53
        assert 0 <= number < 1


def test_seeds_decide_the_stream() -> None:
    first, again, other = (seeded(np.random.SeedSequence(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
