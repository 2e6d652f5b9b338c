"""One neuron through a step in which the forces are known: exact between events, located to rounding.

From share θ to 1, stretch by stretch: D of the present signs as a polynomial about θ, projected if the neuron
slides; the Taylor series of (w, a) (`series`); the first event on it (`events`). There `settle` decides,
and the neuron goes on.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, Signed
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.desk import Desk, Log, Neurons, put_onto_walls, take_up
from shallowflow.kernels.walls.events import first_release, first_wall
from shallowflow.kernels.walls.field import Field, Sums
from shallowflow.kernels.walls.series import NONE, STRETCH, expand, first_zero, shift, value
from shallowflow.kernels.walls.settle import settle
from shallowflow.kernels.walls.sliding import multipliers, project

ROUNDING = 1e-13
"""⟨w, e_w⟩ counts as zero below this share of the larger of ‖w‖ and |a|."""
TOGETHER = 100.0
"""Walls within so many roundings of an event belong to it."""
MOST_EVENTS, MOST_STRETCHES = 60, 4000
FINE, CROWDED, FULL = 0, 1, 2


@njit(cache=True, **ONCE)
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


@njit(cache=True, **ONCE)
def _meet(share: float, tiny: float, outer: float, desk: Desk, field: Field, problem: Problem) -> int:
    """List the walls of an event at `share`: those met, and those on which the neuron slides; return how
    many.

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


@njit(cache=True, **ONCE)
def _note(neuron: int, share: float, outer: float, many: int, two: int, desk: Desk, log: Log) -> int:
    """Take over the signs of a meeting of `many` walls, and log those that changed; return how many did."""
    meeting, changed = desk.meeting, 0
    for k in range(many):
        w = meeting.walls[k]
        if meeting.signs[k] == desk.signs[w]:
            continue
        place = log.used[0]
        if place < log.neurons.size:
            log.neurons[place], log.walls[place] = neuron, w
            log.before[place], log.after[place] = desk.signs[w], meeting.signs[k]
            log.kinds[place], log.shares[place] = two, share
            log.kinks[place] = abs(outer * desk.z[k]) if desk.signs[w] != 0 else 0.0
        log.used[0] += 1
        desk.signs[w] = meeting.signs[k]
        changed += 1
    return changed


@njit(cache=True, **ONCE)
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


@njit(cache=True, **ONCE)
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


@njit(cache=True, **ONCE)
def _first_event(
    start: float, length: float, order: int, rest: float, desk: Desk, field: Field, problem: Problem
) -> float:
    """Return where on the stretch something happens to the neuron, or `NONE`."""
    outer = desk.outer[0]
    tiny = ROUNDING * max(desk.norms[0], abs(outer))
    first = first_wall(order, tiny, desk, problem)
    if desk.frame.sizes[0] > 0:
        way = outer if abs(outer) > tiny else desk.outer[1]
        way = 1.0 if way >= 0.0 else -1.0
        first = min(first, first_release(start, length, way, rest, desk, field, problem))
        if abs(outer) > tiny:
            first = min(first, first_zero(desk.outer, order, way, 0.0))
    return first


@njit(cache=True, **INTERNAL)
def _multiply(row: int, u: float, order: int, desk: Desk) -> None:
    """Write a w at u into a row of the products."""
    outer = value(desk.outer, order, u)
    for i in range(desk.w.size):
        part = desk.inner[order, i]
        for p in range(order - 1, -1, -1):
            part = part * u + desk.inner[p, i]
        desk.products[row, i] = part * outer


@njit(cache=True, **ONCE)
def _fetch(neuron: int, now: Neurons, desk: Desk) -> None:
    """Put a neuron on the desk."""
    for i in range(desk.w.size):
        desk.w[i] = now.inner[neuron, i]
    for w in range(desk.signs.size):
        desk.signs[w] = now.signs[neuron, w]


@njit(cache=True, **ONCE)
def _leave(neuron: int, outer: float, desk: Desk, then: Neurons) -> None:
    """Write the neuron on the desk to where those at the end of the step go."""
    for w in range(desk.signs.size):
        then.signs[neuron, w] = desk.signs[w]
    for i in range(desk.w.size):
        then.inner[neuron, i] = desk.w[i]
    then.outer[neuron] = outer


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
    _fetch(neuron, now, desk)
    outer, start, end = now.outer[neuron], 0.0, shares[shares.size - 1]
    if rest < 0.0:
        _first_signs(outer, desk, problem.normals)
    take_up(desk, field, problem)
    waiting = step == 0.0 and rest >= 0.0 and desk.frame.sizes[0] > 0
    reached, added, events, decided = Signed(0), Signed(0), 0, False
    for _ in range(MOST_STRETCHES):
        if not start < end:
            break
        length = _local_forces(start, end - start, step, desk, problem)
        order = expand(desk.w, outer, desk.local, desk.inner, desk.outer, desk.norms)
        if step > 0.0:
            first = _first_event(start, length, order, rest, desk, field, problem)
            if decided and first <= 1e-12:
                # It has just been decided that nothing changes here.
                first = NONE
        else:
            first = 0.0 if waiting else NONE
        u, whole = min(first, 1.0), first >= 1.0 and start + length >= end
        while reached < shares.size and (shares[reached] <= start + length * u or whole):
            _multiply(reached, (shares[reached] - start) / length, order, desk)
            reached += 1
        outer = _move(u, order, desk)
        if first > 1.0:
            start = end if length == end - start else start + length
            put_onto_walls(desk, problem)
            continue
        start += length * first
        _add(added, reached, desk, sums, problem)
        added = reached
        decided = _event(neuron, start, outer, rest, desk, field, log, problem) == 0
        waiting = False
        events += 1
        if events > MOST_EVENTS:
            return CROWDED
        if log.used[0] > log.neurons.size:
            return FULL
    if start < end:
        return CROWDED
    # The last share, if rounding kept it behind the last stretch, or there was none.
    for row in range(reached, shares.size):
        for i in range(desk.w.size):
            desk.products[row, i] = outer * desk.w[i]
    _add(added, shares.size, desk, sums, problem)
    _leave(neuron, outer, desk, then)
    return FINE
