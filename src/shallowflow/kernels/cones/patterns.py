"""Gradient descent of a ReLU network on inputs of any dimension, by sign patterns.

Model and step as in `descent`, for d ≥ 1: all neurons of one sign pattern make the same linear map
(`pattern_table`). At the start every neuron is stepped individually with its pattern's force, at O(d).
Neurons that will not cross a border for a while are grouped (below): then a
step costs O(patterns · points · dimension), whatever the width. Either way the iterates are those of plain
descent up to rounding, and neurons cross in the same steps.

One propagator and one second moment for all grouped neurons of a sign pattern, in any dimension.

As in `groups`: neurons θ = (w, a) of a pattern share every step, θ <- (I + M) θ with M = [[0, G], [Gᵀ, 0]],
so of each grouped neuron the value θ̂ at a time of reference is stored, and for the group P = Π (I + M),
S = Σ θ̂ θ̂ᵀ, Σ a w = (P S Pᵀ)_{wa}. The neurons are in two heaps by the sign of a, ordered by the certificate
of `exits`, which holds in any dimension: the distance f is the smallest to a border of any data point that
was ever approached, whether the border bounds the cone or not.

A grouped neuron is looked at when its certificate runs out, which costs as much as some `LEAVE` individual
steps. So an individually stepped neuron joins its group (`group_quiet`) when it cannot cross for `JOIN` steps
at its present speed. It leaves the group when it crosses a border, when a changes its sign, or when its
certificate promises less than `LEAVE` steps. A group itself costs O(n d + d²) per step: only patterns with
enough neurons have one.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import (
    LONGEST_STEP,
    NONE,
    RATIO,
    ROUNDING,
    Heaps,
    Indices,
    advance_clock,
    list_members,
    new_heaps,
    popped,
    promised,
    pushed,
)
from shallowflow.kernels.cones.geometry import SQUARE, Loss
from shallowflow.kernels.cones.groups import MAX_SPREAD
from shallowflow.kernels.cones.pattern_table import (
    CHECKS,
    CROSSINGS,
    NEXT_LOOK,
    PAUSE,
    STEPPED,
    STEPS,
    Points,
    Signs,
    Steppers,
    Table,
    append_stepper,
    distribute,
    dot,
    empty_moments,
    join,
    new_steppers,
    new_table,
    part,
    read_pattern,
    set_all_forces,
    step_individually,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

JOIN, LEAVE = 64.0, 16.0
"""Steps that must be free of crossings for a neuron to join a group, and to stay in it."""
INDIVIDUAL = -1
"""In place of a heap: individually stepped."""
DUE, RENEW, DISSOLVE = 1, 2, 3
"""What a group needs after a step: due neurons looked at; all of a heap; to be given up."""


class Groups(NamedTuple):
    """By slot: propagators, sums, errors (m, d + 1, d + 1), counts, spreads (m,); by heap 2 slot + (a < 0):
    roots, sizes (2m,), clocks (2m, 3): value, rounding error, last advance, approached (2m, n).

    By neuron: theta (m, d + 1), heap (m,). Working memory: list (m,), todo (m, 2).
    """

    propagators: Floats
    sums: Floats
    errors: Floats
    counts: Ints
    spreads: Floats
    roots: Ints
    sizes: Ints
    clocks: Floats
    approached: Signs
    theta: Floats
    heap: Indices
    list: Indices
    todo: Ints
    heaps: Heaps


def new_groups(width: int, size: int, dimension: int) -> Groups:
    """Return the memory for `width` neurons, none grouped; it is taken from the system only when used."""
    slots, order = width + 1, dimension + 1
    propagators, sums, errors = (np.zeros((slots, order, order)) for _ in range(3))
    return Groups(
        propagators,
        sums,
        errors,
        np.zeros(slots, np.int64),
        np.zeros(slots),
        np.full(2 * slots, NONE, np.int64),
        np.zeros(2 * slots, np.int64),
        np.zeros((2 * slots, 3)),
        np.zeros((2 * slots, size), np.int8),
        np.zeros((width, order)),
        np.full(width, INDIVIDUAL, np.int32),
        np.zeros(width, np.int32),
        np.zeros((slots, 2), np.int64),
        new_heaps(width),
    )


def group_quiet(groups: Groups, steppers: Steppers, counters: Ints, table: Table, points: Points) -> int:
    """Group the individually stepped neurons that cannot cross for `JOIN` steps; return how many they are."""
    slot, wall, theta = (each[: counters[STEPPED]] for each in (steppers.slot, steppers.wall, steppers.theta))
    crowded = table.members[slot] >= fewest(*points.inputs.shape)
    if not (points.targets.size and crowded.any()):
        return 0
    height = np.abs(np.sum(theta[:, :-1] * points.inputs[wall], axis=1)) * points.inverse[wall]
    reach = JOIN * np.abs(theta[:, -1]) * table.lengths[slot]
    free = np.minimum(height, steppers.budget[: len(slot)]) > reach
    chosen = np.flatnonzero(crowded & free & (table.lengths[slot] <= LONGEST_STEP))
    chosen = chosen[np.argsort(slot[chosen], kind="stable")]
    if not len(chosen):
        return 0
    first = np.unique(slot[chosen], return_index=True)[1]
    for members in np.split(chosen, first[1:]):
        here = slot[members[0]]
        if groups.counts[here] == 0:
            groups.propagators[here] = np.eye(theta.shape[1])
            groups.sums[here] = groups.errors[here] = groups.spreads[here] = 0.0
        _start_clocks(here, groups, table, points)
        groups.theta[steppers.neuron[members]] = np.linalg.solve(groups.propagators[here], theta[members].T).T
    _file_all(chosen, steppers, groups, table, points)
    _strike(chosen, steppers, counters, table)
    return len(chosen)


def fewest(size: int, dimension: int) -> int:
    """Return the number of neurons from which a group pays.

    Counted at n = 3 to 100, d = 2 to 10: a group takes about 2.4 (n d + d²) ns per step beside what its
    pattern takes anyway, an individually stepped neuron 7 + d.
    """
    return 2 + round(2.4 * dimension * (size + dimension) / (7 + dimension))


def _start_clocks(slot: int, groups: Groups, table: Table, points: Points) -> None:
    """Start the clocks of a group's empty heaps, watching the borders that their neurons approach."""
    inwards = np.where(table.active[slot], 1.0, -1.0) * (points.inputs @ table.forces[slot])
    for heap, sign in ((2 * slot, 1.0), (2 * slot + 1, -1.0)):
        if groups.sizes[heap] == 0:
            groups.clocks[heap], groups.approached[heap] = 0.0, sign * inwards < 0.0


def _strike(chosen: Ints, steppers: Steppers, counters: Ints, table: Table) -> None:
    """Strike neurons off the list of the individually stepped ones, and sum a w of the others afresh."""
    kept = np.delete(np.arange(counters[STEPPED]), chosen)
    for each in (steppers.theta, steppers.neuron, steppers.slot, steppers.wall, steppers.budget):
        each[: len(kept)] = each[kept]
    counters[STEPPED] = len(kept)
    table.moments[table.used[: table.size[0]]] = 0.0
    theta = steppers.theta[: len(kept)]
    np.add.at(table.moments, steppers.slot[: len(kept)], theta[:, -1:] * theta[:, :-1])


@njit(cache=True, **LEAN)
def _file_all(chosen: Ints, steppers: Steppers, groups: Groups, table: Table, points: Points) -> None:
    """Add the chosen ones of the individually stepped neurons, whose θ̂ is set, to their groups."""
    for i in range(chosen.size):
        j, slot = Signed(steppers.neuron[chosen[i]]), Signed(steppers.slot[chosen[i]])
        theta = steppers.theta[chosen[i]]
        add_moment(groups, slot, groups.theta[j], 1.0)
        groups.counts[slot] += 1
        heap = 2 * slot + (1 if theta[theta.size - 1] < 0.0 else 0)
        file(j, certificate(theta, heap, groups, table, points), heap, groups)


@njit(cache=True, **INTERNAL)
def file(j: int, key: float, heap: int, groups: Groups) -> None:
    """Put neuron j of a group into a heap."""
    groups.roots[heap] = pushed(groups.roots[heap], j, key, groups.heaps)
    groups.sizes[heap] += 1
    groups.heap[j] = heap


@njit(cache=True, **INTERNAL)
def certificate(theta: Floats, heap: int, groups: Groups, table: Table, points: Points) -> float:
    """Return the neuron's key: it keeps its pattern and the sign of a as long as the clock is below it."""
    d = theta.size - 1
    size = 0.0
    for i in range(d + 1):
        size = max(size, abs(theta[i]))
    clock: float = groups.clocks[heap, 0]
    if size == 0.0:
        return clock
    square = 0.0
    for i in range(d):
        square += (theta[i] / size) ** 2
    distance = inf
    for k in range(points.targets.size):
        if groups.approached[heap, k]:
            z = dot(theta, points.inputs[k], d) * points.inverse[k] / size
            distance = min(distance, z if table.active[heap // 2, k] else -z)
    key: float = (clock + promised(distance, sqrt(square), abs(theta[d]) / size)) * ROUNDING
    return key


@njit(cache=True, **INTERNAL)
def add_moment(groups: Groups, slot: int, theta: Floats, sign: float) -> None:
    """S += sign θ̂ θ̂ᵀ (upper half), with what rounding takes from the sums carried along."""
    sums, errors = groups.sums[slot], groups.errors[slot]
    for i in range(theta.size):
        for j in range(i, theta.size):
            term = sign * (theta[i] * theta[j])
            total = sums[i, j] + term
            taken = total - sums[i, j]
            error = errors[i, j] + ((sums[i, j] - (total - taken)) + (term - taken))
            sums[i, j] = total + error
            errors[i, j] = error - (sums[i, j] - total)


@njit(cache=True, **LEAN)
def make_steps(
    groups: Groups, steppers: Steppers, counters: Ints, table: Table, points: Points, loss: Loss, steps: int
) -> int:
    """Make up to `steps` steps; return how many could be made with finite forces."""
    for done in range(steps):
        _add_group_moments(groups, table)
        if not set_all_forces(table, points, loss):
            return done
        empty_moments(table)
        counters[STEPS] += 1
        busy = _step_groups(groups, table, points)
        step_individually(steppers, counters, table, points)
        for i in range(busy):
            slot, need = groups.todo[i, 0], groups.todo[i, 1]
            number = _take_due(slot, need == DISSOLVE, groups)
            counters[CHECKS] += number
            _look_at(slot, number, need == DISSOLVE, groups, steppers, counters, table, points)
    return steps


@njit(**ONCE)
def _add_group_moments(groups: Groups, table: Table) -> None:
    """Add Σ a w of every group to the moments of its pattern."""
    d = table.moments.shape[1]
    for at in range(table.size[0]):
        slot = table.used[at]
        if groups.counts[slot] == 0:
            continue
        p, s = groups.propagators[slot], groups.sums[slot]
        for i in range(d + 1):
            v = 0.0
            for j in range(d + 1):
                v += (s[i, j] if i <= j else s[j, i]) * p[d, j]
            for c in range(d):
                table.moments[slot, c] += p[c, i] * v


@njit(**ONCE)
def _step_groups(groups: Groups, table: Table, points: Points) -> int:
    """Move all groups and their clocks; list in `todo` the slots that need care, and which care."""
    busy = 0
    for i in range(table.size[0]):
        slot = table.used[i]
        d = table.lengths[slot]
        if groups.counts[slot] == 0 or d == 0.0:
            continue
        _propagate(groups.propagators[slot], table.forces[slot])
        length = d * (1.0 + 0.5 * d * d)
        groups.spreads[slot] += length
        need = _step_clocks(slot, length, groups, table, points)
        if groups.spreads[slot] > MAX_SPREAD:
            groups.spreads[slot] = 2.0 * _largest_log(groups.propagators[slot])
        if not (d <= LONGEST_STEP and groups.spreads[slot] <= MAX_SPREAD):
            need = DISSOLVE
        if need:
            groups.todo[busy, 0], groups.todo[busy, 1] = slot, need
            busy += 1
    return busy


@njit(**ONCE)
def _propagate(p: Floats, force: Floats) -> None:
    """P <- (I + M) P."""
    d = force.size
    for j in range(d + 1):
        old, gain = p[d, j], 0.0
        for i in range(d):
            gain += force[i] * p[i, j]
            p[i, j] += force[i] * old
        p[d, j] = old + gain


@njit(**ONCE)
def _largest_log(p: Floats) -> float:
    """Return ln of the largest entry of P."""
    largest = 0.0
    for i in range(p.shape[0]):
        for j in range(p.shape[1]):
            largest = max(largest, abs(p[i, j]))
    return log(largest) if largest > 0.0 else inf


@njit(**ONCE)
def _step_clocks(slot: int, length: float, groups: Groups, table: Table, points: Points) -> int:
    """Advance the clocks of a group; return which care it needs, 0 if none."""
    one, two = 2 * slot, 2 * slot + 1
    need = 0
    harm_one, harm_two = length / RATIO, length / RATIO
    for k in range(points.targets.size):
        inwards = dot(table.forces[slot], points.inputs[k], points.inputs.shape[1]) * points.inverse[k]
        inwards = inwards if table.active[slot, k] else -inwards
        harm_one, harm_two = max(harm_one, -inwards), max(harm_two, inwards)
        # Borders that a > 0 approaches are those from which a < 0 goes away.
        heap = one if inwards < 0.0 else two
        if inwards != 0.0 and groups.approached[heap, k] == 0:
            groups.approached[heap, k] = 2
            need = RENEW if groups.sizes[heap] > 0 else need
    for heap in range(one, two + 1):
        if groups.sizes[heap] > 0:
            groups.clocks[heap, 2] = harm_one if heap == one else harm_two
            advance_clock(groups.clocks[heap], groups.clocks[heap, 2])
            if groups.heaps.key[groups.roots[heap]] <= groups.clocks[heap, 0]:
                need = max(need, DUE)
    return need


@njit(**ONCE)
def _take_due(slot: int, everyone: bool, groups: Groups) -> int:
    """List the neurons of a group whose certificates ran out, or everyone, or all of a heap with a newly
    approached border; return how many they are.
    """
    number = Signed(0)
    for heap in range(2 * slot, 2 * slot + 2):
        renew = everyone
        for k in range(groups.approached.shape[1]):
            renew |= groups.approached[heap, k] == 2
            groups.approached[heap, k] = min(groups.approached[heap, k], 1)
        if renew:
            list_members(groups.roots[heap], groups.heaps, groups.list[number:])
            number += groups.sizes[heap]
            groups.roots[heap], groups.sizes[heap] = NONE, 0
        while groups.sizes[heap] > 0 and groups.heaps.key[groups.roots[heap]] <= groups.clocks[heap, 0]:
            groups.list[number] = groups.roots[heap]
            number += 1
            groups.roots[heap] = popped(groups.roots[heap], groups.heaps)
            groups.sizes[heap] -= 1
    taken: int = number
    return taken


@njit(**ONCE)
def _look_at(
    slot: int,
    number: int,
    dissolved: bool,
    groups: Groups,
    steppers: Steppers,
    counters: Ints,
    table: Table,
    points: Points,
) -> None:
    """File the listed neurons of a group anew, or step them individually from now on."""
    for i in range(number):
        j = Signed(groups.list[i])
        theta = steppers.theta[counters[STEPPED]]
        present(groups.propagators[slot], groups.theta[j], theta)
        code = read_pattern(theta, points, steppers.pattern)
        now = slot
        if code == table.codes[slot] and not dissolved:
            heap = Signed(groups.heap[j])
            key = certificate(theta, heap, groups, table, points)
            stays = key - groups.clocks[heap, 0] >= LEAVE * groups.clocks[heap, 2]
            if stays and (theta[theta.size - 1] < 0.0) == (heap % 2 == 1):
                file(j, key, heap, groups)
                continue
        elif code != table.codes[slot]:
            now = Signed(join(code, steppers.pattern, table, points))
            part(slot, table)
            counters[CROSSINGS] += 1
        add_moment(groups, slot, groups.theta[j], -1.0)
        groups.counts[slot] -= 1
        groups.heap[j] = INDIVIDUAL
        append_stepper(j, now, steppers, counters, table, points)


@njit(cache=True, **INTERNAL)
def present(p: Floats, reference: Floats, theta: Floats) -> None:
    """θ = P θ̂."""
    for i in range(theta.size):
        theta[i] = dot(p[i], reference, theta.size)


SHORTEST, LONGEST = 64, 1024
"""Steps between two looks for neurons to group; the pause doubles while there are none."""


class State(NamedTuple):
    """All between two calls."""

    groups: Groups
    steppers: Steppers
    counters: Ints
    table: Table


def begin(inner: Floats, outer: Floats, points: Points) -> State:
    """Return the state at the start, from inner (m, d) and outer (m,) weights."""
    width, dimension = inner.shape
    size = len(points.targets)
    state = State(
        new_groups(width, size, dimension),
        new_steppers(width, size, dimension),
        np.zeros(7, np.int64),
        new_table(width + 1, size, dimension),
    )
    state.counters[[NEXT_LOOK, PAUSE]] = SHORTEST
    distribute(np.column_stack([inner, outer]), *state[1:], points)
    return state


def advance(state: State, points: Points, loss: Loss, steps: int) -> int:
    """Make up to `steps` steps in place; return how many could be made with finite forces.

    loss: `SQUARE` or `LOGISTIC`, the output factor c, and step × c × weight of the loss (1/n for a mean).
    """
    counters = state.counters
    end = counters[STEPS] + steps
    while counters[STEPS] < end:
        asked = int(min(end, counters[NEXT_LOOK]) - counters[STEPS])
        if make_steps(*state, points, loss, asked) < asked:
            break
        if counters[STEPS] == counters[NEXT_LOOK]:
            found = group_quiet(*state, points)
            counters[PAUSE] = SHORTEST if found else min(2 * counters[PAUSE], LONGEST)
            counters[NEXT_LOOK] += counters[PAUSE]
    return int(steps - (end - counters[STEPS]))


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
    """Set `now` to P θ̂ for all grouped neurons."""
    for j in range(heaps.size):
        heap = Signed(heaps[j])
        if heap >= 0:
            present(propagators[heap // 2], theta[j], now[j])


def loss_now(state: State, points: Points, loss: Loss) -> float:
    """Return the loss of the present state, without its weight and the points at the origin.

    O(patterns · points · dimension); nothing is written.
    """
    groups, table, (kind, scale, _) = state.groups, state.table, loss
    used = table.used[: table.size[0]]
    moments, grouped = table.moments[used], groups.counts[used] > 0
    p, upper = groups.propagators[used[grouped]], np.triu(groups.sums[used[grouped]])
    seconds = upper + np.triu(upper, 1).transpose(0, 2, 1)
    moments[grouped] += (p[:, :-1] @ (seconds @ p[:, -1, :, None]))[:, :, 0]
    gates = np.where(table.active[used], 1.0, points.slope[0])
    predictions = scale * np.sum(gates * (moments @ points.inputs.T), axis=0)
    if kind == SQUARE:
        return 0.5 * float(np.sum((predictions - points.targets) ** 2))
    return float(np.sum(np.logaddexp(0.0, -predictions * points.targets)))
