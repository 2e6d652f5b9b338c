"""How long a neuron stays in its cone, whatever happens: certificates, and the heaps that are sorted by them.

A neuron θ = (w, a) of a cone moves by w += a G, a += <w, G>, with one G = step · D for all neurons of the
cone ([early_alignment], D(w, θ)). Its distance to a wall with inward unit normal n is f = <w, n> ≥ 0, and
grows by a <G, n> per step. Take the neurons of one cone whose a has the sign σ and give them a **clock** that
advances by

    max( max_n max(0, -σ <G, n>),  l / R ),      l = d + d³/2 ≥ artanh(d),   d = |G| ≤ 1/8,   R = 4,

per step. While it advances by δ altogether, Σ d ≤ Σ l ≤ R δ =: z, and therefore, for the discrete steps too:

* |a| ≤ |a₀| cosh z + |w₀| sinh z, because (|a|, |w|) is majorised by Π [[1, d], [d, 1]] and the sums of the
  products of an even (odd) number of different d are at most cosh (sinh) of their sum;
* no f falls by more than ∫ |a| over the clock: no wall is reached as long as
  |a₀| sinh z + |w₀| (cosh z - 1) < R f₀;
* a keeps its sign as long as z < min(artanh(|a₀|/|w₀|), 1.79): the ratio r = |a|/|w| is pushed down most by a
  G against w, r → (r - d)/(1 - d r), that is by artanh(d) in artanh(r), if 1 - r² - d r + d² r² ≥ 0, which
  for d ≤ 1/8 holds up to artanh(r) = 1.796; above, r falls to no less than √(2 - d² - 1/r²), which grows with
  r.

Both are tight to first order, so checking again when a certificate runs out converges to the crossing
quadratically. A wall that is not approached (<G, n> never had the sign of -σ) is left out of f: a bit per
cone and sign remembers which walls have ever been approached.

Neurons are kept in pairing heaps, the one with the smallest certificate at the root. Every neuron belongs to
at most one heap, so that `child`, `sibling` and `key` (m,) hold any number of heaps
without a capacity for each: `child[j]` is the first child of neuron j, `sibling[j]` the next one of its
parent's children, -1 says none. A heap is its root, -1 if empty. Insertion is O(1), the removal of the
smallest O(log) amortised.
"""

from __future__ import annotations

from math import inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.cones.geometry import Walls
from shallowflow.kernels.shared.compilation import LEAN, ONCE, Signed

RATIO = 4.0
"""R: how much the length of the path of G counts against the approach to a wall."""
LONGEST_STEP = 0.125
"""The largest |G| for which certificates are sound; after a longer step every neuron is looked at."""
LONGEST = 1.75
"""The largest z = R δ that is ever promised."""
SAFETY = 1.0 - 1e-6
ROUNDING = 1.0 - 1e-15
FIRST_WALL, LAST_WALL = 1, 2
"""Bits of the walls that were approached."""


@njit(**ONCE)
def approaches(force: Floats, cone: int, walls: Walls) -> tuple[float, float]:
    """Return <G, n> for the inward unit normals of the cone's first and last wall."""
    normals = walls.normals
    wall = cone + 1
    first = (normals[cone, 0] * force[0] + normals[cone, 1] * force[1]) * normals[cone, 2]
    last = -(normals[wall, 0] * force[0] + normals[wall, 1] * force[1]) * normals[wall, 2]
    return first, last


@njit(**ONCE)
def approached(first: float, last: float, sign: float) -> int:
    """Return the bits of the walls that neurons with this sign of a approach."""
    bits = FIRST_WALL if sign * first < 0.0 else 0
    return bits | LAST_WALL if sign * last < 0.0 else bits


@njit(**ONCE)
def clock_rate(first: float, last: float, sign: float, length: float) -> float:
    """Return how far the clock of (cone, sign of a) advances in a step; `length` = l."""
    return max(-sign * first, -sign * last, length / RATIO)


@njit(**ONCE)
def promised(distance: float, inner: float, outer: float) -> float:
    """Return δ: how far the clock may advance before the neuron can reach a wall, or a change its sign.

    distance: to the nearest wall approached (infinite if there is none); inner = |w|, outer = |a|.
    """
    z = LONGEST
    if outer < inner:
        z = min(z, 0.5 * log((inner + outer) / (inner - outer)))
    if distance < inf:
        # e^z solves a quadratic equation; in this form a small distance loses no digits.
        reach = RATIO * max(distance, 0.0)
        gain = reach * (2.0 * inner + reach)
        growth = reach + gain / (outer + sqrt(outer * outer + gain)) if gain > 0.0 else 0.0
        z = min(z, log1p(growth / (outer + inner)))
    return SAFETY * z / RATIO


@njit(cache=True, **LEAN)
def certificate(w0: float, w1: float, a: float, cone: int, bits: int, clock: float, walls: Walls) -> float:
    """Return the neuron's key: it is in this cone, with this sign of a, as long as the clock is below it."""
    normals = walls.normals
    size = max(abs(w0), abs(w1), abs(a))
    if size == 0.0:
        return clock
    # Only ratios matter; of a tiny neuron the squares would underflow.
    w0, w1, a = w0 / size, w1 / size, a / size
    distance = inf
    if bits & FIRST_WALL:
        distance = (normals[cone, 0] * w0 + normals[cone, 1] * w1) * normals[cone, 2]
    if bits & LAST_WALL:
        wall = cone + 1
        distance = min(distance, -(normals[wall, 0] * w0 + normals[wall, 1] * w1) * normals[wall, 2])
    key: float = (clock + promised(distance, sqrt(w0 * w0 + w1 * w1), abs(a))) * ROUNDING
    return key


@njit(**ONCE)
def advance_clock(clock: Floats, amount: float) -> None:
    """Add to a clock, (2,): its value, and what rounding has kept from it, so that nothing is ever lost."""
    missing = amount - clock[1]
    value = clock[0] + missing
    clock[1] = (value - clock[0]) - missing
    clock[0] = value


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
