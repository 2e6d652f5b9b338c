"""Neurons through a step in which the forces are known: exact between events, which are located to rounding.

From share θ to 1, stretch by stretch: D of the present signs as a polynomial about θ, projected if the neuron
slides; the Taylor series of (w, a) (`field`); the first event on it (`desk`). There `settle` decides,
and the neuron goes on.

Most neurons meet nothing in most steps, and one series carries each of them through. These go side by side:
in loops over lanes vector registers hold one number of each. Bounds on their series say for whom that is
certain; the others are traced one by one.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, SUMS, Signed
from shallowflow.kernels.walls.desk import (
    FEWEST,
    ROUNDING,
    Desk,
    Lanes,
    Log,
    Neurons,
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
    ORDER,
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
from shallowflow.kernels.walls.settle import Meeting, settle

TOGETHER = 100.0
"""Walls within so many roundings of an event belong to it."""
MOST_EVENTS, MOST_STRETCHES = 60, 4000
FINE, CROWDED, FULL = 0, 1, 2


@njit(cache=True, **INTERNAL)
def _shift(start: float, forces: Floats, local: Floats) -> None:
    """Write the forces (q, r) over the step as polynomials about a share of it."""
    terms, rank = forces.shape
    for p in range(terms):
        for i in range(rank):
            local[p, i] = forces[p, i]
    for first in range(terms - 1 if start != 0.0 else 0):
        for p in range(terms - 2, first - 1, -1):
            add_row(local[p], start, local, p + 1)


@njit(cache=True, **INTERNAL)
def _stretch(span: float, step: float, local: Floats, tails: Floats, poly: Floats) -> float:
    """Make D·step·length of the forces on a stretch, at most `span` long; return its length."""
    terms, rank = local.shape
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
def _meet(
    share: float, tiny: float, outer: float, signs: Ints, heights: Floats, meeting: Meeting, jumps: Floats,
    normals: Floats,
) -> int:  # fmt: skip
    """List the walls of an event: those met, and those on which the neuron slides; return how many.

    heights (3, W): of w and of D over all walls. Of `meeting.rest`, D at the event, D_rest is left.
    """
    walls, sides, found = meeting.walls, meeting.sides, meeting.jumps
    speeds, others = meeting.speeds, meeting.rest
    count = Signed(0)
    for wall in range(signs.size):
        z, speed, sign = heights[0, wall], -outer * heights[1, wall], signs[wall]
        if sign != 0 and (abs(z) > TOGETHER * tiny or (sign * speed > 0.0 and sign * z > -tiny)):
            continue
        jump = polynomial_at(share, wall, jumps)
        walls[count], sides[count] = wall, sign
        found[count], speeds[count] = jump, speed
        add_row(others, -sign * jump, normals, wall)
        count += 1
    return count


@njit(cache=True, **INTERNAL)
def _turn(after: int, w: int, signs: Ints, forces: Floats, vectors: Floats) -> None:
    """Give a neuron another sign, and the forces that come with it."""
    add_row(forces, 0.5 * (after - signs[w]), vectors, w)
    signs[w] = after


@njit(cache=True, **ONCE)
def _note(
    neuron: int, share: float, outer: float, many: int, two: int, desk: Desk, vectors: Floats, log: Log
) -> int:
    """Take over the signs of a meeting of `many` walls, and log those that changed; return how many did."""
    walls, found, speeds, signs = desk.meeting.walls, desk.meeting.signs, desk.meeting.speeds, desk.signs
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
        _turn(found[k], w, signs, desk.push.flat, vectors)
        changed += 1
    return changed


@njit(cache=True, **ONCE)
def _event(
    neuron: int, share: float, outer: float, rest: float, desk: Desk, field: Field, log: Log, problem: Problem
) -> int:
    """Decide what happens at an event; return how many signs changed."""
    across, heights, w, signs, _, _, push, frame, meeting, _ = desk
    others, pulls, normals, aligned = meeting.rest, meeting.pulls, problem.normals, problem.aligned
    size = max(sqrt(squared(w)), abs(outer))
    tiny = ROUNDING * size
    forces_at(share, push.forces, others)
    for i in range(pulls.size):
        pulls[i] = others[i]
    put_onto_walls(pulls, frame, aligned)
    over_walls(w, across, heights[0], aligned)
    over_walls(pulls, across, heights[1], aligned)
    many = _meet(share, tiny, outer, signs, heights, meeting, field.jumps, normals)
    way = outer
    if abs(outer) <= tiny:
        way = 0.0
        for i in range(w.size):
            way -= w[i] * pulls[i]
        # In the unit of a: the sign is all that counts.
        way = size if way > 0.0 else -size
    two = settle(neuron, many, way, rest, meeting, normals)
    changed = _note(neuron, share, outer, many, two, desk, field.vectors, log)
    stand(signs, frame, normals, aligned)
    if aligned:
        take_up(signs, push.flat, field, aligned)
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
def _load(
    block: tuple[int, int], span: tuple[float, float], rest: float, now: Neurons, desk: Desk, field: Field,
    problem: Problem,
) -> None:  # fmt: skip
    """Put neurons and their forces into the lanes; what may let go of a wall is close to an event.

    span: the length of the step, and the share of it to go through.
    """
    _, _, w, signs, _, series, push, frame, _, lanes = desk
    (first, many), normals, aligned, end = block, problem.normals, problem.aligned, span[1]
    for lane in range(many):
        outer, square, sliding, source = now.outer[first + lane], 0.0, 0, push.forces
        for i in range(w.size):
            w[i] = now.inner[first + lane, i]
        for wall in range(signs.size):
            signs[wall] = now.signs[first + lane, wall]
            lanes.sides[wall, lane] = signs[wall]
            sliding += signs[wall] == 0
        take_up(signs, push.flat, field, aligned)
        lanes.close[lane] = 0
        if sliding > 0:
            stand(signs, frame, normals, aligned)
            put_onto_walls(w, frame, aligned)
            _shift(0.0, push.forces, push.local)
            hold(push, frame, aligned)
            source, lanes.close[lane] = push.local, 1
            if sliding == frame.sizes[1]:
                way = 1.0 if outer > 0.0 else -1.0
                passing, jumps = series.passing, field.jumps
                free = first_release((0.0, end), way, rest, push, frame, passing, jumps, aligned)
                lanes.close[lane] = free < NONE
        for i in range(w.size):
            lanes.inner[0, i, lane] = w[i]
            square += w[i] * w[i]
        lanes.outer[0, lane], lanes.norms[0, lane] = outer, sqrt(square)
        lanes.sizes[0, lane], factor = sqrt(square + outer * outer), span[0] * end
        for p in range(source.shape[0]):
            for i in range(w.size):
                lanes.forces[p, i, lane] = factor * source[p, i]
            factor *= end


@njit(cache=True, **SUMS)
def _expand(many: int, negligible: float, lanes: Lanes) -> int:
    """Write the series of all lanes (see `field.expand`), and the tails of their forces; return the last
    order. What is too long for one series is close to an event.
    """
    inner, outer, norms, sizes, forces, tails, _, _, work, close = lanes
    terms, rank, _ = forces.shape
    pull, square = work[0], work[1]
    for p in range(terms - 1, -1, -1):
        tail = tails[p]
        for l in range(many):  # noqa: E741
            square[l] = 0.0
        for i in range(rank):
            for l in range(many):  # noqa: E741
                square[l] += forces[p, i, l] * forces[p, i, l]
        for l in range(many):  # noqa: E741
            tail[l] = sqrt(square[l])
        for l in range(many if p + 1 < terms else 0):  # noqa: E741
            tail[l] += tails[p + 1, l]
    for l in range(many):  # noqa: E741
        close[l] += not tails[0, l] <= STRETCH
    for row in range(1, ORDER + 1):
        more = 0
        for l in range(many):  # noqa: E741
            left = tails[0, l] * sizes[row - 1, l] + tails[1, l] * sizes[row - 2, l]
            left += tails[2, l] * sizes[row - 3, l] + tails[3, l] * sizes[row - 4, l]
            left += tails[4, l] * sizes[row - 5, l] + tails[5, l] * sizes[row - 6, l]
            more += close[l] == 0 and left > negligible * row * sizes[0, l]
        if more == 0:
            return row - 1
        share = -1.0 / row
        for l in range(many):  # noqa: E741
            pull[l], square[l] = 0.0, 0.0
        for i in range(rank):
            for l in range(many):  # noqa: E741
                f0, f1, f2 = forces[0, i, l], forces[1, i, l], forces[2, i, l]
                f3, f4, f5 = forces[3, i, l], forces[4, i, l], forces[5, i, l]
                new = outer[row - 1, l] * f0 + outer[row - 2, l] * f1 + outer[row - 3, l] * f2
                new += outer[row - 4, l] * f3 + outer[row - 5, l] * f4 + outer[row - 6, l] * f5
                near = inner[row - 1, i, l] * f0 + inner[row - 2, i, l] * f1 + inner[row - 3, i, l] * f2
                near += inner[row - 4, i, l] * f3 + inner[row - 5, i, l] * f4 + inner[row - 6, i, l] * f5
                new *= share
                pull[l] += near
                square[l] += new * new
                inner[row, i, l] = new
        for l in range(many):  # noqa: E741
            outer[row, l] = share * pull[l]
            norms[row, l] = sqrt(square[l])
            sizes[row, l] = sqrt(square[l] + outer[row, l] * outer[row, l])
    return ORDER


@njit(cache=True, **SUMS)
def _look(many: int, order: int, lanes: Lanes, normals: Floats) -> None:
    """Mark the lanes in which a wall may be met: where S (z_0 + z_1 u + z_2 u²) falls to what later terms may
    take away; and those in which the outer weight of a sliding neuron may pass zero.
    """
    inner, outer, norms, _, _, _, sides, _, work, close = lanes
    later, least = work[3], work[2]
    for l in range(many):  # noqa: E741
        later[l] = ROUNDING * max(norms[0, l], abs(outer[0, l]))
        least[l] = abs(outer[0, l]) - ROUNDING * norms[0, l]
    for p in range(1, order + 1):
        for l in range(many):  # noqa: E741
            later[l] += norms[p, l] if p > 2 else 0.0
            least[l] -= abs(outer[p, l])
    for w in range(normals.shape[0]):
        side = sides[w]
        for l in range(many):  # noqa: E741
            close[l] += side[l] == 0.0 and not least[l] > 0.0
    for w in range(normals.shape[0]):
        side = sides[w]
        for p in range(3):
            # The row after the last order is zero.
            height, row = work[p], inner[p if p <= order else ORDER + 1]
            for l in range(many):  # noqa: E741
                height[l] = 0.0
            for i in range(normals.shape[1]):
                part = normals[w, i]
                for l in range(many):  # noqa: E741
                    height[l] += part * row[i, l]
        for l in range(many):  # noqa: E741
            z, slope, bend = side[l] * work[0, l], side[l] * work[1, l], side[l] * work[2, l]
            low = min(z, z + slope + bend)
            turn = z - 0.25 * slope * slope / bend
            low = turn if slope < 0.0 and -slope < 2.0 * bend else low
            close[l] += side[l] != 0.0 and not low > later[l]


@njit(cache=True, **SUMS)
def _read(many: int, order: int, end: float, shares: Floats, lanes: Lanes) -> None:
    """Write a w of the lanes at all shares to their products, 0 where an event is close; behind them w at the
    end, whose a is left in the first row of work.
    """
    inner, outer, products, weights, close = (
        lanes.inner,
        lanes.outer,
        lanes.products,
        lanes.work[0],
        lanes.close,
    )
    rank, last = inner.shape[1], shares.size
    for row in range(last + 1):
        u = shares[row] / end if row < last else 1.0
        for l in range(many):  # noqa: E741
            weights[l] = 0.0
        for p in range(order, -1, -1):
            for l in range(many):  # noqa: E741
                weights[l] = weights[l] * u + outer[p, l]
        for i in range(rank):
            target = products[row * rank + i]
            for l in range(many):  # noqa: E741
                target[l] = 0.0
            for p in range(order, -1, -1):
                for l in range(many):  # noqa: E741
                    target[l] = target[l] * u + inner[p, i, l]
            for l in range(many if row < last else 0):  # noqa: E741
                target[l] = target[l] * weights[l] if close[l] == 0 else 0.0


@njit(cache=True, **SUMS)
def _add_lanes(many: int, places: int, active: Floats, everyone: Floats, lanes: Lanes) -> None:
    """Add the products of the lanes at so many places to the sums, by their signs."""
    products, sides = lanes.products, lanes.sides
    for place in range(places):
        row, total = products[place], 0.0
        for l in range(many):  # noqa: E741
            total += row[l]
        everyone[place] += total
    for w in range(active.shape[0]):
        side = sides[w]
        for k in range(places):
            row, total = products[k], 0.0
            for l in range(many):  # noqa: E741
                total += row[l] if side[l] > 0.0 else 0.0
            active[w, k] += total


@njit(cache=True, **ONCE)
def _leave_lanes(first: int, many: int, last: int, both: tuple[Neurons, Neurons], lanes: Lanes) -> None:
    """Write the neurons to whom nothing happens to where those at the end of the step go.

    last: the row of products from which on their inner weights are; the outer ones are in the first of work.
    """
    now, then = both
    for lane in range(many):
        if lanes.close[lane] == 0:
            neuron = first + lane
            for i in range(then.inner.shape[1]):
                then.inner[neuron, i] = lanes.products[last + i, lane]
            then.outer[neuron] = lanes.work[0, lane]
            for wall in range(then.signs.shape[1]):
                then.signs[neuron, wall] = now.signs[neuron, wall]


@njit(cache=True, **ONCE)
def _trace(
    neuron: int,
    motion: tuple[float, float, float],
    shares: Floats,
    both: tuple[Neurons, Neurons],
    desk: Desk,
    field: Field,
    sums: tuple[Floats, Floats, Log],
    problem: Problem,
) -> int:
    """Follow one neuron through a step, event by event (see `sweep`)."""
    (step, rest, negligible), (now, then) = motion, both
    active, everyone, log = sums
    _, _, w, signs, products, series, push, frame, _, _ = desk
    inner, outers, norms, _ = series
    _, flat, local, tails, _, _, _ = push
    jumps, normals, aligned = field.jumps, problem.normals, problem.aligned
    end, rank = shares[shares.size - 1], normals.shape[1]
    outer, start = _fetch(neuron, rest, now, w, signs, normals), 0.0
    reached, added = Signed(0), Signed(0)
    events, stretches, decided = 0, 0, False
    stand(signs, frame, normals, aligned)
    take_up(signs, flat, field, aligned)
    while start < end:
        stretches += 1
        if stretches > MOST_STRETCHES or events > MOST_EVENTS:
            return CROWDED
        put_onto_walls(w, frame, aligned)
        _shift(start, push.forces, local)
        if frame.sizes[0] > 0:
            hold(push, frame, aligned)
        length = _stretch(end - start, step, local, tails, push.poly)
        order = expand(w, outer, local, tails, inner, outers, norms, negligible)
        if step > 0.0:
            first = _first_event((start, length), order, rest, desk, jumps, normals, aligned)
            if decided and first <= 1e-12:
                # It has just been decided that nothing changes here.
                first = NONE
        else:
            first = 0.0 if stretches == 1 and rest >= 0.0 and frame.sizes[0] > 0 else NONE
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
        events += 1
        if log.used[0] > log.shares.size:
            return FULL
    _leave(neuron, reached * rank, outer, w, signs, products, then)
    _add(added * rank, shares.size * rank, signs, products, active, everyone, aligned)
    return FINE


@njit(cache=True, **ONCE)
def sweep(
    quiet: bool,
    motion: tuple[float, float, float],
    shares: Floats,
    both: tuple[Neurons, Neurons],
    desk: Desk,
    field: Field,
    sums: tuple[Floats, Floats, Log],
    problem: Problem,
) -> int:
    """Follow all neurons from the beginning of a step to shares[-1], and add them up; return how that went.

    quiet: whether little is known to happen; motion: the length of the step, a force that counts as none, and
    the share of a neuron that series may leave out. sums: over the
    active ones and over everyone (`Sums`), and the log. A step of no length is the start: with rest < 0
    neurons get their signs, 0 on walls and at w = 0; then `settle` decides about those.
    """
    lanes, size, (step, rest, negligible) = desk.lanes, both[0].outer.size, motion
    end, abreast, first = shares[shares.size - 1], Signed(1), Signed(0)
    places, lanes.close[0] = shares.size * desk.w.size, 1
    if quiet and step * end > 0.0 and size >= FEWEST and not problem.aligned:
        abreast = Signed(lanes.close.size)
    while first < size:
        many = min(abreast, size - first)
        if abreast > 1:
            _load((first, many), (step, end), rest, both[0], desk, field, problem)
            order = _expand(many, negligible, lanes)
            _look(many, order, lanes, problem.normals)
            _read(many, order, end, shares, lanes)
            _add_lanes(many, places, sums[0], sums[1], lanes)
            _leave_lanes(first, many, places, both, lanes)
        for lane in range(many):
            if lanes.close[lane] > 0:
                status = _trace(first + lane, motion, shares, both, desk, field, sums, problem)
                if status != FINE:
                    return status
        first += many
    return FINE
