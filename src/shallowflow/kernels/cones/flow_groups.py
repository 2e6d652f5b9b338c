"""What a step needs to know of the groups, in NumPy: their number does not grow with the width.

Every neuron has a key: as long as its slot's clock is below it, nothing can happen to the neuron. In a cone
clocks and keys are those of `exits`, for the flow: the clock advances by
∫ max(max_n max(0, -σ<D, n>), |D|/R) dt. For a sliding group the clock is -σΛ, and keys are exact. Between
events no neuron needs checking and a step does not depend on the number of neurons.

A symmetric matrix S is stored by its upper triangle, (6,): 00, 01, 02, 11, 12, 22.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import FIRST_WALL, LAST_WALL, RATIO, Indices
from shallowflow.kernels.cones.flow_state import NEVER, Due, Field, Groups, Moves, Work, interpolation_matrix

MARGIN = 1.02
"""Clocks are advanced by so much more than the nodes say."""
UPPER = np.triu_indices(3)
ENTRY = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
"""Where the entries of S are in its upper triangle."""
IDENTITY = np.eye(3).ravel()


def begin_step(groups: Groups, work: Work) -> int:
    """List the occupied groups and set S = P S Pᵀ at the start of a step; return how many they are."""
    occupied = np.flatnonzero(groups.counts[: len(work.now)])
    number = len(occupied)
    work.active[:number] = occupied
    work.is_active[:] = False
    work.is_active[occupied] = True
    p = groups.propagators[occupied].reshape(number, 3, 3)
    s = groups.moments[occupied][:, ENTRY]
    work.now[occupied] = (p @ s @ p.transpose(0, 2, 1))[:, UPPER[0], UPPER[1]]
    restart(number, work)
    return number


def restart(number: int, work: Work) -> None:
    """Forget what is known about the step, except its start."""
    groups = work.active[:number]
    work.field.phi[groups] = IDENTITY
    work.field.turns[groups] = 0.0
    work.extra[groups] = 0.0


def missed(number: int, scale: float, work: Work, tail: Floats) -> float:
    """Return what the polynomials miss: the last two Chebyshev coefficients of pulls and propagators."""
    phi = work.field.phi[work.active[:number]]
    sizes = np.maximum(np.abs(phi[:, -1]).max(axis=1, initial=0.0), 1.0)
    of_pulls = np.abs(tail @ work.pulls).sum(axis=0).max(initial=0.0) / scale
    of_phi = np.abs(tail @ phi).sum(axis=1).max(axis=1, initial=0.0) / sizes
    return float(max(of_pulls, of_phi.max(initial=0.0)))


def shorten(share: float, number: int, work: Work) -> None:
    """Take the polynomials of the first `share` of the step as a first guess for a step of that length."""
    groups, grid = work.active[:number], work.field.grid
    work.field.phi[groups] = interpolation_matrix(share * grid.nodes, grid) @ work.field.phi[groups]
    work.extra[groups] = 0.0


def activate(group: int, number: int, work: Work) -> int:
    """Make an empty group active, with Φ = I so far; return how many are."""
    work.active[number], work.is_active[group], work.now[group] = group, True, 0.0
    work.field.phi[group], work.field.turns[group], work.extra[group] = IDENTITY, 0.0, 0.0
    return number + 1


def set_facets(groups: Ints, length: float, field: Field) -> None:
    """Set the distances to the walls of these cones (of groups) and their slopes, as functionals of θ.

    ±<n, w> at the nodes are ±nᵀΦ_w θ, with slopes ±length·<n, D>·Φ_a θ; the signs point into the cone.
    """
    cones = groups[groups < len(field.rays)]
    phi, forces = field.phi[cones], field.forces[:, cones].transpose(1, 0, 2)
    for side, sign in ((0, 1.0), (1, -1.0)):
        n = sign * field.normals[cones + side, :2] * field.normals[cones + side, 2:]
        distances = n[:, None, :1] * phi[:, :, 0:3] + n[:, None, 1:] * phi[:, :, 3:6]
        pushes = length * (forces * n[:, None, :]).sum(axis=2, keepdims=True)
        both = np.concatenate([distances, pushes * phi[:, :, 6:9]], axis=2)
        field.facets[cones, side] = both.transpose(0, 2, 1)


def find_due(number: int, length: float, groups: Groups, work: Work) -> Due:
    """Return where all clocks will be at the end of the step, and which slots have neurons that are due."""
    field, cones = work.field, len(work.field.rays)
    slots = 4 * cones
    due = Due(
        np.zeros(slots),
        np.zeros(slots, np.bool_),
        np.zeros(slots, np.bool_),
        np.full(slots, np.inf),
        np.zeros(2 * cones, np.int64),
    )
    occupied = work.active[:number][groups.counts[work.active[:number]] > 0]
    inside, sliding = occupied[occupied < cones], occupied[occupied >= cones]
    for b, sign in ((0, 1.0), (1, -1.0)):
        at = 2 * inside + b
        advance, due.seen[at] = _cone_advances(inside, sign, field)
        due.reach[at] = groups.clocks[at] + length * advance
        due.all_of[at] = (due.seen[at] & ~groups.bits[at]) != 0
        due.some_of[at] = groups.lowest[at] < due.reach[at]
    if sliding.size:
        at = sliding + cones
        turned = -signs_of(sliding, cones)[:, None] * work.field.turns[sliding]
        most = np.maximum(turned.max(axis=1), 0.0)
        least = np.minimum(turned.min(axis=1), 0.0)
        due.reach[at] = groups.clocks[at] + most + (MARGIN - 1.0) * (most - least)
        due.some_of[at] = groups.lowest[at] < due.reach[at]
    return due


def slots_of(groups: Ints, outer: Floats, cones: int) -> Ints:
    """Return the slots of neurons of these groups with these outer weights."""
    return np.where(groups < cones, 2 * groups + (outer < 0.0), groups + cones)


def signs_of(groups: Ints, cones: int) -> Floats:
    """Return the signs of a in groups of sliding or resting neurons."""
    return np.where((groups - cones) % 2 == 1, -1.0, 1.0)


def _cone_advances(cones: Ints, sign: float, field: Field) -> tuple[Floats, Ints]:
    """Return the advance of the cones' clocks per length of the step, and the walls approached."""
    f = field.forces[:, cones]
    towards = -sign * facing(f, cones, field.normals)
    rates = np.maximum(towards.max(axis=0), np.hypot(f[..., 0], f[..., 1]) / RATIO)
    advances = np.diff(field.grid.nodes) @ np.maximum(rates[1:], rates[:-1])
    near = np.asarray(np.any(towards > 0.0, axis=1))
    return MARGIN * advances, FIRST_WALL * near[0] + LAST_WALL * near[1]


def facing(forces: Floats, cones: Ints, normals: Floats) -> Floats:
    """Return <D, n> for the inward unit normals of the cones' first and last walls, (2, …); forces (…, 2)."""
    n = normals[:, :2] * normals[:, 2:]
    first = (forces * n[cones]).sum(axis=-1)
    last = -(forces * n[cones + 1]).sum(axis=-1)
    return np.stack([first, last])


def entries(count: int, moves: Moves, counts: Ints) -> Floats:
    """Return when every group has its first neuron: at the start, within the step, or `NEVER`."""
    when = np.where(counts > 0, 0.0, NEVER)
    np.minimum.at(when, moves.entered[:count], moves.share[:count])
    return when


def movers(count: int, moves: Moves) -> Indices:
    """Return the neurons that move, each once; the moves of one neuron follow one another."""
    neurons = moves.neuron[:count]
    moved: Indices = neurons[np.diff(neurons, prepend=-1) != 0]
    return moved


def here(groups: Ints | Indices, references: Floats, propagators: Floats) -> Floats:
    """Return θ = P θ̂ of neurons of these groups; at w = 0 θ̂ is θ itself."""
    theta = np.array(references)
    for group in np.unique(groups[groups < len(propagators)]):
        rows = groups == group
        theta[rows] = references[rows] @ propagators[group].reshape(3, 3).T
    return theta


def advance(number: int, due: Due, when: Floats, groups: Groups, work: Work) -> None:
    """Bring propagators and clocks to the end of the step; when: `entries`. Empty groups are reset."""
    active = work.active[:number]
    empty = groups.counts[active] == 0
    clear(active[empty], groups)
    active = active[~empty]
    p = groups.propagators[active].reshape(-1, 3, 3)
    groups.propagators[active] = (work.field.phi[active, -1].reshape(-1, 3, 3) @ p).reshape(-1, 9)
    cones = len(work.field.rays)
    sliding, inside = active[active >= cones], active[active < cones]
    groups.clocks[sliding + cones] -= signs_of(sliding, cones) * work.field.turns[sliding, -1]
    # A group that was empty at the start of the step has no reach: its clock starts now.
    old = inside[when[inside] == 0.0]
    slots = np.concatenate([2 * old, 2 * old + 1])
    groups.clocks[slots] = due.reach[slots]
    groups.bits[slots] |= due.seen[slots]
    slots = np.concatenate([slots, sliding + cones])
    listed = slots[due.some_of[slots] | due.all_of[slots]]
    groups.lowest[listed] = due.rest[listed]
    watch(inside, work.field.forces[-1], groups, work.field.normals)


def clear(chosen: Ints, groups: Groups) -> None:
    """Reset empty groups (the resting ones have nothing to reset)."""
    cones = len(groups.bits) // 2
    inside, sliding = chosen[chosen < cones], chosen[(chosen >= cones) & (chosen < 3 * cones)]
    groups.propagators[inside] = groups.propagators[sliding] = IDENTITY
    groups.moments[inside] = groups.moments[sliding] = 0.0
    slots = np.concatenate([2 * inside, 2 * inside + 1, sliding + cones])
    groups.clocks[slots] = 0.0
    groups.lowest[slots] = np.inf
    groups.bits[slots[: 2 * len(inside)]] = 0


def watch(cones: Ints, forces: Floats, groups: Groups, normals: Floats) -> None:
    """Watch the walls that the neurons of these cones approach at present; forces (C, 2)."""
    first, last = facing(forces[cones], cones, normals)
    for b, sign in ((0, 1.0), (1, -1.0)):
        groups.bits[2 * cones + b] |= FIRST_WALL * (sign * first < 0.0) + LAST_WALL * (sign * last < 0.0)


def spreads(groups: Groups) -> Floats:
    """Return how uneven the P of every occupied group is (0: empty): ln max |P|, or -ln det P if larger."""
    p = groups.propagators.reshape(-1, 3, 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        uneven = np.maximum(np.log(np.abs(p).max(axis=(1, 2))), -np.log(np.linalg.det(p)))
    occupied = groups.counts[: len(p)] > 0
    return np.where(occupied, np.where(np.isnan(uneven), np.inf, uneven), 0.0)


def group_forces(forces: Floats, groups: Groups, rays: Floats) -> tuple[Ints, Floats]:
    """Return the groups that have neurons and the force on each: D of its cone, or its part along a wall."""
    cones = len(rays)
    occupied = np.flatnonzero(groups.counts[: 3 * cones])
    wall = np.where(occupied < cones, occupied, (occupied - cones) // 2)
    along = (forces * rays).sum(axis=1, keepdims=True) * rays
    return occupied, np.where((occupied < cones)[:, None], forces[wall], along[wall])


def stillness(groups: Groups, work: Work, reach: Floats, rays: Floats) -> float:
    """Return the largest force on a group after the last step, as a share of what pulls of 1 add up to.

    Infinite if neurons rest at w = 0, which may be about to leave. reach (C,): Σ_k η_k |x_k| of every cone;
    rays (C, 2).
    """
    cones = len(rays)
    if groups.counts[3 * cones :].any():
        return np.inf
    occupied, found = group_forces(work.field.forces[-1], groups, rays)
    sums = reach[np.where(occupied < cones, occupied, (occupied - cones) // 2)]
    forces = np.linalg.norm(found, axis=1)
    return float(np.divide(forces, sums, out=np.zeros_like(forces), where=sums > 0.0).max(initial=0.0))


def squared_gradient(forces: Floats, groups: Groups, rays: Floats) -> tuple[float, float]:
    """Return Σ |w'|² and Σ a'² of all neurons, from the groups' moments; forces (C, 2): D now."""
    occupied, f = group_forces(forces, groups, rays)
    p, s = groups.propagators[occupied].reshape(-1, 3, 3), groups.moments[occupied][:, ENTRY]
    now = p @ s @ p.transpose(0, 2, 1)
    inner = (f**2).sum(axis=1) @ now[:, 2, 2]
    outer = np.einsum("gi,gij,gj->", f, now[:, :2, :2], f)
    return float(inner), float(outer)


def predictions(gates: Floats, scale: float, work: Work, points: Floats) -> Floats:
    """Return h at the data points (k, 2) and the nodes, (q, k); gates (C, k): how cones see the points."""
    cones, active = len(gates), np.flatnonzero(work.is_active)
    nodes = len(work.field.grid.nodes)
    phi = work.field.phi[active].reshape(-1, nodes, 3, 3)
    s = (work.now[active][:, None] + work.extra[active])[..., ENTRY]
    moments = (phi @ s @ phi.transpose(0, 1, 3, 2))[..., :2, 2]
    cone = np.where(active < cones, active, (active - cones) // 2)
    return np.asarray(scale * np.einsum("gqd,kd,gk->qk", moments, points, gates[cone], optimize=True))
