"""A step of the sliding groups, and how neurons come to a wall and leave it: see `cone_sliding`."""

from __future__ import annotations

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.cones.exits import NONE, Heaps, list_members, popped
from shallowflow.kernels.cones.geometry import STRAY, Walls, cone_beside, cone_of
from shallowflow.kernels.cones.groups import Cones, Neurons, enter
from shallowflow.kernels.cones.sliding import (
    ACTIVE,
    NUDGE,
    RELEASES,
    RESTING,
    SLIDING,
    TWO_VALUED,
    Sliding,
    add_squares,
    begin_sliding,
    close_group,
    draw,
    on_ray,
    rest,
    slider_now,
    wall_forces,
    way_out,
)
from shallowflow.kernels.shared.compilation import INTERNAL, Signed

Groups = tuple[Neurons, Cones, Heaps]


@njit(cache=True, **INTERNAL)
def slides_in(
    j: int,
    w0: float,
    w1: float,
    a: float,
    old: int,
    new: int,
    groups: Groups,
    on: Sliding,
    forces: Floats,
    walls: Walls,
) -> bool:
    """Put neuron j, which went from one cone to the next, on the wall between if that attracts it."""
    sign = -1.0 if a < 0.0 else 1.0
    for side in (1, -1):
        if new != cone_beside(old, side, walls):
            continue
        wall = new if side > 0 else old
        e0, e1 = on_ray(wall, 1.0, 0.0, walls)
        omega = e0 * w0 + e1 * w1
        before, behind, _ = wall_forces(wall, forces, walls)
        if omega > 0.0 and sign * behind < 0.0 < sign * before:
            begin_sliding(j, omega, a, wall, (groups[0], groups[2]), on)
            return True
    return False


@njit(cache=True, **INTERNAL)
def step_sliding(groups: Groups, on: Sliding, forces: Floats, walls: Walls, step: int, occupied: int) -> int:
    """Move all sliding groups, release whom they hold no more; return how many cones are occupied."""
    at = on.counts[ACTIVE] - 1
    while at >= 0:
        group = on.active[at]
        at -= 1
        sign = 1.0 if group % 2 == 0 else -1.0
        before, behind, along = wall_forces(group // 2, forces, walls)
        on.factors[group, 0] *= 1.0 + sign * along
        on.factors[group, 1] *= 1.0 - sign * along
        if not sign * behind < 0.0 < sign * before:
            occupied = _release_group(group, before, behind, groups, on, forces, walls, occupied)
        elif groups[2].key[on.roots[group]] <= -on.factors[group, 0] / on.factors[group, 1]:
            occupied = _release_due(group, groups, on, forces, walls, step, occupied)
    if on.counts[RESTING] > 0:
        for side in range(2):
            occupied = _wake(side, groups, on, forces, walls, occupied)
    return occupied


@njit(cache=True, **INTERNAL)
def _release_group(
    group: int,
    before: float,
    behind: float,
    groups: Groups,
    on: Sliding,
    forces: Floats,
    walls: Walls,
    occupied: int,
) -> int:
    """Put all neurons of a group beside their wall, where they are pushed; by lot if to both sides."""
    neurons, _, heaps = groups
    wall, sign = group // 2, 1.0 if group % 2 == 0 else -1.0
    size = list_members(on.roots[group], heaps, neurons.list)
    on.roots[group], on.sizes[group] = NONE, 0
    for i in range(size):
        j = Signed(neurons.list[i])
        omega, a = slider_now(neurons.theta[j], group, on)
        forwards = sign * behind >= 0.0
        if forwards and sign * before <= 0.0:
            forwards = draw(j) < 0.5
        occupied = _put_beside(j, omega, a, wall, forwards, groups, forces, walls, occupied)
    close_group(group, on)
    on.counts[SLIDING] -= size
    on.counts[RELEASES] += size
    return occupied


@njit(cache=True, **INTERNAL)
def _put_beside(
    j: int,
    omega: float,
    a: float,
    wall: int,
    forwards: bool,
    groups: Groups,
    forces: Floats,
    walls: Walls,
    occupied: int,
) -> int:
    """Put neuron j into the cone behind (forwards) or before a wall, next to the wall."""
    w0, w1 = on_ray(wall, omega, NUDGE * omega if forwards else -NUDGE * omega, walls)
    cone = wall if forwards else cone_beside(wall, -1, walls)
    occupied = enter(j, w0, w1, a, cone, groups, forces, walls, occupied)
    return occupied


@njit(cache=True, **INTERNAL)
def _release_due(
    group: int, groups: Groups, on: Sliding, forces: Floats, walls: Walls, step: int, occupied: int
) -> int:
    """Release the neurons of a group whose a or ω passed zero."""
    neurons, _, heaps = groups
    wall = group // 2
    before, behind, _ = wall_forces(wall, forces, walls)
    limit = -on.factors[group, 0] / on.factors[group, 1]
    while on.roots[group] >= 0 and heaps.key[on.roots[group]] <= limit:
        j = Signed(on.roots[group])
        on.roots[group] = popped(j, heaps)
        on.sizes[group] -= 1
        on.counts[SLIDING] -= 1
        on.counts[RELEASES] += 1
        add_squares(on.sums[group], neurons.theta[j, 0], neurons.theta[j, 1], -1.0)
        omega, a = slider_now(neurons.theta[j], group, on)
        if neurons.theta[j, 1] > 0.0:
            if on.counts[TWO_VALUED] < on.events.shape[0]:
                event = on.events[on.counts[TWO_VALUED]]
                event[0], event[1], event[2] = step, j, wall
            on.counts[TWO_VALUED] += 1
            forwards = draw(j) < before / (before - behind)
            occupied = _put_beside(j, omega, a, wall, forwards, groups, forces, walls, occupied)
        else:
            opposite = wall + walls.owners.size // 2
            opposite = opposite - (walls.owners.size - 1) if opposite >= walls.owners.size - 1 else opposite
            occupied = _pass_zero(j, max(-omega, 0.0), a, opposite, groups, on, forces, walls, occupied)
    if on.sizes[group] == 0:
        close_group(group, on)
    return occupied


@njit(cache=True, **INTERNAL)
def _pass_zero(
    j: int,
    omega: float,
    a: float,
    wall: int,
    groups: Groups,
    on: Sliding,
    forces: Floats,
    walls: Walls,
    occupied: int,
) -> int:
    """Put neuron j, which came through w = 0 to a wall's ray, where it belongs there."""
    sign = -1.0 if a < 0.0 else 1.0
    people = groups[0], groups[2]
    before, behind, along = wall_forces(wall, forces, walls)
    if sign * behind < 0.0 < sign * before:
        if sign * along > 0.0:
            begin_sliding(j, omega + a * along, a, wall, people, on)
        else:
            rest(j, a, people, on)
        return occupied
    forwards = sign * behind >= 0.0
    if forwards and sign * before <= 0.0:
        forwards = draw(j) < 0.5
    cone = wall if forwards else cone_beside(wall, -1, walls)
    w0, w1 = on_ray(wall, omega, 0.0, walls)
    occupied = _start(j, w0, w1, a, cone, groups, on, forces, walls, occupied)
    return occupied


@njit(cache=True, **INTERNAL)
def _start(
    j: int,
    w0: float,
    w1: float,
    a: float,
    cone: int,
    groups: Groups,
    on: Sliding,
    forces: Floats,
    walls: Walls,
    occupied: int,
) -> int:
    """Make one step from w, next to a cone, with that cone's force, and enter the cone reached."""
    w0, w1 = w0 + a * forces[cone, 0], w1 + a * forces[cone, 1]
    reached = cone_of(w0, w1, cone, walls)
    if reached == STRAY:
        rest(j, a, (groups[0], groups[2]), on)
        return occupied
    occupied = enter(j, w0, w1, a, reached, groups, forces, walls, occupied)
    return occupied


@njit(cache=True, **INTERNAL)
def _wake(side: int, groups: Groups, on: Sliding, forces: Floats, walls: Walls, occupied: int) -> int:
    """Let the resting neurons with a ≥ 0 (side 0) or a < 0 go if some direction leads away from w = 0."""
    neurons, _, heaps = groups
    group = on.active.size + side
    if on.sizes[group] == 0:
        return occupied
    sign = 1.0 if side == 0 else -1.0
    cone, wall = way_out(sign, forces, walls)
    if cone < 0 and wall < 0:
        return occupied
    size = list_members(on.roots[group], heaps, neurons.list)
    on.roots[group], on.sizes[group] = NONE, 0
    on.counts[RESTING] -= size
    for i in range(size):
        j = Signed(neurons.list[i])
        a = neurons.theta[j, 2]
        if wall >= 0:
            _, _, along = wall_forces(wall, forces, walls)
            begin_sliding(j, a * along, a, wall, (neurons, heaps), on)
        else:
            occupied = _start(j, 0.0, 0.0, a, cone, groups, on, forces, walls, occupied)
    return occupied
