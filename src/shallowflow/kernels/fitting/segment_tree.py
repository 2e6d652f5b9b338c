"""Segment trees in flat arrays: the sum, or the largest value and its first place, under local changes.

A tree over `leaves` values is an array of 2·size floats, size the next power of two: leaf i at size + i, the
children of node j at 2j and 2j + 1, the root at 1; place 0 is free. Refreshing the leaves lo…hi costs
O(hi − lo + log size). The sum is always added up in the same tree order: it depends on the leaves alone,
never on their history, so no rounding error is carried along by millions of changes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL


def new_tree(leaves: int, value: float) -> Floats:
    """A tree for `leaves` values, every node equal to `value` (0 for sums, −∞ for maxima)."""
    size = 1
    while size < leaves:
        size *= 2
    return np.full(2 * size, value)


@njit(cache=True, **INTERNAL)
def refresh_sums(tree: Floats, lo: int, hi: int) -> None:
    """Restore the sums above the leaves lo…hi (inclusive) after they were written."""
    size = tree.size // 2
    lo, hi = (size + lo) // 2, (size + hi) // 2
    while lo > 0:
        for node in range(lo, hi + 1):
            tree[node] = tree[2 * node] + tree[2 * node + 1]
        lo, hi = lo // 2, hi // 2


@njit(cache=True, **INTERNAL)
def refresh_maxima(tree: Floats, lo: int, hi: int) -> None:
    """Restore the maxima above the leaves lo…hi (inclusive) after they were written."""
    size = tree.size // 2
    lo, hi = (size + lo) // 2, (size + hi) // 2
    while lo > 0:
        for node in range(lo, hi + 1):
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        lo, hi = lo // 2, hi // 2


@njit(cache=True, **INTERNAL)
def first_at_least(tree: Floats, threshold: float) -> int:
    """The first leaf of a tree of maxima whose value is ≥ `threshold` (≤ the root's value)."""
    size = tree.size // 2
    node = 1
    while node < size:
        node *= 2
        if tree[node] < threshold:
            node += 1
    return node - size
