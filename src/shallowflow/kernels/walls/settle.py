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
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, Signed
from shallowflow.kernels.walls.series import dot
from shallowflow.kernels.walls.sliding import Box, extend, new_box, shorten

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
