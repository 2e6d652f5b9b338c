"""Neurons that are stepped one by one with the force of their pattern, O(dimension) per step.

Each keeps the data point whose border is nearest, which is looked at in every step, and a *budget*: its
distance to the second nearest border, from which every step takes |a| |G|, the most that w can move. Only
when the budget is used up are all borders looked at. So a neuron that chatters at one border costs O(d) too.
With all neurons stepped so this is the *bucketed* descent: plain descent with one force for each pattern.

One propagator and one second moment for all neurons of a sign pattern, in any dimension.

As in `cone_groups`: the neurons θ = (w, a) of a pattern share every step, θ <- (I + M) θ with
M = [[0, G], [Gᵀ, 0]], so of each the value θ̂ at a time of reference is stored, and for the pattern
P = Π (I + M), S = Σ θ̂ θ̂ᵀ, Σ a w = (P S Pᵀ)_{wa}. They are in two heaps by the sign of a, ordered by the
certificate of `cone_certificate`, which holds in any dimension: the distance f is the smallest to a border of
any data point that was ever approached, whether the border bounds the cone or not.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import (
    NONE,
    RATIO,
    ROUNDING,
    Heaps,
    Indices,
    advance_clock,
    list_members,
    new_heaps,
    promised,
    pushed,
)
from shallowflow.kernels.cones.pattern_table import Points, Signs, Table, dot, join, part, read_pattern
from shallowflow.kernels.shared.compilation import INTERNAL, Signed

LENGTHENED = 1.0 + 1e-12


class Steppers(NamedTuple):
    """As many as there are: theta (m, d + 1), neuron, slot, wall, crossed (m,), budget (m,)."""

    theta: Floats
    neuron: Indices
    slot: Indices
    wall: Indices
    crossed: Ints
    budget: Floats


def new_steppers(width: int, dimension: int) -> Steppers:
    """Return an empty list with room for all neurons."""
    integers = [np.empty(width, np.int32) for _ in range(3)]
    return Steppers(
        np.empty((width, dimension + 1)),
        integers[0],
        integers[1],
        integers[2],
        np.empty(width, np.int64),
        np.empty(width),
    )


@njit(cache=True, **INTERNAL)
def set_budget(i: int, steppers: Steppers, points: Points) -> None:
    """Find the nearest border and the distance to the second nearest."""
    w = steppers.theta[i]
    nearest, second, wall = inf, inf, 0
    for k in range(points.targets.size):
        distance = abs(dot(w, points.inputs[k], points.inputs.shape[1])) * points.inverse[k]
        if distance < nearest:
            nearest, second, wall = distance, nearest, k
        elif distance < second:
            second = distance
    steppers.wall[i], steppers.budget[i] = wall, second / LENGTHENED


@njit(cache=True, **INTERNAL)
def add_stepper(
    j: int, theta: Floats, slot: int, step: int, steppers: Steppers, number: int, table: Table, points: Points
) -> None:
    """Append neuron j, which has joined `slot`, to a list of `number`."""
    d = points.inputs.shape[1]
    for i in range(d + 1):
        steppers.theta[number, i] = theta[i]
    for i in range(d):
        table.moments[slot, i] += theta[d] * theta[i]
    steppers.neuron[number], steppers.slot[number], steppers.crossed[number] = j, slot, step
    set_budget(number, steppers, points)


@njit(cache=True, **INTERNAL)
def step_one_by_one(
    steppers: Steppers, number: int, table: Table, points: Points, pattern: Signs, step: int
) -> int:
    """Move them, and sum a w by pattern into the (emptied) moments; return how many crossed."""
    d, borders = points.inputs.shape[1], points.targets.size > 0
    crossings = 0
    for i in range(number):
        slot = Signed(steppers.slot[i])
        wall = Signed(steppers.wall[i])
        a = steppers.theta[i, d]
        gain, height = 0.0, 0.0
        for c in range(d):
            force, w = table.forces[slot, c], steppers.theta[i, c]
            gain += force * w
            w += a * force
            steppers.theta[i, c] = w
            if borders:
                height += w * points.inputs[wall, c]
        steppers.budget[i] -= abs(a) * table.lengths[slot] * LENGTHENED
        a += gain
        steppers.theta[i, d] = a
        # Most often nothing else happens, and no function is called.
        if borders and (steppers.budget[i] < 0.0 or (height > 0.0) != (table.active[slot, wall] != 0)):
            new = _follow(i, slot, steppers, table, points, pattern)
            crossings += 1 if new != slot else 0
            steppers.crossed[i] = step if new != slot else steppers.crossed[i]
            steppers.slot[i] = new
            slot = Signed(new)
        for c in range(d):
            table.moments[slot, c] += a * steppers.theta[i, c]
    return crossings


@njit(cache=True, **INTERNAL)
def _follow(i: int, slot: int, steppers: Steppers, table: Table, points: Points, pattern: Signs) -> int:
    """Return the slot of a neuron that crossed the border it watches, or whose budget is used up."""
    if steppers.budget[i] >= 0.0:
        wall = Signed(steppers.wall[i])
        for k in range(pattern.size):
            pattern[k] = table.active[slot, k]
        pattern[wall] = 1 - pattern[wall]
        code = Signed(table.codes[slot] ^ points.numbers[wall])
    else:
        code = Signed(read_pattern(steppers.theta[i], points, pattern))
        set_budget(i, steppers, points)
        if code == table.codes[slot]:
            return slot
    new: int = join(code, pattern, table, points)
    part(slot, table)
    return new


class Groups(NamedTuple):
    """By slot: propagators, sums, errors (m, d + 1, d + 1), counts, spreads (m,); by heap 2 slot + (a < 0):
    roots, sizes (2m,), clocks (2m, 2), approached (2m, n).

    By neuron: theta (m, d + 1), heap, through (m,): the border crossed last, crossed (m,): when; list (m,).
    matrix (d + 1, d + 2): working memory.
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
    through: Indices
    crossed: Ints
    list: Indices
    matrix: Floats


def new_groups(width: int, size: int, dimension: int) -> tuple[Groups, Heaps]:
    """Return the memory for `width` neurons; it is taken from the system only when used."""
    slots, order = width + 1, dimension + 1
    squares = [np.zeros((slots, order, order)) for _ in range(3)]
    indices = [np.zeros(width, np.int32) for _ in range(3)]
    groups = Groups(
        squares[0],
        squares[1],
        squares[2],
        np.zeros(slots, np.int64),
        np.zeros(slots),
        np.full(2 * slots, NONE, np.int64),
        np.zeros(2 * slots, np.int64),
        np.zeros((2 * slots, 2)),
        np.zeros((2 * slots, size), np.int8),
        np.zeros((width, order)),
        indices[0],
        indices[1],
        np.zeros(width, np.int64),
        indices[2],
        np.zeros((order, order + 1)),
    )
    return groups, new_heaps(width)


@njit(cache=True, **INTERNAL)
def present(p: Floats, reference: Floats, theta: Floats) -> None:
    """θ = P θ̂."""
    for i in range(theta.size):
        theta[i] = dot(p[i], reference, theta.size)


@njit(cache=True, **INTERNAL)
def referred(p: Floats, theta: Floats, reference: Floats, matrix: Floats) -> None:
    """θ̂ = P⁻¹ θ, by elimination with pivots."""
    n = theta.size
    for i in range(n):
        for j in range(n):
            matrix[i, j] = p[i, j]
        matrix[i, n] = theta[i]
    for c in range(n):
        pivot = c
        for i in range(c + 1, n):
            if abs(matrix[i, c]) > abs(matrix[pivot, c]):
                pivot = i
        for j in range(c, n + 1):
            matrix[c, j], matrix[pivot, j] = matrix[pivot, j], matrix[c, j]
        for i in range(c + 1, n):
            factor = matrix[i, c] / matrix[c, c]
            for j in range(c, n + 1):
                matrix[i, j] -= factor * matrix[c, j]
    for i in range(n - 1, -1, -1):
        value = matrix[i, n]
        for j in range(i + 1, n):
            value -= matrix[i, j] * reference[j]
        reference[i] = value / matrix[i, i]


@njit(cache=True, **INTERNAL)
def largest_log(p: Floats) -> float:
    """Return ln of the largest entry of P."""
    largest = 0.0
    for i in range(p.shape[0]):
        for j in range(p.shape[1]):
            largest = max(largest, abs(p[i, j]))
    return log(largest) if largest > 0.0 else inf


@njit(cache=True, **INTERNAL)
def propagate(p: Floats, force: Floats) -> None:
    """P <- (I + M) P."""
    d = force.size
    for j in range(d + 1):
        old, gain = p[d, j], 0.0
        for i in range(d):
            gain += force[i] * p[i, j]
            p[i, j] += force[i] * old
        p[d, j] = old + gain


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


@njit(cache=True, **INTERNAL)
def add_group_moment(slot: int, groups: Groups, moment: Floats) -> None:
    """Add Σ a w of a group to the first d entries of `moment`."""
    p, s = groups.propagators[slot], groups.sums[slot]
    d = p.shape[0] - 1
    for i in range(d + 1):
        v = 0.0
        for j in range(d + 1):
            v += (s[i, j] if i <= j else s[j, i]) * p[d, j]
        for c in range(d):
            moment[c] += p[c, i] * v


@njit(cache=True, **INTERNAL)
def add_group_moments(groups: Groups, table: Table) -> None:
    """Add Σ a w of every group to the moments of its pattern."""
    for at in range(table.size[0]):
        slot = table.used[at]
        if groups.counts[slot] > 0:
            add_group_moment(slot, groups, table.moments[slot])


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
def file(j: int, theta: Floats, slot: int, state: tuple[Groups, Heaps, Table], points: Points) -> None:
    """Put neuron j of a group into the heap of its sign of a, with a new certificate."""
    groups, heaps, table = state
    heap = 2 * slot + (1 if theta[theta.size - 1] < 0.0 else 0)
    if groups.sizes[heap] == 0:
        groups.clocks[heap, 0], groups.clocks[heap, 1] = 0.0, 0.0
        sign = 1.0 if heap % 2 == 0 else -1.0
        for k in range(points.targets.size):
            inwards = dot(table.forces[slot], points.inputs[k], points.inputs.shape[1])
            inwards = inwards if table.active[slot, k] else -inwards
            groups.approached[heap, k] = 1 if sign * inwards < 0.0 else 0
    key = certificate(theta, heap, groups, table, points)
    groups.roots[heap] = pushed(groups.roots[heap], j, key, heaps)
    groups.sizes[heap] += 1
    groups.heap[j] = heap


@njit(cache=True, **INTERNAL)
def enter(j: int, theta: Floats, slot: int, state: tuple[Groups, Heaps, Table], points: Points) -> None:
    """Put neuron j, which has joined a pattern, with its present value into the pattern's group."""
    groups = state[0]
    if groups.counts[slot] == 0:
        start_group(slot, groups)
    reference = groups.theta[j]
    referred(groups.propagators[slot], theta, reference, groups.matrix)
    add_moment(groups, slot, reference, 1.0)
    groups.counts[slot] += 1
    file(j, theta, slot, state, points)


@njit(cache=True, **INTERNAL)
def start_group(slot: int, groups: Groups) -> None:
    """P = I, S = 0."""
    order = groups.theta.shape[1]
    for i in range(order):
        for j in range(order):
            groups.propagators[slot, i, j] = 1.0 if i == j else 0.0
            groups.sums[slot, i, j], groups.errors[slot, i, j] = 0.0, 0.0
    groups.spreads[slot] = 0.0


@njit(cache=True, **INTERNAL)
def step_clocks(
    slot: int, length: float, groups: Groups, heaps: Heaps, table: Table, points: Points
) -> tuple[bool, bool]:
    """Advance the clocks of a group; return whether a neuron is due, and a border is newly approached."""
    one, two = 2 * slot, 2 * slot + 1
    new = False
    harm_one, harm_two = length / RATIO, length / RATIO
    for k in range(points.targets.size):
        inwards = dot(table.forces[slot], points.inputs[k], points.inputs.shape[1]) * points.inverse[k]
        inwards = inwards if table.active[slot, k] else -inwards
        harm_one, harm_two = max(harm_one, -inwards), max(harm_two, inwards)
        # Borders that a > 0 approaches are those from which a < 0 goes away.
        heap = one if inwards < 0.0 else two
        if inwards != 0.0 and groups.approached[heap, k] == 0:
            groups.approached[heap, k] = 2
            new |= groups.sizes[heap] > 0
    due = False
    if groups.sizes[one] > 0:
        advance_clock(groups.clocks[one], harm_one)
        due |= heaps.key[groups.roots[one]] <= groups.clocks[one, 0]
    if groups.sizes[two] > 0:
        advance_clock(groups.clocks[two], harm_two)
        due |= heaps.key[groups.roots[two]] <= groups.clocks[two, 0]
    return due, new


@njit(cache=True, **INTERNAL)
def take_all(heap: int, groups: Groups, heaps: Heaps, start: int) -> int:
    """Empty a heap into the work list from `start` on; return where the list ends."""
    size = groups.sizes[heap]
    list_members(groups.roots[heap], heaps, groups.list[start:])
    groups.roots[heap], groups.sizes[heap] = NONE, 0
    end: int = start + size
    return end
