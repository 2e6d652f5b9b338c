"""Pairing heaps of neurons, all in three arrays: the neuron with the smallest key is at the root.

Every neuron belongs to at most one heap, so that `child`, `sibling` and `key` (m,) hold any number of heaps
without a capacity for each: `child[j]` is the first child of neuron j, `sibling[j]` the next one of its
parent's children, -1 says none. A heap is its root, -1 if empty. Insertion is O(1), the removal of the
smallest O(log) amortised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.cone_geometry import LEAN, Signed

Indices = NDArray[np.int32]
NONE = -1


class Heaps(NamedTuple):
    """What all heaps share: key, child, sibling, each (m,)."""

    key: Floats
    child: Indices
    sibling: Indices


def new_heaps(size: int) -> Heaps:
    """Return the arrays for heaps of altogether `size` neurons, none of which is in a heap yet."""
    return Heaps(np.zeros(size), np.full(size, NONE, np.int32), np.full(size, NONE, np.int32))


@njit(cache=True, **LEAN)
def melded(one: int, other: int, heaps: Heaps) -> int:
    """Return the root of two heaps put together."""
    if one < 0:
        return other
    if other < 0:
        return one
    if heaps.key[other] < heaps.key[one]:
        one, other = other, one
    heaps.sibling[other] = heaps.child[one]
    heaps.child[one] = other
    return one


@njit(cache=True, **LEAN)
def pushed(root: int, neuron: int, key: float, heaps: Heaps) -> int:
    """Return the root after `neuron` went into the heap with this key."""
    heaps.key[neuron] = key
    heaps.child[neuron] = NONE
    heaps.sibling[neuron] = NONE
    root = melded(root, neuron, heaps)
    return root


@njit(cache=True, **LEAN)
def popped(root: int, heaps: Heaps) -> int:
    """Return the root after the smallest was taken out: its children melded in pairs, these backwards."""
    sibling = heaps.sibling
    rest = Signed(heaps.child[root])
    pairs = Signed(NONE)
    while rest >= 0:
        one = rest
        other = Signed(sibling[one])
        rest = Signed(sibling[other]) if other >= 0 else Signed(NONE)
        one = melded(one, other, heaps)
        sibling[one] = pairs
        pairs = one
    root = Signed(NONE)
    while pairs >= 0:
        following = Signed(sibling[pairs])
        root = melded(root, pairs, heaps)
        pairs = following
    if root >= 0:
        sibling[root] = NONE
    return root


@njit(cache=True, **LEAN)
def list_members(root: int, heaps: Heaps, members: Indices) -> int:
    """Write the neurons of a heap into `members`, parents before children; return how many there are."""
    if root < 0:
        return 0
    members[0] = root
    count = 1
    read = 0
    while read < count:
        neuron = heaps.child[members[read]]
        read += 1
        while neuron >= 0:
            members[count] = neuron
            count += 1
            neuron = heaps.sibling[neuron]
    return count
