"""The state of a wide flow: neurons by group, and what a step is computed with.

With C = 2L cones (`geometry`) there are 3C groups and two more:

    c              the neurons inside cone c;
    C + 2r + b     the neurons that slide along wall r, with a ≥ 0 (b = 0) or a < 0 (b = 1);
    3C + b         the neurons at w = 0, which rest until a direction becomes downhill.

The neurons θ = (w, a) of a group share θ' = M θ, M = [[0, F], [Fᵀ, 0]], with F = D_c inside a cone and
F = <D, e> e along the ray e of a wall ([early_alignment], the minimal-norm subgradient). Of each only θ̂ is
stored, θ = P θ̂, and S = Σ θ̂ θ̂ᵀ of the group. Every neuron has a *slot*: 2c + b in cone c, C + g in another
group g; a slot has a clock, and nothing happens to a neuron while its slot's clock is below its key.

A step solves the collocation equations by fixed-point sweeps, at a cost that does not depend on the width.
Unknown are the propagators Φ_g of the groups since the start of the step, at the nodes s_i (below):

    Σ a w of group g = (Φ S Φᵀ)_{wa}  →  predictions  →  forces D_c (`geometry`)  →
    Φ_g(s_i) = I + H Σ_j Q_ij M_g(s_j) Φ_g(s_j).

A sliding group needs no product: with Λ = H Σ_j Q_ij <D(s_j), e>, Φ = exp(Λ [[0, e], [eᵀ, 0]]) in closed
form. S changes within the step when neurons move (`extra`). Sweeps are repeated until nothing changes; they
converge when H times the largest eigenvalue of the Hessian is below about 6, which is what limits a step
near an equilibrium.

**One polynomial per step**: Chebyshev–Lobatto nodes of [0, 1], integration, interpolation and first zeros. A
function on a step is kept by its values at the q nodes s_i = (1 - cos(πi/(q-1)))/2. With the Lagrange
polynomials ℓ_j of the nodes,

    ∫_0^{s_i} f ≈ Σ_j Q_ij f_j,   Q_ij = ∫_0^{s_i} ℓ_j,          f(s) ≈ Σ_j ℓ_j(s) f_j  (barycentric formula),

f'(s_i) ≈ Σ_j ℓ_j'(s_i) f_j, and the last two Chebyshev coefficients of f estimate what the polynomial misses.
"""

from __future__ import annotations

from math import cosh, sinh
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.cones.exits import Indices
from shallowflow.kernels.cones.geometry import Forces, Samples, Walls, new_forces, set_forces
from shallowflow.kernels.cones.groups import outer_inner_moment
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE

NODES = 12
NEVER = 2.0
"""A share that no step has: there is no zero."""
HALVINGS = 24
ITERATIONS = 80
WIDTH = 2e-16
TINY = 1e-200
"""A share this close to a node is the node: its weight then outdoes all others."""
REORDERED = {"reassoc", "nsz", "contract"}
"""Sums of a few terms, in any order: several at a time."""


class Grid(NamedTuple):
    """nodes (q,); signs (q,): barycentric weights."""

    nodes: Floats
    signs: Floats


class Rule(NamedTuple):
    """The grid; integral (q, q): Q; derivative (q, q): ℓ_j'(s_i); tail (2, q): the last two Chebyshev
    coefficients.
    """

    grid: Grid
    integral: Floats
    derivative: Floats
    tail: Floats


def chebyshev_rule(count: int = NODES) -> Rule:
    """Return the rule with this many nodes."""
    nodes = 0.5 * (1.0 - np.cos(np.pi * np.arange(count) / (count - 1)))
    signs = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    signs[[0, -1]] *= 0.5
    chebyshev = np.polynomial.chebyshev
    coefficients = np.linalg.inv(chebyshev.chebvander(2.0 * nodes - 1.0, count - 1))
    integrals = np.column_stack(
        [chebyshev.chebval(2.0 * nodes - 1.0, chebyshev.chebint(e, lbnd=-1.0)) / 2.0 for e in np.eye(count)]
    )
    derivatives = np.column_stack(
        [2.0 * chebyshev.chebval(2.0 * nodes - 1.0, chebyshev.chebder(e)) for e in np.eye(count)]
    )
    return Rule(
        Grid(nodes, signs),
        integrals @ coefficients,
        derivatives @ coefficients,
        np.ascontiguousarray(coefficients[-2:]),
    )


def interpolation_matrix(shares: Floats, grid: Grid) -> Floats:
    """Return ℓ_j(s_i), (len(shares), q)."""
    gaps = shares[:, None] - grid.nodes
    exact = np.abs(gaps) < TINY
    weights = grid.signs / np.where(exact, 1.0, gaps)
    weights = np.where(np.any(exact, axis=1, keepdims=True), exact, weights)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@njit(cache=True, fastmath=REORDERED, **LEAN)
def weights_at(share: float, grid: Grid, weights: Floats) -> None:
    """Set weights (q,) to ℓ_j(share)."""
    total = 0.0
    for j in range(grid.nodes.size):
        gap = share - grid.nodes[j]
        weight = grid.signs[j] / (gap if abs(gap) > TINY else TINY)
        weights[j] = weight
        total += weight
    for j in range(grid.nodes.size):
        weights[j] /= total


@njit(cache=True, fastmath=REORDERED, **LEAN)
def values_at(share: float, one: Floats, other: Floats, grid: Grid) -> tuple[float, float]:
    """Return the two polynomials with these values (q,) at `share`."""
    first, second, total = 0.0, 0.0, 0.0
    for j in range(grid.nodes.size):
        gap = share - grid.nodes[j]
        weight = grid.signs[j] / (gap if abs(gap) > TINY else TINY)
        first += weight * one[j]
        second += weight * other[j]
        total += weight
    return first / total, second / total


@njit(cache=True, **LEAN)
def value_at(share: float, values: Floats, grid: Grid) -> float:
    """Return the polynomial with these values (q,) at `share`."""
    return float(values_at(share, values, values, grid)[0])


@njit(**ONCE)
def _zero_between(
    left: float, right: float, ends: tuple[float, float], values: Floats, slopes: Floats, grid: Grid
) -> float:
    """Return where the polynomial changes from ≥ 0 at `left` to < 0 at `right` (Newton, safeguarded)."""
    low, high = ends
    zero, share = WIDTH * (low - high), left + (right - left) * (low / (low - high))
    for _ in range(ITERATIONS):
        if not left < share < right:
            share = 0.5 * (left + right)
            if not left < share < right:
                return left
        value, slope = values_at(share, values, slopes, grid)
        if abs(value) <= zero:
            break
        if value > 0.0:
            left = share
        else:
            right = share
        # Slopes that contradict the bracket lead out of it, and to its middle.
        nearer = share - value / slope if slope != 0.0 else left
        if abs(nearer - share) <= WIDTH * right:
            break
        share = nearer
    found: float = share
    return found


@njit(**ONCE)
def _risen(left: float, right: float, values: Floats, grid: Grid) -> float:
    """Return a share in (left, right) at which the polynomial is positive, `left` if none is found."""
    width = 0.5 * (right - left)
    for _ in range(HALVINGS):
        if value_at(left + width, values, grid) > 0.0:
            return left + width
        width *= 0.5
    return left


@njit(cache=True, **INTERNAL)
def _fall(
    left: float, right: float, ends: tuple[float, float], values: Floats, slopes: Floats, grid: Grid
) -> float:
    """Return where a polynomial falls from ≥ 0 (up to rounding) to below 0; ends: its values there."""
    low = ends[0]
    if low <= 0.0:
        left = _risen(left, right, values, grid)
        low = value_at(left, values, grid)
        if low <= 0.0:
            return left
    return float(_zero_between(left, right, (low, ends[1]), values, slopes, grid))


@njit(cache=True, **LEAN)
def first_zero(start: float, values: Floats, slopes: Floats, noise: float, grid: Grid) -> float:
    """Return where a polynomial that is ≥ 0 at `start` (up to `noise`) first falls below 0, or `NEVER`.

    values, slopes (q,): the polynomial and its derivative at the nodes. Between two nodes with positive
    values a dip below zero is found too, if the slopes say that there is a minimum between them.
    """
    left, value, slope = start, values[0], slopes[0]
    if start > 0.0:
        value, slope = values_at(start, values, slopes, grid)
    for i in range(grid.nodes.size):
        node = grid.nodes[i]
        if node <= start:
            continue
        # Within the noise of zero at `left`, it may yet rise before it falls.
        risen = value if value > noise else 0.0
        if values[i] < -noise:
            return float(_fall(left, node, (risen, values[i]), values, slopes, grid))
        if slope < 0.0 < slopes[i]:
            # Where the slope, taken as linear, vanishes.
            bottom = left + (node - left) * slope / (slope - slopes[i])
            lowest = value_at(bottom, values, grid)
            if lowest < -noise:
                return float(_fall(left, bottom, (risen, lowest), values, slopes, grid))
        left, value, slope = node, values[i], slopes[i]
    return NEVER


class Problem(NamedTuple):
    """Data and constants; rays (C, 2): unit vectors e_r along the walls; loss as in `geometry`."""

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
    lowest (4C,): no larger than any key; bits (2C,): walls approached, as in `exits`.
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


@njit(**ONCE)
def group_of(slot: int, cones: int) -> int:
    """Return the group of a slot."""
    return slot // 2 if slot < 2 * cones else slot - cones


@njit(**ONCE)
def slot_of(group: int, outer: float, cones: int) -> int:
    """Return the slot of a neuron of a group with this outer weight."""
    if group < cones:
        return 2 * group + (1 if outer < 0.0 else 0)
    return group + cones


@njit(**ONCE)
def sliding_group(wall: int, outer: float, cones: int) -> int:
    """Return the group that slides along a wall with this sign of a."""
    return cones + 2 * wall + (1 if outer < 0.0 else 0)


@njit(**ONCE)
def resting_group(outer: float, cones: int) -> int:
    """Return the group of neurons at w = 0 with this sign of a."""
    return 3 * cones + (1 if outer < 0.0 else 0)


@njit(**ONCE)
def sign_of(group: int, cones: int) -> float:
    """Return the sign of a in a group of sliding or resting neurons."""
    return -1.0 if (group - cones) % 2 else 1.0


@njit(cache=True, **INTERNAL)
def normal_force(forces: Floats, cone: int, wall: int, normals: Floats) -> float:
    """Return <D_cone, n> with the unit normal of a wall that points counter-clockwise."""
    n = normals[wall]
    return float((forces[cone, 0] * n[0] + forces[cone, 1] * n[1]) * n[2])


MOST_SWEEPS = 60
FLOOR = 4e-15
"""Changes below this share of the size are rounding."""


@njit(**ONCE)
def boost(turn: float, e0: float, e1: float, p: Floats) -> None:
    """Set p (9,) to exp(Λ [[0, e], [eᵀ, 0]])."""
    c, s = cosh(turn), sinh(turn)
    half = sinh(0.5 * turn)
    grown = 2.0 * half * half
    p[0], p[1], p[2] = 1.0 + grown * e0 * e0, grown * e0 * e1, s * e0
    p[3], p[4], p[5] = grown * e0 * e1, 1.0 + grown * e1 * e1, s * e1
    p[6], p[7], p[8] = s * e0, s * e1, c


@njit(**ONCE)
def _forces_at(i: int, number: int, work: Work, problem: Problem) -> float:
    """Set forces and pulls at node i; return the largest change of a pull (infinite if not finite)."""
    cones, forces = problem.rays.shape[0], work.field.forces
    here = work.here
    here.moments[:, :] = 0.0
    s = work.table[0]
    for at in range(number):
        g = work.active[at]
        for entry in range(6):
            s[entry] = work.now[g, entry] + work.extra[g, i, entry]
        m0, m1 = outer_inner_moment(work.field.phi[g, i], s)
        # On a wall both cones beside it give the same predictions.
        cone = g if g < cones else (g - cones) // 2
        here.moments[cone, 0] += m0
        here.moments[cone, 1] += m1
    if not set_forces(here, problem.samples, problem.slope, problem.loss):
        return np.inf
    change = 0.0
    for k in range(here.pulls.size):
        change = max(change, abs(here.pulls[k] - work.pulls[i, k]))
        work.pulls[i, k] = here.pulls[k]
    for cone in range(cones):
        forces[i, cone, 0], forces[i, cone, 1] = here.forces[cone, 0], here.forces[cone, 1]
    return change


@njit(**ONCE)
def _turn(
    wall: int, length: float, forces: Floats, rays: Floats, integral: Floats, turns: Floats, phi: Floats
) -> float:
    """Renew Λ (q,) and Φ (q, 9) of a group that slides along a wall; return the change of Λ."""
    e0, e1 = rays[wall, 0], rays[wall, 1]
    change, q = 0.0, turns.size
    for i in range(1, q):
        total = 0.0
        for j in range(q):
            along = forces[j, wall, 0] * e0 + forces[j, wall, 1] * e1
            total += integral[i, j] * along
        total *= length
        change = max(change, abs(total - turns[i]))
        turns[i] = total
        boost(total, e0, e1, phi[i])
    return change


@njit(**ONCE)
def _propagate(
    cone: int, length: float, forces: Floats, integral: Floats, phi: Floats, rates: Floats
) -> float:
    """Renew Φ (q, 9) of a cone; return its relative change."""
    q = phi.shape[0]
    for j in range(q):
        f0, f1 = length * forces[j, cone, 0], length * forces[j, cone, 1]
        for k in range(3):
            rates[j, k] = f0 * phi[j, 6 + k]
            rates[j, 3 + k] = f1 * phi[j, 6 + k]
            rates[j, 6 + k] = f0 * phi[j, k] + f1 * phi[j, 3 + k]
    change, size = 0.0, 1.0
    for i in range(1, q):
        for k in range(9):
            total = 1.0 if k % 4 == 0 else 0.0
            for j in range(q):
                total += integral[i, j] * rates[j, k]
            change = max(change, abs(total - phi[i, k]))
            size = max(size, abs(total))
            phi[i, k] = total
    return change / size


@njit(cache=True, **INTERNAL)
def _sweep(g: int, length: float, work: Work, rule: Rule, rays: Floats) -> float:
    """Renew Φ of a group for the present forces; return its change."""
    cones, forces, phi = rays.shape[0], work.field.forces, work.field.phi[g]
    if g < cones:
        return float(_propagate(g, length, forces, rule.integral, phi, work.table))
    wall = (g - cones) // 2
    return float(_turn(wall, length, forces, rays, rule.integral, work.field.turns[g], phi))


@njit(cache=True, **LEAN)
def sweep_group(g: int, length: float, work: Work, rule: Rule, rays: Floats) -> None:
    """Make Φ of an empty group that of the present forces, to rounding."""
    for _ in range(MOST_SWEEPS):
        if _sweep(g, length, work, rule, rays) <= FLOOR:
            break


@njit(cache=True, **LEAN)
def solve(
    number: int, length: float, aim: float, scale: float, work: Work, rule: Rule, problem: Problem
) -> tuple[int, float]:
    """Sweep until pulls (relative to `scale`) and propagators change by no more than `aim`.

    Return the number of sweeps, or 0 if they do not converge, and the change of the pulls in the first one.
    """
    q = rule.grid.nodes.size
    first, best = 0.0, np.inf
    for sweep in range(1, MOST_SWEEPS + 1):
        change = 0.0
        for i in range(0 if sweep == 1 else 1, q):
            change = max(change, _forces_at(i, number, work, problem) / scale)
        if sweep == 1:
            first = change
        for at in range(number):
            change = max(change, _sweep(work.active[at], length, work, rule, problem.rays))
        if not change < 1e6:
            return 0, first
        if change <= aim:
            return sweep, first
        best = min(best, change)
        if sweep > 20 and change > 1e3 * best:
            return 0, first
    return 0, first
