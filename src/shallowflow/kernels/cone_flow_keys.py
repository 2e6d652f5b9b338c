"""Neurons enter and leave groups, and get keys: see `cone_flow_state`."""

from __future__ import annotations

from math import inf

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.cone_certificate import certificate
from shallowflow.kernels.cone_flow_state import Due, Groups, Moves, Neurons, Problem, group_of, slot_of
from shallowflow.kernels.cone_flow_trace import patience
from shallowflow.kernels.cone_geometry import INTERNAL, LEAN, Signed
from shallowflow.kernels.cone_groups import add_moment, present, referred
from shallowflow.kernels.cone_heap import Indices


@njit(cache=True, **LEAN)
def list_due(neurons: Neurons, due: Due) -> int:
    """List the neurons that are due, and note the lowest key of the others; return how many they are."""
    number, slots = 0, due.reach.size
    for j in range(neurons.slot.size):
        slot = Signed(neurons.slot[j])
        if slot >= slots or not (due.all_of[slot] or due.some_of[slot]):
            continue
        if due.all_of[slot] or neurons.key[j] < due.reach[slot]:
            neurons.list[number] = j
            number += 1
        else:
            due.rest[slot] = min(due.rest[slot], neurons.key[j])
    return number


@njit(cache=True, **LEAN)
def add_neurons(listed: Indices, neurons: Neurons, groups: Groups) -> None:
    """Add the neurons to the second moments of their groups."""
    cones = groups.moments.shape[0] // 3
    for i in range(listed.size):
        j = Signed(listed[i])
        group = group_of(Signed(neurons.slot[j]), cones)
        if group < groups.moments.shape[0]:
            add_moment(groups.moments[group], neurons.theta[j], 1.0)


@njit(cache=True, **LEAN)
def make_moves(count: int, moves: Moves, neurons: Neurons, groups: Groups) -> None:
    """Let neurons change their groups. In `moves`, θ becomes θ̂ of the new group."""
    total = groups.moments.shape[0]
    for i in range(count):
        j, left, entered = Signed(moves.neuron[i]), Signed(moves.left[i]), Signed(moves.entered[i])
        theta = moves.theta[i]
        if i == 0 or moves.neuron[i - 1] != j:
            groups.counts[left] -= 1
            if left < total:
                add_moment(groups.moments[left], neurons.theta[j], -1.0)
        if entered < total:
            p = groups.propagators[entered]
            theta[0], theta[1], theta[2] = referred(p, theta[0], theta[1], theta[2])
        if i == count - 1 or moves.neuron[i + 1] != j:
            kept = neurons.theta[j]
            kept[0], kept[1], kept[2] = theta[0], theta[1], theta[2]
            neurons.slot[j] = slot_of(entered, 1.0, total // 3)
            groups.counts[entered] += 1
            if entered < total:
                add_moment(groups.moments[entered], kept, 1.0)


@njit(cache=True, **INTERNAL)
def _key(w0: float, w1: float, a: float, group: int, slot: int, groups: Groups, problem: Problem) -> float:
    """Return the key of a neuron: where its slot's clock may go before anything can happen to it."""
    cones, clock = problem.rays.shape[0], groups.clocks[slot]
    if w0 == 0.0 and w1 == 0.0 and a == 0.0:
        return inf
    if group < cones:
        return float(certificate(w0, w1, a, group, groups.bits[slot], clock, problem.walls))
    wall = (group - cones) // 2
    along = w0 * problem.rays[wall, 0] + w1 * problem.rays[wall, 1]
    return float(clock + patience(along, a))


@njit(cache=True, **LEAN)
def file(listed: Indices, neurons: Neurons, groups: Groups, problem: Problem) -> None:
    """Give the neurons of this list their slots and keys."""
    cones = problem.rays.shape[0]
    for i in range(listed.size):
        j = Signed(listed[i])
        group = group_of(Signed(neurons.slot[j]), cones)
        if group >= 3 * cones:
            neurons.slot[j], neurons.key[j] = group + cones, inf
            continue
        w0, w1, a = present(groups.propagators[group], neurons.theta[j])
        slot = slot_of(group, a, cones)
        key = _key(w0, w1, a, group, slot, groups, problem)
        neurons.slot[j], neurons.key[j] = slot, key
        groups.lowest[slot] = min(groups.lowest[slot], key)


@njit(cache=True, **LEAN)
def neurons_now(theta: Floats, slots: Indices, propagators: Floats, now: Floats) -> None:
    """Set now (m, 3) to (w, a) of all neurons in the caller's order; the rest as in `cone_flow_state`."""
    groups = propagators.shape[0]
    for j in range(slots.size):
        group = group_of(Signed(slots[j]), groups // 3)
        if group < groups:
            now[j, 0], now[j, 1], now[j, 2] = present(propagators[group], theta[j])
        else:
            now[j, 0], now[j, 1], now[j, 2] = theta[j, 0], theta[j, 1], theta[j, 2]
