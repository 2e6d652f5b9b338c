"""Neurons that are stepped one by one with the force of their pattern, O(dimension) per step.

Each keeps the data point whose border is nearest, which is looked at in every step, and a *budget*: its
distance to the second nearest border, from which every step takes |a| |G|, the most that w can move. Only
when the budget is used up are all borders looked at. So a neuron that chatters at one border costs O(d) too.
With all neurons stepped so this is the *bucketed* descent: plain descent with one force for each pattern.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cone_geometry import INTERNAL, Signed
from shallowflow.kernels.cone_heap import Indices
from shallowflow.kernels.pattern_table import Points, Signs, Table, dot, join, part, read_pattern

ROUNDING = 1.0 + 1e-12


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
    steppers.wall[i], steppers.budget[i] = wall, second / ROUNDING


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
        steppers.budget[i] -= abs(a) * table.lengths[slot] * ROUNDING
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
