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
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.field import Field
from shallowflow.kernels.walls.series import NONE, ORDER, TERMS, dot, first_zero, shift, value
from shallowflow.kernels.walls.settle import ON, Meeting, new_meeting, settle
from shallowflow.kernels.walls.sliding import Frame, extend, new_frame, project, shorten


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


class Desk(NamedTuple):
    """What tracing one neuron works with: w (r,), its signs (W,), z (W,); forces (q, r) over the step, flat
    (q·r,) the same numbers, and local (q, r) on a stretch, tails (q,): Σ_{p≥j} ‖D_p‖ on it; inner (ORDER + 1,
    r), outer, norms, passing (ORDER + 1,): series; padded, padded_outer: they after rows of zeros; products
    (k·r,): a w at the shares; poly (q,), bounds (q, r), pulls (r,): of multipliers.
    """

    w: Floats
    signs: Ints
    z: Floats
    forces: Floats
    flat: Floats
    local: Floats
    tails: Floats
    inner: Floats
    outer: Floats
    padded: Floats
    padded_outer: Floats
    norms: Floats
    passing: Floats
    products: Floats
    poly: Floats
    other: Floats
    multipliers: Floats
    pulls: Floats
    frame: Frame
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
    return Desk(
        np.zeros(rank),
        np.zeros(walls, np.int8),
        np.zeros(walls),
        forces,
        forces.reshape(-1),
        np.zeros((terms, rank)),
        np.zeros(terms),
        padded[TERMS - 1 :],
        padded_outer[TERMS - 1 :],
        padded,
        padded_outer,
        np.zeros(ORDER + 1),
        np.zeros(ORDER + 1),
        np.zeros(shares * rank),
        np.zeros(terms),
        np.zeros(terms),
        np.zeros((terms, rank)),
        np.zeros(rank),
        new_frame(walls, rank),
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


@njit(cache=True, **SUMS)
def _meets(w: int, order: int, tiny: float, desk: Desk, normals: Floats) -> float:
    """Return where on the stretch the neuron meets wall w, 0 if it must be decided at once, or `NONE`."""
    series, sign = desk.passing, float(desk.signs[w])
    for p in range(order + 1):
        part = 0.0
        for i in range(normals.shape[1]):
            part += desk.inner[p, i] * normals[w, i]
        series[p] = part
    if sign * series[0] > tiny:
        return first_zero(series, order, sign, 0.0)
    if order == 0:
        return NONE
    # At the wall: the zero at u = 0 is taken out.
    if sign * series[1] > tiny:
        return first_zero(series[1:], order - 1, sign, 0.0)
    if sign * series[1] < -tiny:
        return 0.0
    series[0] = 0.0
    for k in range(1, 17):
        height = sign * value(series, order, k / 16.0)
        if height < -tiny:
            return 0.0
        if height > tiny:
            return NONE
    return NONE


@njit(cache=True, **ONCE)
def first_wall(order: int, tiny: float, desk: Desk, problem: Problem) -> float:
    """Return where on the stretch the neuron first meets a wall, or `NONE`."""
    normals, reach = problem.normals, 0.0
    for p in range(1, order + 1):
        reach += desk.norms[p]
    first = NONE
    for w in range(normals.shape[0]):
        if desk.signs[w] == 0:
            continue
        z = desk.inner[0, w] if problem.aligned else dot(desk.w, normals, w)
        if desk.signs[w] * z > reach + tiny:
            continue
        first = min(first, _meets(w, order, tiny, desk, normals))
    return first


@njit(cache=True, **ONCE)
def _leaves(
    u: float, start: float, length: float, way: float, rest: float, desk: Desk, field: Field, problem: Problem
) -> bool:
    """Return whether a neuron on walls with dependent normals is pulled off at u."""
    frame, meeting, normals = desk.frame, desk.meeting, problem.normals
    box, size = meeting.box, normals.shape[1]
    share = start + length * u
    for i in range(size):
        total = desk.forces[desk.poly.size - 1, i]
        for p in range(desk.poly.size - 2, -1, -1):
            total = total * share + desk.forces[p, i]
        meeting.rest[i], box.force[i], desk.pulls[i] = total, total, total
    project(desk.pulls, frame)
    repelled = False
    for k in range(frame.sizes[0]):
        w = frame.walls[k]
        shift(field.jumps, w, share, 1.0, desk.poly)
        meeting.walls[k], meeting.sides[k], meeting.jumps[k] = w, ON, desk.poly[0]
        box.walls[k], box.bounds[k], box.x[k] = w, abs(desk.poly[0]), 0.0
        repelled = repelled or way * desk.poly[0] <= 0.0
    if repelled:
        settle(frame.sizes[0], frame.sizes[0], way, rest, meeting, normals)
    else:
        shorten(box, frame.sizes[0], normals)
    square = 0.0
    for i in range(size):
        apart = box.force[i] - desk.pulls[i]
        square += apart * apart
    return sqrt(square) > rest


@njit(cache=True, **ONCE)
def first_release(
    start: float, length: float, way: float, rest: float, desk: Desk, field: Field, problem: Problem
) -> float:
    """Return where on the stretch a sliding neuron is pulled off its walls, or `NONE`."""
    frame, terms = desk.frame, desk.forces.shape[0]
    count, first = frame.sizes[0], NONE
    if not problem.aligned and frame.sizes[1] < count:
        # Samples from the left; after the first at which it leaves, bisection.
        before, after, u = 0.0, NONE, 0.0
        while after == NONE or after - before > 1e-13:
            if _leaves(u, start, length, way, rest, desk, field, problem):
                if u == 0.0:
                    return 0.0
                after = u
            else:
                before = u
            if after == NONE and before >= 1.0:
                return NONE
            u = before + 1.0 / SAMPLES if after == NONE else 0.5 * (before + after)
        return after
    for k in range(count):
        w = frame.walls[k]
        shift(field.jumps, w, start, length, desk.poly)
        if problem.aligned:
            shift(desk.forces, w, start, length, desk.other)
        else:
            factor = 1.0
            for p in range(terms):
                desk.other[p] = desk.multipliers[p, k] * factor
                factor *= length
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for p in range(terms):
                desk.passing[p] = way * desk.poly[p] + sign * desk.other[p]
            desk.passing[0] += rest
            first = min(
                first, 0.0 if desk.passing[0] <= 0.0 else first_zero(desk.passing, terms - 1, 1.0, 0.0)
            )
    return first
