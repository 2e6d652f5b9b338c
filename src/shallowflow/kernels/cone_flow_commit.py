"""The end of a step: neurons change their groups, propagators and clocks advance, groups are released.

After the last node P ← Φ P, and every neuron that was looked at gets a new key. A group whose P has become
uneven is re-synchronised: θ̂ ← P θ̂, P = I.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cone_certificate import approached, approaches, certificate
from shallowflow.kernels.cone_flow_state import (
    PLAIN,
    TWO_VALUED,
    Groups,
    Moves,
    Neurons,
    Problem,
    State,
    Work,
    group_of,
    normal_force,
    sign_of,
    slot_of,
)
from shallowflow.kernels.cone_flow_trace import downhill, patience, uniform
from shallowflow.kernels.cone_geometry import INTERNAL, Signed, Walls
from shallowflow.kernels.cone_groups import MAX_SPREAD, add_moment, present, referred, spread


@njit(cache=True, **INTERNAL)
def leave(theta: Floats, group: int, groups: Groups) -> None:
    """Take a neuron with this θ̂ out of a group."""
    groups.counts[group] -= 1
    if group < groups.moments.shape[0]:
        add_moment(groups.moments[group], theta, -1.0)


@njit(cache=True, **INTERNAL)
def enter(theta: Floats, group: int, groups: Groups) -> None:
    """Put a neuron with this θ̂ into a group."""
    groups.counts[group] += 1
    if group < groups.moments.shape[0]:
        add_moment(groups.moments[group], theta, 1.0)


@njit(cache=True, **INTERNAL)
def clear(group: int, groups: Groups, cones: int) -> None:
    """Reset an empty group."""
    p = groups.propagators[group]
    p[:] = 0.0
    p[0], p[4], p[8] = 1.0, 1.0, 1.0
    groups.moments[group, :] = 0.0
    for slot in range(2 * group, 2 * group + 2) if group < cones else range(group + cones, group + cones + 1):
        groups.clocks[slot] = 0.0
        groups.lowest[slot] = inf
        if group < cones:
            groups.bits[slot] = 0


@njit(cache=True, **INTERNAL)
def file(j: int, group: int, neurons: Neurons, groups: Groups, problem: Problem) -> None:
    """Give neuron j of a group its slot and its key."""
    cones = problem.rays.shape[0]
    if group >= 3 * cones:
        neurons.slot[j], neurons.key[j] = group + cones, inf
        return
    w0, w1, a = present(groups.propagators[group], neurons.theta[j])
    slot = slot_of(group, a, cones)
    clock = groups.clocks[slot]
    if w0 == 0.0 and w1 == 0.0 and a == 0.0:
        key = inf
    elif group < cones:
        key = certificate(w0, w1, a, group, groups.bits[slot], clock, problem.walls)
    else:
        wall = (group - cones) // 2
        along = w0 * problem.rays[wall, 0] + w1 * problem.rays[wall, 1]
        key = clock + patience(along, a)
    neurons.slot[j], neurons.key[j] = slot, key
    groups.lowest[slot] = min(groups.lowest[slot], key)


@njit(cache=True, **INTERNAL)
def watch(cone: int, forces: Floats, groups: Groups, walls: Walls) -> None:
    """Watch the walls that the neurons of a cone approach at present."""
    first, last = approaches(forces[cone], cone, walls)
    groups.bits[2 * cone] |= approached(first, last, 1.0)
    groups.bits[2 * cone + 1] |= approached(first, last, -1.0)


@njit(cache=True, **INTERNAL)
def commit(count: int, due: int, number: int, moves: Moves, state: State, problem: Problem) -> None:
    """Make the step's moves, and advance everything to its end. In `moves`, θ becomes θ̂ of the new group."""
    neurons, groups, work, rule = state
    cones, end = problem.rays.shape[0], rule.nodes.size - 1
    for i in range(count):
        j, entered, theta = Signed(moves.neuron[i]), Signed(moves.entered[i]), moves.theta[i]
        if i == 0 or moves.neuron[i - 1] != j:
            leave(neurons.theta[j], Signed(moves.left[i]), groups)
        if entered < 3 * cones:
            p = groups.propagators[entered]
            theta[0], theta[1], theta[2] = referred(p, theta[0], theta[1], theta[2])
        if i == count - 1 or moves.neuron[i + 1] != j:
            kept = neurons.theta[j]
            kept[0], kept[1], kept[2] = theta[0], theta[1], theta[2]
            neurons.slot[j] = slot_of(entered, 1.0, cones)
            enter(kept, entered, groups)
    for at in range(number):
        g = work.active[at]
        if groups.counts[g] == 0:
            clear(g, groups, cones)
            continue
        _multiply(work.phi[g, end], groups.propagators[g])
        _advance_clocks(g, end, groups, work, problem.walls)
    for i in range(due):
        j = Signed(neurons.list[i])
        file(j, group_of(Signed(neurons.slot[j]), cones), neurons, groups, problem)


@njit(cache=True, **INTERNAL)
def _multiply(phi: Floats, p: Floats) -> None:
    """P ← Φ P."""
    for k in range(3):
        p0, p1, p2 = p[k], p[3 + k], p[6 + k]
        for i in range(3):
            p[3 * i + k] = phi[3 * i] * p0 + phi[3 * i + 1] * p1 + phi[3 * i + 2] * p2


@njit(cache=True, **INTERNAL)
def _advance_clocks(g: int, end: int, groups: Groups, work: Work, walls: Walls) -> None:
    cones = work.dips.shape[0]
    # A group that was empty at the start of the step has no reach: its clock starts now.
    old = work.entries[g] == 0.0
    if g >= cones:
        groups.clocks[g + cones] -= sign_of(g, cones) * work.turns[g, end]
        if work.due[g + cones] > 0:
            groups.lowest[g + cones] = work.rest[g + cones]
        return
    for slot in range(2 * g, 2 * g + 2):
        if old:
            groups.clocks[slot] = work.reach[slot]
            groups.bits[slot] |= work.seen[slot]
            if work.due[slot] > 0:
                groups.lowest[slot] = work.rest[slot]
    watch(g, work.forces[end], groups, walls)


@njit(cache=True)
def synchronise(neurons: Neurons, groups: Groups, listed: Ints, matrices: Floats) -> int:
    """Re-synchronise the groups whose P is uneven; list them with their P, return how many they are."""
    cones, number, urgent = groups.moments.shape[0] // 3, 0, False
    chosen = np.zeros(3 * cones, np.bool_)
    for g in range(3 * cones):
        if groups.counts[g] > 0:
            size = spread(groups.propagators[g])
            urgent = urgent or size > MAX_SPREAD
            chosen[g] = size > 0.5 * MAX_SPREAD
    if not urgent:
        return 0
    for g in range(3 * cones):
        if chosen[g]:
            listed[number] = g
            for k in range(9):
                matrices[number, k] = groups.propagators[g, k]
            groups.moments[g, :] = 0.0
            number += 1
    for j in range(neurons.slot.size):
        g = group_of(Signed(neurons.slot[j]), cones)
        if g < 3 * cones and chosen[g]:
            theta = neurons.theta[j]
            theta[0], theta[1], theta[2] = present(groups.propagators[g], theta)
            add_moment(groups.moments[g], theta, 1.0)
    for i in range(number):
        p = groups.propagators[listed[i]]
        p[:] = 0.0
        p[0], p[4], p[8] = 1.0, 1.0, 1.0
    return number


@njit(cache=True, **INTERNAL)
def _target(g: int, forces: Floats, rest: float, problem: Problem) -> tuple[int, int]:
    """Return where the neurons of a group go now, and how many ways there are (0: they stay)."""
    cones = problem.rays.shape[0]
    sign = sign_of(g, cones)
    if g >= 3 * cones:
        target, ways = downhill(sign, forces, rest, problem)
        return target, ways if target != g else 0
    wall = (g - cones) // 2
    before = (wall - 1 + cones) % cones
    onward = sign * normal_force(forces, wall, wall, problem.walls) > rest
    back = -sign * normal_force(forces, before, wall, problem.walls) > rest
    return (wall if onward else before), int(onward) + int(back)


@njit(cache=True)
def release(forces: Floats, rest: float, moves: Moves, state: State, problem: Problem) -> int:
    """Release the sliding groups and the resting neurons that are pulled off; return the number of moves.

    forces (C, 2): D now. The moves happen at once (their share is 0). A full list gives -1.
    """
    neurons, groups, _, _ = state
    cones, count = problem.rays.shape[0], 0
    targets, ways = np.zeros(3 * cones + 2, np.int64), np.zeros(3 * cones + 2, np.int64)
    waiting = 0
    for g in range(cones, 3 * cones + 2):
        if groups.counts[g] > 0:
            targets[g], ways[g] = _target(g, forces, rest, problem)
            waiting += groups.counts[g] if ways[g] > 0 else 0
    if waiting == 0:
        return 0
    if waiting > moves.neuron.size:
        return -1
    for j in range(neurons.slot.size):
        g = group_of(Signed(neurons.slot[j]), cones)
        if g < cones or ways[g] == 0:
            continue
        target = targets[g]
        if g < 3 * cones and ways[g] == 2 and uniform(j) < 0.5:
            target = (target - 1 + cones) % cones
        moves.neuron[count], moves.share[count] = j, 0.0
        moves.left[count], moves.entered[count] = g, target
        moves.kind[count] = TWO_VALUED if ways[g] > 1 else PLAIN
        _move_now(j, g, target, forces, neurons, groups, problem)
        for k in range(3):
            moves.theta[count, k] = neurons.theta[j, k]
        count += 1
    for g in range(cones, 3 * cones):
        if groups.counts[g] == 0 and ways[g] > 0:
            clear(g, groups, cones)
    return count


@njit(cache=True, **INTERNAL)
def _move_now(
    j: int, g: int, target: int, forces: Floats, neurons: Neurons, groups: Groups, problem: Problem
) -> None:
    cones = problem.rays.shape[0]
    theta = neurons.theta[j]
    leave(theta, g, groups)
    if g < 3 * cones:
        theta[0], theta[1], theta[2] = present(groups.propagators[g], theta)
    theta[0], theta[1], theta[2] = referred(groups.propagators[target], theta[0], theta[1], theta[2])
    enter(theta, target, groups)
    if target < cones:
        watch(target, forces, groups, problem.walls)
    file(j, target, neurons, groups, problem)
