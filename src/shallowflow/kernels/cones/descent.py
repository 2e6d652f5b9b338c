"""Gradient descent of a ReLU network on inputs of the plane: the cost per step does not grow with the width.

Model and step ([early_alignment], (1) and the subgradient D with ReLU'(0) = 0, square or logistic loss):

    h(x) = Σ_j a_j σ(<w_j, x>),     w_j += s a_j D_j,    a_j += s <w_j, D_j>,    D_j = Σ_k η_jk g_k x_k.

D_j depends on the activation cone of w_j only, so a step is one linear map per cone (`groups`), its forces
come from sums over half turns (`geometry`), and a step without crossings costs O(data points). Which neurons
cross a wall, and in which step, is found by certificates (`exits`): each neuron carries a value of its cone's
clock before which it cannot cross; when it comes, and only then, the neuron is looked at. It is moved to its
new cone, or it gets a new certificate. A neuron that crosses repeatedly is stepped individually.
The iterates are those of plain descent up to rounding, and neurons cross in the same steps.

Everything between two calls is in the state, so a run may be cut into calls anywhere.

A step ratio ε of the layers needs no code: with √ε x as inputs and w / √ε as inner weights, plain descent is
descent on the same function with the rate ε s inside.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.exits import (
    LONGEST_STEP,
    Indices,
    advance_clock,
    approached,
    approaches,
    clock_rate,
    popped,
)
from shallowflow.kernels.cones.geometry import (
    STRAY,
    Loss,
    Samples,
    Walls,
    cone_beside,
    cone_of,
    first_cone,
    set_forces,
    total_error,
)
from shallowflow.kernels.cones.groups import (
    CHECKS,
    CROSSINGS,
    FROZEN,
    MAX_SPREAD,
    NEXT_LOOK,
    OCCUPIED,
    PAUSE,
    STEPPED,
    STEPS,
    STRAYS,
    State,
    enter,
    file,
    leave,
    new_state,
    outer_inner_moment,
    present,
    propagate,
    put_back,
    spread,
    step_alone,
    step_individually,
    sum_strays,
    take_all,
    vacate,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

RECROSSING = 64
"""A neuron that turns round and crosses a wall within so many steps of its last crossing is stepped alone."""
SHORTEST, LONGEST = 64, 512
"""Steps between two looks for neurons to put back into their cones; the pause doubles if there are none."""
QUIET_HEAPS, DUE, RENEW, SYNC = range(4)
"""What a cone needs after a step: nothing; due neurons looked at; all of a heap; all, and P = I."""


def begin(inner: Floats, outer: Floats, walls: Walls, samples: Samples, slope: float, loss: Loss) -> State:
    """Return the state at the start, from inner (m, 2) and outer (m,) weights; the rest as in `advance`."""
    state = new_state(len(outer), walls.owners.size - 1, samples.targets.size)
    state.neurons.theta[:, :2], state.neurons.theta[:, 2] = inner, outer
    state.counters[[NEXT_LOOK, PAUSE]] = SHORTEST
    if walls.owners.size == 1:
        state.neurons.heap[:] = FROZEN
    else:
        _distribute(state, walls, samples, slope, loss)
    return state


@njit(cache=True, **LEAN)
def _distribute(state: State, walls: Walls, samples: Samples, slope: float, loss: Loss) -> None:
    """Put every neuron into its cone. The first forces are needed to know which walls are approached."""
    neurons, work = state.neurons, state.work
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
            step_alone(j, w0, w1, a, cone, state)
        else:
            enter(j, w0, w1, a, cone, state, walls)
    sum_strays(state.steppers, state.counters, samples, slope, work.strays)


def neurons_now(state: State) -> Floats:
    """Return (w, a) of all neurons in the caller's order, (m, 3)."""
    now = state.neurons.theta.copy()
    bring_up_to_date(now, state.neurons.heap, state.cones.propagators)
    alone, theta = stepped_alone(state)
    now[alone] = theta
    return now


def stepped_alone(state: State) -> tuple[Indices, Floats]:
    """Return the individually stepped neurons (k,) and their (w, a), (k, 3)."""
    ones = slice(state.counters[STEPPED])
    return state.steppers.neuron[ones], state.steppers.theta[ones]


@njit(cache=True, **LEAN)
def bring_up_to_date(theta: Floats, heaps: Indices, propagators: Floats) -> None:
    """Turn θ̂ (m, 3) into P θ̂ for all neurons of cones; propagators (2L + 1, 9)."""
    for j in range(heaps.size):
        cone = Signed(heaps[j]) // 2
        if cone >= 0:
            theta[j, 0], theta[j, 1], theta[j, 2] = present(propagators[cone], theta[j])


@njit(cache=True, **LEAN)
def note_changes(theta: Ints, heaps: Indices, known: Ints, known_heaps: Indices, changed: Indices) -> int:
    """List the neurons whose θ̂ or cone is not as known, and know it from now on; return how many they are.

    theta, known (m, 3): the bits of θ̂, so that zeros of either sign differ; known_heaps (m,): heaps 2c.
    """
    number = 0
    for j in range(heaps.size):
        heap = heaps[j] & -2
        same = heap == known_heaps[j]
        for i in range(3):
            same &= theta[j, i] == known[j, i]
        if not same:
            known_heaps[j] = heap
            for i in range(3):
                known[j, i] = theta[j, i]
            changed[number] = j
            number += 1
    return number


@njit(cache=True, **LEAN)
def loss_now(state: State, samples: Samples, slope: float, loss: Loss) -> float:
    """Return the loss of the present state, without its weight and the points at the origin.

    O(data points): no neuron is looked at, and only working memory is written that each step sets anew.
    """
    _sum_moments(state)
    value: float = total_error(state.work, samples, slope, loss)
    return value


def advance(state: State, walls: Walls, samples: Samples, slope: float, loss: Loss, steps: int) -> int:
    """Make up to `steps` steps in place; return how many could be made with finite forces.

    loss: `SQUARE` or `LOGISTIC`, the output factor c, and step × c × weight of the loss (1/n for a mean).
    """
    counters = state.counters
    end = counters[STEPS] + steps
    while counters[STEPS] < end:
        asked = int(min(end, counters[NEXT_LOOK]) - counters[STEPS])
        if _make_steps(state, walls, samples, slope, loss, asked) < asked:
            break
        if counters[STEPS] == counters[NEXT_LOOK]:
            found = counters[STEPPED] > counters[STRAYS] and put_back(state, walls)
            counters[PAUSE] = SHORTEST if found else min(2 * counters[PAUSE], LONGEST)
            counters[NEXT_LOOK] += counters[PAUSE]
    return int(steps - (end - counters[STEPS]))


@njit(cache=True, **LEAN)
def _make_steps(state: State, walls: Walls, samples: Samples, slope: float, loss: Loss, steps: int) -> int:
    """As `advance`, without putting neurons back into their cones."""
    cones, work, counters = state.cones, state.work, state.counters
    for done in range(steps):
        _sum_moments(state)
        if not set_forces(work, samples, slope, loss):
            return done
        counters[STEPS] += 1
        busy = _step_cones(state, walls)
        if counters[STEPPED] > 0:
            step_individually(state, samples, slope, walls)
        for i in range(busy):
            _look_after(cones.todo[i], state, walls)
        if counters[STRAYS] > 0:
            sum_strays(state.steppers, counters, samples, slope, work.strays)
    return steps


@njit(cache=True, **INTERNAL)
def _sum_moments(state: State) -> None:
    """Set Σ a w of every cone."""
    cones, moments, counters = state.cones, state.work.moments, state.counters
    for cone in range(moments.shape[0]):
        moments[cone, 0], moments[cone, 1] = state.steppers.moments[cone, 0], state.steppers.moments[cone, 1]
    for i in range(counters[OCCUPIED]):
        cone = cones.occupied[i]
        m0, m1 = outer_inner_moment(cones.propagators[cone], cones.moments[cone])
        moments[cone, 0] += m0
        moments[cone, 1] += m1


@njit(**ONCE)
def _step_cones(state: State, walls: Walls) -> int:
    """Move all cones and their clocks; list the cones that need care in `todo`, return how many."""
    cones, key, forces = state.cones, state.heaps.key, state.work.forces
    busy = 0
    for i in range(state.counters[OCCUPIED]):
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
            elif key[cones.roots[heap]] <= cones.clocks[heap, 0]:
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


@njit(**ONCE)
def _look_after(cone: int, state: State, walls: Walls) -> None:
    """Look at the neurons of a cone whose certificates ran out, or at all of them."""
    cones, counters = state.cones, state.counters
    need = cones.needs[cone]
    fresh = need == SYNC
    number = _take_all_of(cone, state) if fresh else _take_due(cone, need, state, walls)
    counters[CHECKS] += number
    # A cone that was emptied has its P in the last row, and whoever is in it enters it anew with P = I.
    p = cones.propagators[-1 if fresh else cone]
    for i in range(number):
        j = Signed(state.neurons.list[i])
        w0, w1, a = present(p, state.neurons.theta[j])
        new = cone_of(w0, w1, cone, walls)
        if new == cone and not fresh:
            file(j, w0, w1, a, cone, state, walls)
            continue
        if new != cone:
            if not fresh:
                leave(j, cone, state)
            if _turns_round(j, cone, new, state, walls):
                step_alone(j, w0, w1, a, new, state)
                continue
        enter(j, w0, w1, a, new, state, walls)


@njit(cache=True, **INTERNAL)
def _take_due(cone: int, need: int, state: State, walls: Walls) -> int:
    """List the neurons of a cone whose certificates ran out, or all of a heap with a newly approached wall;
    return how many they are.
    """
    cones = state.cones
    first, last = approaches(state.work.forces[cone], cone, walls)
    number = Signed(0)
    for heap in range(2 * cone, 2 * cone + 2):
        bits = approached(first, last, 1.0 if heap == 2 * cone else -1.0)
        if need == RENEW and bits & ~cones.bits[heap]:
            cones.bits[heap] |= bits
            number = Signed(take_all(heap, number, state))
            continue
        root = cones.roots[heap]
        while root >= 0 and state.heaps.key[root] <= cones.clocks[heap, 0]:
            state.neurons.list[number] = root
            number += 1
            root = popped(root, state.heaps)
            cones.sizes[heap] -= 1
        cones.roots[heap] = root
    taken: int = number
    return taken


@njit(**ONCE)
def _take_all_of(cone: int, state: State) -> int:
    """Empty a cone, its P kept in the last row of the propagators; list its neurons, return how many."""
    cones = state.cones
    for i in range(9):
        cones.propagators[-1, i] = cones.propagators[cone, i]
    number: int = take_all(2 * cone + 1, take_all(2 * cone, Signed(0), state), state)
    if number > 0:
        vacate(cone, cones, state.counters)
    return number


@njit(**ONCE)
def _turns_round(j: int, old: int, new: int, state: State, walls: Walls) -> bool:
    """Note the crossing of neuron j; return whether it crosses back soon, or becomes a stray."""
    step = state.counters[STEPS]
    last = state.neurons.crossed[j]
    state.counters[CROSSINGS] += 1
    # Of two cones each is on both sides of the other: there, to cross again is to turn round.
    forwards = new == cone_beside(old, 1, walls) and not (old == 1 and walls.owners.size == 3)
    way = 1 if forwards else -1
    state.neurons.crossed[j] = way * step
    return new == STRAY or (way * last < 0 and step - abs(last) <= RECROSSING)
