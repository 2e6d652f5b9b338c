"""One step of the gradient flow of a ReLU network on inputs of the plane, by groups of neurons.

Model ([early_alignment], (1) and the minimal-norm subgradient D; square or logistic loss, leaky slope γ):

    h(x) = Σ_j a_j σ(<w_j, x>),     w_j' = a_j D_j,    a_j' = <w_j, D_j>,    D_j = Σ_k η_jk g_k x_k.

Neurons of one cone, or sliding along one wall, share D (`kernels.cones.flow_state`). A step [t, t + H]:

1. solve the collocation equations for the groups' propagators on 12 nodes (`kernels.cones.flow_state`);
   shorten H until sweeps converge and the polynomials miss less than the tolerance;
2. list the neurons whose keys are due, trace them through the step (`kernels.cones.flow_trace`), and account
   for their moves in the groups' moments; repeat 1 and 2 until forces and moves agree;
3. if a heavy neuron meets a wall, a sliding group is pulled off or resting neurons find a way downhill, cut
   the step there and solve it again;
4. make the moves and go on (`kernels.cones.flow_trace`).

Compiled is what runs over neurons and what is swept; the rest runs over groups, which are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.cones import flow_groups as groupwise
from shallowflow.kernels.cones import flow_trace as keys
from shallowflow.kernels.cones import flow_walls as release
from shallowflow.kernels.cones.collocation import NEVER
from shallowflow.kernels.cones.exits import Indices
from shallowflow.kernels.cones.flow_state import (
    FLOOR,
    FULL,
    UNSETTLED,
    Problem,
    State,
    new_moves,
    solve,
    sweep_group,
)
from shallowflow.kernels.cones.flow_trace import find_moves

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
        """
        found = groupwise.stillness(self._state[1], self._state[2], reach, self._problem.rays) / self._scale
        finest = 10.0 * FLOOR * max(1.0, largest / self._scale)
        still, near = found <= min(finest, self._usual), found <= self._usual
        self._aim = min(finest, self._usual) if near else self._usual
        return still

    def move_at_once(self, neurons: Indices, left: Ints, entered: Ints, two_valued: Bools) -> None:
        """Let neurons change their groups between two steps; the moves are listed with share 0."""
        among, groups, count = self._state[0], self._state[1], len(neurons)
        if count > len(self.moves.neuron):
            self.moves = new_moves(count)
        moves = self.moves
        moves.neuron[:count], moves.left[:count], moves.entered[:count] = neurons, left, entered
        moves.share[:count], moves.kind[:count] = 0.0, two_valued
        moves.theta[:count] = groupwise.here(left, among.theta[neurons], groups.propagators)
        keys.make_moves(count, moves, among, groups)

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
                    listed = neurons.list[: keys.list_due(neurons, due)]
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
            keys.make_moves(count, self.moves, neurons, groups)
            groupwise.advance(number, due, when, groups, work)
            keys.file(listed, neurons, groups, self._problem)
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
