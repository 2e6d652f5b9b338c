"""One neuron through a step in which the forces are known: exact between events, located to rounding.

From share θ to 1, stretch by stretch: D of the present signs as a polynomial about θ, projected if the neuron
slides; the Taylor series of (w, a) (`field`); the first event on it (`desk`). There `settle` decides,
and the neuron goes on.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, Signed
from shallowflow.kernels.walls.desk import (
    Desk,
    Log,
    Neurons,
    Push,
    first_leaving,
    first_release,
    first_wall,
    put_onto_walls,
    take_up,
)
from shallowflow.kernels.walls.field import (
    NONE,
    STRETCH,
    Field,
    Problem,
    Sums,
    dot,
    expand,
    first_zero,
    lengths_of,
    shift,
    value,
)
from shallowflow.kernels.walls.settle import multipliers, project, settle

ROUNDING = 1e-13
"""⟨w, e_w⟩ counts as zero below this share of the larger of ‖w‖ and |a|."""
TOGETHER = 100.0
"""Walls within so many roundings of an event belong to it."""
MOST_EVENTS, MOST_STRETCHES = 60, 4000
FINE, CROWDED, FULL = 0, 1, 2


@njit(cache=True, **INTERNAL)
def _local_forces(start: float, span: float, step: float, push: Push, aligned: int) -> float:
    """Set D·step·length on a stretch from `start`, at most `span` long, projected; return its length."""
    forces, local, frame, poly, tails = push.forces, push.local, push.frame, push.poly, push.tails
    terms, rank = forces.shape
    for p in range(terms):
        for i in range(rank):
            local[p, i] = forces[p, i]
    if start != 0.0:
        for first in range(terms - 1):
            for p in range(terms - 2, first - 1, -1):
                for i in range(rank):
                    local[p, i] += start * local[p + 1, i]
    if frame.sizes[0] > 0:
        for p in range(terms):
            if aligned:
                for k in range(frame.sizes[0]):
                    local[p, frame.walls[k]] = 0.0
            else:
                multipliers(local[p], frame, push.multipliers[p])
                project(local[p], frame)
    length = span
    lengths_of(local, poly)
    for _ in range(60):
        total, factor = 0.0, length
        for p in range(terms):
            total += poly[p] * factor
            factor *= length
        if step * total <= STRETCH:
            break
        length *= max(0.1, 0.9 * STRETCH / (step * total))
    factor = step * length
    for p in range(terms):
        for i in range(rank):
            local[p, i] *= factor
        tails[p] = factor * poly[p]
        factor *= length
    for p in range(terms - 2, -1, -1):
        tails[p] += tails[p + 1]
    return length


@njit(cache=True, **INTERNAL)
def _add(
    first: int, last: int, signs: Ints, products: Floats, active: Floats, everyone: Floats, aligned: int
) -> None:
    """Add a neuron to the sums from place `first` on, before `last`, by its present signs."""
    for i in range(first, last):
        everyone[i] += products[i]
    for w in range(signs.size):
        if signs[w] > 0:
            if aligned:
                for row in range(first // signs.size, last // signs.size):
                    active[w, row] += products[row * signs.size + w]
            else:
                for i in range(first, last):
                    active[w, i] += products[i]


@njit(cache=True, **INTERNAL)
def _evaluate(u: float, order: int, factor: float, series: Floats, target: Floats) -> None:
    """Write factor·Σ_p series[p] u^p, (r,)."""
    for i in range(target.size):
        target[i] = series[order, i]
    for p in range(order - 1, -1, -1):
        for i in range(target.size):
            target[i] = target[i] * u + series[p, i]
    for i in range(target.size):
        target[i] *= factor


@njit(cache=True, **INTERNAL)
def _meet(share: float, tiny: float, outer: float, desk: Desk, field: Field, problem: Problem) -> int:
    """List the walls of an event at `share`: those met, and those on which the neuron slides; return how
    many.

    D_rest is left in `meeting.rest`, D before the event in `desk.pulls`.
    """
    normals, meeting, push = problem.normals, desk.meeting, desk.push
    frame, forces, poly = push.frame, push.forces, push.poly
    walls, rank = normals.shape
    for i in range(rank):
        total = forces[poly.size - 1, i]
        for p in range(poly.size - 2, -1, -1):
            total = total * share + forces[p, i]
        desk.pulls[i], meeting.rest[i] = total, total
    if frame.sizes[0] > 0:
        if problem.aligned:
            for k in range(frame.sizes[0]):
                desk.pulls[frame.walls[k]] = 0.0
        else:
            project(desk.pulls, frame)
    count = Signed(0)
    for w in range(walls):
        z, speed = dot(desk.w, normals, w), -outer * dot(desk.pulls, normals, w)
        sign = desk.signs[w]
        if sign != 0 and (abs(z) > TOGETHER * tiny or (sign * speed > 0.0 and sign * z > -tiny)):
            continue
        shift(field.jumps, w, share, 1.0, poly)
        meeting.walls[count], meeting.sides[count], meeting.jumps[count] = w, sign, poly[0]
        desk.z[count] = speed
        if sign != 0:
            for i in range(rank):
                meeting.rest[i] -= sign * poly[0] * normals[w, i]
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
    return _note(neuron, share, outer, many, two, desk, log)


@njit(cache=True, **ONCE)
def _first_signs(outer: float, desk: Desk, normals: Floats) -> None:
    """Set the sides on which a neuron is, 0 where it lies on a wall; one without any weight is on none."""
    walls, rank = normals.shape
    square = 0.0
    for i in range(rank):
        square += desk.w[i] * desk.w[i]
    tiny = ROUNDING * max(sqrt(square), abs(outer))
    for w in range(walls):
        z = dot(desk.w, normals, w)
        desk.signs[w] = 1 if z > tiny else 0 if z >= -tiny and tiny > 0.0 else -1


@njit(cache=True, **ONCE)
def _first_event(
    start: float, length: float, order: int, rest: float, desk: Desk, field: Field, problem: Problem
) -> float:
    """Return where on the stretch something happens to the neuron, or `NONE`."""
    series, push, normals, aligned = desk.series, desk.push, problem.normals, problem.aligned
    outer = series.outer[0]
    tiny = ROUNDING * max(series.norms[0], abs(outer))
    first = first_wall(order, tiny, desk.signs, series, normals, aligned)
    count, rank = push.frame.sizes[0], push.frame.sizes[1]
    if count > 0:
        way = outer if abs(outer) > tiny else series.outer[1] if order > 0 else 0.0
        way = 1.0 if way >= 0.0 else -1.0
        if aligned or count == rank:
            released = first_release(start, length, way, rest, push, series.passing, field.jumps, aligned)
        else:
            span, meeting, jumps = (start, length), desk.meeting, field.jumps
            released = first_leaving(span, way, rest, desk.pulls, push, meeting, jumps, normals)
        first = min(first, released)
        if abs(outer) > tiny:
            first = min(first, first_zero(series.outer, order, way, 1.0))
    return first


@njit(cache=True, **ONCE)
def _fetch(neuron: int, rest: float, now: Neurons, desk: Desk, normals: Floats) -> None:
    """Put a neuron on the desk, with its signs; with rest < 0 it gets its first ones."""
    for i in range(desk.w.size):
        desk.w[i] = now.inner[neuron, i]
    for w in range(desk.signs.size):
        desk.signs[w] = now.signs[neuron, w]
    if rest < 0.0:
        _first_signs(now.outer[neuron], desk, normals)


@njit(cache=True, **ONCE)
def _leave(neuron: int, reached: int, outer: float, desk: Desk, then: Neurons) -> None:
    """Write the neuron on the desk to where those at the end of the step go."""
    # The last share, if rounding kept it behind the last stretch, or there was none.
    for place in range(reached, desk.products.size):
        desk.products[place] = outer * desk.w[place % desk.w.size]
    for w in range(desk.signs.size):
        then.signs[neuron, w] = desk.signs[w]
    for i in range(desk.w.size):
        then.inner[neuron, i] = desk.w[i]
    then.outer[neuron] = outer


@njit(cache=True, **ONCE)
def sweep(
    step: float,
    limits: tuple[float, float],
    shares: Floats,
    both: tuple[Neurons, Neurons],
    tools: tuple[Desk, Field, Sums, Log],
    problem: Problem,
) -> int:
    """Follow all neurons from the beginning of a step of length `step` to shares[-1], and add them up; return
    how that went.

    limits: a force that counts as none, and the share of a neuron that series may leave out. A step of
    no length is the start: with rest < 0 neurons get their signs, 0 on walls and at w = 0; then `settle`
    decides about those.
    """
    desk, field, sums, log = tools
    rest, negligible = limits
    series, push = desk.series, desk.push
    w, signs, products = desk.w, desk.signs, desk.products
    frame, local, tails = push.frame, push.local, push.tails
    normals, aligned, active, everyone = problem.normals, problem.aligned, sums.active, sums.everyone
    end, rank = shares[shares.size - 1], normals.shape[1]
    for neuron in range(both[0].outer.size):
        _fetch(neuron, rest, both[0], desk, normals)
        outer, start = both[0].outer[neuron], 0.0
        reached, added, events, stretches = Signed(0), Signed(0), 0, 0
        fresh, decided = True, False
        while start < end:
            stretches += 1
            if stretches > MOST_STRETCHES or events > MOST_EVENTS:
                return CROWDED
            if fresh:
                take_up(signs, push.flat, frame, field, normals, aligned)
            put_onto_walls(w, frame, aligned)
            length = _local_forces(start, end - start, step, push, aligned)
            order = expand(
                w, outer, local, tails, series.padded, series.padded_outer, series.norms, negligible
            )
            if step > 0.0:
                first = _first_event(start, length, order, rest, desk, field, problem)
                if decided and first <= 1e-12:
                    # It has just been decided that nothing changes here.
                    first = NONE
            else:
                first = 0.0 if fresh and rest >= 0.0 and frame.sizes[0] > 0 and events == 0 else NONE
            fresh = False
            u = min(first, 1.0)
            behind = end if first >= 1.0 and start + length >= end else start + length * u
            while reached < shares.size and shares[reached] <= behind:
                at = (shares[reached] - start) / length
                place = products[reached * rank : (reached + 1) * rank]
                _evaluate(at, order, value(series.outer, order, at), series.inner, place)
                reached += 1
            _evaluate(u, order, 1.0, series.inner, w)
            outer = value(series.outer, order, u)
            if first > 1.0:
                start = end if length == end - start else start + length
                continue
            start += length * first
            _add(added * rank, reached * rank, signs, products, active, everyone, aligned)
            added = reached
            decided = _event(neuron, start, outer, rest, desk, field, log, problem) == 0
            fresh, events = True, events + 1
            if log.used[0] > log.neurons.size:
                return FULL
        _leave(neuron, reached * rank, outer, desk, both[1])
        _add(added * rank, shares.size * rank, signs, products, active, everyone, aligned)
    return FINE
