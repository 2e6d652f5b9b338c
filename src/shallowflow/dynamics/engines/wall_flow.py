"""Gradient flow of a `ReLUNetwork` in any dimension: neurons traced exactly between the walls of the data.

See `kernels.walls.step` for the method and `kernels.walls.settle` for what happens at walls, which is the
one rule for starts on walls and at w = 0, too.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import WallPath, moved_in_span
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, flatten
from shallowflow.kernels.walls import field
from shallowflow.kernels.walls.desk import Log, Neurons
from shallowflow.kernels.walls.step import WallStepper, pack
from shallowflow.kernels.walls.stiff import forces
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

SMALLEST_TOLERANCE = 1e-13
IDLE, MOST_IDLE = 1e-13, 200
"""So many steps in a row, each this short against the time reached, are a standstill."""


class WallFlow:
    """Follow w' = −speed·epsilon·a D, a' = −speed·<w, D>, one step at a time.

    The ratio epsilon is absorbed: inputs √epsilon·x, inner weights w/√epsilon.
    """

    name = "walls"

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = WallPath

    def __init__(self, task: Task) -> None:
        network, dataset = task.network, task.dataset
        assert isinstance(network, ReLUNetwork)
        self._network, self._root, self._speed = network, float(np.sqrt(task.epsilon)), float(task.speed)
        self._inputs, self._stop, self._time = dataset.inputs, task.stop, 0.0
        normals, samples, self._kept, self._basis, aligned = field.span_of(
            self._root * dataset.inputs, dataset.targets
        )
        kind, weight, constant = _loss_of(task.loss, dataset)
        scale, slope = float(network.scale), float(network.slope)
        weight *= self._speed
        constant *= 1.0 if kind == field.NORM else self._speed
        problem = field.Problem(normals, samples, int(aligned), scale, slope, weight, kind, constant)
        start = np.ascontiguousarray((network.inner / self._root) @ self._basis)
        self._stepper = WallStepper(
            start, np.array(network.outer), problem, max(task.even_tolerance, SMALLEST_TOLERANCE)
        )
        self._names = WallEvents(problem, self._kept)
        self._length = 0.0
        self._segments = self._events = self._two_valued = self._idle = 0
        self._most_sliding = int((self._stepper.now.signs == 0).any(axis=1).sum())
        self._ahead: WallLog | None = self._names.start(self._stepper.log, self._stepper.now)
        self._count(self._ahead)

    def _count(self, log: WallLog) -> None:
        self._events += len(log.neurons)
        if log.kinds.any():
            self._two_valued += len(np.unique(log.neurons[log.kinds > 0]))

    def advance(self, until: float, rows: bool) -> Piece:
        """Make one step, not beyond `until`."""
        stepper, start = self._stepper, self._time
        length = stepper.make(start, until - start)
        if length == 0.0:
            return Piece(np.array([start]), stop=Stop("no step", {"time": start}))
        self._length, before = length, stepper.before
        self._time = until if length == until - start else start + length
        self._idle = self._idle + 1 if length <= IDLE * self._time else 0
        self._segments += 1
        log = self._names.read(stepper.log, start, length, stepper.now)
        self._count(log)
        if self._ahead is not None:
            log, self._ahead = self._ahead.then(log), None
        if log.held:
            sliding = int((stepper.now.signs == 0).any(axis=1).sum())
            self._most_sliding = max(self._most_sliding, sliding)
        kept = self._names.rests(log)
        if rows:
            kept = kept | {
                "pulls": stepper.trial.pulls[None].copy(),
                "inner": before.inner[None].copy(),
                "outer": before.outer[None].copy(),
                "signs": pack(before.signs)[None],
            }
        return Piece(
            np.array([start, self._time]),
            np.array([stepper.last_loss, stepper.loss]) / self._speed,
            rows=kept,
            events=lambda most: self._names.name(log, most),
            stop=self._why(),
        )

    def _why(self) -> Stop | None:
        """Return why the flow cannot or need not go on, or None while it can."""
        stepper = self._stepper
        if self._idle > MOST_IDLE:
            return Stop("gates chatter", {"time": self._time})
        if self._stop > 0:
            found = forces(stepper.now, stepper.pulls, stepper.problem) / self._speed
            outer = np.einsum("ji,ji->j", stepper.now.inner, found)
            inner = stepper.now.outer[:, None] * found / self._root
            norm = float(np.sqrt(np.sum(inner**2) + np.sum(outer**2)))
            if norm <= self._stop:
                return Stop("small gradient", {"norm": norm, "time": self._time})
        return None

    def read(self, times: Floats, networks: bool) -> tuple[Floats, list[Floats]]:
        """Return losses, and θ if wanted, at times inside the last step."""
        stepper, begun = self._stepper, self._time - self._length
        shares = np.clip((times - begun) / self._length, 0.0, 1.0)
        losses = stepper.look(shares)[1].losses / self._speed
        thetas = list[Floats]()
        for share in shares if networks else ():
            then = stepper.look(np.array([share]))[0]
            thetas.append(
                flatten(moved_in_span(self._network, then.inner, then.outer, self._basis, self._root))
            )
        return losses, thetas

    def loss(self) -> float:
        """Return the present loss."""
        return self._stepper.loss / self._speed

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        if self._time == 0:
            return self._network
        now = self._stepper.now
        return moved_in_span(self._network, now.inner, now.outer, self._basis, self._root)

    def path(self, times: Floats, rows: Rows) -> WallPath:
        """Return the path made of these steps."""
        fixed: dict[str, Any] = {"inputs": self._inputs, "basis": self._basis, "root": self._root}
        return WallPath(self._network, times, **rows, **fixed, rest=self._stepper.rest)

    def statistics(self) -> Statistics:
        """Return what the engine counted, and what it can promise."""
        counters = self._stepper.counters
        return {
            "sweeps": counters.sweeps,
            "attempts": counters.attempts,
            "steps cut at events": counters.cuts,
            "tangent kernels": counters.kernels,
            "most sliding neurons": self._most_sliding,
            "two-valued": self._two_valued,
            "accuracy": self._promise(),
            "segments": self._segments,
            "events": self._events,
        }

    def _promise(self) -> str:
        """Say what the tolerance means in this run."""
        if self._two_valued:
            return f"one of several solutions: {self._two_valued} neurons took one of two ways"
        if self._most_sliding:
            return f"tolerance; sliding neurons are released by a force of {self._stepper.rest:.1g}"
        return "tolerance"


def _loss_of(loss: Loss, dataset: Dataset) -> tuple[int, float, float]:
    """Return the loss as kernels know it, its weight, and what inputs at the origin add to it."""
    resting = dataset.targets[~np.any(dataset.inputs != 0, axis=1)]
    if isinstance(loss, SquareLoss):
        weight = loss.weight(dataset.size)
        return field.SQUARE, weight, 0.5 * weight * float(resting @ resting)
    weight = 1.0 / dataset.size
    if isinstance(loss, LogisticLoss):
        return field.LOGISTIC, weight, weight * len(resting) * float(np.log(2.0))
    return field.NORM, weight, float(resting @ resting)


class WallLog:
    """Changes of signs in the order of time: times (E,), neurons, walls, before, after, kinds (E,); whether
    the neuron is dead after it (E,), and whether it was at w = 0 (E,). held: whether one begins to slide or
    ends to.
    """

    def __init__(self, columns: list[Any]) -> None:
        self.columns = columns
        self.times, self.neurons, self.walls, self.before, self.after, self.kinds, self.dead, self.zero = (
            columns
        )
        self.held = bool(((self.after == 0) | (self.before == 0)).any())

    def then(self, later: WallLog) -> WallLog:
        """Return these changes followed by later ones."""
        return WallLog([np.concatenate(pair) for pair in zip(self.columns, later.columns, strict=True)])


NOTHING = WallLog(
    [np.zeros(0), *(np.zeros(0, np.int64) for _ in range(5)), *(np.zeros(0, np.bool_) for _ in range(2))]
)
NO_RESTS: dict[str, Any] = {
    "rest_times": np.zeros(0),
    "rest_neurons": np.zeros(0, np.int64),
    "rest_points": np.zeros(0, np.int64),
}


class WallEvents:
    """Names changes of signs by the data points that they are about."""

    def __init__(self, problem: field.Problem, kept: Ints) -> None:
        samples = problem.samples
        self._sides, self._sample_walls, self._slope = samples.sides, samples.walls, problem.slope
        self._on_wall = [np.flatnonzero(samples.walls == w) for w in range(len(problem.normals))]
        self._kept = kept
        # The data points on each wall, and their sides.
        self._points = [
            list(zip(kept[found].tolist(), samples.sides[found].tolist(), strict=True))
            for found in self._on_wall
        ]

    def start(self, log: Log, neurons: Neurons) -> WallLog:
        """Return what happened at the start: those that slide, and those that took one of two ways."""
        settled = self.read(log, 0.0, 0.0, neurons)
        chosen = settled.kinds > 0
        settled = WallLog([column[chosen] for column in settled.columns])
        found, walls = np.nonzero((neurons.signs == 0) & neurons.outer[:, None].astype(bool))
        none = np.zeros(len(found), np.int64)
        at_zero = ~neurons.inner[found].any(axis=1)
        resting = [np.zeros(len(found)), found, walls, none - 1, none, none, none > 0, at_zero]
        return settled.then(WallLog(resting))

    def read(self, log: Log, start: float, length: float, neurons: Neurons) -> WallLog:
        """Return the changes of a step in the order of time."""
        order = np.argsort(log.shares[: log.used[0]], kind="stable")
        if not len(order):
            return NOTHING
        chosen = list(log.changes[order].T)
        zero = ~neurons.inner[chosen[0]].any(axis=1)
        dead: NDArray[Any] = np.zeros(len(order), np.bool_)
        if self._slope == 0:
            signs = self._after(chosen[0], chosen[1], chosen[2], neurons.signs)
            # Alive: active on a data point, or sliding.
            idle = (signs[:, self._sample_walls] * self._sides <= 0).all(axis=1)
            dead = np.logical_and(idle, signs.all(axis=1))
        return WallLog([start + length * log.shares[order], *chosen, dead, zero])

    @staticmethod
    def _after(neurons: Ints, walls: Ints, before: Ints, ends: Ints) -> Ints:
        """Return all signs (E, W) of the neuron of each change after it: those at the end of the step (m, W),
        less the later changes.
        """
        signs = ends[neurons]
        if len(set(neurons.tolist())) == len(neurons):
            return signs
        order = np.argsort(neurons, kind="stable")
        of, most = neurons[order], int(np.bincount(neurons).max(initial=0))
        for lag in range(most - 1, 0, -1):  # nearer changes last: they have the last word
            here = np.flatnonzero(of[:-lag] == of[lag:])
            signs[order[here], walls[order[here + lag]]] = before[order[here + lag]]
        return signs

    def name(self, log: WallLog, most: int) -> list[Event]:
        """Return the first events."""
        events = list[Event]()
        at_zero = set[tuple[float, int]]()
        for time, neuron, wall, before, after, two, dead, zero in zip(
            *(column[:most].tolist() for column in log.columns), strict=True
        ):
            kind = "slide" if after == 0 else "release" if before == 0 else ""
            if two and (zero or after != 0):
                kind = "two-valued"
            if zero and kind and len(self._on_wall) > 1:
                # At w = 0 a neuron lies on the hyperplanes of all data points.
                if (time, neuron) not in at_zero:
                    events.append(Event.known(time, kind, neuron, -1))
                at_zero.add((time, neuron))
                continue
            for point, side in self._points[wall]:
                crossing = "on" if side * after > 0 else "death" if dead else "off"
                events.append(Event.known(time, kind or crossing, neuron, point))
        return events[:most]

    def rests(self, log: WallLog) -> dict[str, Any]:
        """Return the log of the pairs that come to rest on each other, and part."""
        if not log.held:
            return NO_RESTS
        found = np.flatnonzero((log.after == 0) | (log.before == 0))
        on_wall = [self._kept[self._on_wall[wall]] for wall in log.walls[found].tolist()]
        found = np.repeat(found, [len(points) for points in on_wall])
        points = np.concatenate([np.zeros(0, np.int64), *on_wall])
        return {
            "rest_times": np.asarray(log.times[found], np.float64),
            "rest_neurons": np.asarray(log.neurons[found], np.int64),
            "rest_points": np.where(log.after[found] == 0, points, -1 - points),
        }
