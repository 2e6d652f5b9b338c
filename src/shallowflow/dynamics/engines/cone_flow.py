"""Gradient flow of a wide `ReLUNetwork` on inputs of the plane: between events the cost is that of the data.

Neurons of one activation cone, and those that slide along one data point, follow one linear map: see
`kernels.cones.flow_step`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.group_events import GroupEvents, GroupMoves, no_moves
from shallowflow.dynamics.group_recorder import Geometry, GroupStep, Log
from shallowflow.dynamics.outcome import Outcome
from shallowflow.kernels.cones import flow_groups as groupwise
from shallowflow.kernels.cones import flow_state as cone_flow_state
from shallowflow.kernels.cones import flow_trace as keys
from shallowflow.kernels.cones import flow_walls as release
from shallowflow.kernels.cones import geometry as cone_forces
from shallowflow.kernels.cones import geometry as cone_geometry
from shallowflow.kernels.cones.flow_step import ConeStepper
from shallowflow.kernels.cones.flow_walls import uniform
from shallowflow.kernels.cones.groups import MAX_SPREAD
from shallowflow.models.loss import LogisticLoss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

LOCAL = 0.1
"""Tolerance of one step, as a share of the tolerance asked for."""
HYSTERESIS = 10.0
"""A sliding group is released when it is pulled off faster than so many tolerances × the largest pull."""
IDLE, MOST_IDLE = 1e-13, 200
"""So many steps in a row, each this short against the time reached, are a standstill."""


class ConeFlow:
    """Follow w' = speed·epsilon·a D, a' = speed·<w, D> by groups of neurons, one step at a time (d = 2).

    The ratio epsilon is absorbed: inputs √epsilon·x, inner weights w/√epsilon.
    """

    name = "cones"

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss | LogisticLoss,
        speed: float,
        epsilon: float,
        tolerance: float,
        stop: float,
    ) -> None:
        self.time, self._network, self._root = 0.0, network, float(np.sqrt(epsilon))
        self._speed, self._tolerance, self._stop, self._slowest = speed, tolerance, stop, np.inf
        weight = loss.weight(dataset.size) if isinstance(loss, SquareLoss) else 1.0 / dataset.size
        kind = cone_forces.SQUARE if isinstance(loss, SquareLoss) else cone_forces.LOGISTIC
        inputs = self._root * dataset.inputs
        walls, samples = cone_geometry.arrange(inputs, np.array(dataset.targets))
        function = kind, float(network.scale), float(speed * network.scale * weight)
        rays = cone_flow_state.rays_of(walls)
        self._problem = cone_flow_state.Problem(walls, samples, rays, float(network.slope), function)
        self._names = GroupEvents(inputs, samples, len(rays), network.slope)
        self._gates = np.where(self._names.active, 1.0, network.slope)
        self._loss = _LossAtNodes(loss, dataset, weight, samples.targets)
        self._released_count = self._two_valued = self._most_sliding = self._idle = 0
        self._stalled = False
        self._begin()

    def _begin(self) -> None:
        """Put the neurons into their groups; those that start on a wall or at w = 0 move at once."""
        problem, network = self._problem, self._network
        self._cones = len(problem.rays)
        self._state = cone_flow_state.new_state(network.width, problem)
        neurons, _, work, _ = self._state
        neurons.theta[:, :2], neurons.theta[:, 2] = network.inner / self._root, network.outer
        moves = self._distribute() if self._cones else no_moves()
        self._start = self.groups()
        self._syncs = np.empty(0, np.int64), np.empty((0, 3, 3))
        scale = float(np.abs(work.here.pulls).max(initial=0.0)) or 1.0
        fastest = float(np.linalg.norm(work.here.forces, axis=1).max(initial=0.0)) or 1.0
        longest = float(np.linalg.norm(problem.samples.points, axis=1).max(initial=0.0))
        self._rest = HYSTERESIS * self._tolerance * scale * longest
        self._stepper = ConeStepper(
            self._state,
            problem,
            length=1.0 / fastest,
            tolerance=LOCAL * self._tolerance,
            scale=scale,
            rest=self._rest,
        )
        self._ahead = moves.then(self._released(work.here.forces))

    def _distribute(self) -> GroupMoves:
        """Give every neuron its group and its key; return the moves of those that start on a wall."""
        problem, (neurons, groups, work, _) = self._problem, self._state
        cone, wall = release.starting_cones(neurons.theta[:, :2], problem)
        inside = cone >= 0
        for axis in range(2):
            products = (neurons.theta[:, axis] * neurons.theta[:, 2])[inside]
            work.here.moments[:, axis] = np.bincount(cone[inside], products, self._cones)
        cone_forces.set_forces(work.here, problem.samples, problem.slope, problem.loss)
        group = np.where(inside, cone, 3 * self._cones + (neurons.theta[:, 2] < 0.0))
        starting, kinds = np.flatnonzero(wall >= 0), list[int]()
        for j in starting.tolist():
            side, kind = release.beside_wall(j, wall[j], neurons.theta[j, 2], work.here.forces, problem)
            group[j] = side
            kinds.append(kind)
            if side >= self._cones:
                ray = problem.rays[wall[j]]
                neurons.theta[j, :2] = (neurons.theta[j, :2] @ ray) * ray
        neurons.slot[:] = groupwise.slots_of(group, neurons.theta[:, 2], self._cones)
        # Neurons with w = 0 and a = 0 never move; they are in no group.
        alive = neurons.theta.any(axis=1)
        groups.counts[:] = np.bincount(group[alive], minlength=len(groups.counts))
        groupwise.clear(np.arange(3 * self._cones), groups)
        groupwise.watch(np.arange(self._cones), work.here.forces, groups, problem.walls.normals)
        everyone = np.arange(len(group), dtype=np.int32)
        keys.add_neurons(everyone, neurons, groups)
        keys.file(everyone, neurons, groups, problem)
        self._two_valued += sum(kinds)
        log = Log(np.zeros(len(starting)), starting, group[starting], neurons.theta[starting])
        return GroupMoves(log, cone[starting], np.array(kinds, np.int64))

    def groups(self) -> Ints:
        """Return the group of every neuron (`kernels.cones.flow_state`), (m,)."""
        slots = self._state[0].slot.astype(np.int64)
        return np.where(slots < 2 * self._cones, slots // 2, slots - self._cones)

    def geometry(self) -> Geometry:
        """Return what the path of this flow needs to know of the data."""
        points = self._problem.samples.points
        return Geometry(self._start, points, self._gates, self._problem.rays, self._root)

    def _predictions(self) -> Floats:
        """Return the predictions at the nodes of the last step, (q, k)."""
        scale, points = float(self._network.scale), self._problem.samples.points
        return groupwise.predictions(self._gates, scale, self._state[2], points)

    def network(self) -> ReLUNetwork:
        """Return the current network, its neurons in the caller's order."""
        neurons, groups, _, _ = self._state
        now = np.empty_like(neurons.theta)
        keys.neurons_now(neurons.theta, neurons.slot, groups.propagators, now)
        return self._network.moved({"inner": self._root * now[:, :2], "outer": now[:, 2].copy()})

    def advance(self, until: float) -> GroupStep:
        """Make one step, not beyond `until`."""
        start, (_, groups, work, _) = self.time, self._state
        occupied = np.flatnonzero(groups.counts[: 3 * self._cones])
        propagators = groups.propagators[occupied].reshape(-1, 3, 3)
        count, length = self._stepper.make(start, until - start) if self._cones else (0, until - start)
        self._stalled = count < 0
        moves, syncs = self._ahead.then(self._taken(max(count, 0), start, length)), self._syncs
        self.time = until if length == until - start else start + length
        self._idle = self._idle + 1 if length <= IDLE * self.time else 0
        pulls = work.pulls.copy()
        self._ahead, self._syncs = no_moves(), self._synchronise()
        if not self._stalled:
            self._ahead = self._released(work.field.forces[-1])
            self._judge(work.field.forces[-1])
        return GroupStep(
            start,
            self.time,
            self._loss(self._predictions()),
            pulls,
            occupied,
            propagators,
            moves.log,
            *syncs,
            lambda most: self._names.name(moves, most),
            self.network,
        )

    def _taken(self, count: int, start: float, length: float) -> GroupMoves:
        """Return the moves of the step in the order of time."""
        moves = self._stepper.moves
        order = np.argsort(moves.share[:count], kind="stable")
        kinds = moves.kind[:count][order]
        self._two_valued += int(kinds.sum())
        log = Log(
            start + length * moves.share[:count][order],
            moves.neuron[:count][order],
            moves.entered[:count][order],
            moves.theta[:count][order],
        )
        return GroupMoves(log, moves.left[:count][order], kinds)

    def _synchronise(self) -> tuple[Ints, Floats]:
        """Re-synchronise groups with an uneven propagator; return them with their matrices."""
        neurons, groups, _, _ = self._state
        spreads = groupwise.spreads(groups)
        if spreads.max(initial=0.0) <= MAX_SPREAD:
            return np.empty(0, np.int64), np.empty((0, 3, 3))
        uneven = np.flatnonzero(spreads > 0.5 * MAX_SPREAD)
        matrices = groups.propagators[uneven].reshape(-1, 3, 3)
        theirs, of_all = np.isin(np.arange(len(groups.counts)), uneven), self.groups()
        members = np.flatnonzero(theirs[of_all]).astype(np.int32)
        neurons.theta[members] = groupwise.here(of_all[members], neurons.theta[members], groups.propagators)
        groups.propagators[uneven], groups.moments[uneven] = groupwise.IDENTITY, 0.0
        keys.add_neurons(members, neurons, groups)
        return uneven, matrices

    def _released(self, forces: Floats) -> GroupMoves:
        """Release what is pulled off, at once; the moves belong to the next step."""
        neurons, groups, _, _ = self._state
        waiting = groups.counts[self._cones :]
        self._most_sliding = max(self._most_sliding, int(waiting[:-2].sum()))
        if not waiting.any():
            return no_moves()
        targets, ways = release.released(groups.counts, forces, self._rest, self._problem)
        if not ways.any():
            return no_moves()
        of_all = self.groups()
        leaving = np.flatnonzero((ways[of_all] > 0) & neurons.theta.any(axis=1)).astype(np.int32)
        left = of_all[leaving]
        entered, either = targets[left], (ways[left] == 2) & (left < 3 * self._cones)
        drawn = np.flatnonzero(either)[[uniform(j) < 0.5 for j in leaving[either]]]
        entered[drawn] = (entered[drawn] - 1) % self._cones
        self._stepper.move_at_once(leaving, left, entered, ways[left] > 1)
        groupwise.clear(np.unique(left[groups.counts[left] == 0]), groups)
        cones = np.unique(entered[entered < self._cones])
        groupwise.watch(cones, forces, groups, self._problem.walls.normals)
        keys.file(leaving, neurons, groups, self._problem)
        self._released_count += len(leaving)
        return self._taken(len(leaving), self.time, 0.0)

    def _judge(self, forces: Floats) -> None:
        """Note the norm of the gradient, if the run is to end where it is small."""
        if self._stop > 0 and self._cones:
            inner, outer = groupwise.squared_gradient(forces, self._state[1], self._problem.rays)
            self._slowest = float(np.sqrt(inner / self._root**2 + outer)) / self._speed

    def verdict(self) -> Outcome | None:
        """Return why the flow cannot go on, or None while it can."""
        if self._stalled or self._idle > MOST_IDLE:
            return Outcome(
                "stalled",
                f"the integrator found no step at t = {self.time:.6g}.",
                "another tolerance, engine='dense', or another initial network.",
            )
        if self._slowest <= self._stop:
            return Outcome("converged", f"the gradient fell to {self._slowest:.3g} at t = {self.time:.6g}.")
        return None

    def statistics(self) -> dict[str, float | int | str]:
        """Return what the engine counted, and what it can promise."""
        counters = self._stepper.counters
        return {
            "sweeps": counters.sweeps,
            "attempts": counters.attempts,
            "steps cut at events": counters.cuts,
            "checks": counters.checks,
            "most sliding neurons": self._most_sliding,
            "released": self._released_count,
            "two-valued": self._two_valued,
            "accuracy": self._promise(),
        }

    def _promise(self) -> str:
        """Say what the tolerance means in this run."""
        if self._two_valued:
            return f"one of several solutions: {self._two_valued} neurons took one of two ways"
        if self._most_sliding:
            return f"tolerance where no neuron slides; groups are released at a speed of {self._rest:.1g}"
        return "tolerance"


class _LossAtNodes:
    """The loss at the nodes of a step, from predictions (q, k); points at the origin add a constant."""

    def __init__(
        self, loss: SquareLoss | LogisticLoss, dataset: Dataset, weight: float, targets: Floats
    ) -> None:
        self._square, self._weight, self._targets = isinstance(loss, SquareLoss), weight, targets
        resting = dataset.targets[~np.any(dataset.inputs != 0, axis=1)]
        self._constant = float(self._sum(np.zeros_like(resting), resting))

    def _sum(self, values: Floats, targets: Floats) -> Floats:
        parts = 0.5 * (values - targets) ** 2 if self._square else np.logaddexp(0.0, -values * targets)
        return np.asarray(self._weight * parts.sum(axis=-1))

    def __call__(self, values: Floats) -> Floats:
        return self._sum(values, self._targets) + self._constant
