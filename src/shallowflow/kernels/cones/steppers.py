"""Neurons of the plane that are stepped individually: those that cross a wall repeatedly, and strays.

Where the flow would slide along a wall (pushed back to it from both sides, [early_alignment], the subgradient
set on a face) descent crosses the wall every few steps. Such a neuron is kept with its present value and
moved by the force of the cone in which it is, O(1) per step, until it has been quiet for a while. A stray,
whose pattern is that of no cone (`geometry`), is moved by plain descent, O(data points).
"""

from __future__ import annotations

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.geometry import STRAY, Samples, Walls, cone_of, near_cone
from shallowflow.kernels.cones.groups import (
    CROSSINGS,
    INDIVIDUAL,
    MOST_STEPPED,
    STEPPED,
    STEPS,
    STRAYS,
    State,
    Steppers,
    enter,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

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
