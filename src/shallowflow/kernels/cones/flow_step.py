"""One step of the gradient flow of a ReLU network on inputs of the plane, by groups of neurons.

Model ([early_alignment], (1) and the minimal-norm subgradient D; square or logistic loss, leaky slope γ):

    h(x) = Σ_j a_j σ(<w_j, x>),     w_j' = a_j D_j,    a_j' = <w_j, D_j>,    D_j = Σ_k η_jk g_k x_k.

Neurons of one cone, or sliding along one wall, share D (`kernels.cones.flow_state`). A step [t, t + H]:

1. solve the collocation equations for the groups' propagators on 12 nodes (`kernels.cones.flow_state`);
   shorten H until sweeps converge and the polynomials miss less than the tolerance;
2. list the neurons whose keys are due, trace them through the step, and account for their moves in the
   groups' moments; repeat 1 and 2 until forces and moves agree;
3. if a heavy neuron meets a wall, a sliding group is pulled off or resting neurons find a way downhill, cut
   the step there and solve it again;
4. make the moves and go on.

Compiled is what runs over neurons and what is swept; the rest runs over groups, which are few.

**Following neurons**: which walls they meet, when, and where they go. Within a step a neuron
of group g is Φ_g(s) ψ; ψ is its value at the start, or what that would have been had it always been there. In
a cone its distance to a wall is a polynomial in s whose first zero is located; along a wall it follows the
hyperbolic rotation by Λ, and leaves where Λ passes ∓artanh of the ratio of ω and a. What it does there:
`flow_walls`.

A neuron that meets a wall changes predictions with a kink of slope ~ a² G. If that matters for the tolerance,
the step must end there; if not, it is accounted for within the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, inf

import numpy as np
from numba import njit

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.cones import flow_groups as groupwise
from shallowflow.kernels.cones import flow_walls as release
from shallowflow.kernels.cones.exits import Indices, certificate
from shallowflow.kernels.cones.flow_state import (
    FLOOR,
    FULL,
    MATRIX,
    NEVER,
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
    State,
    Work,
    boost,
    first_zero,
    group_of,
    new_moves,
    sign_of,
    slot_of,
    solve,
    sweep_group,
    value_at,
    weights_at,
)
from shallowflow.kernels.cones.flow_walls import NOISE, ends_sliding, meets_wall
from shallowflow.kernels.cones.geometry import LOGISTIC
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


MOST_ATTEMPTS, MOST_PASSES = 100, 8
SHORTEST = 1e-15
OVERSHOOT, FARTHEST = 1e-9, 0.1
"""A step is cut this share of its length behind the event, which then happens within it; a step that has
become so short by cuts is not cut again. If nothing happens in it (a neuron that just touches its wall), the
next one is cut ten times as far behind, and so on."""
PICARD_SHARE, MOVES_SHARE = 0.01, 0.1
"""What sweeps, and what moves, may leave undone, as shares of the tolerance."""
MANY_SWEEPS = 22


@dataclass
class Counters:
    """What a run counted."""

    sweeps: int = 0
    attempts: int = 0
    cuts: int = 0
    checks: int = 0


class ConeStepper:
    """Makes steps; keeps the length to try next and a list of moves that grows when it is full.

    tolerance: of a step, relative to `scale`, the size of the pulls; rest: see `kernels.cones.flow_walls`.
    """

    def __init__(
        self, state: State, problem: Problem, *, length: float, tolerance: float, scale: float, rest: float
    ) -> None:
        self._state, self._problem, self._length = state, problem, length
        self._tolerance, self._scale, self._rest = tolerance, scale, rest
        self.moves, self.counters = new_moves(len(state[0].slot) + 1024), Counters()
        self._beyond = OVERSHOOT
        self._usual = self._aim = max(PICARD_SHARE * tolerance, FLOOR)

    def is_still(self, reach: Floats, largest: float) -> bool:
        """Whether nothing is left of the forces after the last step but rounding.

        Pulls are known up to the share `aim` of their scale that the sweeps leave undone. When no force is
        larger than that, the sweeps of the next steps go on to rounding, which tells the rest of a force that
        decays from one that only a weak sample exerts; what is then not larger than rounding is none. reach:
        `flow_groups.stillness`; largest: the largest pull of a prediction or target.

        Pulls of the logistic loss fall for ever: there forces must cancel beside the pulls of now.
        """
        _, groups, work, _ = self._state
        found = groupwise.stillness(groups, work, reach, self._problem.rays)
        if self._problem.loss[0] == LOGISTIC:
            return found <= self._usual * float(np.abs(work.pulls[-1]).max())
        finest = min(10.0 * FLOOR * max(1.0, largest / self._scale), self._usual)
        self._aim = finest if found <= self._usual * self._scale else self._usual
        return found <= finest * self._scale

    def move_at_once(self, neurons: Indices, left: Ints, entered: Ints, two_valued: Bools) -> None:
        """Let neurons change their groups between two steps; the moves are listed with share 0."""
        among, groups, count = self._state[0], self._state[1], len(neurons)
        if count > len(self.moves.neuron):
            self.moves = new_moves(count)
        moves = self.moves
        moves.neuron[:count], moves.left[:count], moves.entered[:count] = neurons, left, entered
        moves.share[:count], moves.kind[:count] = 0.0, two_valued
        moves.theta[:count] = groupwise.here(left, among.theta[neurons], groups.propagators)
        make_moves(count, moves, among, groups)

    def make(self, time: float, remaining: float) -> tuple[int, float]:
        """Make one step from `time` on, not longer than `remaining`.

        Return the number of moves, -1 if no step could be made, and the length of the step.
        """
        neurons, groups, work, _ = self._state
        length, uncut = min(self._length, remaining), 0.0
        number = groupwise.begin_step(groups, work)
        for _ in range(MOST_ATTEMPTS):
            self.counters.attempts += 1
            if length == 0.0 or SHORTEST * time >= length < remaining:
                return -1, 0.0
            sweeps, error, _ = self._solved(number, length)
            due, listed = None, neurons.list[:0]
            count, cut, when = UNSETTLED, NEVER, np.empty(0)
            if error <= 1.0:
                due = groupwise.find_due(number, length, groups, work)
                if due.all_of.any() or due.some_of.any():
                    listed = neurons.list[: list_due(neurons, due)]
                count, number, cut, when, error = self._settled(listed, number, length, error)
            beyond = self._beyond
            shortest = length <= 2.0 * beyond * uncut or length <= SHORTEST / OVERSHOOT * time
            if cut <= 1.0 - 2.0 * beyond and not shortest:
                uncut = max(uncut, length * min(1.0, max(MANY_SWEEPS / sweeps, 0.7)))
                self.counters.cuts += 1
                share = max(cut, 0.0) + beyond
                groupwise.shorten(share, number, work)
                length *= share
                continue
            if due is None or count < 0 or error > 1.0:
                length, uncut = length * _factor(error), 0.0
                groupwise.restart(number, work)
                continue
            if count:
                # The moves changed the forces, and with them how far the clocks went.
                due = due.reaching(groupwise.find_due(number, length, groups, work))
            make_moves(count, self.moves, neurons, groups)
            groupwise.advance(number, due, when, groups, work)
            file(listed, neurons, groups, self._problem)
            self._beyond = OVERSHOOT if count or not uncut else min(10.0 * beyond, FARTHEST)
            grown = length * min(2.0, _factor(error), max(MANY_SWEEPS / sweeps, 0.7))
            self._length = max(grown, uncut, self._length if length == remaining else 0.0)
            return count, length
        return -1, 0.0

    def _solved(self, number: int, length: float) -> tuple[int, float, float]:
        """Solve the step for the moves known; return the sweeps, the error in tolerances, and the change."""
        _, _, work, rule = self._state
        sweeps, change = solve(number, length, self._aim, self._scale, work, rule, self._problem)
        self.counters.sweeps += sweeps
        if sweeps == 0:
            return 0, np.inf, np.inf
        return sweeps, groupwise.missed(number, self._scale, work, rule.tail) / self._tolerance, change

    def _settled(
        self, listed: Indices, number: int, length: float, error: float
    ) -> tuple[int, int, float, Floats, float]:
        """Find all moves of the step, and with them its forces, until neither changes the other.

        Return the numbers of moves and of active groups, the share at which the step must be cut, when groups
        get their first neurons, and the error.
        """
        _, groups, work, rule = self._state
        enough = max(MOVES_SHARE * self._tolerance, 10.0 * FLOOR)
        self.counters.checks += len(listed)
        traced, found = listed, number
        for passes in range(MOST_PASSES):
            count, found, cut = self._found(traced, found, length)
            if count < 0:
                break
            when = groupwise.entries(count, self.moves, groups.counts)
            cut = min(cut, release.first_release(found, when, self._rest, work, rule, self._problem))
            if cut <= 1.0 or (count == 0 and passes == 0):
                return count, found, cut, when, error
            # A neuron that only now comes to graze a wall is found there at the start of the next step.
            traced = groupwise.movers(count, self.moves)
            active = work.active[:found]
            work.extra[active] = np.cumsum(work.extra[active], axis=1)
            sweeps, error, change = self._solved(found, length)
            if sweeps == 0:
                break
            if change <= enough:
                return count, found, cut, when, error
        return UNSETTLED, found, NEVER, np.empty(0), np.inf

    def _found(self, traced: Indices, number: int, length: float) -> tuple[int, int, float]:
        """Trace neurons through the step; return the numbers of moves and groups, and where to cut it."""
        neurons, groups, work, rule = self._state
        rays, (_, scale, rate) = self._problem.rays, self._problem.loss
        # A tiny output factor: no move can be felt.
        felt = abs(scale) * rate * length
        limits = self._tolerance * self._scale / felt if felt > 0 else np.inf, self._rest, length
        groupwise.set_facets(work.active[:number], length, work.field)
        work.extra[work.active[:number]] = 0.0
        at, count, cut = 0, 0, NEVER
        while at < len(traced) and count >= 0:
            at, count, missing, heavy = find_moves(
                traced,
                at,
                count,
                limits,
                self.moves,
                neurons,
                groups.propagators,
                work,
            )
            cut = min(cut, heavy)
            if missing >= 0:
                number = groupwise.activate(missing, number, work)
                sweep_group(missing, length, work, rule, rays)
                groupwise.set_facets(work.active[number - 1 : number], length, work.field)
        if count == FULL:
            self.moves = new_moves(2 * len(self.moves.neuron))
            return self._found(traced, number, length)
        return count, number, cut


def _factor(error: float) -> float:
    """Return by how much to change the length of a step, for an error in units of the tolerance."""
    if not error < 1e12:
        return 0.5
    return float(max(0.9 * max(error, 1e-12) ** (-1.0 / 11.0), 0.1))
