"""What a neuron does where it meets walls, stops sliding, or starts on them: one rule.

At walls L (where ⟨w, e_w⟩ = 0) with D = D_rest + Σ_{w∈L} σ_w C_w e_w, σ_w ∈ [−1, 1]:

* an **attracting** wall, a C_w > 0, gets the σ_w of least norm: ±1, it is crossed or left to that side;
  strictly between, the neuron slides along it;
* a **repelling** wall, a C_w < 0, is crossed by a neuron that arrives. A neuron that is *on* it (its outer
  weight has changed sign while it slid, or it starts there) may leave to both sides if both push it away.
  Its future is two-valued: the side is drawn with the share of time (1 + σ_w)/2 that descent by small steps
  would have spent there, σ_w being what would keep it on the wall, by a hash of the neuron's number;
* a neuron at w = 0, or one that no side pushes off (walls with dependent normals), takes the **steepest** of
  its ways, that with the longest D, and stays if there is none.

Signs of repelling walls are turned until every velocity agrees with its sign. Turning one that disagrees
lowers min_v ⟨aD, v⟩ + ½‖v‖², so that this ends.

Subspaces of walls: orthonormal bases, and the force of least norm on a neuron that lies on walls.

On walls L a neuron may be pulled by any D = D_rest + Σ_{w∈L} x_w e_w, |x_w| ≤ |C_w|. Where all of them
attract it, it follows the shortest of these (the minimal-norm subgradient, [early_alignment] (2)): x_w =
±C_w where it leaves to that side, and strictly between where it goes on along the wall.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, SUMS, Signed
from shallowflow.kernels.walls.field import dot

DEPENDENT = 1e-9
"""A unit normal with a smaller part outside the span of others depends on them."""
MOST_ROUNDS = 400
SOLVE_EVERY = 8
SMALL_CHANGE = 1e-14


class Frame(NamedTuple):
    """Walls and an orthonormal basis of the span of their normals.

    rows (r, r): the basis; triangle (r, r): normals in it, of those that are independent; walls (W,): their
    numbers; independent (r,): positions in `walls` of the independent ones; sizes (2,): how many walls, and
    the rank.
    """

    rows: Floats
    triangle: Floats
    walls: Ints
    independent: Ints
    sizes: Ints


class Box(NamedTuple):
    """The problem of least norm: walls (W,), bounds |C_w| (W,) and x (W,) of those that hold, D (r,); a
    frame, an order (W,) and a solution (r,) to work with.
    """

    walls: Ints
    bounds: Floats
    x: Floats
    force: Floats
    frame: Frame
    order: Ints
    solution: Floats


def new_frame(walls: int, rank: int) -> Frame:
    """Return an empty frame."""
    square, whole = (rank, rank), np.zeros(2, np.int64)
    positions = np.zeros(max(walls, 1), np.int64), np.zeros(rank, np.int64)
    return Frame(np.zeros(square), np.zeros(square), *positions, whole)


def new_box(walls: int, rank: int) -> Box:
    """Return an empty box."""
    many = max(walls, 1)
    lists = np.zeros(many, np.int64), np.zeros(many), np.zeros(many), np.zeros(rank)
    return Box(*lists, new_frame(walls, rank), np.zeros(many, np.int64), np.zeros(rank))


@njit(cache=True, **SUMS)
def extend(frame: Frame, normals: Floats, wall: int) -> bool:
    """Add a wall; return whether its normal was independent of those before (Gram–Schmidt, twice)."""
    size, rank = normals.shape[1], frame.sizes[1]
    frame.walls[frame.sizes[0]] = wall
    frame.sizes[0] += 1
    if rank == size:
        return False
    new = frame.rows[rank]
    for i in range(size):
        new[i] = normals[wall, i]
    for k in range(rank):
        frame.triangle[rank, k] = 0.0
    for _ in range(2):
        for k in range(rank):
            part = 0.0
            for i in range(size):
                part += frame.rows[k, i] * new[i]
            frame.triangle[rank, k] += part
            for i in range(size):
                new[i] -= part * frame.rows[k, i]
    square = 0.0
    for i in range(size):
        square += new[i] * new[i]
    length = sqrt(square)
    if length < DEPENDENT:
        return False
    for i in range(size):
        new[i] /= length
    frame.triangle[rank, rank] = length
    frame.independent[rank] = frame.sizes[0] - 1
    frame.sizes[1] += 1
    return True


@njit(cache=True, **SUMS)
def project(vector: Floats, frame: Frame) -> None:
    """Take out of a vector (r,) its part in the span of the frame; exactly zero if that is everything."""
    size, rank = vector.size, frame.sizes[1]
    if rank == size:
        for i in range(size):
            vector[i] = 0.0
        return
    for k in range(rank):
        part = 0.0
        for i in range(size):
            part += frame.rows[k, i] * vector[i]
        for i in range(size):
            vector[i] -= part * frame.rows[k, i]


@njit(cache=True, **SUMS)
def multipliers(force: Floats, frame: Frame, solution: Floats) -> None:
    """Write what the independent normals of the frame must add to D (r,) so that nothing of it is left in
    their span: Lᵀ μ = −Q D, (rank,).
    """
    rank = frame.sizes[1]
    for k in range(rank - 1, -1, -1):
        part = 0.0
        for i in range(force.size):
            part -= frame.rows[k, i] * force[i]
        for later in range(k + 1, rank):
            part -= frame.triangle[later, k] * solution[later]
        solution[k] = part / frame.triangle[k, k]


@njit(cache=True, **ONCE)
def _solve_inside(box: Box, count: int, normals: Floats) -> bool:
    """Move all x strictly inside their bounds to where D has no part along them; return whether that fits."""
    frame = box.frame
    frame.sizes[0], frame.sizes[1] = 0, 0
    inside = 0
    for k in range(count):
        if abs(box.x[k]) < box.bounds[k]:
            if not extend(frame, normals, box.walls[k]):
                return False
            box.order[inside] = k
            inside += 1
    multipliers(box.force, frame, box.solution)
    for place in range(inside):
        k = box.order[place]
        if abs(box.x[k] + box.solution[place]) >= box.bounds[k]:
            return False
    for place in range(inside):
        k = box.order[place]
        box.x[k] += box.solution[place]
        for i in range(box.force.size):
            box.force[i] += box.solution[place] * normals[box.walls[k], i]
    return True


@njit(cache=True, **INTERNAL)
def shorten(box: Box, count: int, normals: Floats) -> None:
    """Make D = D_rest + Σ x_k e_k as short as possible with |x_k| ≤ bounds_k, from the present x.

    Coordinate by coordinate, with now and then a solution on those strictly inside their bounds.
    """
    size, largest = box.force.size, 0.0
    for k in range(count):
        largest = max(largest, box.bounds[k])
    for turn in range(MOST_ROUNDS):
        moved = 0.0
        for k in range(count):
            wall = box.walls[k]
            new = min(max(box.x[k] - dot(box.force, normals, wall), -box.bounds[k]), box.bounds[k])
            change = new - box.x[k]
            if change != 0.0:
                box.x[k] = new
                for i in range(size):
                    box.force[i] += change * normals[wall, i]
                moved = max(moved, abs(change))
        if moved <= SMALL_CHANGE * largest or count == 1:
            return
        if turn % SOLVE_EVERY == SOLVE_EVERY - 1:
            _solve_inside(box, count, normals)


ON = 0
"""The side from which a neuron comes that was on its wall."""
MOST_TRIED = 6
"""With so many repelling walls all ways are looked at; with more, one turned sign at a time."""
TIE = 1e-9
FULLY = 1.0 - 1e-12


class Meeting(NamedTuple):
    """Walls at which a neuron is: walls (W,), sides it came from (W,): ±1 or `ON`, half jumps C (W,), signs
    after it (W,), those of the repelling ones (W,) and the best so far (W,); rest (r,): D without them.
    """

    walls: Ints
    sides: Ints
    jumps: Floats
    signs: Ints
    trial: Ints
    best: Ints
    rest: Floats
    box: Box


def new_meeting(walls: int, rank: int) -> Meeting:
    """Return an empty meeting."""
    many = max(walls, 1)
    one, two, three, four, five = (np.zeros(many, np.int64) for _ in range(5))
    return Meeting(one, two, np.zeros(many), three, four, five, np.zeros(rank), new_box(walls, rank))


@njit(cache=True, **INTERNAL)
def uniform(number: int) -> float:
    """Return a number in (0, 1) that depends on `number` only (SplitMix64)."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@njit(cache=True, **ONCE)
def _shortest(count: int, outer: float, meeting: Meeting, normals: Floats) -> int:
    """Set D of least norm for the present signs of the repelling walls; return how many walls hold."""
    box, size = meeting.box, meeting.rest.size
    for i in range(size):
        box.force[i] = meeting.rest[i]
    held = Signed(0)
    for k in range(count):
        wall, jump = meeting.walls[k], meeting.jumps[k]
        if outer * jump > 0.0:
            box.walls[held], box.bounds[held], box.x[held] = wall, abs(jump), 0.0
            held += 1
        else:
            for i in range(size):
                box.force[i] += meeting.trial[k] * jump * normals[wall, i]
    shorten(box, held, normals)
    return held


@njit(cache=True, **INTERNAL)
def _agree(count: int, outer: float, rest: float, meeting: Meeting, normals: Floats) -> float:
    """Turn signs of repelling walls until no velocity is against its sign; return ‖D‖².

    rest: a part of D along a normal that counts as none.
    """
    way = 1.0 if outer > 0.0 else -1.0
    for _ in range(2 * count + 4):
        _shortest(count, outer, meeting, normals)
        turned = False
        for k in range(count):
            if outer * meeting.jumps[k] <= 0.0:
                speed = -way * dot(meeting.box.force, normals, meeting.walls[k])
                if meeting.trial[k] * speed < -rest:
                    meeting.trial[k] = -meeting.trial[k]
                    turned = True
        if not turned:
            break
    square = 0.0
    for i in range(meeting.rest.size):
        square += meeting.box.force[i] * meeting.box.force[i]
    return square


@njit(cache=True, **ONCE)
def _ways(count: int, outer: float, rest: float, steepest: bool, meeting: Meeting, normals: Floats) -> int:
    """Try other signs of the repelling walls; return 2 if there are other ways than the present one, else 1.

    steepest: keep the way with the longest D. Where that leaves, to stay would have been a way, too.
    """
    passing = 0
    for k in range(count):
        passing += outer * meeting.jumps[k] <= 0.0 and (steepest or meeting.sides[k] == ON)
    longest, ways = _agree(count, outer, rest, meeting, normals), 1
    for k in range(count):
        meeting.best[k] = meeting.trial[k]
    tries = 1 << passing if passing <= MOST_TRIED else passing
    for number in range(tries):
        place = 0
        for k in range(count):
            meeting.trial[k] = meeting.best[k]
            if outer * meeting.jumps[k] <= 0.0 and (steepest or meeting.sides[k] == ON):
                if passing <= MOST_TRIED:
                    meeting.trial[k] = 1 if number >> place & 1 else -1
                elif place == number:
                    meeting.trial[k] = -meeting.best[k]
                place += 1
        square = _agree(count, outer, rest, meeting, normals)
        for k in range(count):
            if outer * meeting.jumps[k] < 0.0 and meeting.trial[k] != meeting.best[k]:
                ways = 2
        if steepest and square > longest * (1.0 + TIE) + rest * rest:
            longest = square
            for k in range(count):
                meeting.best[k] = meeting.trial[k]
    for k in range(count):
        meeting.trial[k] = meeting.best[k]
    _agree(count, outer, rest, meeting, normals)
    if steepest:
        return 2 if longest > rest * rest else 1
    return ways


@njit(cache=True, **ONCE)
def _draw(neuron: int, count: int, outer: float, meeting: Meeting, normals: Floats) -> bool:
    """Give every repelling wall a first sign; return whether the neuron is on such a wall."""
    box, drawn, size = meeting.box, False, meeting.rest.size
    for k in range(count):
        if not outer * meeting.jumps[k] > 0.0:
            meeting.trial[k] = -meeting.sides[k]
            drawn = drawn or meeting.sides[k] == ON
    if not drawn:
        return False
    # What would keep it on all of its walls, had they no bounds.
    box.frame.sizes[0], box.frame.sizes[1] = 0, 0
    for i in range(size):
        box.force[i] = meeting.rest[i]
    for k in range(count):
        jump = meeting.jumps[k]
        box.walls[k], box.bounds[k], box.x[k] = meeting.walls[k], 1e3 * abs(jump), 0.0
    shorten(box, count, normals)
    for k in range(count):
        jump = meeting.jumps[k]
        if meeting.sides[k] == ON and not outer * jump > 0.0:
            share = 0.5 + 0.5 * box.x[k] / jump if jump != 0.0 else 0.0
            meeting.trial[k] = 1 if uniform(neuron + 7919 * k) < share else -1
    return True


@njit(cache=True, **INTERNAL)
def settle(neuron: int, count: int, outer: float, rest: float, meeting: Meeting, normals: Floats) -> int:
    """Set the signs of all walls of a meeting; return 1 if the future was two-valued, else 0.

    outer: a, or a' where a = 0; rest: a force that counts as none.
    """
    drawn = _draw(neuron, count, outer, meeting, normals)
    square, ways = _agree(count, outer, rest, meeting, normals), 1
    if drawn:
        # At w = 0 all walls meet.
        stuck = count == normals.shape[0] or square <= rest * rest
        if not stuck:
            stuck = True
            for k in range(count):
                stuck = stuck and abs(dot(meeting.box.force, normals, meeting.walls[k])) <= rest
        ways = _ways(count, outer, rest, stuck, meeting, normals)
    box, held = meeting.box, 0
    frame = box.frame
    frame.sizes[0], frame.sizes[1] = 0, 0
    for k in range(count):
        if outer * meeting.jumps[k] > 0.0:
            share = box.x[held] / meeting.jumps[k]
            meeting.signs[k] = 1 if share >= FULLY else -1 if share <= -FULLY else 0
            held += 1
            if meeting.signs[k] == 0:
                extend(frame, normals, meeting.walls[k])
        else:
            meeting.signs[k] = meeting.trial[k]
    for k in range(count):
        if meeting.signs[k] != 0 and _in_span(meeting, k, rest, normals):
            meeting.signs[k] = 0
    return 1 if drawn and ways > 1 else 0


@njit(cache=True, **ONCE)
def _in_span(meeting: Meeting, k: int, rest: float, normals: Floats) -> bool:
    """Return whether the neuron stays on wall k because it slides along others: e_k depends on theirs."""
    frame, wall = meeting.box.frame, meeting.walls[k]
    if frame.sizes[1] == 0 or abs(dot(meeting.box.force, normals, wall)) > rest:
        return False
    left = 1.0
    for row in range(frame.sizes[1]):
        part = 0.0
        for i in range(normals.shape[1]):
            part += frame.rows[row, i] * normals[wall, i]
        left -= part * part
    return sqrt(max(left, 0.0)) < 1e-7
