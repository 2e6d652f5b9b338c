"""Neurons by cone: one propagator and one second moment for all of them, and who is in which heap.

The neurons θ = (w, a) of a cone share every step, θ <- (I + M) θ with M = [[0, G], [Gᵀ, 0]]. So of each only
the value θ̂ at a time of reference is stored, and for the cone

    P = Π (I + M) since then,     θ = P θ̂,          S = Σ θ̂ θ̂ᵀ,     Σ a w = (P S Pᵀ)_{wa}

([early_alignment], gradient descent; the balance a² - |w|² plays no role). A neuron that enters is stored as
θ̂ = P⁻¹ θ; one that leaves takes its θ̂ θ̂ᵀ with it. S is a sum with its rounding errors carried along, so
that a large neuron that passed through leaves no trace in the moment of the small ones that stay.

Within a cone the neurons are in two heaps, by the sign of a, ordered by certificate (`exits`). Heap 2c + 0 of
cone c holds those with a ≥ 0, heap 2c + 1 those with a < 0.

Where the flow would slide along a wall descent crosses it every few steps. Such a neuron is stepped
individually, O(1), with the force of the cone in which it is, until it has been quiet for a while; a stray,
whose pattern is that of no cone (`geometry`), by plain descent, O(data points).
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import (
    NONE,
    Heaps,
    Indices,
    approached,
    approaches,
    certificate,
    list_members,
    new_heaps,
    pushed,
)
from shallowflow.kernels.cones.geometry import STRAY, Forces, Samples, Walls, cone_of, near_cone, new_forces
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

INDIVIDUAL, FROZEN = -1, -2
"""In place of a heap: stepped individually; at rest for ever."""
MAX_SPREAD = log(16.0)
"""Largest logarithm of the entries of P (or of P⁻¹): beyond, neurons of one cone differ too much in size."""
STEPS, CROSSINGS, CHECKS, STEPPED, MOST_STEPPED, STRAYS, OCCUPIED, NEXT_LOOK, PAUSE = range(9)
"""The counters: steps made, crossings, neurons of cones looked at, individually stepped neurons now and at
most, strays among them, occupied cones; at which step to look next for neurons to put back into their cones,
and how many steps that is after the last look."""


class Neurons(NamedTuple):
    """θ̂ (m, 3), the heap (m,), the last crossing (m,), a list for work in progress (m,).

    The last crossing is the number of its step, with a minus sign if it was clockwise; 0 says none yet.
    """

    theta: Floats
    heap: Indices
    crossed: Ints
    list: Indices


class Cones(NamedTuple):
    """The state of the cones; 2L rows, or 4L for what heaps have.

    propagators (2L, 9): rows of P; moments (2L, 12): S (00, 01, 0a, 11, 1a, aa) and its rounding errors;
    counts (2L,): neurons; spreads (2L,): bound of ln max |P|, |P⁻¹|; occupied (2L,): the cones that have
    neurons, as many as there are, in any order; places (2L,): where a cone is in that list; roots, sizes
    (4L,); clocks (4L, 2); bits (4L,): walls approached; needs (2L,): the care that cones need after a step,
    todo (2L,): a list of those that need any.
    """

    propagators: Floats
    moments: Floats
    counts: Ints
    spreads: Floats
    occupied: Ints
    places: Ints
    roots: Ints
    sizes: Ints
    clocks: Floats
    bits: Ints
    needs: Ints
    todo: Ints


class Steppers(NamedTuple):
    """Individually stepped neurons, as many as there are: θ (m, 3), index, cone, last crossing (m,).

    moments (2L, 2): Σ a w of those in each cone.
    """

    theta: Floats
    neuron: Indices
    cone: Indices
    crossed: Ints
    moments: Floats


class State(NamedTuple):
    """All between two steps of a descent."""

    neurons: Neurons
    cones: Cones
    heaps: Heaps
    steppers: Steppers
    work: Forces
    counters: Ints


def new_state(width: int, cones: int, points: int) -> State:
    """Return the memory for `width` neurons, none of which is anywhere yet."""
    integers = [np.zeros(cones, np.int64) for _ in range(5)]
    neurons = Neurons(
        np.empty((width, 3)), np.empty(width, np.int32), np.zeros(width, np.int64), np.empty(width, np.int32)
    )
    table = Cones(
        np.zeros((cones + 1, 9)),
        np.zeros((cones, 12)),
        integers[0],
        np.zeros(cones),
        integers[1],
        integers[2],
        np.full(2 * cones, NONE, np.int64),
        np.zeros(2 * cones, np.int64),
        np.zeros((2 * cones, 2)),
        np.zeros(2 * cones, np.int64),
        integers[3],
        integers[4],
    )
    # With room for all neurons; memory is taken from the system only when used.
    steppers = Steppers(
        np.empty((width, 3)),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int64),
        np.zeros((cones, 2)),
    )
    return State(neurons, table, new_heaps(width), steppers, new_forces(cones, points), np.zeros(9, np.int64))


@njit(cache=True, **LEAN)
def present(p: Floats, theta: Floats) -> tuple[float, float, float]:
    """Return P θ̂."""
    t0, t1, t2 = theta[0], theta[1], theta[2]
    return (
        p[0] * t0 + p[1] * t1 + p[2] * t2,
        p[3] * t0 + p[4] * t1 + p[5] * t2,
        p[6] * t0 + p[7] * t1 + p[8] * t2,
    )


@njit(**ONCE)
def referred(p: Floats, w0: float, w1: float, a: float) -> tuple[float, float, float]:
    """Return P⁻¹ θ, by cofactors."""
    c0, c1, c2 = p[4] * p[8] - p[5] * p[7], p[5] * p[6] - p[3] * p[8], p[3] * p[7] - p[4] * p[6]
    det = p[0] * c0 + p[1] * c1 + p[2] * c2
    t0 = c0 * w0 + (p[2] * p[7] - p[1] * p[8]) * w1 + (p[1] * p[5] - p[2] * p[4]) * a
    t1 = c1 * w0 + (p[0] * p[8] - p[2] * p[6]) * w1 + (p[2] * p[3] - p[0] * p[5]) * a
    t2 = c2 * w0 + (p[1] * p[6] - p[0] * p[7]) * w1 + (p[0] * p[4] - p[1] * p[3]) * a
    return t0 / det, t1 / det, t2 / det


@njit(**ONCE)
def propagate(p: Floats, g0: float, g1: float) -> None:
    """P <- (I + M) P."""
    for i in range(3):
        top, middle, bottom = p[i], p[3 + i], p[6 + i]
        p[i] = top + g0 * bottom
        p[3 + i] = middle + g1 * bottom
        p[6 + i] = bottom + (g0 * top + g1 * middle)


@njit(**ONCE)
def spread(p: Floats) -> float:
    """Return ln of the largest entry of P, or -ln det P if that is larger: how uneven P is."""
    largest = 0.0
    for i in range(9):
        largest = max(largest, abs(p[i]))
    det = p[0] * (p[4] * p[8] - p[5] * p[7])
    det += p[1] * (p[5] * p[6] - p[3] * p[8]) + p[2] * (p[3] * p[7] - p[4] * p[6])
    return max(log(largest), -log(det)) if det > 0.0 else np.inf


@njit(**ONCE)
def outer_inner_moment(p: Floats, s: Floats) -> tuple[float, float]:
    """Return Σ a w, the block (P S Pᵀ)_{wa}."""
    a0, a1, a2 = p[6], p[7], p[8]
    v0 = s[0] * a0 + s[1] * a1 + s[2] * a2
    v1 = s[1] * a0 + s[3] * a1 + s[4] * a2
    v2 = s[2] * a0 + s[4] * a1 + s[5] * a2
    return p[0] * v0 + p[1] * v1 + p[2] * v2, p[3] * v0 + p[4] * v1 + p[5] * v2


@njit(cache=True, **LEAN)
def add_moment(s: Floats, theta: Floats, sign: float) -> None:
    """S += sign θ̂ θ̂ᵀ; what rounding takes from a sum goes into s[6:], and back when the sum is small."""
    at = 0
    for i in range(3):
        for j in range(i, 3):
            term = sign * (theta[i] * theta[j])
            total = s[at] + term
            taken = total - s[at]
            error = s[6 + at] + ((s[at] - (total - taken)) + (term - taken))
            s[at] = total + error
            s[6 + at] = error - (s[at] - total)
            at += 1


@njit(cache=True, **INTERNAL)
def file(j: int, w0: float, w1: float, a: float, cone: int, state: State, walls: Walls) -> None:
    """Put neuron j into its cone's heap by the sign of a, with a new certificate."""
    cones = state.cones
    heap = 2 * cone + (1 if a < 0.0 else 0)
    key = certificate(w0, w1, a, cone, cones.bits[heap], cones.clocks[heap, 0], walls)
    cones.roots[heap] = pushed(cones.roots[heap], j, key, state.heaps)
    cones.sizes[heap] += 1
    state.neurons.heap[j] = heap


@njit(cache=True, **INTERNAL)
def enter(j: int, w0: float, w1: float, a: float, cone: int, state: State, walls: Walls) -> None:
    """Put neuron j with its present value into a cone."""
    cones, counters = state.cones, state.counters
    p = cones.propagators[cone]
    if cones.counts[cone] == 0:
        for i in range(9):
            p[i] = 1.0 if i % 4 == 0 else 0.0
        for i in range(12):
            cones.moments[cone, i] = 0.0
        cones.spreads[cone] = 0.0
        cones.occupied[counters[OCCUPIED]], cones.places[cone] = cone, counters[OCCUPIED]
        counters[OCCUPIED] += 1
    heap = 2 * cone + (1 if a < 0.0 else 0)
    if cones.sizes[heap] == 0:
        # A new clock, which watches the walls that the heap's neurons approach at present.
        cones.clocks[heap, 0], cones.clocks[heap, 1] = 0.0, 0.0
        first, last = approaches(state.work.forces[cone], cone, walls)
        cones.bits[heap] = approached(first, last, 1.0 if heap % 2 == 0 else -1.0)
    theta = state.neurons.theta[j]
    theta[0], theta[1], theta[2] = referred(p, w0, w1, a)
    add_moment(cones.moments[cone], theta, 1.0)
    cones.counts[cone] += 1
    file(j, w0, w1, a, cone, state, walls)


@njit(**ONCE)
def leave(j: int, cone: int, state: State) -> None:
    """Take neuron j, which is in no heap any more, out of a cone."""
    add_moment(state.cones.moments[cone], state.neurons.theta[j], -1.0)
    state.cones.counts[cone] -= 1
    if state.cones.counts[cone] == 0:
        vacate(cone, state.cones, state.counters)


@njit(cache=True, **INTERNAL)
def vacate(cone: int, cones: Cones, counters: Ints) -> None:
    """Strike a cone off the list of the occupied ones."""
    cones.counts[cone] = 0
    counters[OCCUPIED] -= 1
    last, place = cones.occupied[counters[OCCUPIED]], cones.places[cone]
    cones.occupied[place], cones.places[last] = last, place


@njit(cache=True, **INTERNAL)
def take_all(heap: int, start: int, state: State) -> int:
    """Empty a heap into the work list from `start` on; return where the list ends."""
    neurons, cones = state.neurons, state.cones
    size = Signed(cones.sizes[heap])
    if 8 * size < neurons.heap.size:
        list_members(cones.roots[heap], state.heaps, neurons.list[start:])
    else:
        # Most neurons are in it: memory is read in order, which beats following the heap.
        at = start
        for j in range(neurons.heap.size):
            if neurons.heap[j] == heap:
                neurons.list[at] = j
                at += 1
    cones.roots[heap], cones.sizes[heap] = NONE, 0
    end: int = start + size
    return end


QUIET = 128
"""An individually stepped neuron that has not crossed a wall for so many steps goes back to its cone."""


@njit(cache=True, **INTERNAL)
def step_alone(j: int, w0: float, w1: float, a: float, cone: int, state: State) -> None:
    """Step neuron j, which is in no cone's heap now, individually from now on; cone: may be `STRAY`."""
    steppers, counters = state.steppers, state.counters
    number = counters[STEPPED]
    steppers.theta[number, 0], steppers.theta[number, 1], steppers.theta[number, 2] = w0, w1, a
    steppers.neuron[number], steppers.cone[number], steppers.crossed[number] = j, cone, counters[STEPS]
    if cone == STRAY:
        counters[STRAYS] += 1
    else:
        steppers.moments[cone, 0] += a * w0
        steppers.moments[cone, 1] += a * w1
    state.neurons.heap[j] = INDIVIDUAL
    counters[STEPPED] += 1
    counters[MOST_STEPPED] = max(counters[MOST_STEPPED], counters[STEPPED])


@njit(**ONCE)
def step_individually(state: State, samples: Samples, slope: float, walls: Walls) -> None:
    """Move the neurons, sum their a w by cone, and count crossings and strays (at least those there are)."""
    steppers, forces, counters = state.steppers, state.work.forces, state.counters
    strays = 0
    for cone in range(steppers.moments.shape[0]):
        steppers.moments[cone, 0], steppers.moments[cone, 1] = 0.0, 0.0
    for i in range(counters[STEPPED]):
        old = Signed(steppers.cone[i])
        if old == STRAY:
            cone = _step_stray(i, steppers, state.work.pulls, samples, slope, walls)
        else:
            w0, w1, a = steppers.theta[i, 0], steppers.theta[i, 1], steppers.theta[i, 2]
            g0, g1 = forces[old, 0], forces[old, 1]
            w0, w1, a = w0 + g0 * a, w1 + g1 * a, a + (g0 * w0 + g1 * w1)
            steppers.theta[i, 0], steppers.theta[i, 1], steppers.theta[i, 2] = w0, w1, a
            cone = near_cone(w0, w1, old, walls)
        steppers.cone[i] = cone
        # Arithmetic instead of a branch, which could not be predicted here.
        crossed = Signed(cone != old)
        steppers.crossed[i] += crossed * (counters[STEPS] - steppers.crossed[i])
        counters[CROSSINGS] += crossed
        if cone == STRAY:
            strays += 1
        else:
            steppers.moments[cone, 0] += steppers.theta[i, 2] * steppers.theta[i, 0]
            steppers.moments[cone, 1] += steppers.theta[i, 2] * steppers.theta[i, 1]
    counters[STRAYS] = max(counters[STRAYS], strays)


@njit(cache=True, **INTERNAL)
def _step_stray(
    i: int, steppers: Steppers, pulls: Floats, samples: Samples, slope: float, walls: Walls
) -> int:
    """Move the i-th one, a stray, by its own sign pattern; return its new cone."""
    theta = steppers.theta[i]
    w0, w1, a = theta[0], theta[1], theta[2]
    g0, g1 = 0.0, 0.0
    for k in range(samples.targets.size):
        x0, x1 = samples.points[k, 0], samples.points[k, 1]
        pull = pulls[k] * (1.0 if w0 * x0 + w1 * x1 > 0.0 else slope)
        g0 += pull * x0
        g1 += pull * x1
    theta[0], theta[1], theta[2] = w0 + g0 * a, w1 + g1 * a, a + (g0 * w0 + g1 * w1)
    cone: int = cone_of(theta[0], theta[1], Signed(0), walls)
    return cone


@njit(cache=True, **INTERNAL)
def sum_strays(steppers: Steppers, counters: Ints, samples: Samples, slope: float, outputs: Floats) -> None:
    """Set what the strays add to the predictions, (k,), and count them."""
    for k in range(samples.targets.size):
        outputs[k] = 0.0
    counters[STRAYS] = 0
    for i in range(counters[STEPPED]):
        if steppers.cone[i] != STRAY:
            continue
        counters[STRAYS] += 1
        for k in range(samples.targets.size):
            z = steppers.theta[i, 0] * samples.points[k, 0] + steppers.theta[i, 1] * samples.points[k, 1]
            outputs[k] += steppers.theta[i, 2] * (z if z > 0.0 else slope * z)


@njit(cache=True, **LEAN)
def put_back(state: State, walls: Walls) -> int:
    """Put neurons that have been quiet for long back into their cones; return how many they were."""
    steppers, counters = state.steppers, state.counters
    i, before = 0, counters[STEPPED]
    for cone in range(steppers.moments.shape[0]):
        steppers.moments[cone, 0], steppers.moments[cone, 1] = 0.0, 0.0
    while i < counters[STEPPED]:
        cone = Signed(steppers.cone[i])
        w0, w1, a = steppers.theta[i, 0], steppers.theta[i, 1], steppers.theta[i, 2]
        if cone == STRAY or counters[STEPS] - steppers.crossed[i] <= QUIET:
            if cone != STRAY:
                steppers.moments[cone, 0] += a * w0
                steppers.moments[cone, 1] += a * w1
            i += 1
            continue
        j = Signed(steppers.neuron[i])
        state.neurons.crossed[j] = steppers.crossed[i]
        enter(j, w0, w1, a, cone, state, walls)
        counters[STEPPED] -= 1
        last = counters[STEPPED]
        for column in range(3):
            steppers.theta[i, column] = steppers.theta[last, column]
        steppers.neuron[i], steppers.cone[i] = steppers.neuron[last], steppers.cone[last]
        steppers.crossed[i] = steppers.crossed[last]
    return int(before - counters[STEPPED])
