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
    forces_at,
    hold,
    over_walls,
    polynomial_at,
    put_onto_walls,
    stand,
    take_up,
)
from shallowflow.kernels.walls.field import (
    NONE,
    STRETCH,
    Field,
    Problem,
    add_row,
    dot,
    expand,
    first_zero,
    squared,
    value,
)
from shallowflow.kernels.walls.settle import Frame, Meeting, settle

ROUNDING = 1e-13
"""⟨w, e_w⟩ counts as zero below this share of the larger of ‖w‖ and |a|."""
TOGETHER = 100.0
"""Walls within so many roundings of an event belong to it."""
MOST_EVENTS, MOST_STRETCHES = 60, 4000
FINE, CROWDED, FULL = 0, 1, 2


@njit(cache=True, **ONCE)
def _local_forces(start: float, span: float, step: float, push: Push, frame: Frame, aligned: int) -> float:
    """Set D·step·length on a stretch from `start`, at most `span` long, projected; return its length."""
    forces, _, local, tails, _, poly, _ = push
    terms, rank = forces.shape
    for p in range(terms):
        for i in range(rank):
            local[p, i] = forces[p, i]
    if start != 0.0:
        for first in range(terms - 1):
            for p in range(terms - 2, first - 1, -1):
                add_row(local[p], start, local, p + 1)
    hold(push, frame, aligned)
    for p in range(terms):
        poly[p] = sqrt(squared(local[p]))
    length = span
    for _ in range(60):
        total = step * length * value(poly, terms - 1, length)
        if total <= STRETCH:
            break
        length *= max(0.1, 0.9 * STRETCH / total)
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
def _evaluate(u: float, order: int, factor: float, series: Floats, first: int, target: Floats) -> None:
    """Write factor·Σ_p series[p] u^p, (r,), to the places from `first` on."""
    rank = series.shape[1]
    for i in range(rank):
        target[first + i] = 0.0
    for p in range(order, -1, -1):
        for i in range(rank):
            target[first + i] = target[first + i] * u + factor * series[p, i]


@njit(cache=True, **ONCE)
def _meet(share: float, tiny: float, outer: float, desk: Desk, jumps: Floats, problem: Problem) -> int:
    """List the walls of an event: those met, and those on which the neuron slides; return how many.

    Of `meeting.rest`, D at the event, D_rest is left.
    """
    meeting, signs, heights, aligned = desk.meeting, desk.signs, desk.heights, problem.aligned
    walls, sides, found = meeting.walls, meeting.sides, meeting.jumps
    speeds, others = meeting.speeds, meeting.rest
    over_walls(desk.w, desk.across, heights[0], aligned)
    over_walls(meeting.pulls, desk.across, heights[1], aligned)
    count = Signed(0)
    for wall in range(signs.size):
        z, speed, sign = heights[0, wall], -outer * heights[1, wall], signs[wall]
        if sign != 0 and (abs(z) > TOGETHER * tiny or (sign * speed > 0.0 and sign * z > -tiny)):
            continue
        jump = polynomial_at(share, wall, jumps)
        walls[count], sides[count] = wall, sign
        found[count], speeds[count] = jump, speed
        add_row(others, -sign * jump, problem.normals, wall)
        count += 1
    return count


@njit(cache=True, **ONCE)
def _note(
    neuron: int, share: float, outer: float, many: int, two: int, signs: Ints, meeting: Meeting, log: Log
) -> int:
    """Log the signs of a meeting of `many` walls that change; return how many do."""
    walls, found, speeds = meeting.walls, meeting.signs, meeting.speeds
    changes, shares, kinks, used = log
    changed = 0
    for k in range(many):
        w = walls[k]
        if found[k] == signs[w]:
            continue
        place = used[0]
        if place < shares.size:
            changes[place, 0], changes[place, 1], changes[place, 2] = neuron, w, signs[w]
            changes[place, 3], changes[place, 4], shares[place] = found[k], two, share
            kinks[place] = abs(outer * speeds[k]) if signs[w] != 0 else 0.0
        used[0] += 1
        changed += 1
    return changed


@njit(cache=True, **ONCE)
def _turn(desk: Desk, many: int, field: Field, problem: Problem) -> None:
    """Take over the signs of a meeting of `many` walls: the forces and the frame that come with them."""
    signs, flat, meeting, rank = desk.signs, desk.push.flat, desk.meeting, problem.normals.shape[1]
    walls, found, slides = meeting.walls, meeting.signs, False
    for k in range(many):
        w, after = walls[k], found[k]
        turned = after - signs[w]
        if turned == 0:
            continue
        slides = slides or after == 0 or signs[w] == 0
        signs[w] = after
        if problem.aligned:
            for p in range(field.means.shape[0]):
                flat[p * rank + w] = field.means[p, w] + after * field.jumps[p, w]
        else:
            add_row(flat, 0.5 * turned, field.vectors, w)
    if slides:
        stand(signs, desk.frame, problem.normals, problem.aligned)


@njit(cache=True, **ONCE)
def _event(
    neuron: int, share: float, outer: float, rest: float, desk: Desk, field: Field, log: Log, problem: Problem
) -> int:
    """Decide what happens at an event; return how many signs changed."""
    w, push, frame, meeting = desk.w, desk.push, desk.frame, desk.meeting
    others, pulls = meeting.rest, meeting.pulls
    size = max(sqrt(squared(w)), abs(outer))
    tiny = ROUNDING * size
    forces_at(share, push.forces, others)
    for i in range(pulls.size):
        pulls[i] = others[i]
    put_onto_walls(pulls, frame, problem.aligned)
    many = _meet(share, tiny, outer, desk, field.jumps, problem)
    way = outer
    if abs(outer) <= tiny:
        way = 0.0
        for i in range(w.size):
            way -= w[i] * pulls[i]
        # In the unit of a: the sign is all that counts.
        way = size if way > 0.0 else -size
    two = settle(neuron, many, way, rest, meeting, problem.normals)
    changed = _note(neuron, share, outer, many, two, desk.signs, meeting, log)
    _turn(desk, many, field, problem)
    return changed


@njit(cache=True, **ONCE)
def _first_event(
    span: tuple[float, float], order: int, rest: float, desk: Desk, jumps: Floats, normals: Floats,
    aligned: int,
) -> float:  # fmt: skip
    """Return where on the stretch (start, length) something happens to the neuron, or `NONE`."""
    push, frame, meeting = desk.push, desk.frame, desk.meeting
    _, outer, norms, passing = desk.series
    sizes, now = frame.sizes, outer[0]
    tiny = ROUNDING * max(norms[0], abs(now))
    first = first_wall(order, tiny, desk.signs, desk.series, desk.across, desk.heights[0], normals, aligned)
    if sizes[0] > 0:
        way = now if abs(now) > tiny else outer[1] if order > 0 else 0.0
        way = 1.0 if way >= 0.0 else -1.0
        if aligned or sizes[0] == sizes[1]:
            released = first_release(span, way, rest, push, frame, passing, jumps, aligned)
        else:
            released = first_leaving(span, way, rest, push.forces, frame, meeting, jumps, normals)
        first = min(first, released)
        if abs(now) > tiny:
            first = min(first, first_zero(outer, order, way, 1.0))
    return first


@njit(cache=True, **ONCE)
def _fetch(neuron: int, rest: float, now: Neurons, w: Floats, signs: Ints, normals: Floats) -> float:
    """Put a neuron on the desk, with its signs; return its outer weight.

    With rest < 0 it gets its first signs, 0 where it lies on a wall; one without any weight is on none.
    """
    inner, outers, all_signs = now
    for i in range(w.size):
        w[i] = inner[neuron, i]
    outer = outers[neuron]
    tiny = ROUNDING * max(sqrt(squared(w)), abs(outer))
    for wall in range(signs.size):
        signs[wall] = all_signs[neuron, wall]
        if rest < 0.0:
            z = dot(w, normals, wall)
            signs[wall] = 1 if z > tiny else 0 if z >= -tiny and tiny > 0.0 else -1
    return float(outer)


@njit(cache=True, **ONCE)
def _leave(
    neuron: int, reached: int, outer: float, w: Floats, signs: Ints, products: Floats, then: Neurons
) -> None:
    """Write the neuron on the desk to where those at the end of the step go."""
    inner, outers, all_signs = then
    # The last share, if rounding kept it behind the last stretch, or there was none.
    for place in range(reached, products.size):
        products[place] = outer * w[place % w.size]
    for wall in range(signs.size):
        all_signs[neuron, wall] = signs[wall]
    for i in range(w.size):
        inner[neuron, i] = w[i]
    outers[neuron] = outer


@njit(cache=True, **ONCE)
def sweep(
    step: float,
    limits: tuple[float, float],
    shares: Floats,
    both: tuple[Neurons, Neurons],
    desk: Desk,
    field: Field,
    sums: tuple[Floats, Floats, Log],
    problem: Problem,
) -> int:
    """Follow all neurons from the beginning of a step of length `step` to shares[-1], and add them up; return
    how that went.

    limits: a force that counts as none, and the share of a neuron that series may leave out. sums: over the
    active ones and over everyone (`Sums`), and the log. A step of no length is the start: with rest < 0
    neurons get their signs, 0 on walls and at w = 0; then `settle` decides about those.
    """
    now, then = both
    active, everyone, log = sums
    rest, negligible = limits
    _, _, w, signs, products, series, push, frame, _ = desk
    inner, outers, norms, _ = series
    _, flat, local, tails, _, _, _ = push
    jumps, normals, aligned = field.jumps, problem.normals, problem.aligned
    end, rank = shares[shares.size - 1], normals.shape[1]
    for neuron in range(now.outer.size):
        outer, start = _fetch(neuron, rest, now, w, signs, normals), 0.0
        reached, added, fresh = Signed(0), Signed(0), True
        events, stretches, decided = 0, 0, False
        stand(signs, frame, normals, aligned)
        take_up(signs, flat, field, aligned)
        while start < end:
            stretches += 1
            if stretches > MOST_STRETCHES or events > MOST_EVENTS:
                return CROWDED
            put_onto_walls(w, frame, aligned)
            length = _local_forces(start, end - start, step, push, frame, aligned)
            order = expand(w, outer, local, tails, inner, outers, norms, negligible)
            if step > 0.0:
                first = _first_event((start, length), order, rest, desk, jumps, normals, aligned)
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
                _evaluate(at, order, value(outers, order, at), inner, reached * rank, products)
                reached += 1
            _evaluate(u, order, 1.0, inner, 0, w)
            outer = value(outers, order, u)
            if first > 1.0:
                start = end if length == end - start else start + length
                continue
            start += length * first
            _add(added * rank, reached * rank, signs, products, active, everyone, aligned)
            added = reached
            decided = _event(neuron, start, outer, rest, desk, field, log, problem) == 0
            fresh, events = True, events + 1
            if log.used[0] > log.shares.size:
                return FULL
        _leave(neuron, reached * rank, outer, w, signs, products, then)
        _add(added * rank, shares.size * rank, signs, products, active, everyone, aligned)
    return FINE
