"""Which neurons must be looked at in a step, what they do, and when the step must end early.

Every neuron has a key: as long as its slot's clock is below it, nothing can happen to the neuron. In a cone
clocks and keys are those of `cone_certificate`, for the flow: the clock advances by
∫ max(max_n max(0, -σ<D, n>), |D|/R) dt. For a sliding group the clock is -σΛ, and keys are exact. Between
events nobody is due and a step does not depend on the number of neurons.

A step ends early where a heavy neuron meets a wall, where a whole sliding group is pulled off its wall, and
where resting neurons find a way downhill.
"""

from __future__ import annotations

from math import inf, sqrt

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.collocation import NEVER, Rule, first_zero, weights_at
from shallowflow.kernels.cone_certificate import RATIO, approached, approaches
from shallowflow.kernels.cone_flow_picard import empty, solve
from shallowflow.kernels.cone_flow_state import (
    SLOPES,
    UNSETTLED,
    VALUES,
    VECTOR,
    WEIGHTS,
    Groups,
    Moves,
    Neurons,
    Problem,
    State,
    Work,
    group_of,
    normal_force,
    resting_group,
    sign_of,
)
from shallowflow.kernels.cone_flow_trace import downhill, force_at, set_facets, trace
from shallowflow.kernels.cone_geometry import INTERNAL, Signed, Walls
from shallowflow.kernels.cone_groups import present
from shallowflow.kernels.cone_heap import Indices

MARGIN = 1.02
"""Clocks are advanced by so much more than the nodes say."""
MOST_PASSES = 8
BISECTIONS = 50


@njit(cache=True, **INTERNAL)
def set_reach(number: int, length: float, groups: Groups, work: Work, rule: Rule, problem: Problem) -> bool:
    """Set where all clocks will be at the end of the step; return whether any neuron is due."""
    cones, q = problem.rays.shape[0], rule.nodes.size
    work.due[:] = 0
    any_due = False
    for at in range(number):
        g = work.active[at]
        if groups.counts[g] == 0:
            continue
        for b in range(2 if g < cones else 1):
            slot = 2 * g + b if g < cones else g + cones
            if g < cones:
                advance = length * _cone_advance(g, b, work, rule.nodes, problem.walls)
                due = 2 if work.seen[slot] & ~groups.bits[slot] else 0
            else:
                sign, most, least = sign_of(g, cones), 0.0, 0.0
                for i in range(q):
                    most = max(most, -sign * work.turns[g, i])
                    least = min(least, -sign * work.turns[g, i])
                advance, due = most + (MARGIN - 1.0) * (most - least), 0
            work.reach[slot] = groups.clocks[slot] + advance
            if due == 0 and groups.lowest[slot] < work.reach[slot]:
                due = 1
            work.due[slot] = due
            any_due = any_due or due > 0
    return any_due


@njit(cache=True, **INTERNAL)
def _cone_advance(cone: int, b: int, work: Work, nodes: Floats, walls: Walls) -> float:
    """Return the advance of a cone's clock per length of the step, and note the walls approached."""
    sign = -1.0 if b else 1.0
    total, before, bits = 0.0, 0.0, 0
    for i in range(nodes.size):
        f = work.forces[i, cone]
        first, last = approaches(f, cone, walls)
        rate = max(-sign * first, -sign * last, sqrt(f[0] * f[0] + f[1] * f[1]) / RATIO)
        bits |= approached(first, last, sign)
        if i > 0:
            total += max(rate, before) * (nodes[i] - nodes[i - 1])
        before = rate
    work.seen[2 * cone + b] = bits
    return MARGIN * total


@njit(cache=True, **INTERNAL)
def list_due(neurons: Neurons, work: Work, cones: int) -> int:
    """List the neurons that are due; return how many they are."""
    number = 0
    work.rest[:] = inf
    for j in range(neurons.slot.size):
        slot = Signed(neurons.slot[j])
        if slot >= 4 * cones or work.due[slot] == 0:
            continue
        if work.due[slot] == 2 or neurons.key[j] < work.reach[slot]:
            neurons.list[number] = j
            number += 1
        else:
            work.rest[slot] = min(work.rest[slot], neurons.key[j])
    return number


@njit(cache=True, **INTERNAL)
def _movers_first(traced: int, count: int, moved: Indices, listed: Indices) -> int:
    """Put the neurons that moved first in the list of those traced; return how many they are."""
    movers, at = 0, 0
    for i in range(traced):
        j = listed[i]
        if at < count and moved[at] == j:
            listed[i], listed[movers] = listed[movers], j
            movers += 1
            while at < count and moved[at] == j:
                at += 1
    return movers


@njit(cache=True, **INTERNAL)
def account(count: int, number: int, moves: Moves, state: State) -> None:
    """Let the second moments of the groups follow the moves within the step."""
    neurons, groups, work, rule = state
    cones, q = work.dips.shape[0], rule.nodes.size
    for at in range(number):
        empty(work.extra[work.active[at]])
    psi = work.scratch[VECTOR]
    for i in range(count):
        node = 0
        # A neuron that starts beyond its wall by a hair is put onto it before the step, not within.
        while node < q and rule.nodes[node] < moves.share[i]:
            node += 1
        if node == q:
            continue
        j, left, entered = moves.neuron[i], moves.left[i], moves.entered[i]
        if i > 0 and moves.neuron[i - 1] == j:
            before = moves.theta[i - 1]
            psi[0], psi[1], psi[2] = before[0], before[1], before[2]
        else:
            psi[0], psi[1], psi[2] = present(groups.propagators[left], neurons.theta[j])
        if left < 3 * cones:
            _add(work.extra[left, node], psi, -1.0)
        if entered < 3 * cones:
            _add(work.extra[entered, node], moves.theta[i], 1.0)
    for at in range(number):
        g = work.active[at]
        for node in range(1, q):
            for entry in range(6):
                work.extra[g, node, entry] += work.extra[g, node - 1, entry]


@njit(cache=True, **INTERNAL)
def _add(s: Floats, psi: Floats, sign: float) -> None:
    at = 0
    for i in range(3):
        for j in range(i, 3):
            s[at] += sign * psi[i] * psi[j]
            at += 1


@njit(cache=True, **INTERNAL)
def _set_entries(count: int, moves: Moves, counts: Ints, entries: Floats) -> None:
    """Note when every group has its first neuron."""
    for g in range(entries.size):
        entries[g] = 0.0 if counts[g] > 0 else NEVER
    for i in range(count):
        g = moves.entered[i]
        entries[g] = min(entries[g], moves.share[i])


@njit(cache=True, **INTERNAL)
def first_release(number: int, rest: float, work: Work, rule: Rule, problem: Problem) -> float:
    """Return when the first sliding group or resting neurons must be released, or `NEVER`; see `entries`."""
    cones, q = problem.rays.shape[0], rule.nodes.size
    cut = NEVER
    values, slopes = work.scratch[VALUES], work.scratch[SLOPES]
    for at in range(number):
        g = work.active[at]
        if g < cones or work.entries[g] > 1.0:
            continue
        wall, sign = (g - cones) // 2, sign_of(g, cones)
        for side in range(2):
            cone = wall if side == 0 else (wall - 1 + cones) % cones
            away = sign if side == 0 else -sign
            for i in range(q):
                values[i] = rest - away * normal_force(work.forces[i], cone, wall, problem.walls)
            for i in range(q):
                slopes[i] = 0.0
                for j in range(q):
                    slopes[i] += rule.derivative[i, j] * values[j]
            cut = min(cut, first_zero(work.entries[g], values, slopes, 0.0, rule))
    for b in range(2):
        start = work.entries[3 * cones + b]
        if start <= 1.0:
            cut = min(cut, _first_downhill(-1.0 if b else 1.0, start, rest, work, rule, problem))
    return cut


@njit(cache=True, **INTERNAL)
def _first_downhill(
    sign: float, start: float, rest: float, work: Work, rule: Rule, problem: Problem
) -> float:
    """Return when neurons at w = 0 first find a way downhill, or `NEVER`."""
    cones = problem.rays.shape[0]
    resting = resting_group(sign, cones)
    left = start
    for i in range(rule.nodes.size):
        right = rule.nodes[i]
        if right <= start:
            continue
        if downhill(sign, work.forces[i], rest, problem)[0] != resting:
            weights, now = work.scratch[WEIGHTS], work.here.forces
            for _ in range(BISECTIONS):
                middle = 0.5 * (left + right)
                weights_at(middle, rule, weights)
                for c in range(cones):
                    now[c, 0], now[c, 1] = force_at(c, weights, work.forces)
                if downhill(sign, now, rest, problem)[0] != resting:
                    right = middle
                else:
                    left = middle
            return float(right)
        left = right
    return NEVER


@njit(cache=True, **INTERNAL)
def settle_moves(
    due: int,
    number: int,
    length: float,
    limits: tuple[float, float],
    aims: tuple[float, float, float],
    moves: Moves,
    state: State,
    problem: Problem,
) -> tuple[int, int, float]:
    """Find all moves of the step, and with them its forces, until neither changes the other.

    aims: what sweeps converge to; the change of the pulls that counts as none; the scale of the pulls.
    Return the numbers of moves and of active groups, and the share at which the step must be cut.
    """
    neurons, groups, work, rule = state
    cones, traced, psi = problem.rays.shape[0], due, work.scratch[VECTOR]
    for _ in range(MOST_PASSES):
        for at in range(number):
            if work.active[at] < cones:
                set_facets(work.active[at], length, work, rule, problem.walls)
        count, cut = Signed(0), NEVER
        for i in range(traced):
            j = Signed(neurons.list[i])
            group = group_of(Signed(neurons.slot[j]), cones)
            psi[0], psi[1], psi[2] = present(groups.propagators[group], neurons.theta[j])
            count, number, heavy = trace(
                j, group, psi, length, limits, count, number, moves, work, rule, problem
            )
            cut = min(cut, heavy)
            if count < 0:
                return count, number, cut
        _set_entries(count, moves, groups.counts, work.entries)
        cut = min(cut, first_release(number, limits[1], work, rule, problem))
        if cut <= 1.0 or count == 0:
            return count, number, cut
        # A neuron that only now comes to graze a wall is found there at the start of the next step.
        traced = _movers_first(traced, count, moves.neuron, state[0].list)
        account(count, number, moves, state)
        sweeps, change = solve(number, length, aims[0], aims[2], work, rule, problem)
        if sweeps == 0:
            return UNSETTLED, number, cut
        if change <= aims[1]:
            return count, number, cut
    return UNSETTLED, number, NEVER
