"""What tracing neurons works with: neurons, a log of their events, a desk for one of them, its first event.

The first event on a stretch of a step whose forces are known:

* a wall is met: a zero of S_w ⟨w, e_w⟩;
* a sliding neuron is pulled off: with independent normals where a multiplier |μ_w| exceeds sign(a) C_w by
  more than `rest`; with dependent ones where the force of least norm differs from the projected one by more;
* the outer weight of a sliding neuron passes zero.

A wall at which the neuron is, having just crossed or left it, has ⟨w, e_w⟩ = ±rounding: its next zero is
sought in the series divided by u.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, SUMS
from shallowflow.kernels.walls.field import (
    NONE,
    ORDER,
    TERMS,
    Field,
    Problem,
    add_row,
    first_zero,
    lowest,
    shift,
    squared,
    value,
)
from shallowflow.kernels.walls.settle import (
    ON,
    Frame,
    Meeting,
    extend,
    multipliers,
    new_frame,
    new_meeting,
    project,
    settle,
    shorten,
)


class Neurons(NamedTuple):
    """inner (m, r), outer (m,), signs (m, W)."""

    inner: Floats
    outer: Floats
    signs: Ints


class Log(NamedTuple):
    """Changes of signs in a step: changes (E, 5): neuron, wall, before, after, kind; shares, kinks (E,); used
    (1,).
    """

    changes: Ints
    shares: Floats
    kinks: Floats
    used: Ints


class Series(NamedTuple):
    """The Taylor series of a neuron on a stretch: inner (ORDER + TERMS, r), outer (ORDER + TERMS,) and
    norms (ORDER + 1,), as `expand` writes them; passing (ORDER + 1,): of ⟨w, e_w⟩, or of another height.
    """

    inner: Floats
    outer: Floats
    norms: Floats
    passing: Floats


class Push(NamedTuple):
    """The forces on a neuron: forces (q, r) over the step, flat (q·r,) the same numbers, local (q, r) on a
    stretch, tails (q,): Σ_{p≥j} ‖D_p‖ on it; multipliers (q, r) of the walls on which it slides; poly, other
    (q,): to work with.
    """

    forces: Floats
    flat: Floats
    local: Floats
    tails: Floats
    multipliers: Floats
    poly: Floats
    other: Floats


class Lanes(NamedTuple):
    """Up to L neurons side by side. Their series: inner (ORDER + TERMS, r, L), outer, norms and sizes (ORDER
    + TERMS, L): a_l, ‖w_l‖, ‖(w_l, a_l)‖; forces (q, r, L), tails (q, L); sides (W, L): S; products (k·r + r,
    L): a w at the shares, then w at the end; work (4, L); close (L,): 0 if nothing can happen to a neuron.
    """

    inner: Floats
    outer: Floats
    norms: Floats
    sizes: Floats
    forces: Floats
    tails: Floats
    sides: Floats
    products: Floats
    work: Floats
    close: Ints


class Desk(NamedTuple):
    """What tracing one neuron works with: w (r,), its signs (W,), products (k·r,): a w at the shares; the
    frame of the walls on which it slides; across (r, W): the normals transposed, heights (2, W): of vectors
    over all walls. lanes: what many neurons work with at the same time.
    """

    across: Floats
    heights: Floats
    w: Floats
    signs: Ints
    products: Floats
    series: Series
    push: Push
    frame: Frame
    meeting: Meeting
    lanes: Lanes


ROUNDING = 1e-13
"""⟨w, e_w⟩ counts as zero below this share of the larger of ‖w‖ and |a|."""
NUMBERS, FEWEST, MOST = 1 << 15, 16, 64
"""Numbers in the series of all lanes, about; how many lanes there are."""


def new_neurons(inner: Floats, outer: Floats, walls: int) -> Neurons:
    """Return neurons on no side."""
    return Neurons(inner.copy(), outer.copy(), np.zeros((len(outer), walls), np.int8))


def new_log(size: int) -> Log:
    """Return an empty log with room for `size` changes."""
    return Log(np.zeros((size, 5), np.int64), np.zeros(size), np.zeros(size), np.zeros(1, np.int64))


def new_desk(terms: int, shares: int, problem: Problem) -> Desk:
    """Return a desk for steps of `terms` nodes and at most `shares` shares."""
    walls, rank = problem.normals.shape
    inner, outer, forces = np.zeros((ORDER + TERMS, rank)), np.zeros(ORDER + TERMS), np.zeros((terms, rank))
    over = forces, forces.reshape(-1), np.zeros((terms, rank)), np.zeros(terms), np.zeros((terms, rank))
    return Desk(
        np.ascontiguousarray(problem.normals.T),
        np.zeros((2, walls)),
        np.zeros(rank),
        np.zeros(walls, np.int8),
        np.zeros(shares * rank),
        Series(inner, outer, np.zeros(ORDER + 1), np.zeros(ORDER + 1)),
        Push(*over, np.zeros(terms), np.zeros(terms)),
        new_frame(walls, rank),
        new_meeting(walls, rank),
        new_lanes(terms, shares, problem),
    )


def new_lanes(terms: int, shares: int, problem: Problem) -> Lanes:
    """Return lanes whose series fit into the nearer caches."""
    (walls, rank), rows = problem.normals.shape, ORDER + TERMS
    many = min(max(NUMBERS // (rows * max(rank, 1)), FEWEST), MOST)
    return Lanes(
        np.zeros((rows, rank, many)),
        np.zeros((rows, many)),
        np.zeros((rows, many)),
        np.zeros((rows, many)),
        np.zeros((terms, rank, many)),
        np.zeros((terms, many)),
        np.zeros((walls, many)),
        np.zeros(((shares + 1) * rank, many)),
        np.zeros((4, many)),
        np.zeros(many, np.int64),
    )


@njit(cache=True, **INTERNAL)
def stand(signs: Ints, frame: Frame, normals: Floats, aligned: int) -> None:
    """Set the frame of the walls on which a neuron slides."""
    on, sizes = frame.walls, frame.sizes
    sizes[0], sizes[1] = 0, 0
    for w in range(signs.size):
        if signs[w] == 0:
            if aligned:
                on[sizes[0]] = w
                sizes[0] += 1
            else:
                extend(frame, normals, w)


@njit(cache=True, **INTERNAL)
def take_up(signs: Ints, forces: Floats, field: Field, aligned: int) -> None:
    """Set the forces (q·r,) on a neuron over the step."""
    means, jumps, vectors, base, _ = field
    terms, walls = means.shape
    if aligned:
        for p in range(terms):
            for w in range(walls):
                forces[p * walls + w] = means[p, w] + signs[w] * jumps[p, w]
        return
    for i in range(forces.size):
        forces[i] = base[i]
    for w in range(walls):
        if signs[w] >= 0:
            add_row(forces, 1.0 if signs[w] > 0 else 0.5, vectors, w)


@njit(cache=True, **INTERNAL)
def hold(push: Push, frame: Frame, aligned: int) -> None:
    """Project the local forces on a neuron onto the walls on which it slides, and set its multipliers."""
    local, found = push.local, push.multipliers
    rows, triangle, walls, sizes = frame
    for p in range(local.shape[0]):
        if aligned:
            for k in range(sizes[0]):
                local[p, walls[k]] = 0.0
        else:
            multipliers(local[p], rows, triangle, sizes[1], found[p], True)


@njit(cache=True, **INTERNAL)
def put_onto_walls(w: Floats, frame: Frame, aligned: int) -> None:
    """Move w (r,) exactly onto the walls on which the neuron slides."""
    rows, _, walls, sizes = frame
    if aligned:
        for k in range(sizes[0]):
            w[walls[k]] = 0.0
    elif sizes[0] > 0:
        project(w, rows, sizes[1])


@njit(cache=True, **INTERNAL)
def polynomial_at(share: float, column: int, table: Floats) -> float:
    """Return Σ_p table[p, column] θ^p at a share θ."""
    total = table[table.shape[0] - 1, column]
    for p in range(table.shape[0] - 2, -1, -1):
        total = total * share + table[p, column]
    return total


@njit(cache=True, **INTERNAL)
def forces_at(share: float, forces: Floats, target: Floats) -> None:
    """Write D (r,) at a share of the step, from its polynomials (q, r)."""
    for i in range(target.size):
        target[i] = polynomial_at(share, i, forces)


SAMPLES = 4
"""Parts of a stretch at whose ends a neuron on dependent walls is looked at."""


@njit(cache=True, **SUMS)
def over_walls(vector: Floats, across: Floats, target: Floats, aligned: int) -> None:
    """Write ⟨vector, e_w⟩ of all walls, (W,)."""
    for w in range(target.size):
        target[w] = vector[w] if aligned else 0.0
    for i in range(0 if aligned else vector.size):
        part = vector[i]
        for w in range(target.size):
            target[w] += part * across[i, w]


@njit(cache=True, **ONCE)
def _meets(order: int, side: float, tiny: float, until: float, passing: Floats) -> float:
    """Return where up to `until` a neuron with these heights meets its wall, 0 if that must be decided at
    once, or `NONE`.
    """
    if side * passing[0] > tiny:
        return first_zero(passing, order, side, until)
    if order == 0:
        return NONE
    # At the wall: the zero at u = 0 is taken out.
    if side * passing[1] > tiny:
        for p in range(order):
            passing[p] = passing[p + 1]
        return first_zero(passing, order - 1, side, until)
    if side * passing[1] < -tiny:
        return 0.0
    passing[0] = 0.0
    for k in range(1, 17):
        height = side * value(passing, order, k / 16.0)
        if height < -tiny:
            return 0.0
        if height > tiny:
            return NONE
    return NONE


@njit(cache=True, **SUMS)
def _along(inner: Floats, p: int, normals: Floats, w: int, aligned: int) -> float:
    """Return the part of row p along the normal of wall w."""
    if aligned:
        return float(inner[p, w])
    part = 0.0
    for i in range(normals.shape[1]):
        part += inner[p, i] * normals[w, i]
    return part


@njit(cache=True, **INTERNAL)
def first_wall(
    order: int, tiny: float, signs: Ints, series: Series, across: Floats, heights: Floats, normals: Floats,
    aligned: int,
) -> float:  # fmt: skip
    """Return where on the stretch the neuron first meets a wall, or `NONE`.

    A wall is looked at closely if S z may vanish: its terms after the second take away at most Σ_{p>2} ‖w_p‖.
    """
    inner, _, norms, passing = series
    reach, later = 0.0, 0.0
    for p in range(1, order + 1):
        reach += norms[p]
        if p > 2:
            later += norms[p]
    over_walls(inner[0], across, heights, aligned)
    first = NONE
    for w in range(signs.size):
        side, until = float(signs[w]), min(first, 1.0)
        if signs[w] == 0 or side * heights[w] > reach + tiny:
            continue
        passing[0] = heights[w]
        for p in range(1, order + 1):
            passing[p] = _along(inner, p, normals, w, aligned)
            if p == 2 and side * passing[0] > tiny:
                low = lowest(side * passing[0], side * passing[1], side * passing[2], until)
                if low > later + tiny:
                    break
        else:
            first = min(first, _meets(order, side, tiny, until, passing))
    return first


@njit(cache=True, **ONCE)
def _leaves(
    share: float, way: float, rest: float, forces: Floats, frame: Frame, meeting: Meeting, jumps: Floats,
    normals: Floats,
) -> bool:  # fmt: skip
    """Return whether a neuron on walls with dependent normals is pulled off at a share of the step."""
    rows, _, on, sizes = frame
    walls, sides, found = meeting.walls, meeting.sides, meeting.jumps
    bounds, x, force = meeting.bounds, meeting.x, meeting.force
    others, pulls = meeting.rest, meeting.pulls
    forces_at(share, forces, others)
    for i in range(force.size):
        force[i], pulls[i] = others[i], others[i]
    project(pulls, rows, sizes[1])
    repelled, count = False, sizes[0]
    for k in range(count):
        walls[k], sides[k], found[k] = on[k], ON, polynomial_at(share, on[k], jumps)
        bounds[k], x[k] = abs(found[k]), 0.0
        repelled = repelled or way * found[k] <= 0.0
    if repelled:
        settle(count, count, way, rest, meeting, normals)
    else:
        shorten(count, meeting, normals)
    for i in range(force.size):
        pulls[i] -= force[i]
    return sqrt(squared(pulls)) > rest


@njit(cache=True, **INTERNAL)
def first_leaving(
    span: tuple[float, float], way: float, rest: float, forces: Floats, frame: Frame, meeting: Meeting,
    jumps: Floats, normals: Floats,
) -> float:  # fmt: skip
    """Return where on a stretch (start, length) a neuron is pulled off dependent walls, or `NONE`.

    Samples from the left; after the first at which it leaves, bisection.
    """
    before, after, u = 0.0, NONE, 0.0
    while after == NONE or after - before > 1e-13:
        if _leaves(span[0] + span[1] * u, way, rest, forces, frame, meeting, jumps, normals):
            if u == 0.0:
                return 0.0
            after = u
        else:
            before = u
        if after == NONE and before >= 1.0:
            return NONE
        u = before + 1.0 / SAMPLES if after == NONE else 0.5 * (before + after)
    return after


@njit(cache=True, **INTERNAL)
def first_release(
    span: tuple[float, float], way: float, rest: float, push: Push, frame: Frame, passing: Floats,
    jumps: Floats, aligned: int,
) -> float:  # fmt: skip
    """Return where on a stretch (start, length) a neuron is pulled off walls with independent normals, or
    `NONE`.
    """
    forces, _, _, _, found, poly, other = push
    walls, count = frame.walls, frame.sizes[0]
    start, length = span
    terms, first = poly.size, NONE
    for k in range(count):
        shift(jumps, walls[k], start, length, poly)
        if aligned:
            shift(forces, walls[k], start, length, other)
        else:
            factor = 1.0
            for p in range(terms):
                other[p] = found[p, k] * factor
                factor *= length
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for p in range(terms):
                passing[p] = way * poly[p] + sign * other[p]
            passing[0] += rest
            if passing[0] <= 0.0:
                return 0.0
            first = min(first, first_zero(passing, terms - 1, 1.0, min(first, 1.0)))
    return first
