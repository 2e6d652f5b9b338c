"""Gradient descent of a ReLU network on inputs of the plane: the cost per step does not grow with the width.

Model and step ([early_alignment], (1) and the subgradient D with ReLU'(0) = 0, square or logistic loss):

    h(x) = Σ_j a_j σ(<w_j, x>),     w_j += s a_j D_j,    a_j += s <w_j, D_j>,    D_j = Σ_k η_jk g_k x_k.

D_j depends on the activation cone of w_j only, so a step is one linear map per cone (`cone_groups`), its
forces come from sums over half turns (`cone_forces`), and a step without crossings costs O(data points).
Which neurons cross a wall, and in which step, is found by certificates (`cone_certificate`): each neuron
carries a value of its cone's clock before which it cannot cross; when it comes, and only then, the neuron is
looked at. It is moved to its new cone, or it gets a new certificate. A neuron that crosses again and again is
stepped individually (`cone_hot`). The iterates are those of plain descent up to rounding, and neurons cross
in the same steps.

Everything between two calls is in the state, so a run may be cut into calls anywhere.

A step ratio ε of the layers needs no code: with √ε x as inputs and w / √ε as inner weights, plain descent is
descent on the same function with the rate ε s inside.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import (
    LONGEST_STEP,
    Heaps,
    Indices,
    advance_clock,
    approached,
    approaches,
    clock_rate,
    popped,
)
from shallowflow.kernels.cones.geometry import (
    STRAY,
    Forces,
    Samples,
    Walls,
    cone_beside,
    cone_of,
    first_cone,
    new_forces,
    set_forces,
    total_error,
)
from shallowflow.kernels.cones.groups import (
    COOLING_PERIOD,
    FROZEN,
    HOT,
    MAX_SPREAD,
    QUIET,
    RECROSSING,
    Cones,
    Hot,
    Neurons,
    append_hot,
    enter,
    file,
    leave,
    new_groups,
    new_hot,
    outer_inner_moment,
    present,
    propagate,
    spread,
    step_hot,
    sum_moments,
    sum_strays,
    take_all,
    vacate,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed

State = tuple[tuple[Neurons, Cones, Heaps], Hot, Forces, Ints]
STEPS, CROSSINGS, CHECKS, HOT_NEURONS, STRAYS, OCCUPIED, SYNCS, REKEYS, MOST_HOT = range(9)
"""The counters: steps made, crossings, neurons looked at, hot neurons, strays among them, occupied cones,
re-synchronised cones, heaps with all certificates renewed, most hot neurons at a time."""
Loss = tuple[int, float, float]
QUIET_HEAPS, DUE, RENEW, SYNC = range(4)
"""What a cone needs after a step: nothing; due neurons looked at; all of a heap; all, and P = I."""


def begin(inner: Floats, outer: Floats, walls: Walls, samples: Samples, slope: float, loss: Loss) -> State:
    """Return the state at the start, from inner (m, 2) and outer (m,) weights; the rest as in `advance`."""
    width, cones = len(outer), walls.owners.size - 1
    groups = new_groups(width, cones)
    groups[0].theta[:, :2], groups[0].theta[:, 2] = inner, outer
    state = groups, new_hot(width, cones), new_forces(cones, samples.targets.size), np.zeros(9, np.int64)
    if cones == 0:
        groups[0].heap[:] = FROZEN
    else:
        _distribute(state, walls, samples, slope, loss)
    return state


@njit(cache=True, **LEAN)
def _distribute(state: State, walls: Walls, samples: Samples, slope: float, loss: Loss) -> None:
    """Put every neuron into its cone. The first forces are needed to know which walls are approached."""
    groups, hot, work, counters = state
    neurons = groups[0]
    neurons.crossed[:] = 0
    for j in range(neurons.heap.size):
        w0, w1, a = neurons.theta[j, 0], neurons.theta[j, 1], neurons.theta[j, 2]
        cone = first_cone(w0, w1, walls)
        neurons.heap[j] = cone
        if cone != STRAY:
            work.moments[cone, 0] += a * w0
            work.moments[cone, 1] += a * w1
    set_forces(work, samples, slope, loss)
    for j in range(neurons.heap.size):
        w0, w1, a = neurons.theta[j, 0], neurons.theta[j, 1], neurons.theta[j, 2]
        cone = Signed(neurons.heap[j])
        if w0 == 0.0 and w1 == 0.0 and (slope == 0.0 or a == 0.0):
            neurons.heap[j] = FROZEN
        elif cone == STRAY:
            _heat(j, w0, w1, a, cone, state)
        else:
            counters[OCCUPIED] = enter(j, w0, w1, a, cone, groups, work.forces, walls, counters[OCCUPIED])
    counters[STRAYS] = sum_strays(hot, counters[HOT_NEURONS], samples, slope, work.strays)


def neurons_now(state: State) -> Floats:
    """Return (w, a) of all neurons in the caller's order, (m, 3)."""
    groups, hot, _, counters = state
    neurons, cones, _ = groups
    now = neurons.theta.copy()
    _write_cones(neurons.theta, neurons.heap, cones.propagators, now)
    ones = slice(counters[HOT_NEURONS])
    now[hot.neuron[ones]] = hot.theta[ones]
    return now


@njit(cache=True, **LEAN)
def _write_cones(theta: Floats, heaps: Indices, propagators: Floats, now: Floats) -> None:
    """Set `now` to P θ̂ for all neurons of cones; propagators (2L + 1, 9)."""
    for j in range(heaps.size):
        cone = Signed(heaps[j]) // 2
        if 0 <= cone < propagators.shape[0] - 1:
            now[j, 0], now[j, 1], now[j, 2] = present(propagators[cone], theta[j])


@njit(cache=True, **LEAN)
def advance(
    state: State,
    walls: Walls,
    samples: Samples,
    slope: float,
    loss: Loss,
    steps: int,
) -> int:
    """Make up to `steps` steps in place; return how many could be made with finite forces.

    loss: `SQUARE` or `LOGISTIC`, the output factor c, and step × c × weight of the loss (1/n for a mean).
    """
    groups, hot, work, counters = state
    needs, todo = groups[1].needs, groups[1].todo
    for done in range(steps):
        _sum_moments(groups[1], hot, work, counters[OCCUPIED])
        if not set_forces(work, samples, slope, loss):
            return done
        counters[STEPS] += 1
        busy = _step_cones(groups[1], groups[2], work.forces, walls, counters[OCCUPIED])
        if counters[HOT_NEURONS] > 0:
            crossings, strays = step_hot(
                hot, counters[HOT_NEURONS], work, samples, slope, walls, counters[STEPS]
            )
            counters[CROSSINGS] += crossings
            counters[STRAYS] = max(counters[STRAYS], strays)
        for i in range(busy):
            _look_after(todo[i], needs[todo[i]], state, walls)
            needs[todo[i]] = QUIET_HEAPS
        if counters[HOT_NEURONS] > 0:
            if counters[STEPS] % COOLING_PERIOD == 0:
                _cool(state, walls)
            if counters[STRAYS] > 0:
                counters[STRAYS] = sum_strays(hot, counters[HOT_NEURONS], samples, slope, work.strays)
    return steps


@njit(cache=True, **LEAN)
def loss_now(state: State, samples: Samples, slope: float, loss: Loss) -> float:
    """Return the loss of the present state, without its weight and the points at the origin.

    O(data points): no neuron is looked at, and only working memory is written that each step sets anew.
    """
    groups, hot, work, counters = state
    _sum_moments(groups[1], hot, work, counters[OCCUPIED])
    value: float = total_error(work, samples, slope, loss)
    return value


@njit(cache=True, **INTERNAL)
def _sum_moments(cones: Cones, hot: Hot, work: Forces, occupied: int) -> None:
    """Set Σ a w of every cone."""
    for cone in range(work.moments.shape[0]):
        work.moments[cone, 0], work.moments[cone, 1] = hot.moments[cone, 0], hot.moments[cone, 1]
    for i in range(occupied):
        cone = cones.occupied[i]
        m0, m1 = outer_inner_moment(cones.propagators[cone], cones.moments[cone])
        work.moments[cone, 0] += m0
        work.moments[cone, 1] += m1


@njit(cache=True, **INTERNAL)
def _step_cones(cones: Cones, heaps: Heaps, forces: Floats, walls: Walls, occupied: int) -> int:
    """Move all cones and their clocks; list the cones that need care in `todo`, return how many."""
    busy = 0
    for i in range(occupied):
        cone = cones.occupied[i]
        g0, g1 = forces[cone, 0], forces[cone, 1]
        if g0 == 0.0 and g1 == 0.0:
            continue
        propagate(cones.propagators[cone], g0, g1)
        d = sqrt(g0 * g0 + g1 * g1)
        length = d * (1.0 + 0.5 * d * d)
        cones.spreads[cone] += length
        need = QUIET_HEAPS
        first, last = approaches(forces[cone], cone, walls)
        for heap in range(2 * cone, 2 * cone + 2):
            if cones.sizes[heap] == 0:
                continue
            sign = 1.0 if heap == 2 * cone else -1.0
            advance_clock(cones.clocks[heap], clock_rate(first, last, sign, length))
            if approached(first, last, sign) & ~cones.bits[heap]:
                need = RENEW
            elif heaps.key[cones.roots[heap]] <= cones.clocks[heap, 0]:
                need = max(need, DUE)
        if cones.spreads[cone] > MAX_SPREAD:
            cones.spreads[cone] = spread(cones.propagators[cone])
        if not (d <= LONGEST_STEP and cones.spreads[cone] <= MAX_SPREAD):
            need = SYNC
        if need != QUIET_HEAPS:
            cones.needs[cone] = need
            cones.todo[busy] = cone
            busy += 1
    return busy


@njit(cache=True, **INTERNAL)
def _look_after(cone: int, need: int, state: State, walls: Walls) -> None:
    """Look at the neurons of a cone whose certificates ran out, or at all of them."""
    groups, _, work, counters = state
    neurons, cones, heaps = groups
    fresh = need == SYNC
    if fresh:
        _look_at(cone, _take_synchronised(cone, groups, counters), fresh, state, walls)
        return
    first, last = approaches(work.forces[cone], cone, walls)
    for heap in range(2 * cone, 2 * cone + 2):
        bits = approached(first, last, 1.0 if heap == 2 * cone else -1.0)
        number = Signed(0)
        if need == RENEW and bits & ~cones.bits[heap]:
            cones.bits[heap] |= bits
            number = take_all(heap, groups, number)
            counters[REKEYS] += 1
        else:
            root = cones.roots[heap]
            while root >= 0 and heaps.key[root] <= cones.clocks[heap, 0]:
                neurons.list[number] = root
                number += 1
                root = popped(root, heaps)
            cones.roots[heap] = root
            cones.sizes[heap] -= number
        _look_at(cone, number, fresh, state, walls)


@njit(cache=True, **INTERNAL)
def _take_synchronised(cone: int, groups: tuple[Neurons, Cones, Heaps], counters: Ints) -> int:
    """Empty a cone, its P kept in the last row of the propagators; list its neurons, return how many."""
    cones = groups[1]
    for i in range(9):
        cones.propagators[-1, i] = cones.propagators[cone, i]
    number = Signed(0)
    for heap in range(2 * cone, 2 * cone + 2):
        number = take_all(heap, groups, number)
    counters[SYNCS] += 1
    if number > 0:
        counters[OCCUPIED] = vacate(cone, cones, counters[OCCUPIED])
    taken: int = number
    return taken


@njit(cache=True, **INTERNAL)
def _look_at(cone: int, number: int, fresh: bool, state: State, walls: Walls) -> None:
    """File the listed neurons, which were in this cone and are in no heap, where they belong now.

    fresh: the cone was emptied, and whoever is in it enters it anew with P = I.
    """
    groups, _, work, counters = state
    neurons, cones, _ = groups
    p = cones.propagators[-1 if fresh else cone]
    counters[CHECKS] += number
    for i in range(number):
        j = Signed(neurons.list[i])
        w0, w1, a = present(p, neurons.theta[j])
        new = cone_of(w0, w1, cone, walls)
        if new == cone and not fresh:
            file(j, w0, w1, a, cone, groups, walls)
            continue
        if new != cone:
            if not fresh:
                counters[OCCUPIED] = leave(j, cone, neurons, cones, counters[OCCUPIED])
            if not _crosses(j, w0, w1, a, cone, new, state, walls):
                continue
        counters[OCCUPIED] = enter(j, w0, w1, a, new, groups, work.forces, walls, counters[OCCUPIED])


@njit(cache=True, **INTERNAL)
def _crosses(
    j: int,
    w0: float,
    w1: float,
    a: float,
    old: int,
    new: int,
    state: State,
    walls: Walls,
) -> bool:
    """Return whether neuron j, which left a cone, enters the new one; else it comes and goes and is
    stepped individually from now on.
    """
    groups, counters = state[0], state[3]
    counters[CROSSINGS] += 1
    last = groups[0].crossed[j]
    # Of two cones each is on both sides of the other: there, to cross again is to turn round.
    forwards = new == cone_beside(old, 1, walls) and not (old == 1 and walls.owners.size == 3)
    way = 1 if forwards else -1
    groups[0].crossed[j] = way * counters[STEPS]
    if new == STRAY or (way * last < 0 and counters[STEPS] - abs(last) <= RECROSSING):
        _heat(j, w0, w1, a, new, state)
        return False
    return True


@njit(cache=True, **INTERNAL)
def _heat(j: int, w0: float, w1: float, a: float, cone: int, state: State) -> None:
    """Append neuron j to the hot ones."""
    groups, hot, _, counters = state
    append_hot(j, w0, w1, a, cone, counters[STEPS], hot, counters[HOT_NEURONS])
    groups[0].heap[j] = HOT
    counters[HOT_NEURONS] += 1
    counters[MOST_HOT] = max(counters[MOST_HOT], counters[HOT_NEURONS])
    if cone == STRAY:
        counters[STRAYS] += 1


@njit(cache=True, **INTERNAL)
def _cool(state: State, walls: Walls) -> None:
    """Put hot neurons that have been quiet for long back into their cones."""
    groups, hot, work, counters = state
    i = 0
    while i < counters[HOT_NEURONS]:
        cone = Signed(hot.cone[i])
        if cone == STRAY or counters[STEPS] - hot.crossed[i] <= QUIET:
            i += 1
            continue
        w0, w1, a = hot.theta[i, 0], hot.theta[i, 1], hot.theta[i, 2]
        j = Signed(hot.neuron[i])
        groups[0].crossed[j] = hot.crossed[i]
        counters[OCCUPIED] = enter(j, w0, w1, a, cone, groups, work.forces, walls, counters[OCCUPIED])
        counters[HOT_NEURONS] -= 1
        last = counters[HOT_NEURONS]
        for column in range(3):
            hot.theta[i, column] = hot.theta[last, column]
        hot.neuron[i], hot.cone[i], hot.crossed[i] = hot.neuron[last], hot.cone[last], hot.crossed[last]
    sum_moments(hot, counters[HOT_NEURONS])
