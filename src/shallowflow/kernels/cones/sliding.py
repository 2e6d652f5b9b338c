"""Neurons that slide along a wall, as one group per wall and sign of a; neurons that rest at w = 0.

Where a wall pushes back from both sides descent crosses it every few steps, and the flow of
[early_alignment] slides: its subgradient set on the face has an element along the wall's ray. With the wall's
unit normal n, G of the cones before and behind it, g = <G, n>, and σ = sign(a), a wall is *attracting* if

    σ g_behind < 0 < σ g_before.

A sliding neuron is put on the ray, w = ω e, and moves by d = <G, e>, which is the same on both sides. Its
step is diagonal, with d' = σ d,

    ω + |a| <- (1 + d') (ω + |a|),      ω - |a| <- (1 - d') (ω - |a|),

so a group has two factors P, Q since its start and the sums A, B of the squares of b = (ω + |a|)/P and
c = (ω - |a|)/Q; it adds σ (P² A - Q² B)/4 e to Σ a w. A neuron leaves its group when P b = Q |c|:

* c > 0: a passes zero. Now the wall repels, to either side: the solution is *two-valued*. Descent decides by
  where it happens to be between two crossings, that is behind the wall with the probability
  η = g_before / (g_before - g_behind), its share of the time. A hash of the neuron's index draws.
* c < 0: ω passes zero. The neuron goes on along the opposite ray, or into a cone beside it; if that ray
  pushes it back too, it *rests* at w = 0 with its a frozen, until some direction leads away: a cone that
  contains σ G, or an attracting wall with σ d > 0. (One of these exists iff max_w σ <w, G(w)> > 0.)

A whole group is released to the side to which it is pushed when its wall attracts no more. Against the
iterates of descent all this makes an error of the order of the step. (Descent near w = 0 goes round at
|w| ~ step · |a D|, by which |a| falls like exp(-step · |D|² t); here it rests.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import NONE, Heaps, pushed
from shallowflow.kernels.cones.geometry import Walls
from shallowflow.kernels.cones.groups import Neurons
from shallowflow.kernels.shared.compilation import INTERNAL, Signed

LISTED = 10_000
"""How many two-valued events are listed (all are counted)."""
NUDGE = 1e-9
"""How far beside the wall, relative to ω, a released neuron is put."""
SLIDING, MOST_SLIDING, SLIDES, RELEASES, TWO_VALUED, RESTING, ACTIVE = range(7)
"""The counts: neurons that slide now, at most, entries, releases, two-valued events, resting, groups."""


class Sliding(NamedTuple):
    """Groups 2r + (a < 0) of the walls r < 2L, and the two groups of resting neurons behind them.

    factors (4L, 2): P, Q; sums (4L, 4): A, B and their rounding errors; roots, sizes (4L + 2,); active,
    places (4L,): list of the groups that have neurons and where a group is in it; events (listed, 3): step,
    neuron, wall; counts (7,).
    """

    factors: Floats
    sums: Floats
    roots: Ints
    sizes: Ints
    active: Ints
    places: Ints
    events: Ints
    counts: Ints


def new_sliding(cones: int) -> Sliding:
    """Return the memory for as many walls as cones, with nobody on them."""
    groups = 2 * cones
    return Sliding(
        np.ones((groups, 2)),
        np.zeros((groups, 4)),
        np.full(groups + 2, NONE, np.int64),
        np.zeros(groups + 2, np.int64),
        np.zeros(groups, np.int64),
        np.zeros(groups, np.int64),
        np.zeros((LISTED, 3), np.int64),
        np.zeros(7, np.int64),
    )


@njit(cache=True, **INTERNAL)
def wall_forces(wall: int, forces: Floats, walls: Walls) -> tuple[float, float, float]:
    """Return <G, n> before and behind a wall, and <G, e> along its ray."""
    before = wall - 1 if wall > 0 else forces.shape[0] - 1
    n0, n1 = walls.normals[wall, 0] * walls.normals[wall, 2], walls.normals[wall, 1] * walls.normals[wall, 2]
    g0, g1 = forces[before, 0], forces[before, 1]
    behind = n0 * forces[wall, 0] + n1 * forces[wall, 1]
    return n0 * g0 + n1 * g1, behind, n1 * g0 - n0 * g1


@njit(cache=True, **INTERNAL)
def on_ray(wall: int, along: float, across: float, walls: Walls) -> tuple[float, float]:
    """Return w = along · e + across · n of a wall."""
    n0, n1 = walls.normals[wall, 0] * walls.normals[wall, 2], walls.normals[wall, 1] * walls.normals[wall, 2]
    return along * n1 + across * n0, across * n1 - along * n0


@njit(cache=True, **INTERNAL)
def draw(neuron: int) -> float:
    """Return a number in [0, 1) by hashing the neuron's index (splitmix64)."""
    z = np.uint64(neuron) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, **INTERNAL)
def add_squares(sums: Floats, b: float, c: float, sign: float) -> None:
    """Add sign · b², c² to A, B; what rounding takes goes into sums[2:], and back when the sum is small."""
    for at in range(2):
        term = sign * (b * b if at == 0 else c * c)
        total = sums[at] + term
        taken = total - sums[at]
        error = sums[2 + at] + ((sums[at] - (total - taken)) + (term - taken))
        sums[at] = total + error
        sums[2 + at] = error - (sums[at] - total)


@njit(cache=True, **INTERNAL)
def begin_sliding(
    j: int, omega: float, a: float, wall: int, people: tuple[Neurons, Heaps], on: Sliding
) -> None:
    """Put neuron j on a wall's ray, with w = omega · e, omega ≥ 0."""
    neurons, heaps = people
    group = 2 * wall + (1 if a < 0.0 else 0)
    if on.sizes[group] == 0:
        on.factors[group, 0], on.factors[group, 1] = 1.0, 1.0
        for i in range(4):
            on.sums[group, i] = 0.0
        on.active[on.counts[ACTIVE]], on.places[group] = group, on.counts[ACTIVE]
        on.counts[ACTIVE] += 1
    b, c = (omega + abs(a)) / on.factors[group, 0], (omega - abs(a)) / on.factors[group, 1]
    add_squares(on.sums[group], b, c, 1.0)
    on.roots[group] = pushed(on.roots[group], j, -abs(c) / b, heaps)
    on.sizes[group] += 1
    neurons.theta[j, 0], neurons.theta[j, 1] = b, c
    neurons.heap[j] = on.active.size + group
    on.counts[SLIDES] += 1
    on.counts[SLIDING] += 1
    on.counts[MOST_SLIDING] = max(on.counts[MOST_SLIDING], on.counts[SLIDING])


@njit(cache=True, **INTERNAL)
def close_group(group: int, on: Sliding) -> None:
    """Strike a group without neurons off the list of the active ones."""
    on.counts[ACTIVE] -= 1
    last = on.active[on.counts[ACTIVE]]
    place = on.places[group]
    on.active[place], on.places[last] = last, place


@njit(cache=True, **INTERNAL)
def slider_now(theta: Floats, group: int, on: Sliding) -> tuple[float, float]:
    """Return ω and a of a neuron of a group from its (b, c)."""
    b, c = on.factors[group, 0] * theta[0], on.factors[group, 1] * theta[1]
    size = 0.5 * (b - c)
    return 0.5 * (b + c), size if group % 2 == 0 else -size


@njit(cache=True, **INTERNAL)
def rest(j: int, a: float, people: tuple[Neurons, Heaps], on: Sliding) -> None:
    """Put neuron j to rest at w = 0."""
    neurons, heaps = people
    group = on.active.size + (1 if a < 0.0 else 0)
    on.roots[group] = pushed(on.roots[group], j, 0.0, heaps)
    on.sizes[group] += 1
    neurons.theta[j, 0], neurons.theta[j, 1], neurons.theta[j, 2] = 0.0, 0.0, a
    neurons.heap[j] = on.active.size + group
    on.counts[RESTING] += 1


@njit(cache=True, **INTERNAL)
def add_sliding_moments(moments: Floats, walls: Walls, on: Sliding) -> None:
    """Add Σ a w of the groups to the cones behind their walls (those before see the same)."""
    for i in range(on.counts[ACTIVE]):
        group = on.active[i]
        p, q = on.factors[group, 0], on.factors[group, 1]
        size = 0.25 * (p * p * on.sums[group, 0] - q * q * on.sums[group, 1])
        m0, m1 = on_ray(group // 2, size if group % 2 == 0 else -size, 0.0, walls)
        moments[group // 2, 0] += m0
        moments[group // 2, 1] += m1


@njit(cache=True, **INTERNAL)
def way_out(sign: float, forces: Floats, walls: Walls) -> tuple[int, int]:
    """Return the steepest way from w = 0 as (cone, -1) or (-1, wall), or (-1, -1) if there is none."""
    normals = walls.normals
    steepest, cone, wall = 0.0, -1, -1
    for c in range(forces.shape[0]):
        g0, g1 = sign * forces[c, 0], sign * forces[c, 1]
        inside = (
            normals[c, 0] * g0 + normals[c, 1] * g1 > 0.0 > normals[c + 1, 0] * g0 + normals[c + 1, 1] * g1
        )
        if inside and g0 * g0 + g1 * g1 > steepest:
            steepest, cone, wall = g0 * g0 + g1 * g1, c, -1
        before, behind, along = wall_forces(c, forces, walls)
        if sign * behind < 0.0 < sign * before and sign * along > 0.0 and along * along > steepest:
            steepest, cone, wall = along * along, -1, c
    return Signed(cone), Signed(wall)
