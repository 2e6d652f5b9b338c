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
    dot,
    first_zero,
    lowest,
    shift,
    value,
)
from shallowflow.kernels.walls.settle import (
    ON,
    Frame,
    Meeting,
    extend,
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
    """Changes of signs in a step: neurons, walls, before, after, kinds, shares, kinks (E,); used (1,)."""

    neurons: Ints
    walls: Ints
    before: Ints
    after: Ints
    kinds: Ints
    shares: Floats
    kinks: Floats
    used: Ints


class Series(NamedTuple):
    """The Taylor series of a neuron on a stretch: inner (ORDER + 1, r), outer, norms (ORDER + 1,); padded,
    padded_outer: they after rows of zeros; passing (ORDER + 1,): of ⟨w, e_w⟩, or of another height.
    """

    inner: Floats
    outer: Floats
    padded: Floats
    padded_outer: Floats
    norms: Floats
    passing: Floats


class Push(NamedTuple):
    """The forces on a neuron: forces (q, r) over the step, flat (q·r,) the same numbers, local (q, r) on a
    stretch, tails (q,): Σ_{p≥j} ‖D_p‖ on it; the frame of the walls on which it slides, multipliers (q, r) of
    these; poly, other (q,): to work with.
    """

    forces: Floats
    flat: Floats
    local: Floats
    tails: Floats
    multipliers: Floats
    poly: Floats
    other: Floats
    frame: Frame


class Desk(NamedTuple):
    """What tracing one neuron works with: w (r,), its signs (W,), z (W,), pulls (r,): D at an event, products
    (k·r,): a w at the shares.
    """

    w: Floats
    signs: Ints
    z: Floats
    pulls: Floats
    products: Floats
    series: Series
    push: Push
    meeting: Meeting


def new_neurons(inner: Floats, outer: Floats, walls: int) -> Neurons:
    """Return neurons on no side."""
    return Neurons(inner.copy(), outer.copy(), np.zeros((len(outer), walls), np.int8))


def new_log(size: int) -> Log:
    """Return an empty log with room for `size` changes."""
    one, two, three, four, five = (np.zeros(size, np.int64) for _ in range(5))
    return Log(one, two, three, four, five, np.zeros(size), np.zeros(size), np.zeros(1, np.int64))


def new_desk(terms: int, shares: int, problem: Problem) -> Desk:
    """Return a desk for steps of `terms` nodes and at most `shares` shares."""
    walls, rank = problem.normals.shape
    padded, padded_outer = np.zeros((TERMS + ORDER, rank)), np.zeros(TERMS + ORDER)
    forces = np.zeros((terms, rank))
    whole = padded[TERMS - 1 :], padded_outer[TERMS - 1 :], padded, padded_outer
    over = forces, forces.reshape(-1), np.zeros((terms, rank)), np.zeros(terms), np.zeros((terms, rank))
    return Desk(
        np.zeros(rank),
        np.zeros(walls, np.int8),
        np.zeros(walls),
        np.zeros(rank),
        np.zeros(shares * rank),
        Series(*whole, np.zeros(ORDER + 1), np.zeros(ORDER + 1)),
        Push(*over, np.zeros(terms), np.zeros(terms), new_frame(walls, rank)),
        new_meeting(walls, rank),
    )


@njit(cache=True, **INTERNAL)
def take_up(signs: Ints, forces: Floats, frame: Frame, field: Field, normals: Floats, aligned: int) -> None:
    """Set the frame of the walls on which a neuron slides, and its forces (q·r,) over the step."""
    walls, rank = normals.shape
    frame.sizes[0], frame.sizes[1] = 0, 0
    if aligned:
        for w in range(walls):
            if signs[w] == 0:
                frame.walls[frame.sizes[0]] = w
                frame.sizes[0] += 1
            for p in range(field.means.shape[0]):
                forces[p * rank + w] = field.means[p, w] + signs[w] * field.jumps[p, w]
        return
    for i in range(forces.size):
        forces[i] = field.base[i]
    for w in range(walls):
        if signs[w] >= 0:
            factor = 1.0 if signs[w] > 0 else 0.5
            if signs[w] == 0:
                extend(frame, normals, w)
            for i in range(forces.size):
                forces[i] += factor * field.vectors[w, i]


@njit(cache=True, **INTERNAL)
def put_onto_walls(w: Floats, frame: Frame, aligned: int) -> None:
    """Move w (r,) exactly onto the walls on which the neuron slides."""
    if aligned:
        for k in range(frame.sizes[0]):
            w[frame.walls[k]] = 0.0
    elif frame.sizes[0] > 0:
        project(w, frame)


SAMPLES = 4
"""Parts of a stretch at whose ends a neuron on dependent walls is looked at."""


@njit(cache=True, **ONCE)
def _meets(
    w: int, sign: int, order: int, tiny: float, until: float, series: Series, normals: Floats
) -> float:
    """Return where up to `until` the neuron meets wall w, 0 if it must be decided at once, or `NONE`."""
    inner, passing, side = series.inner, series.passing, float(sign)
    for p in range(order + 1):
        part = 0.0
        for i in range(normals.shape[1]):
            part += inner[p, i] * normals[w, i]
        passing[p] = part
    if side * passing[0] > tiny:
        return first_zero(passing, order, side, until)
    if order == 0:
        return NONE
    # At the wall: the zero at u = 0 is taken out.
    if side * passing[1] > tiny:
        return first_zero(passing[1:], order - 1, side, until)
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
def first_wall(order: int, tiny: float, signs: Ints, series: Series, normals: Floats, aligned: int) -> float:
    """Return where on the stretch the neuron first meets a wall, or `NONE`.

    A wall is looked at closely if S z may vanish: its terms after the second take away at most Σ_{p>2} ‖w_p‖.
    """
    inner, norms, reach, later = series.inner, series.norms, 0.0, 0.0
    for p in range(1, order + 1):
        reach += norms[p]
        if p > 2:
            later += norms[p]
    first = NONE
    for w in range(signs.size):
        sign = signs[w]
        if sign == 0:
            continue
        z = sign * (inner[0, w] if aligned else dot(inner[0], normals, w))
        if z > reach + tiny:
            continue
        until = min(first, 1.0)
        if order > 1 and z > tiny:
            slope = sign * (inner[1, w] if aligned else dot(inner[1], normals, w))
            bend = sign * (inner[2, w] if aligned else dot(inner[2], normals, w))
            if lowest(z, slope, bend, until) > later + tiny:
                continue
        first = min(first, _meets(w, sign, order, tiny, until, series, normals))
    return first


@njit(cache=True, **ONCE)
def _leaves(
    share: float, way: float, rest: float, pulls: Floats, push: Push, meeting: Meeting, jumps: Floats,
    normals: Floats,
) -> bool:  # fmt: skip
    """Return whether a neuron on walls with dependent normals is pulled off at a share of the step."""
    frame, box, size, poly, forces = push.frame, meeting.box, normals.shape[1], push.poly, push.forces
    for i in range(size):
        total = forces[poly.size - 1, i]
        for p in range(poly.size - 2, -1, -1):
            total = total * share + forces[p, i]
        meeting.rest[i], box.force[i], pulls[i] = total, total, total
    project(pulls, frame)
    repelled, count = False, frame.sizes[0]
    for k in range(count):
        w = frame.walls[k]
        shift(jumps, w, share, 1.0, poly)
        meeting.walls[k], meeting.sides[k], meeting.jumps[k] = w, ON, poly[0]
        box.walls[k], box.bounds[k], box.x[k] = w, abs(poly[0]), 0.0
        repelled = repelled or way * poly[0] <= 0.0
    if repelled:
        settle(count, count, way, rest, meeting, normals)
    else:
        shorten(box, count, normals)
    square = 0.0
    for i in range(size):
        apart = box.force[i] - pulls[i]
        square += apart * apart
    return sqrt(square) > rest


@njit(cache=True, **INTERNAL)
def first_leaving(
    span: tuple[float, float], way: float, rest: float, pulls: Floats, push: Push, meeting: Meeting,
    jumps: Floats, normals: Floats,
) -> float:  # fmt: skip
    """Return where on a stretch (start, length) a neuron is pulled off dependent walls, or `NONE`.

    Samples from the left; after the first at which it leaves, bisection.
    """
    before, after, u = 0.0, NONE, 0.0
    while after == NONE or after - before > 1e-13:
        if _leaves(span[0] + span[1] * u, way, rest, pulls, push, meeting, jumps, normals):
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
    start: float, length: float, way: float, rest: float, push: Push, passing: Floats, jumps: Floats,
    aligned: int,
) -> float:  # fmt: skip
    """Return where on the stretch a neuron is pulled off walls with independent normals, or `NONE`."""
    frame, poly, other, found, forces = push.frame, push.poly, push.other, push.multipliers, push.forces
    terms, first = poly.size, NONE
    for k in range(frame.sizes[0]):
        w = frame.walls[k]
        shift(jumps, w, start, length, poly)
        if aligned:
            shift(forces, w, start, length, other)
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
