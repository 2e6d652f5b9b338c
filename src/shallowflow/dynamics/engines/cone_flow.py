"""Gradient flow of a wide `ReLUNetwork` on inputs of the plane: between events the cost is that of the data.

Neurons of one activation cone, and those that slide along one data point, follow one linear map: see
`kernels.cones.flow_step`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import GroupPath, Indices, lobatto_nodes
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop
from shallowflow.kernels.cones import flow_groups as groupwise
from shallowflow.kernels.cones import flow_state, geometry
from shallowflow.kernels.cones import flow_walls as release
from shallowflow.kernels.cones.flow_step import ConeStepper, add_neurons, file, neurons_now
from shallowflow.kernels.cones.flow_walls import uniform
from shallowflow.kernels.cones.groups import MAX_SPREAD
from shallowflow.models.loss import LogisticLoss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

LOCAL, SMALLEST = 0.1, 1e-13
"""Tolerance of one step, as a share of the tolerance asked for; what rounding lets it be."""
HYSTERESIS = 10.0
"""A sliding group is released when it is pulled off faster than so many tolerances × the largest pull."""
IDLE, MOST_IDLE = 1e-13, 200
"""So many steps in a row, each this short against the time reached, are a standstill."""


class ConeFlow:
    """Follow w' = speed·epsilon·a D, a' = speed·<w, D> by groups of neurons, one step at a time (d = 2).

    The ratio epsilon is absorbed: inputs √epsilon·x, inner weights w/√epsilon.
    """

    name = "cones"

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = GroupPath

    def __init__(self, task: Task) -> None:
        network, dataset, loss, weight = task.network, task.dataset, task.loss, task.weight
        assert isinstance(network, ReLUNetwork)
        assert isinstance(loss, SquareLoss | LogisticLoss)
        self._time, self._network, self._root = 0.0, network, float(np.sqrt(task.epsilon))
        self._speed, self._tolerance, self._stop = task.speed, task.tolerance, task.stop
        self._even = task.even_tolerance
        kind = geometry.SQUARE if isinstance(loss, SquareLoss) else geometry.LOGISTIC
        inputs = self._root * dataset.inputs
        walls, samples = geometry.arrange(inputs, np.array(dataset.targets))
        function = kind, float(network.scale), float(task.speed * network.scale * weight)
        rays = flow_state.rays_of(walls)
        self._problem = flow_state.Problem(walls, samples, rays, float(network.slope), function)
        self._names = GroupEvents(inputs, samples, len(rays), network.slope)
        self._gates = np.where(self._names.active, 1.0, network.slope)
        self._reach = np.abs(self._gates) @ np.linalg.norm(samples.points, axis=1)
        self._losses = _LossAtNodes(loss, dataset, weight, samples.targets)
        self._loss, self._step = task.measure(network), 0
        self._released_count = self._two_valued = self._most_sliding = self._idle = self._moved = 0
        self._begin()

    def _begin(self) -> None:
        """Put the neurons into their groups; those that start on a wall or at w = 0 move at once."""
        problem, network = self._problem, self._network
        self._cones = len(problem.rays)
        self._still = not self._cones
        self._state = flow_state.new_state(network.width, problem)
        neurons, _, work, _ = self._state
        neurons.theta[:, :2], neurons.theta[:, 2] = network.inner / self._root, network.outer
        moves = self._distribute() if self._cones else no_moves()
        self._start = self._groups()
        self._syncs = np.empty(0, np.int64), np.empty((0, 3, 3))
        scale = float(np.abs(work.here.pulls).max(initial=0.0)) or 1.0
        fastest = float(np.linalg.norm(work.here.forces, axis=1).max(initial=0.0)) or 1.0
        longest = float(np.linalg.norm(problem.samples.points, axis=1).max(initial=0.0))
        self._rest = HYSTERESIS * self._tolerance * scale * longest
        self._stepper = ConeStepper(
            self._state,
            problem,
            length=1.0 / fastest,
            tolerance=max(LOCAL * self._even, SMALLEST),
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
        geometry.set_forces(work.here, problem.samples, problem.slope, problem.loss)
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
        add_neurons(everyone, neurons, groups)
        file(everyone, neurons, groups, problem)
        self._two_valued += sum(kinds)
        none = np.zeros(len(starting))
        entered, theta = group[starting], neurons.theta[starting]
        return GroupMoves(none, starting, entered, theta, cone[starting], np.array(kinds, np.int64))

    def _groups(self) -> Ints:
        """Return the group of every neuron (`kernels.cones.flow_state`), (m,)."""
        slots = self._state[0].slot.astype(np.int64)
        return np.where(slots < 2 * self._cones, slots // 2, slots - self._cones)

    def path(self, times: Floats, rows: Rows) -> GroupPath:
        """Return the path made of these steps."""
        fixed: dict[str, Any] = {
            "start_groups": self._start,
            "points": self._problem.samples.points,
            "seen": self._gates,
            "rays": self._problem.rays,
            "root": self._root,
            "on_lines": self._names.on_lines,
        }
        return GroupPath(self._network, times, **rows, **fixed)

    def _predictions(self) -> Floats:
        """Return the predictions at the nodes of the last step, (q, k)."""
        scale, points = float(self._network.scale), self._problem.samples.points
        return groupwise.predictions(self._gates, scale, self._state[2], points)

    def _largest_pull(self, predictions: Floats) -> float:
        """Return the size of the largest pull that a prediction (k,) or a target alone would exert."""
        sizes = np.maximum(np.abs(predictions), np.abs(self._problem.samples.targets))
        return float(self._problem.loss[2] * sizes.max(initial=0.0))

    def network(self) -> ReLUNetwork:
        """Return the present network, its neurons in the caller's order."""
        neurons, groups, _, _ = self._state
        now = np.empty_like(neurons.theta)
        neurons_now(neurons.theta, neurons.slot, groups.propagators, now)
        return self._network.moved({"inner": self._root * now[:, :2], "outer": now[:, 2].copy()})

    def advance(self, until: float, rows: bool) -> Piece:
        """Make one step, not beyond `until`."""
        start, (_, groups, work, _) = self._time, self._state
        occupied = np.flatnonzero(groups.counts[: 3 * self._cones])
        propagators = groups.propagators[occupied].reshape(-1, 3, 3)
        count, length = 0, until - start
        if self._still:
            work.pulls[:] = 0.0
        else:
            count, length = self._stepper.make(start, length)
        moves, (synced, syncs) = self._ahead.then(self._taken(max(count, 0), start, length)), self._syncs
        self._time = until if length == until - start else start + length
        self._idle = self._idle + 1 if length <= IDLE * self._time else 0
        pulls = work.pulls.copy()
        self._ahead, self._syncs = no_moves(), self._synchronise()
        if count >= 0:
            self._ahead = self._released(work.field.forces[-1])
        predictions = self._predictions()
        losses = self._losses(predictions)
        if self._still:
            losses[:] = self._loss
        self._loss, self._moved = float(losses[-1]), self._moved + len(moves.times)
        if not (self._still or len(moves.times) or len(self._ahead.times)):
            self._still = self._stepper.is_still(self._reach, self._largest_pull(predictions[-1]))
        kept = {} if rows else self._names.rests(moves)
        if rows:
            kept = {
                "pulls": pulls[None],
                "occupied_from": np.array([len(occupied)]),
                "occupied": occupied,
                "propagators": propagators,
                "moves_from": np.array([len(moves.times)]),
                "move_times": moves.times,
                "movers": moves.neurons,
                "targets": moves.groups,
                "references": moves.references,
                "sync_steps": np.full(len(synced), self._step),
                "synced": synced,
                "syncs": syncs,
            }
        self._step += 1
        nodes = start + lobatto_nodes(len(losses))[1:-1] * (self._time - start)
        return Piece(
            np.array([start, self._time]),
            losses[[0, -1]],
            (nodes, losses[1:-1]),
            kept,
            lambda most: self._names.name(moves, most),
            self._why(count < 0, work.field.forces[-1]),
        )

    def _taken(self, count: int, start: float, length: float) -> GroupMoves:
        """Return the moves of the step in the order of time."""
        moves = self._stepper.moves
        order = np.argsort(moves.share[:count], kind="stable")
        kinds = moves.kind[:count][order]
        self._two_valued += int(kinds.sum())
        return GroupMoves(
            start + length * moves.share[:count][order],
            moves.neuron[:count][order],
            moves.entered[:count][order],
            moves.theta[:count][order],
            moves.left[:count][order],
            kinds,
        )

    def _synchronise(self) -> tuple[Ints, Floats]:
        """Re-synchronise groups with an uneven propagator; return them with their matrices."""
        neurons, groups, _, _ = self._state
        spreads = groupwise.spreads(groups)
        if spreads.max(initial=0.0) <= MAX_SPREAD:
            return np.empty(0, np.int64), np.empty((0, 3, 3))
        uneven = np.flatnonzero(spreads > 0.5 * MAX_SPREAD)
        matrices = groups.propagators[uneven].reshape(-1, 3, 3)
        theirs, of_all = np.isin(np.arange(len(groups.counts)), uneven), self._groups()
        members = np.flatnonzero(theirs[of_all]).astype(np.int32)
        neurons.theta[members] = groupwise.here(of_all[members], neurons.theta[members], groups.propagators)
        groups.propagators[uneven], groups.moments[uneven] = groupwise.IDENTITY, 0.0
        add_neurons(members, neurons, groups)
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
        of_all = self._groups()
        leaving = np.flatnonzero((ways[of_all] > 0) & neurons.theta.any(axis=1)).astype(np.int32)
        left = of_all[leaving]
        entered, either = targets[left], (ways[left] == 2) & (left < 3 * self._cones)
        drawn = np.flatnonzero(either)[[uniform(j) < 0.5 for j in leaving[either]]]
        entered[drawn] = (entered[drawn] - 1) % self._cones
        self._stepper.move_at_once(leaving, left, entered, ways[left] > 1)
        groupwise.clear(np.unique(left[groups.counts[left] == 0]), groups)
        cones = np.unique(entered[entered < self._cones])
        groupwise.watch(cones, forces, groups, self._problem.walls.normals)
        file(leaving, neurons, groups, self._problem)
        self._released_count += len(leaving)
        return self._taken(len(leaving), self._time, 0.0)

    def _why(self, stalled: bool, forces: Floats) -> Stop | None:
        """Return why the flow cannot or need not go on, or None while it can."""
        if stalled or self._idle > MOST_IDLE:
            return Stop("no step by groups", {"time": self._time})
        if self._stop > 0 and self._cones:
            inner, outer = groupwise.squared_gradient(forces, self._state[1], self._problem.rays)
            norm = float(np.sqrt(inner / self._root**2 + outer)) / self._speed
            if norm <= self._stop:
                return Stop("small gradient", {"norm": norm, "time": self._time})
        return None

    def loss(self) -> float:
        """Return the present loss."""
        return self._loss

    def statistics(self) -> Statistics:
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
            "segments": self._step,
            "events": self._moved,
        }

    def _promise(self) -> str:
        """Say what the tolerance means in this run."""
        if self._two_valued:
            return f"one of several solutions: {self._two_valued} neurons took one of two ways"
        if self._most_sliding:
            return f"tolerance where no neuron slides; groups are released at a speed of {self._rest:.1g}"
        return "tolerance"


@dataclass(frozen=True)
class GroupMoves:
    """Changes of group in the order of time: times, neurons, groups entered, θ̂ there (`GroupPath`), groups
    left, and whether the way was one of several.
    """

    times: Floats
    neurons: Indices
    groups: Indices
    references: Floats
    left: Indices
    two_valued: Indices

    def then(self, later: GroupMoves) -> GroupMoves:
        """Return these moves followed by later ones."""
        both = zip(vars(self).values(), vars(later).values(), strict=True)
        return GroupMoves(*(np.concatenate(pair) for pair in both))


def no_moves() -> GroupMoves:
    """Return an empty list of moves."""
    none = np.empty(0, np.int32)
    return GroupMoves(np.empty(0), none, none, np.empty((0, 3)), none, none)


class GroupEvents:
    """Names moves between groups (`kernels.cones.flow_state`) by the data points that they are about."""

    def __init__(self, inputs: Floats, samples: Any, cones: int, slope: float) -> None:
        lines = max(cones // 2, 1)
        self.cones, self._slope = cones, slope
        turns = (np.arange(cones)[:, None] - samples.walls) % max(cones, 1)
        self.active = turns < lines
        # The samples are the inputs off the origin in another order; equal inputs may be exchanged.
        rows = {row.tobytes(): list[int]() for row in inputs}
        for index in range(len(inputs) - 1, -1, -1):
            rows[inputs[index].tobytes()].append(index)
        self._index = [rows[point.tobytes()].pop() for point in samples.points]
        self._on_line = samples.walls % lines
        self.on_lines = np.full(len(inputs), -1, np.int64)
        self.on_lines[self._index] = self._on_line

    def name(self, moves: GroupMoves, most: int) -> list[Event]:
        """Return the first events of the moves."""
        events = list[Event]()
        changes = (moves.times, moves.neurons, moves.left, moves.groups, moves.two_valued)
        known = dict[tuple[int, int, int], list[tuple[str, int]]]()
        for time, neuron, *change in zip(*(part[:most].tolist() for part in changes), strict=True):
            key = change[0], change[1], change[2]
            if key not in known:
                known[key] = self._names(*key)
            events += [Event(time, kind, neuron, point) for kind, point in known[key]]
        return events[:most]

    def rests(self, moves: GroupMoves) -> Rows:
        """Return the log of the pairs that come to rest on each other, and part, in these moves."""
        times, neurons, points = list[float](), list[int](), list[int]()
        for group, sign in ((moves.left, -1), (moves.groups, 1)):
            for i in np.flatnonzero((group >= self.cones) & (group < 3 * self.cones)).tolist():
                wall = (int(group[i]) - self.cones) // 2
                for k in np.flatnonzero(self.on_lines == wall % (self.cones // 2)).tolist():
                    times.append(float(moves.times[i]))
                    neurons.append(int(moves.neurons[i]))
                    points.append(k if sign > 0 else -1 - k)
        order = np.argsort(times, kind="stable")
        found = np.array(neurons, np.int64)[order], np.array(points, np.int64)[order]
        return {"rest_times": np.array(times)[order], "rest_neurons": found[0], "rest_points": found[1]}

    def _names(self, left: int, entered: int, two_valued: int) -> list[tuple[str, int]]:
        cones = self.cones
        if left < cones and entered < cones:
            if left == entered:
                return []
            changed = np.flatnonzero(self.active[left] != self.active[entered])
            dead = self._slope == 0 and not self.active[entered].any()
            off = "death" if dead else "off"
            return [("on" if self.active[entered, k] else off, self._index[k]) for k in changed]
        kind = "two-valued" if two_valued else "slide" if left < cones else "release"
        if max(left, entered) >= 3 * cones or min(left, entered) >= cones:
            # At w = 0 a neuron lies on the hyperplanes of all data points.
            return [("slide" if entered >= 3 * cones else kind, -1)]
        wall = (max(left, entered) - cones) // 2
        on_wall = np.flatnonzero(self._on_line == wall % (cones // 2))
        return [(kind, self._index[k]) for k in on_wall]


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
