"""One neuron through a step in which the forces are known: exact between events, which are located to rounding.

From share θ to 1, stretch by stretch: D of the present signs as a polynomial about θ, projected if the neuron
slides; the Taylor series of (w, a) (`series`); the first event on it:

* a wall is met: a zero of S_w ⟨w, e_w⟩;
* a sliding neuron is pulled off: with independent normals where a multiplier |μ_w| exceeds sign(a) C_w by more
  than `rest`; with dependent ones where the force of least norm differs from the projected one by more;
* the outer weight of a sliding neuron passes zero.

There `settle` decides, and the neuron goes on. A wall at which it is, having just crossed or left it, has
⟨w, e_w⟩ = ±rounding: its next zero is sought in the series divided by u.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, Signed
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.field import Field, Sums
from shallowflow.kernels.walls.series import NONE, ORDER, STRETCH, expand, first_zero, shift, value
from shallowflow.kernels.walls.settle import ON, Meeting, new_meeting, settle
from shallowflow.kernels.walls.sliding import Frame, extend, multipliers, new_frame, project, shorten

ROUNDING = 1e-13
"""⟨w, e_w⟩ counts as zero below this share of the larger of ‖w‖ and |a|."""
TOGETHER = 100.0
"""Walls within so many roundings of an event belong to it."""
MOST_EVENTS, MOST_STRETCHES = 60, 4000
FINE, CROWDED, FULL = 0, 1, 2
SAMPLES = 4
PASSED, HELD, TWO_VALUED = 0, 1, 2


class Neurons(NamedTuple):
    """inner (m, r), outer (m,), signs (m, W)."""

    inner: Floats
    outer: Floats
    signs: Ints


class Log(NamedTuple):
    """Changes of signs in a step: neurons, walls, before, after, kinds (E,), shares, kinks (E,); count (1,)."""

    neurons: Ints
    walls: Ints
    before: Ints
    after: Ints
    kinds: Ints
    shares: Floats
    kinks: Floats
    count: Ints


class Desk(NamedTuple):
    """What tracing one neuron works with: w (r,), its signs (W,), z (W,); forces (q, r) over the step and
    local (q, r) on a stretch; inner (ORDER + 1, r), outer, norms, passing (ORDER + 1,): series; products
    (k, r): a w at the shares; poly (q,), bounds (q, r), pulls (r,): of multipliers.
    """

    w: Floats
    signs: Ints
    z: Floats
    forces: Floats
    local: Floats
    inner: Floats
    outer: Floats
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
    lists = [np.zeros(size, np.int64) for _ in range(5)]
    return Log(*lists, np.zeros(size), np.zeros(size), np.zeros(1, np.int64))


def new_desk(terms: int, shares: int, problem: Problem) -> Desk:
    """Return a desk for steps of `terms` nodes and at most `shares` shares."""
    walls, rank = problem.normals.shape
    series = [np.zeros(ORDER + 1) for _ in range(3)]
    return Desk(
        np.zeros(rank),
        np.zeros(walls, np.int8),
        np.zeros(walls),
        np.zeros((terms, rank)),
        np.zeros((terms, rank)),
        np.zeros((ORDER + 1, rank)),
        *series,
        np.zeros((shares, rank)),
        np.zeros(terms),
        np.zeros(terms),
        np.zeros((terms, rank)),
        np.zeros(rank),
        new_frame(walls, rank),
        new_meeting(walls, rank),
    )


@njit(cache=True, **INTERNAL)
def take_up(desk: Desk, field: Field, problem: Problem) -> None:
    """Set the frame of the walls on which the neuron slides, and its forces over the step, by its signs."""
    normals, frame = problem.normals, desk.frame
    walls, rank = normals.shape
    terms = desk.forces.shape[0]
    frame.sizes[0], frame.sizes[1] = 0, 0
    if problem.aligned:
        for w in range(walls):
            if desk.signs[w] == 0:
                frame.walls[frame.sizes[0]] = w
                frame.sizes[0] += 1
            for p in range(terms):
                desk.forces[p, w] = field.means[p, w] + desk.signs[w] * field.jumps[p, w]
        return
    for p in range(terms):
        for i in range(rank):
            desk.forces[p, i] = field.base[p * rank + i]
    for w in range(walls):
        if desk.signs[w] >= 0:
            factor = 1.0 if desk.signs[w] > 0 else 0.5
            if desk.signs[w] == 0:
                extend(frame, normals, w)
            for p in range(terms):
                for i in range(rank):
                    desk.forces[p, i] += factor * field.vectors[w, p * rank + i]


@njit(cache=True, **INTERNAL)
def _local_forces(start: float, span: float, step: float, desk: Desk, problem: Problem) -> float:
    """Set D·step·length on a stretch from `start`, at most `span` long, projected; return its length."""
    terms, rank = desk.forces.shape
    for i in range(rank):
        shift(desk.forces, i, start, 1.0, desk.poly)
        for p in range(terms):
            desk.local[p, i] = desk.poly[p]
    frame = desk.frame
    if frame.sizes[0] > 0:
        for p in range(terms):
            if problem.aligned:
                for k in range(frame.sizes[0]):
                    desk.local[p, frame.walls[k]] = 0.0
            else:
                multipliers(desk.local[p], frame, desk.multipliers[p])
                project(desk.local[p], frame)
    length = span
    for _ in range(60):
        total, factor = 0.0, length
        for p in range(terms):
            square = 0.0
            for i in range(rank):
                square += desk.local[p, i] * desk.local[p, i]
            total += sqrt(square) * factor
            factor *= length
        if step * total <= STRETCH:
            break
        length *= max(0.1, 0.9 * STRETCH / (step * total))
    factor = step * length
    for p in range(terms):
        for i in range(rank):
            desk.local[p, i] *= factor
        factor *= length
    return length


@njit(cache=True, **INTERNAL)
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


@njit(cache=True, **INTERNAL)
def _first_wall(order: int, tiny: float, desk: Desk, problem: Problem) -> float:
    """Return where on the stretch the neuron first meets a wall, or `NONE`."""
    normals, reach = problem.normals, 0.0
    for p in range(1, order + 1):
        reach += desk.norms[p]
    first = NONE
    for w in range(normals.shape[0]):
        if desk.signs[w] == 0:
            continue
        if problem.aligned:
            z = desk.inner[0, w]
        else:
            z = 0.0
            for i in range(normals.shape[1]):
                z += desk.inner[0, i] * normals[w, i]
        if desk.signs[w] * z > reach + tiny:
            continue
        first = min(first, _meets(w, order, tiny, desk, normals))
    return first


@njit(cache=True, **INTERNAL)
def _leaves(
    u: float, start: float, length: float, way: float, rest: float, desk: Desk, field: Field, problem: Problem
) -> bool:
    """Return whether a neuron on walls with dependent normals is pulled off at u."""
    frame, meeting, normals = desk.frame, desk.meeting, problem.normals
    box, size = meeting.box, normals.shape[1]
    share = start + length * u
    for i in range(size):
        shift(desk.forces, i, share, 1.0, desk.poly)
        meeting.rest[i] = desk.poly[0]
        box.force[i] = desk.poly[0]
        desk.pulls[i] = desk.poly[0]
    project(desk.pulls, frame)
    repelled = False
    for k in range(frame.sizes[0]):
        w = frame.walls[k]
        shift(field.jumps, w, share, 1.0, desk.poly)
        meeting.walls[k], meeting.sides[k], meeting.jumps[k] = w, ON, desk.poly[0]
        box.walls[k], box.bounds[k], box.x[k] = w, abs(desk.poly[0]), 0.0
        repelled = repelled or way * desk.poly[0] <= 0.0
    if repelled:
        settle(Signed(0), frame.sizes[0], way, rest, meeting, normals)
    else:
        shorten(box, frame.sizes[0], normals)
    square = 0.0
    for i in range(size):
        apart = box.force[i] - desk.pulls[i]
        square += apart * apart
    return sqrt(square) > rest


@njit(cache=True, **INTERNAL)
def _first_release(
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
            first = min(first, 0.0 if desk.passing[0] <= 0.0 else first_zero(desk.passing, terms - 1, 1.0, 0.0))
    return first


@njit(cache=True, **INTERNAL)
def _add(first: int, last: int, desk: Desk, sums: Sums, problem: Problem) -> None:
    """Add the neuron to the sums at shares first, …, last − 1, by its present signs."""
    walls, rank = problem.normals.shape
    for row in range(first, last):
        for i in range(rank):
            sums.everyone[row, i] += desk.products[row, i]
    for w in range(walls):
        if desk.signs[w] > 0:
            for row in range(first, last):
                if problem.aligned:
                    sums.active[w, row, 0] += desk.products[row, w]
                else:
                    for i in range(rank):
                        sums.active[w, row, i] += desk.products[row, i]


@njit(cache=True, **INTERNAL)
def _move(u: float, order: int, desk: Desk) -> float:
    """Put w where its series is at u; return a there."""
    for i in range(desk.w.size):
        total = desk.inner[order, i]
        for p in range(order - 1, -1, -1):
            total = total * u + desk.inner[p, i]
        desk.w[i] = total
    return value(desk.outer, order, u)


@njit(cache=True, **INTERNAL)
def _meet(share: float, tiny: float, outer: float, desk: Desk, field: Field, problem: Problem) -> int:
    """List the walls of an event at `share`: those met, and those on which the neuron slides; return how many.

    D_rest is left in `meeting.rest`, D before the event in `desk.pulls`.
    """
    normals, meeting = problem.normals, desk.meeting
    walls, rank = normals.shape
    for i in range(rank):
        shift(desk.forces, i, share, 1.0, desk.poly)
        desk.pulls[i] = desk.poly[0]
        meeting.rest[i] = desk.poly[0]
    if desk.frame.sizes[0] > 0:
        if problem.aligned:
            for k in range(desk.frame.sizes[0]):
                desk.pulls[desk.frame.walls[k]] = 0.0
        else:
            project(desk.pulls, desk.frame)
    count = 0
    for w in range(walls):
        z, speed = 0.0, 0.0
        for i in range(rank):
            z += desk.w[i] * normals[w, i]
            speed -= outer * desk.pulls[i] * normals[w, i]
        sign = desk.signs[w]
        if sign != 0 and (abs(z) > TOGETHER * tiny or (sign * speed > 0.0 and sign * z > -tiny)):
            continue
        shift(field.jumps, w, share, 1.0, desk.poly)
        meeting.walls[count], meeting.sides[count], meeting.jumps[count] = w, sign, desk.poly[0]
        desk.z[count] = speed
        if sign != 0:
            for i in range(rank):
                meeting.rest[i] -= sign * desk.poly[0] * normals[w, i]
        count += 1
    return count


@njit(cache=True, **INTERNAL)
def _note(neuron: int, share: float, outer: float, many: int, two: int, desk: Desk, log: Log) -> int:
    """Take over the signs of a meeting of `many` walls, and log those that changed; return how many did."""
    meeting, changed = desk.meeting, 0
    for k in range(many):
        w = meeting.walls[k]
        if meeting.signs[k] == desk.signs[w]:
            continue
        place = log.count[0]
        if place < log.neurons.size:
            log.neurons[place], log.walls[place] = neuron, w
            log.before[place], log.after[place] = desk.signs[w], meeting.signs[k]
            log.kinds[place], log.shares[place] = two, share
            log.kinks[place] = abs(outer * desk.z[k]) if desk.signs[w] != 0 else 0.0
        log.count[0] += 1
        desk.signs[w] = meeting.signs[k]
        changed += 1
    return changed


@njit(cache=True, **INTERNAL)
def put_onto_walls(desk: Desk, problem: Problem) -> None:
    """Move w exactly onto the walls on which the neuron slides."""
    if problem.aligned:
        for k in range(desk.frame.sizes[0]):
            desk.w[desk.frame.walls[k]] = 0.0
    elif desk.frame.sizes[0] > 0:
        project(desk.w, desk.frame)


@njit(cache=True, **INTERNAL)
def _event(
    neuron: int,
    share: float,
    outer: float,
    rest: float,
    desk: Desk,
    field: Field,
    log: Log,
    problem: Problem,
) -> int:
    """Decide what happens at an event; return how many signs changed."""
    square = 0.0
    for i in range(desk.w.size):
        square += desk.w[i] * desk.w[i]
    size = max(sqrt(square), abs(outer))
    tiny = ROUNDING * size
    many = _meet(share, tiny, outer, desk, field, problem)
    way = outer
    if abs(outer) <= tiny:
        way = 0.0
        for i in range(desk.w.size):
            way -= desk.w[i] * desk.pulls[i]
        # In the unit of a: the sign is all that counts.
        way = size if way > 0.0 else -size
    two = settle(neuron, many, way, rest, desk.meeting, problem.normals)
    changed = _note(neuron, share, outer, many, two, desk, log)
    take_up(desk, field, problem)
    put_onto_walls(desk, problem)
    return changed


@njit(cache=True, **INTERNAL)
def _first_signs(outer: float, desk: Desk, normals: Floats) -> None:
    """Set the sides on which a neuron is, 0 where it lies on a wall; one without any weight is on none."""
    walls, rank = normals.shape
    square = 0.0
    for i in range(rank):
        square += desk.w[i] * desk.w[i]
    tiny = ROUNDING * max(sqrt(square), abs(outer))
    for w in range(walls):
        z = 0.0
        for i in range(rank):
            z += desk.w[i] * normals[w, i]
        desk.signs[w] = 1 if z > tiny else 0 if z >= -tiny and tiny > 0.0 else -1


@njit(cache=True, **INTERNAL)
def trace(
    neuron: int,
    step: float,
    rest: float,
    shares: Floats,
    now: Neurons,
    then: Neurons,
    tools: tuple[Desk, Field, Sums, Log],
    problem: Problem,
) -> int:
    """Follow a neuron from the beginning of a step of length `step` to shares[-1]; return how that went.

    A step of no length is the start: with rest < 0 the neuron gets its signs, 0 on walls and at w = 0; then
    `settle` decides about those.
    """
    desk, field, sums, log = tools
    walls, rank = problem.normals.shape
    for i in range(rank):
        desk.w[i] = now.inner[neuron, i]
    if rest < 0.0:
        _first_signs(now.outer[neuron], desk, problem.normals)
    else:
        for w in range(walls):
            desk.signs[w] = now.signs[neuron, w]
    outer, start, end = now.outer[neuron], 0.0, shares[shares.size - 1]
    take_up(desk, field, problem)
    waiting = step == 0.0 and rest >= 0.0 and desk.frame.sizes[0] > 0
    reached, added, events, turned = Signed(0), Signed(0), 0, False
    for _ in range(MOST_STRETCHES):
        if not start < end:
            break
        length = _local_forces(start, end - start, step, desk, problem)
        order = expand(desk.w, outer, desk.local, desk.inner, desk.outer, desk.norms)
        tiny = ROUNDING * max(desk.norms[0], abs(outer))
        first = _first_wall(order, tiny, desk, problem)
        if waiting:
            first = 0.0
        elif step == 0.0:
            first = NONE
        elif desk.frame.sizes[0] > 0:
            way = outer if abs(outer) > tiny else desk.outer[1]
            way = 1.0 if way >= 0.0 else -1.0
            first = min(first, _first_release(start, length, way, rest, desk, field, problem))
            if not turned and abs(outer) > tiny:
                first = min(first, first_zero(desk.outer, order, way, 0.0))
        if turned and first <= 1e-12:
            # It has just been decided that nothing changes here.
            first = NONE
        turned = False
        u = min(first, 1.0)
        while reached < shares.size and (shares[reached] <= start + length * u or (u == 1.0 and start + length >= end)):
            at = (shares[reached] - start) / length
            total = value(desk.outer, order, at)
            for i in range(rank):
                part = desk.inner[order, i]
                for p in range(order - 1, -1, -1):
                    part = part * at + desk.inner[p, i]
                desk.products[reached, i] = part * total
            reached += 1
        outer = _move(u, order, desk)
        if first > 1.0:
            start = end if length == end - start else start + length
            put_onto_walls(desk, problem)
            continue
        start += length * first
        _add(added, reached, desk, sums, problem)
        added = reached
        changed = _event(neuron, start, outer, rest, desk, field, log, problem)
        turned, waiting = changed == 0, False
        events += 1
        if events > MOST_EVENTS:
            return CROWDED
        if log.count[0] > log.neurons.size:
            return FULL
    if start < end:
        return CROWDED
    _add(added, shares.size, desk, sums, problem)
    for w in range(walls):
        then.signs[neuron, w] = desk.signs[w]
    for i in range(rank):
        then.inner[neuron, i] = desk.w[i]
    then.outer[neuron] = outer
    return FINE
