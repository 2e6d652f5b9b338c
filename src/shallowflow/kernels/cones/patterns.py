"""Gradient descent of a ReLU network on inputs of any dimension, by sign patterns.

Model and step as in `cone_descent`, for d ≥ 1: all neurons of one sign pattern make the same linear map
(`pattern_table`, `pattern_groups`). A step costs O(patterns · points · dimension) plus what crossings cost,
whatever the width. Neurons that come and go are stepped one by one (`pattern_steppers`); if all are, from the
start, this is bucketed descent, which pays when neurons hardly share patterns. Either way the iterates are
those of plain descent up to rounding, and neurons cross in the same steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import LONGEST_STEP, Heaps, Indices, popped
from shallowflow.kernels.cones.geometry import error
from shallowflow.kernels.cones.groups import COOLING_PERIOD, HOT, MAX_SPREAD, QUIET, RECROSSING
from shallowflow.kernels.cones.pattern_groups import (
    Groups,
    Steppers,
    add_group_moment,
    add_group_moments,
    add_moment,
    add_stepper,
    enter,
    file,
    largest_log,
    new_groups,
    new_steppers,
    present,
    propagate,
    step_clocks,
    step_one_by_one,
    take_all,
)
from shallowflow.kernels.cones.pattern_table import (
    Loss,
    Points,
    Signs,
    Table,
    dot,
    join,
    new_table,
    part,
    read_pattern,
    set_all_forces,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed

STEPS, CROSSINGS, CHECKS, STEPPED, MOST_STEPPED, SYNCS, GROUPED = range(7)
"""The counters: steps made, crossings, neurons looked at, neurons stepped one by one now and at most,
re-synchronised groups, whether there are groups at all."""
DUE, RENEW, SYNC = 1, 2, 3


class State(NamedTuple):
    """All between two calls; theta (d + 1,), pattern (n,), todo (m + 1, 2) are working memory."""

    groups: Groups
    heaps: Heaps
    table: Table
    steppers: Steppers
    counters: Ints
    theta: Floats
    pattern: Signs
    todo: Ints


def begin(inner: Floats, outer: Floats, points: Points, loss: Loss, grouped: bool) -> State:
    """Return the state at the start, from inner (m, d) and outer (m,) weights; the rest as in `advance`."""
    width, dimension = inner.shape
    size = len(points.targets)
    groups, heaps = new_groups(width, size, dimension)
    groups.theta[:, :-1], groups.theta[:, -1] = inner, outer
    state = State(
        groups,
        heaps,
        new_table(width + 1, size, dimension),
        new_steppers(width, dimension),
        np.zeros(7, np.int64),
        np.zeros(dimension + 1),
        np.zeros(size, np.int8),
        np.zeros((width + 1, 2), np.int64),
    )
    state.counters[GROUPED] = int(grouped)
    _distribute(state, points, loss)
    return state


@njit(cache=True, **LEAN)
def _distribute(state: State, points: Points, loss: Loss) -> None:
    """Give every neuron its pattern. The first forces are needed to know which borders are approached."""
    groups, table, d = state.groups, state.table, points.inputs.shape[1]
    for j in range(groups.heap.size):
        code = read_pattern(groups.theta[j], points, state.pattern)
        slot = join(code, state.pattern, table, points)
        groups.heap[j] = slot
        for i in range(d):
            table.moments[slot, i] += groups.theta[j, d] * groups.theta[j, i]
    set_all_forces(table, points, loss)
    _empty_moments(table)
    for j in range(groups.heap.size):
        for i in range(d + 1):
            state.theta[i] = groups.theta[j, i]
        if state.counters[GROUPED] == 0:
            _step_alone(j, Signed(groups.heap[j]), state, points)
        else:
            enter(j, state.theta, Signed(groups.heap[j]), (groups, state.heaps, table), points)


@njit(cache=True, **INTERNAL)
def _step_alone(j: int, slot: int, state: State, points: Points) -> None:
    """Append neuron j, of value state.theta, which has joined a pattern, to those stepped one by one."""
    counters = state.counters
    add_stepper(j, state.theta, slot, counters[STEPS], state.steppers, counters[STEPPED], state.table, points)
    state.groups.heap[j] = HOT
    counters[STEPPED] += 1
    counters[MOST_STEPPED] = max(counters[MOST_STEPPED], counters[STEPPED])


def neurons_now(state: State) -> Floats:
    """Return (w, a) of all neurons in the caller's order, (m, d + 1)."""
    groups, steppers = state.groups, state.steppers
    now = np.empty_like(groups.theta)
    _write_groups(groups.theta, groups.heap, groups.propagators, now)
    alone = slice(state.counters[STEPPED])
    now[steppers.neuron[alone]] = steppers.theta[alone]
    return now


@njit(cache=True, **LEAN)
def _write_groups(theta: Floats, heaps: Indices, propagators: Floats, now: Floats) -> None:
    """Set `now` to P θ̂ for all neurons of groups."""
    for j in range(heaps.size):
        heap = Signed(heaps[j])
        if heap >= 0:
            present(propagators[heap // 2], theta[j], now[j])


@njit(cache=True, **LEAN)
def advance(state: State, points: Points, loss: Loss, steps: int) -> int:
    """Make up to `steps` steps in place; return how many could be made with finite forces.

    loss: `SQUARE` or `LOGISTIC`, the output factor c, and step × c × weight of the loss (1/n for a mean).
    """
    groups, table, counters = state.groups, state.table, state.counters
    for done in range(steps):
        add_group_moments(groups, table)
        if not set_all_forces(table, points, loss):
            return done
        counters[STEPS] += 1
        _empty_moments(table)
        busy = _step_groups(state, points)
        counters[CROSSINGS] += step_one_by_one(
            state.steppers, counters[STEPPED], table, points, state.pattern, counters[STEPS]
        )
        for i in range(busy):
            _look_after(state.todo[i, 0], state.todo[i, 1], state, points)
        if counters[GROUPED] and counters[STEPPED] > 0 and counters[STEPS] % COOLING_PERIOD == 0:
            _cool(state, points)
    return steps


@njit(cache=True, **LEAN)
def loss_now(state: State, points: Points, loss: Loss) -> float:
    """Return the loss of the present state, without its weight and the points at the origin.

    O(patterns · points · dimension), and only working memory is written that each step sets anew.
    """
    groups, table, d = state.groups, state.table, points.inputs.shape[1]
    kind, scale, _ = loss
    for k in range(points.targets.size):
        table.pulls[k] = 0.0
    for at in range(table.size[0]):
        slot = table.used[at]
        for c in range(d):
            state.theta[c] = table.moments[slot, c]
        if groups.counts[slot] > 0:
            add_group_moment(slot, groups, state.theta)
        for k in range(points.targets.size):
            gate = 1.0 if table.active[slot, k] else points.slope[0]
            table.pulls[k] += gate * dot(state.theta, points.inputs[k], d)
    total = 0.0
    for k in range(points.targets.size):
        total += error(scale * table.pulls[k], points.targets[k], kind)
    return total


@njit(cache=True, **INTERNAL)
def _empty_moments(table: Table) -> None:
    """Set all moments to zero."""
    for i in range(table.size[0]):
        for c in range(table.moments.shape[1]):
            table.moments[table.used[i], c] = 0.0


@njit(cache=True, **INTERNAL)
def _step_groups(state: State, points: Points) -> int:
    """Move all groups and their clocks; list in `todo` the slots that need care, and which care."""
    groups, table = state.groups, state.table
    busy = 0
    for i in range(table.size[0]):
        slot = table.used[i]
        d = table.lengths[slot]
        if groups.counts[slot] == 0 or d == 0.0:
            continue
        propagate(groups.propagators[slot], table.forces[slot])
        length = d * (1.0 + 0.5 * d * d)
        groups.spreads[slot] += length
        due, new = step_clocks(slot, length, groups, state.heaps, table, points)
        need = RENEW if new else (DUE if due else 0)
        if groups.spreads[slot] > MAX_SPREAD:
            groups.spreads[slot] = 2.0 * largest_log(groups.propagators[slot])
        if not (d <= LONGEST_STEP and groups.spreads[slot] <= MAX_SPREAD):
            need = SYNC
        if need:
            state.todo[busy, 0], state.todo[busy, 1] = slot, need
            busy += 1
    return busy


@njit(cache=True, **INTERNAL)
def _look_after(slot: int, need: int, state: State, points: Points) -> None:
    """Look at the neurons of a group whose certificates ran out, or at all of them."""
    groups, heaps, table = state.groups, state.heaps, state.table
    fresh = need == SYNC
    number = _take_synchronised(slot, state) if fresh else _take_due(slot, groups, heaps)
    state.counters[CHECKS] += number
    for i in range(number):
        j = Signed(groups.list[i])
        if fresh:
            for c in range(state.theta.size):
                state.theta[c] = groups.theta[j, c]
        else:
            present(groups.propagators[slot], groups.theta[j], state.theta)
        code, target, again = read_pattern(state.theta, points, state.pattern), slot, False
        if code != table.codes[slot]:
            if not fresh:
                add_moment(groups, slot, groups.theta[j], -1.0)
                groups.counts[slot] -= 1
            target, again = _cross(j, slot, code, state, points)
        elif not fresh:
            file(j, state.theta, slot, (groups, heaps, table), points)
            continue
        if again:
            _step_alone(j, target, state, points)
        else:
            enter(j, state.theta, target, (groups, heaps, table), points)


@njit(cache=True, **INTERNAL)
def _take_due(slot: int, groups: Groups, heaps: Heaps) -> int:
    """List the neurons of a group whose certificates ran out, or all of a heap with a newly approached
    border; return how many they are.
    """
    number = Signed(0)
    for heap in range(2 * slot, 2 * slot + 2):
        renew = False
        for k in range(groups.approached.shape[1]):
            renew |= groups.approached[heap, k] == 2
            groups.approached[heap, k] = min(groups.approached[heap, k], 1)
        if renew:
            number = take_all(heap, groups, heaps, number)
            continue
        while groups.sizes[heap] > 0 and heaps.key[groups.roots[heap]] <= groups.clocks[heap, 0]:
            groups.list[number] = groups.roots[heap]
            number += 1
            groups.roots[heap] = popped(groups.roots[heap], heaps)
            groups.sizes[heap] -= 1
    taken: int = number
    return taken


@njit(cache=True, **INTERNAL)
def _take_synchronised(slot: int, state: State) -> int:
    """Empty a group, with the present values of its neurons stored and listed; return how many they are."""
    groups, heaps = state.groups, state.heaps
    number = take_all(2 * slot, groups, heaps, Signed(0))
    number = take_all(2 * slot + 1, groups, heaps, number)
    state.counters[SYNCS] += 1
    for i in range(number):
        j = Signed(groups.list[i])
        present(groups.propagators[slot], groups.theta[j], state.theta)
        for c in range(state.theta.size):
            groups.theta[j, c] = state.theta[c]
    groups.counts[slot] = 0
    taken: int = number
    return taken


@njit(cache=True, **INTERNAL)
def _cross(j: int, slot: int, code: int, state: State, points: Points) -> tuple[int, bool]:
    """Give neuron j, which left a group, its new pattern; return that, and whether it comes and goes."""
    groups, table, step = state.groups, state.table, state.counters[STEPS]
    state.counters[CROSSINGS] += 1
    wall = 0
    while state.pattern[wall] == table.active[slot, wall]:
        wall += 1
    again = groups.through[j] == wall and 0 < step - groups.crossed[j] <= RECROSSING and groups.crossed[j] > 0
    groups.through[j], groups.crossed[j] = wall, step
    new = join(code, state.pattern, table, points)
    part(slot, table)
    return new, again


@njit(cache=True, **INTERNAL)
def _cool(state: State, points: Points) -> None:
    """Put neurons stepped one by one that have been quiet for long back into the groups."""
    groups, steppers, table, counters = state.groups, state.steppers, state.table, state.counters
    d = points.inputs.shape[1]
    i = 0
    _empty_moments(table)
    while i < counters[STEPPED]:
        slot = Signed(steppers.slot[i])
        if counters[STEPS] - steppers.crossed[i] <= QUIET:
            for c in range(d):
                table.moments[slot, c] += steppers.theta[i, d] * steppers.theta[i, c]
            i += 1
            continue
        j = Signed(steppers.neuron[i])
        groups.through[j], groups.crossed[j] = steppers.wall[i], steppers.crossed[i]
        for c in range(d + 1):
            state.theta[c] = steppers.theta[i, c]
        enter(j, state.theta, slot, (groups, state.heaps, table), points)
        counters[STEPPED] -= 1
        last = counters[STEPPED]
        for c in range(d + 1):
            steppers.theta[i, c] = steppers.theta[last, c]
        steppers.neuron[i], steppers.slot[i] = steppers.neuron[last], steppers.slot[last]
        steppers.wall[i], steppers.budget[i] = steppers.wall[last], steppers.budget[last]
        steppers.crossed[i] = steppers.crossed[last]
