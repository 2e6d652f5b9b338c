"""Neurons by sign pattern, in any dimension: the table of the patterns that occur, and one force for each.

The pattern of a neuron says which data points are active, <w, x_k> > 0 ([early_alignment], A(w); inactive on
the border: ReLU'(0) = 0). Only patterns that some neuron has are stored. A pattern is found by its code, the
exclusive or of one random number per active point: when a neuron crosses one border its code changes by one
operation. (Two patterns have one code with a probability of 2⁻⁶⁴; the table compares patterns, too.)

With β_g = Σ_{j in g} a_j w_j and the leaky slope γ, at data point x_k and for pattern g

    h_k = Σ_g η_gk <β_g, x_k>,      D_g = Σ_k η_gk g_k x_k,      η_gk = 1 if active, else γ,

where g_k = -∂L/∂h_k: O(patterns · points · dimension) per step, whatever the number of neurons.

A neuron that is stepped individually, O(d), watches the data point whose border is nearest, which is looked
at in every step, and has a *budget*: its distance to the second nearest border, from which every step takes
|a| |G|, the most that w can move. Only when it is used up are all borders looked at. So a neuron that
chatters at one border costs O(d) too.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import Indices
from shallowflow.kernels.cones.geometry import Loss, pull
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

Signs = NDArray[np.int8]


class Points(NamedTuple):
    """Data points ≠ 0: inputs (n, d), targets (n,), 1/|x_k| (n,), code numbers (n,); the leaky slope (1,)."""

    inputs: Floats
    targets: Floats
    inverse: Floats
    numbers: Ints
    slope: Floats


class Table(NamedTuple):
    """Up to m patterns; a slot is in use or on the stack of free ones.

    active (m, n): 0 or 1; codes, members (m,); heads (a power of 2,), nexts (m,): chains by code; used,
    places (m,): the slots in use and where a slot is in that list; free (m,): stack; moments, forces (m, d):
    β and step · D; lengths (m,): |step · D|; pulls (n,): step · g_k; size (1,): patterns in use.
    """

    active: Signs
    codes: Ints
    members: Ints
    heads: Ints
    nexts: Ints
    used: Ints
    places: Ints
    free: Ints
    moments: Floats
    forces: Floats
    lengths: Floats
    pulls: Floats
    size: Ints


def points_off_origin(inputs: Floats, targets: Floats, slope: float) -> Points:
    """Return the data as the kernels take them; points at the origin have no effect and are left out."""
    kept = np.any(inputs != 0, axis=1)
    inputs, targets = np.ascontiguousarray(inputs[kept]), np.array(targets[kept])
    numbers = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, len(targets), dtype=np.int64)
    inverse = 1.0 / np.sqrt(np.sum(inputs**2, axis=1))
    return Points(inputs, targets, inverse, numbers, np.array([slope]))


def new_table(width: int, size: int, dimension: int) -> Table:
    """Return a table without patterns; memory is taken from the system only when used."""
    integers = [np.zeros(width, np.int64) for _ in range(5)]
    buckets = 1 << int(2 * width).bit_length()
    return Table(
        np.zeros((width, size), np.int8),
        integers[0],
        integers[1],
        np.full(buckets, -1, np.int64),
        integers[2],
        integers[3],
        integers[4],
        np.arange(width - 1, -1, -1, dtype=np.int64),
        np.zeros((width, dimension)),
        np.zeros((width, dimension)),
        np.zeros(width),
        np.zeros(size),
        np.zeros(1, np.int64),
    )


@njit(cache=True, **INTERNAL)
def dot(one: Floats, other: Floats, size: int) -> float:
    """Return the inner product of the first `size` entries."""
    total = 0.0
    for i in range(size):
        total += one[i] * other[i]
    return total


@njit(cache=True, **INTERNAL)
def read_pattern(w: Floats, points: Points, pattern: Signs) -> int:
    """Write the pattern of w; return its code."""
    code = 0
    for k in range(points.targets.size):
        on = dot(w, points.inputs[k], points.inputs.shape[1]) > 0.0
        pattern[k] = 1 if on else 0
        if on:
            code ^= points.numbers[k]
    found: int = Signed(code)
    return found


@njit(cache=True, **INTERNAL)
def join(code: int, pattern: Signs, table: Table, points: Points) -> int:
    """Count one more neuron with this pattern; return the pattern's slot, a new one if need be."""
    bucket = code & (table.heads.size - 1)
    slot = Signed(table.heads[bucket])
    while slot >= 0:
        if table.codes[slot] == code:
            same = True
            for k in range(pattern.size):
                same &= table.active[slot, k] == pattern[k]
            if same:
                table.members[slot] += 1
                found: int = slot
                return found
        slot = Signed(table.nexts[slot])
    size = table.size[0]
    slot = Signed(table.free[table.free.size - 1 - size])
    table.used[size], table.places[slot] = slot, size
    table.size[0] += 1
    table.nexts[slot], table.heads[bucket] = table.heads[bucket], slot
    table.codes[slot], table.members[slot] = code, 1
    for k in range(pattern.size):
        table.active[slot, k] = pattern[k]
    for i in range(table.moments.shape[1]):
        table.moments[slot, i] = 0.0
    set_force(slot, table, points)
    new: int = slot
    return new


@njit(cache=True, **INTERNAL)
def part(slot: int, table: Table) -> None:
    """Count one neuron less; give back the slot of a pattern that is no longer in use."""
    table.members[slot] -= 1
    if table.members[slot] > 0:
        return
    bucket = table.codes[slot] & (table.heads.size - 1)
    if table.heads[bucket] == slot:
        table.heads[bucket] = table.nexts[slot]
    else:
        at = table.heads[bucket]
        while table.nexts[at] != slot:
            at = table.nexts[at]
        table.nexts[at] = table.nexts[slot]
    table.size[0] -= 1
    size = table.size[0]
    last, place = table.used[size], table.places[slot]
    table.used[place], table.places[last] = last, place
    table.free[table.free.size - 1 - size] = slot


@njit(cache=True, **INTERNAL)
def set_force(slot: int, table: Table, points: Points) -> None:
    """Compute step · D of a pattern from the present pulls."""
    slope = points.slope[0]
    force = table.forces[slot]
    for i in range(force.size):
        force[i] = 0.0
    for k in range(points.targets.size):
        pull_here = table.pulls[k] * (1.0 if table.active[slot, k] else slope)
        for i in range(force.size):
            force[i] += pull_here * points.inputs[k, i]
    table.lengths[slot] = sqrt(dot(force, force, force.size))


@njit(**ONCE)
def set_all_forces(table: Table, points: Points, loss: Loss) -> bool:
    """Compute the pulls and all forces from all β; return whether they are finite."""
    kind, scale, rate = loss
    slope = points.slope[0]
    total = 0.0
    for k in range(points.targets.size):
        seen = 0.0
        for i in range(table.size[0]):
            slot = table.used[i]
            gate = 1.0 if table.active[slot, k] else slope
            seen += gate * dot(table.moments[slot], points.inputs[k], points.inputs.shape[1])
        table.pulls[k] = rate * pull(scale * seen, points.targets[k], kind)
        total += table.pulls[k]
    for i in range(table.size[0]):
        set_force(table.used[i], table, points)
    return bool(np.isfinite(total))


@njit(**ONCE)
def empty_moments(table: Table) -> None:
    """Set all moments to zero."""
    for i in range(table.size[0]):
        for c in range(table.moments.shape[1]):
            table.moments[table.used[i], c] = 0.0


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
