"""Following neurons through a step: which walls they meet, when, and where they go.

Within a step a neuron of group g is Φ_g(s) ψ; ψ is its value at the start, or what that would have been had
it always been there. In a cone its distance to a wall is a polynomial in s whose first zero is located; along
a wall it follows the hyperbolic rotation by Λ, and leaves where Λ passes ∓artanh of the ratio of ω and a.
What it does there: `flow_walls`.

A neuron that meets a wall changes predictions with a kink of slope ~ a² G. If that matters for the tolerance,
the step must end there; if not, it is accounted for within the step.

How neurons enter and leave groups, and get keys: `flow_state`.
"""

from __future__ import annotations

from math import atanh, inf

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.cones.collocation import NEVER, first_zero, value_at, weights_at
from shallowflow.kernels.cones.exits import Indices, certificate
from shallowflow.kernels.cones.flow_state import (
    FULL,
    MATRIX,
    PLAIN,
    SLOPES,
    UNSETTLED,
    VALUES,
    VECTOR,
    WEIGHTS,
    Due,
    Field,
    Groups,
    Moves,
    Neurons,
    Problem,
    Work,
    boost,
    group_of,
    sign_of,
    slot_of,
)
from shallowflow.kernels.cones.flow_walls import NOISE, ends_sliding, meets_wall
from shallowflow.kernels.cones.groups import add_moment, present, referred
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

MOST_HOPS = 40
KINK = 0.01
"""What the polynomial of degree q - 1 misses of a kink, as a share of its slope's jump."""
Limits = tuple[float, float, float]
"""The largest kink that a step may contain, the speed below which a neuron at w = 0 rests, the length."""


@njit(**ONCE)
def patience(along: float, outer: float) -> float:
    """Return how far -σΛ may advance before ω or a of a sliding neuron vanishes: artanh of their ratio."""
    small, large = abs(along), abs(outer)
    if small > large:
        small, large = large, small
    if small >= large:
        return inf
    return atanh(small / large)


@njit(**ONCE)
def _stays(
    t0: float, t1: float, t2: float, start: float, noise: float, facets: Floats, nodes: Floats
) -> bool:
    """Return whether a neuron surely keeps clear of a wall. Counting needs neither branches nor memory."""
    below, down, up = 0, 0, 0
    for i in range(nodes.size):
        value = facets[0, i] * t0 + facets[1, i] * t1 + facets[2, i] * t2
        slope = facets[3, i] * t0 + facets[4, i] * t1 + facets[5, i] * t2
        below += 1 if (value < -noise) & (nodes[i] > start) else 0
        down += 1 if slope < 0.0 else 0
        up += 1 if slope > 0.0 else 0
    return below == 0 and (down == 0 or up == 0)


@njit(cache=True, forceinline=True, **INTERNAL)
def _cone_exit(cone: int, psi: Floats, start: float, field: Field) -> tuple[float, int]:
    """Return when a neuron leaves a cone, and through which wall (0 first, 1 last)."""
    t0, t1, t2 = psi[0], psi[1], psi[2]
    noise = NOISE * max(abs(t0), abs(t1), abs(t2))
    when, through = NEVER, 0
    for side in range(2):
        facets, nodes = field.facets[cone, side], field.grid.nodes
        if _stays(t0, t1, t2, start, noise, facets, nodes):
            continue
        values, slopes = field.scratch[VALUES], field.scratch[SLOPES]
        for i in range(nodes.size):
            values[i] = facets[0, i] * t0 + facets[1, i] * t1 + facets[2, i] * t2
            slopes[i] = facets[3, i] * t0 + facets[4, i] * t1 + facets[5, i] * t2
        share = first_zero(start, values, slopes, noise, field.grid)
        if share < when:
            when, through = share, side
    return when, through


@njit(cache=True, **INTERNAL)
def _slide_exit(group: int, psi: Floats, start: float, length: float, field: Field) -> float:
    """Return when ω or a of a sliding neuron vanishes."""
    cones = field.rays.shape[0]
    wall, sign = (group - cones) // 2, sign_of(group, cones)
    e0, e1 = field.rays[wall, 0], field.rays[wall, 1]
    limit = patience(psi[0] * e0 + psi[1] * e1, psi[2])
    if limit == inf:
        return NEVER
    # Where the virtual start lies on the other side of zero, the limit is behind it.
    if (psi[0] * e0 + psi[1] * e1) < 0.0 or sign * psi[2] < 0.0:
        limit = -limit
    values, slopes = field.scratch[VALUES], field.scratch[SLOPES]
    for i in range(values.size):
        along = field.forces[i, wall, 0] * e0 + field.forces[i, wall, 1] * e1
        values[i] = limit + sign * field.turns[group, i]
        slopes[i] = sign * length * along
    share: float = first_zero(start, values, slopes, NOISE, field.grid)
    return share


@njit(**ONCE)
def _exit(group: int, psi: Floats, start: float, length: float, field: Field) -> tuple[float, int]:
    """Return when a neuron next leaves its group (`NEVER`: not in this step), and through which wall."""
    cones, when, through = field.rays.shape[0], NEVER, 0
    if group < cones:
        when, through = _cone_exit(group, psi, start, field)
    elif group < 3 * cones:
        when = _slide_exit(group, psi, start, length, field)
    return when, through


@njit(cache=True, **INTERNAL)
def _phi_at(share: float, group: int, weights: Floats, p: Floats, field: Field) -> None:
    """Set p (9,) to Φ of a group at a share of the step; weights: those of `weights_at`."""
    cones = field.rays.shape[0]
    if group >= cones:
        wall = (group - cones) // 2
        boost(value_at(share, field.turns[group], field.grid), field.rays[wall, 0], field.rays[wall, 1], p)
        return
    p[:] = 0.0
    for i in range(weights.size):
        for k in range(9):
            p[k] += weights[i] * field.phi[group, i, k]


@njit(**ONCE)
def _hop(
    j: int,
    group: int,
    psi: Floats,
    leaving: tuple[float, int],
    rest: float,
    theta: Floats,
    work: Work,
) -> tuple[int, int, float]:
    """Take a neuron out of its group; return the group it enters, the kind of the move, and the kink.

    Set theta (3,) to the value at the start that the new group would have it had, if that group is active.
    """
    field, (share, through), kind = work.field, leaving, PLAIN
    cones, weights, p = field.rays.shape[0], field.scratch[WEIGHTS], field.scratch[MATRIX]
    weights_at(share, field.grid, weights)
    _phi_at(share, group, weights, p, field)
    theta[0], theta[1], theta[2] = present(p, psi)
    if group < cones:
        target, kink = meets_wall(group, through, theta, weights, field)
    else:
        target, kind, kink = ends_sliding(j, group, theta, weights, rest, work.here.forces, field)
    if target < 3 * cones and work.is_active[target]:
        _phi_at(share, target, weights, p, field)
        theta[0], theta[1], theta[2] = referred(p, theta[0], theta[1], theta[2])
    return target, kind, kink


@njit(cache=True, **INTERNAL)
def _account(first: int, last: int, psi: Floats, moves: Moves, extra: Floats, nodes: Floats) -> None:
    """Let the second moments of the groups follow the moves of one neuron, from the next node on."""
    before = psi
    for i in range(first, last):
        after, left, entered, node = moves.theta[i], moves.left[i], moves.entered[i], 0
        # A neuron that starts beyond its wall within rounding is put onto it before the step, not within.
        while node < nodes.size and nodes[node] < moves.share[i]:
            node += 1
        at = 0
        for a in range(before.size if node < nodes.size else 0):
            for b in range(a, before.size):
                if left < extra.shape[0]:
                    extra[left, node, at] -= before[a] * before[b]
                if entered < extra.shape[0]:
                    extra[entered, node, at] += after[a] * after[b]
                at += 1
        before = after


@njit(cache=True, **LEAN)
def find_moves(
    traced: Indices,
    at: int,
    count: int,
    limits: Limits,
    moves: Moves,
    neurons: Neurons,
    propagators: Floats,
    work: Work,
) -> tuple[int, int, int, float]:
    """Trace neurons, from traced[at] on, through the step, and list their moves from `count` on.

    What the moves change in the groups' second moments at the next node goes into `work.extra`. Return where
    to go on (len(traced): done); the number of moves, `FULL` if the list is too short, `UNSETTLED` if a
    neuron never comes to an end; a group that must be made active first, or -1; the share of the step at
    which the first heavy move happens (`NEVER`: none).
    """
    field, extra, cut = work.field, work.extra, NEVER
    cones, psi = field.rays.shape[0], field.scratch[VECTOR, :3]
    for i in range(at, traced.size):
        j = Signed(traced[i])
        group = group_of(Signed(neurons.slot[j]), cones)
        psi[0], psi[1], psi[2] = present(propagators[group], neurons.theta[j])
        before, start, end = psi, 0.0, count
        while True:
            leaving = _exit(group, before, start, limits[2], field)
            start = leaving[0]
            if start > 1.0:
                break
            if end == moves.neuron.size or end - count == MOST_HOPS:
                return i, FULL if end == moves.neuron.size else UNSETTLED, -1, cut
            after = moves.theta[end]
            target, kind, kink = _hop(j, group, before, leaving, limits[1], after, work)
            if target < 3 * cones and not work.is_active[target]:
                return i, count, target, cut
            if kink * min(KINK, start, 1.0 - start) > limits[0]:
                cut = min(cut, start)
            moves.neuron[end], moves.share[end], moves.kind[end] = j, start, kind
            moves.left[end], moves.entered[end] = group, target
            group, before, end = target, after, end + 1
        _account(count, end, psi, moves, extra, field.grid.nodes)
        count = end
    return traced.size, count, -1, cut


@njit(cache=True, **LEAN)
def list_due(neurons: Neurons, due: Due) -> int:
    """List the neurons that are due, and note the lowest key of the others; return how many they are."""
    number, slots = 0, due.reach.size
    for j in range(neurons.slot.size):
        slot = Signed(neurons.slot[j])
        if slot >= slots or not (due.all_of[slot] or due.some_of[slot]):
            continue
        if due.all_of[slot] or neurons.key[j] < due.reach[slot]:
            neurons.list[number] = j
            number += 1
        else:
            due.rest[slot] = min(due.rest[slot], neurons.key[j])
    return number


@njit(cache=True, **LEAN)
def add_neurons(listed: Indices, neurons: Neurons, groups: Groups) -> None:
    """Add the neurons to the second moments of their groups."""
    cones = groups.moments.shape[0] // 3
    for i in range(listed.size):
        j = Signed(listed[i])
        group = group_of(Signed(neurons.slot[j]), cones)
        if group < groups.moments.shape[0]:
            add_moment(groups.moments[group], neurons.theta[j], 1.0)


@njit(cache=True, **LEAN)
def make_moves(count: int, moves: Moves, neurons: Neurons, groups: Groups) -> None:
    """Let neurons change their groups. In `moves`, θ becomes θ̂ of the new group."""
    total = groups.moments.shape[0]
    for i in range(count):
        j, left, entered = Signed(moves.neuron[i]), Signed(moves.left[i]), Signed(moves.entered[i])
        theta = moves.theta[i]
        if i == 0 or moves.neuron[i - 1] != j:
            groups.counts[left] -= 1
            if left < total:
                add_moment(groups.moments[left], neurons.theta[j], -1.0)
        if entered < total:
            p = groups.propagators[entered]
            theta[0], theta[1], theta[2] = referred(p, theta[0], theta[1], theta[2])
        if i == count - 1 or moves.neuron[i + 1] != j:
            kept = neurons.theta[j]
            kept[0], kept[1], kept[2] = theta[0], theta[1], theta[2]
            neurons.slot[j] = slot_of(entered, 1.0, total // 3)
            groups.counts[entered] += 1
            if entered < total:
                add_moment(groups.moments[entered], kept, 1.0)


@njit(**ONCE)
def _key(w0: float, w1: float, a: float, group: int, slot: int, groups: Groups, problem: Problem) -> float:
    """Return the key of a neuron: where its slot's clock may go before anything can happen to it."""
    cones, clock = problem.rays.shape[0], groups.clocks[slot]
    if w0 == 0.0 and w1 == 0.0 and a == 0.0:
        return inf
    if group < cones:
        return float(certificate(w0, w1, a, group, groups.bits[slot], clock, problem.walls))
    wall = (group - cones) // 2
    along = w0 * problem.rays[wall, 0] + w1 * problem.rays[wall, 1]
    return float(clock + patience(along, a))


@njit(cache=True, **LEAN)
def file(listed: Indices, neurons: Neurons, groups: Groups, problem: Problem) -> None:
    """Give the neurons of this list their slots and keys."""
    cones = problem.rays.shape[0]
    for i in range(listed.size):
        j = Signed(listed[i])
        group = group_of(Signed(neurons.slot[j]), cones)
        if group >= 3 * cones:
            neurons.slot[j], neurons.key[j] = group + cones, inf
            continue
        w0, w1, a = present(groups.propagators[group], neurons.theta[j])
        slot = slot_of(group, a, cones)
        key = _key(w0, w1, a, group, slot, groups, problem)
        neurons.slot[j], neurons.key[j] = slot, key
        groups.lowest[slot] = min(groups.lowest[slot], key)


@njit(cache=True, **LEAN)
def neurons_now(theta: Floats, slots: Indices, propagators: Floats, now: Floats) -> None:
    """Set now (m, 3) to (w, a) of all neurons in the caller's order; the rest as in `flow_state`."""
    groups = propagators.shape[0]
    for j in range(slots.size):
        group = group_of(Signed(slots[j]), groups // 3)
        if group < groups:
            now[j, 0], now[j, 1], now[j, 2] = present(propagators[group], theta[j])
        else:
            now[j, 0], now[j, 1], now[j, 2] = theta[j, 0], theta[j, 1], theta[j, 2]
