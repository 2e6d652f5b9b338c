"""The state of a wide flow: neurons by group, and what a step is computed with.

With C = 2L cones (`cone_geometry`) there are 3C groups and two more:

    c              the neurons inside cone c;
    C + 2r + b     the neurons that slide along wall r, with a ≥ 0 (b = 0) or a < 0 (b = 1);
    3C + b         the neurons at w = 0, which rest until a direction becomes downhill.

The neurons θ = (w, a) of a group share θ' = M θ, M = [[0, F], [Fᵀ, 0]], with F = D_c inside a cone and
F = <D, e> e along the ray e of a wall ([early_alignment], the minimal-norm subgradient). Of each only θ̂ is
stored, θ = P θ̂, and S = Σ θ̂ θ̂ᵀ of the group. Every neuron has a *slot*: 2c + b in cone c, C + g in another
group g; a slot has a clock, and nothing happens to a neuron while its slot's clock is below its key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.collocation import NODES, Grid, Rule, chebyshev_rule
from shallowflow.kernels.cone_forces import Forces, new_forces
from shallowflow.kernels.cone_geometry import INTERNAL, Samples, Walls
from shallowflow.kernels.cone_heap import Indices


class Problem(NamedTuple):
    """Data and constants; rays (C, 2): unit vectors e_r along the walls; loss as in `cone_forces`."""

    walls: Walls
    samples: Samples
    rays: Floats
    slope: float
    loss: tuple[int, float, float]


class Neurons(NamedTuple):
    """θ̂ (m, 3), slot (m,), key (m,), a list of candidates (m,)."""

    theta: Floats
    slot: Indices
    key: Floats
    list: Indices


class Groups(NamedTuple):
    """propagators (3C, 9): P; moments (3C, 12): S and its rounding errors; counts (3C + 2,); clocks (4C,);
    lowest (4C,): no larger than any key; bits (2C,): walls approached, as in `cone_certificate`.
    """

    propagators: Floats
    moments: Floats
    counts: Ints
    clocks: Floats
    lowest: Floats
    bits: Ints


class Field(NamedTuple):
    """What moves a neuron in a step: propagators since its start at the nodes, and what follows from them.

    phi (3C, q, 9); turns (3C, q): Λ = ∫ <D, e> of sliding groups; forces (q, C, 2); facets (C, 2, 6, q): the
    distances to a cone's walls, and their slopes, as functionals of θ at the start; normals (C + 1, 3), rays
    (C, 2): the walls; scratch (5, q): values in passing.
    """

    phi: Floats
    turns: Floats
    forces: Floats
    facets: Floats
    normals: Floats
    rays: Floats
    grid: Grid
    scratch: Floats


class Work(NamedTuple):
    """One step: its field; pulls (q, k); now (3C, 6): S at the start; extra (3C, q, 6): what neurons that
    moved within the step add to it; active (3C,): a list of groups; is_active (3C,); table (q, q): values in
    passing; here: the forces at one time.
    """

    field: Field
    pulls: Floats
    now: Floats
    extra: Floats
    active: Ints
    is_active: Bools
    table: Floats
    here: Forces


class Due(NamedTuple):
    """Who must be looked at in a step: reach (4C,): clocks at its end; all_of (4C,), some_of (4C,): slots all
    or some of whose neurons are due; rest (4C,): the lowest key of those that are not; seen (2C,): walls
    approached.
    """

    reach: Floats
    all_of: Bools
    some_of: Bools
    rest: Floats
    seen: Ints

    def reaching(self, other: Due) -> Due:
        """Return the same neurons, with clocks that go as far as the farther of both."""
        return self._replace(reach=np.maximum(self.reach, other.reach), seen=self.seen | other.seen)


class Moves(NamedTuple):
    """Changes of group in a step: neuron, share of the step, groups left and entered, θ at the start of the
    step as the new group would have it, kind (`PLAIN` or `TWO_VALUED`).
    """

    neuron: Indices
    share: Floats
    left: Indices
    entered: Indices
    theta: Floats
    kind: Indices


State = tuple[Neurons, Groups, Work, Rule]
VALUES, SLOPES, WEIGHTS, MATRIX, VECTOR = range(5)
"""The rows of `scratch`."""
PLAIN, TWO_VALUED = 0, 1
UNSETTLED, FULL = -1, -2
"""In place of a number of moves: they do not settle; the list is full."""


def new_state(width: int, problem: Problem) -> State:
    """Return the memory for `width` neurons, none of which has a group yet."""
    cones, points, rule = len(problem.rays), len(problem.samples.targets), chebyshev_rule()
    groups, slots, q = 3 * cones, 4 * cones, NODES
    neurons = Neurons(
        np.empty((width, 3)), np.full(width, slots, np.int32), np.empty(width), np.empty(width, np.int32)
    )
    table = Groups(
        np.zeros((groups, 9)),
        np.zeros((groups, 12)),
        np.zeros(groups + 2, np.int64),
        np.zeros(slots),
        np.full(slots, np.inf),
        np.zeros(2 * cones, np.int64),
    )
    field = Field(
        np.zeros((groups, q, 9)),
        np.zeros((groups, q)),
        np.zeros((q, cones, 2)),
        np.zeros((cones, 2, 6, q)),
        problem.walls.normals,
        problem.rays,
        rule.grid,
        np.zeros((5, q)),
    )
    work = Work(
        field,
        np.zeros((q, points)),
        np.zeros((groups, 6)),
        np.zeros((groups, q, 6)),
        np.zeros(groups, np.int64),
        np.zeros(groups, np.bool_),
        np.zeros((q, q)),
        new_forces(cones, points),
    )
    return neurons, table, work, rule


def new_moves(capacity: int) -> Moves:
    """Return the memory for this many moves."""
    integers = [np.empty(capacity, np.int32) for _ in range(4)]
    return Moves(
        integers[0], np.empty(capacity), integers[1], integers[2], np.empty((capacity, 3)), integers[3]
    )


def rays_of(walls: Walls) -> Floats:
    """Return e_r (C, 2): the normal of wall r turned clockwise by a right angle."""
    units = walls.normals[:-1, :2] * walls.normals[:-1, 2:]
    return np.ascontiguousarray(np.column_stack([units[:, 1], -units[:, 0]]))


@njit(cache=True, **INTERNAL)
def group_of(slot: int, cones: int) -> int:
    """Return the group of a slot."""
    return slot // 2 if slot < 2 * cones else slot - cones


@njit(cache=True, **INTERNAL)
def slot_of(group: int, outer: float, cones: int) -> int:
    """Return the slot of a neuron of a group with this outer weight."""
    if group < cones:
        return 2 * group + (1 if outer < 0.0 else 0)
    return group + cones


@njit(cache=True, **INTERNAL)
def sliding_group(wall: int, outer: float, cones: int) -> int:
    """Return the group that slides along a wall with this sign of a."""
    return cones + 2 * wall + (1 if outer < 0.0 else 0)


@njit(cache=True, **INTERNAL)
def resting_group(outer: float, cones: int) -> int:
    """Return the group of neurons at w = 0 with this sign of a."""
    return 3 * cones + (1 if outer < 0.0 else 0)


@njit(cache=True, **INTERNAL)
def sign_of(group: int, cones: int) -> float:
    """Return the sign of a in a group of sliding or resting neurons."""
    return -1.0 if (group - cones) % 2 else 1.0


@njit(cache=True, **INTERNAL)
def normal_force(forces: Floats, cone: int, wall: int, normals: Floats) -> float:
    """Return <D_cone, n> with the unit normal of a wall that points counter-clockwise."""
    n = normals[wall]
    return float((forces[cone, 0] * n[0] + forces[cone, 1] * n[1]) * n[2])
