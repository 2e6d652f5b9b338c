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
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE
from shallowflow.kernels.walls.field import add_row, dot, squared

DEPENDENT = 1e-9
"""A unit normal with a smaller part outside the span of others depends on them."""
MOST_ROUNDS = 400
SOLVE_EVERY = 8
SMALL_CHANGE = 1e-14


class Frame(NamedTuple):
    """Walls and an orthonormal basis of the span of their normals.

    rows (r, r): the basis; triangle (r, r): normals in it, of those that are independent; walls (W,): their
    numbers; sizes (2,): how many walls, and the rank.
    """

    rows: Floats
    triangle: Floats
    walls: Ints
    sizes: Ints


class Meeting(NamedTuple):
    """Walls at which a neuron is: walls (W,), sides it came from (W,): ±1 or `ON`, signs after it (W,) (at
    first those of the repelling ones) and the best so far (W,); half jumps C (W,), how fast it arrives (W,);
    rest (r,): D without them, pulls (r,): D before.

    The problem of least norm: bounds (W,), x (W,), D = force (r,); a solution (r,) and a frame to work with.
    """

    walls: Ints
    sides: Ints
    signs: Ints
    best: Ints
    jumps: Floats
    speeds: Floats
    bounds: Floats
    x: Floats
    rest: Floats
    pulls: Floats
    force: Floats
    solution: Floats
    frame: Frame


def new_frame(walls: int, rank: int) -> Frame:
    """Return an empty frame."""
    square = rank, rank
    return Frame(np.zeros(square), np.zeros(square), np.zeros(max(walls, 1), np.int64), np.zeros(2, np.int64))


def new_meeting(walls: int, rank: int) -> Meeting:
    """Return an empty meeting."""
    many = max(walls, 1)
    on, sides, signs, best = (np.zeros(many, np.int64) for _ in range(4))
    jumps, speeds, bounds, x = (np.zeros(many) for _ in range(4))
    rest, pulls, force, solution = (np.zeros(rank) for _ in range(4))
    numbers = jumps, speeds, bounds, x, rest, pulls, force, solution
    return Meeting(on, sides, signs, best, *numbers, new_frame(walls, rank))


@njit(cache=True, **INTERNAL)
def extend(frame: Frame, normals: Floats, wall: int) -> bool:
    """Add a wall; return whether its normal was independent of those before (Gram–Schmidt, twice)."""
    rows, triangle, walls, sizes = frame
    size, rank = normals.shape[1], sizes[1]
    walls[sizes[0]] = wall
    sizes[0] += 1
    if rank == size:
        return False
    new = rows[rank]
    for i in range(size):
        new[i] = normals[wall, i]
    for k in range(rank):
        triangle[rank, k] = 0.0
    for turn in range(2 * rank):
        k = turn % rank
        part = dot(new, rows, k)
        triangle[rank, k] += part
        add_row(new, -part, rows, k)
    length = sqrt(squared(new))
    if length < DEPENDENT:
        return False
    for i in range(size):
        new[i] /= length
    triangle[rank, rank] = length
    sizes[1] += 1
    return True


@njit(cache=True, **INTERNAL)
def project(vector: Floats, rows: Floats, rank: int) -> None:
    """Take out of a vector (r,) its part in the span of the first rows; exactly zero if that is all."""
    size = vector.size
    if rank == size:
        for i in range(size):
            vector[i] = 0.0
        return
    for k in range(rank):
        add_row(vector, -dot(vector, rows, k), rows, k)


@njit(cache=True, **INTERNAL)
def multipliers(
    force: Floats, rows: Floats, triangle: Floats, rank: int, solution: Floats, taken: bool
) -> None:
    """Write what the independent normals of a frame must add to D (r,) so that nothing of it is left in their
    span: Lᵀ μ = −Q D, (rank,). taken: take that part out of D.
    """
    for k in range(rank):
        solution[k] = -dot(force, rows, k)
    for k in range(rank if taken else 0):
        add_row(force, solution[k], rows, k)
    for i in range(force.size if taken and rank == force.size else 0):
        force[i] = 0.0
    for k in range(rank - 1, -1, -1):
        solution[k] /= triangle[k, k]
        for earlier in range(k):
            solution[earlier] -= triangle[k, earlier] * solution[k]


@njit(cache=True, **ONCE)
def _solve_inside(count: int, meeting: Meeting, normals: Floats) -> None:
    """Move all x strictly inside their bounds to where D has no part along them, if that fits."""
    walls, bounds, x = meeting.walls, meeting.bounds, meeting.x
    force, solution, frame = meeting.force, meeting.solution, meeting.frame
    sizes = frame.sizes
    sizes[0], sizes[1] = 0, 0
    fits = True
    for k in range(count):
        if abs(x[k]) < bounds[k]:
            fits = fits and extend(frame, normals, walls[k])
    if not fits:
        return
    multipliers(force, frame.rows, frame.triangle, sizes[1], solution, False)
    place = 0
    for k in range(count):
        if abs(x[k]) < bounds[k]:
            fits = fits and abs(x[k] + solution[place]) < bounds[k]
            place += 1
    if not fits:
        return
    place = 0
    for k in range(count):
        if abs(x[k]) < bounds[k]:
            x[k] += solution[place]
            add_row(force, solution[place], normals, walls[k])
            place += 1


@njit(cache=True, **INTERNAL)
def shorten(count: int, meeting: Meeting, normals: Floats) -> None:
    """Make D = D_rest + Σ x_k e_k as short as possible with |x_k| ≤ bounds_k, from the present x.

    Coordinate by coordinate, with now and then a solution on those strictly inside their bounds.
    """
    walls, bounds, x = meeting.walls, meeting.bounds, meeting.x
    force, largest = meeting.force, 0.0
    for k in range(count):
        largest = max(largest, bounds[k])
    for turn in range(MOST_ROUNDS):
        moved = 0.0
        for k in range(count):
            if bounds[k] == 0.0:
                continue
            new = min(max(x[k] - dot(force, normals, walls[k]), -bounds[k]), bounds[k])
            change = new - x[k]
            if change != 0.0:
                x[k] = new
                add_row(force, change, normals, walls[k])
                moved = max(moved, abs(change))
        if moved <= SMALL_CHANGE * largest or count == 1:
            return
        if turn % SOLVE_EVERY == SOLVE_EVERY - 1:
            _solve_inside(count, meeting, normals)


ON = 0
"""The side from which a neuron comes that was on its wall."""
MOST_TRIED = 6
"""With so many repelling walls all ways are looked at; with more, one turned sign at a time."""
TIE = 1e-9
FULLY = 1.0 - 1e-12
IN_SPAN = 1e-7
"""A unit normal with a smaller part outside the span of walls along which a neuron slides is of them."""


@njit(cache=True, **INTERNAL)
def uniform(number: int) -> float:
    """Return a number in (0, 1) that depends on `number` only (SplitMix64)."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@njit(cache=True, **ONCE)
def _agree(count: int, outer: float, rest: float, meeting: Meeting, normals: Floats) -> float:
    """Turn signs of repelling walls until no velocity is against its sign, with D of least norm for the
    attracting ones; return ‖D‖².

    rest: a part of D along a normal that counts as none.
    """
    walls, signs, jumps = meeting.walls, meeting.signs, meeting.jumps
    bounds, x = meeting.bounds, meeting.x
    force, others = meeting.force, meeting.rest
    way = 1.0 if outer > 0.0 else -1.0
    for _ in range(2 * count + 4):
        for i in range(force.size):
            force[i] = others[i]
        for k in range(count):
            x[k], bounds[k] = 0.0, abs(jumps[k])
            if not outer * jumps[k] > 0.0:
                bounds[k] = 0.0
                add_row(force, signs[k] * jumps[k], normals, walls[k])
        shorten(count, meeting, normals)
        turned = False
        for k in range(count):
            if outer * jumps[k] <= 0.0 and -signs[k] * way * dot(force, normals, walls[k]) < -rest:
                signs[k] = -signs[k]
                turned = True
        if not turned:
            break
    return squared(force)


@njit(cache=True, **ONCE)
def _stuck(count: int, square: float, rest: float, meeting: Meeting, normals: Floats) -> bool:
    """Return whether no side pushes the neuron off; square: ‖D‖². At w = 0 all walls meet."""
    walls, force = meeting.walls, meeting.force
    if count == normals.shape[0] or square <= rest * rest:
        return True
    pushed = False
    for k in range(count):
        pushed = pushed or abs(dot(force, normals, walls[k])) > rest
    return not pushed


@njit(cache=True, **ONCE)
def _try(number: int, passing: int, count: int, outer: float, steepest: bool, meeting: Meeting) -> None:
    """Give the repelling walls the signs of a way: the best so far, but for those that may be turned."""
    sides, signs, best = meeting.sides, meeting.signs, meeting.best
    jumps, place = meeting.jumps, 0
    for k in range(count):
        signs[k] = best[k]
        if outer * jumps[k] <= 0.0 and (steepest or sides[k] == ON):
            if passing <= MOST_TRIED:
                signs[k] = 1 if number >> place & 1 else -1
            elif place == number:
                signs[k] = -best[k]
            place += 1


@njit(cache=True, **ONCE)
def _ways(count: int, outer: float, rest: float, drawn: bool, meeting: Meeting, normals: Floats) -> int:
    """Let the signs of the repelling walls agree, from those they have; if they are drawn try others, too.
    Return 2 if there are other ways than the first one, else 1.

    A neuron that is stuck keeps the way with the longest D. Where that leaves, to stay would have been a way,
    too.
    """
    sides, signs, best = meeting.sides, meeting.signs, meeting.best
    jumps, steepest = meeting.jumps, False
    longest, ways = 0.0, 1
    passing, tries = 0, 0
    # First as they are, then the others, at last the best again.
    for number in range(-1, (1 << MOST_TRIED) + normals.shape[0] + 1):
        if number > tries or (number == 0 and not drawn):
            break
        if number == tries:
            for k in range(count):
                signs[k] = best[k]
        elif number >= 0:
            _try(number, passing, count, outer, steepest, meeting)
        square = _agree(count, outer, rest, meeting, normals)
        if number < 0:
            steepest = _stuck(count, square, rest, meeting, normals)
            for k in range(count):
                passing += outer * jumps[k] <= 0.0 and (steepest or sides[k] == ON)
            tries = 1 << passing if passing <= MOST_TRIED else passing
        for k in range(count if 0 <= number < tries else 0):
            if outer * jumps[k] < 0.0 and signs[k] != best[k]:
                ways = 2
        if number < 0 or (number < tries and steepest and square > longest * (1.0 + TIE) + rest * rest):
            longest = square
            for k in range(count):
                best[k] = signs[k]
    if steepest:
        return 2 if longest > rest * rest else 1
    return ways


@njit(cache=True, **ONCE)
def _draw(neuron: int, count: int, outer: float, meeting: Meeting, normals: Floats) -> bool:
    """Give every repelling wall a first sign; return whether the neuron is on such a wall."""
    sides, signs, jumps = meeting.sides, meeting.signs, meeting.jumps
    bounds, x = meeting.bounds, meeting.x
    force, others = meeting.force, meeting.rest
    drawn = False
    for k in range(count):
        if not outer * jumps[k] > 0.0:
            signs[k] = -sides[k]
            drawn = drawn or sides[k] == ON
    if not drawn:
        return False
    # What would keep it on all of its walls, had they no bounds.
    for i in range(force.size):
        force[i] = others[i]
    for k in range(count):
        bounds[k], x[k] = 1e3 * abs(jumps[k]), 0.0
    shorten(count, meeting, normals)
    for k in range(count):
        if sides[k] == ON and not outer * jumps[k] > 0.0:
            share = 0.5 + 0.5 * x[k] / jumps[k] if jumps[k] != 0.0 else 0.0
            signs[k] = 1 if uniform(neuron + 7919 * k) < share else -1
    return True


@njit(cache=True, **INTERNAL)
def settle(neuron: int, count: int, outer: float, rest: float, meeting: Meeting, normals: Floats) -> int:
    """Set the signs of all walls of a meeting; return 1 if the future was two-valued, else 0.

    outer: a, or a' where a = 0; rest: a force that counts as none.
    """
    walls, signs, jumps = meeting.walls, meeting.signs, meeting.jumps
    x, force, frame = meeting.x, meeting.force, meeting.frame
    drawn = _draw(neuron, count, outer, meeting, normals)
    ways = _ways(count, outer, rest, drawn, meeting, normals)
    frame.sizes[0], frame.sizes[1] = 0, 0
    for k in range(count):
        if outer * jumps[k] > 0.0:
            share = x[k] / jumps[k]
            signs[k] = 1 if share >= FULLY else -1 if share <= -FULLY else 0
            if signs[k] == 0:
                extend(frame, normals, walls[k])
    rank = frame.sizes[1]
    for k in range(count if rank > 0 else 0):
        # It stays on a wall whose normal depends on those of walls along which it slides.
        if signs[k] != 0 and abs(dot(force, normals, walls[k])) <= rest:
            left = 1.0
            for row in range(rank):
                part = dot(frame.rows[row], normals, walls[k])
                left -= part * part
            if sqrt(max(left, 0.0)) < IN_SPAN:
                signs[k] = 0
    return 1 if drawn and ways > 1 else 0
