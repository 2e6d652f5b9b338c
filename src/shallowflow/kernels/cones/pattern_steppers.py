"""Neurons that are stepped individually with the force of their pattern, O(dimension) per step.

Each watches the data point whose border is nearest, which is looked at in every step, and has a *budget*: its
distance to the second nearest border, from which every step takes |a| |G|, the most that w can move. Only
when the budget is used up are all borders looked at. So a neuron that chatters at one border costs O(d) too.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import Indices
from shallowflow.kernels.cones.pattern_table import (
    Points,
    Signs,
    Table,
    dot,
    join,
    part,
    read_pattern,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

LENGTHENED = 1.0 + 1e-12
STEPS, CROSSINGS, CHECKS, STEPPED, MOST_STEPPED, NEXT_LOOK, PAUSE = range(7)
"""The counters: steps made, crossings, grouped neurons looked at, neurons stepped individually now and at
most; at which step to look next for neurons to group, and how many steps that is after the last look."""


class Steppers(NamedTuple):
    """The individually stepped neurons, as many as there are: θ, index, slot, border watched, budget.

    theta (m, d + 1), neuron, slot, wall, budget (m,); pattern (n,): working memory.
    """

    theta: Floats
    neuron: Indices
    slot: Indices
    wall: Indices
    budget: Floats
    pattern: Signs


def new_steppers(width: int, size: int, dimension: int) -> Steppers:
    """Return an empty list with room for all neurons."""
    neuron, slot, wall = (np.zeros(width, np.int32) for _ in range(3))
    theta, pattern = np.empty((width, dimension + 1)), np.zeros(size, np.int8)
    return Steppers(theta, neuron, slot, wall, np.empty(width), pattern)


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
def append_stepper(
    j: int, slot: int, steppers: Steppers, counters: Ints, table: Table, points: Points
) -> None:
    """Append neuron j, of the pattern `slot`; its value is already in theta, behind those of the others."""
    d, number = points.inputs.shape[1], counters[STEPPED]
    theta = steppers.theta[number]
    for i in range(d):
        table.moments[slot, i] += theta[d] * theta[i]
    steppers.neuron[number], steppers.slot[number] = j, slot
    set_budget(number, steppers, points)
    counters[STEPPED] += 1
    counters[MOST_STEPPED] = max(counters[MOST_STEPPED], counters[STEPPED])


@njit(cache=True, **LEAN)
def distribute(theta: Floats, steppers: Steppers, counters: Ints, table: Table, points: Points) -> None:
    """Give every neuron, theta (m, d + 1), its pattern, and step all individually."""
    for j in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            steppers.theta[j, i] = theta[j, i]
        code = read_pattern(theta[j], points, steppers.pattern)
        slot = join(code, steppers.pattern, table, points)
        append_stepper(j, slot, steppers, counters, table, points)


@njit(**ONCE)
def step_individually(steppers: Steppers, counters: Ints, table: Table, points: Points) -> None:
    """Move the neurons, and add their a w to the moments of their patterns."""
    d, borders = points.inputs.shape[1], points.targets.size > 0
    for i in range(counters[STEPPED]):
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
            new = _follow(i, slot, steppers, table, points)
            counters[CROSSINGS] += 1 if new != slot else 0
            steppers.slot[i] = new
            slot = Signed(new)
        for c in range(d):
            table.moments[slot, c] += a * steppers.theta[i, c]


@njit(**ONCE)
def _follow(i: int, slot: int, steppers: Steppers, table: Table, points: Points) -> int:
    """Return the slot of a neuron that crossed the border it watches, or whose budget is used up."""
    pattern = steppers.pattern
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
