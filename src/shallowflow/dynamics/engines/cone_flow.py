"""Gradient flow of a wide `ReLUNetwork` on inputs of the plane: between events the cost is that of the data.

Neurons of one activation cone, and those that slide along one data point, follow one linear map: see
`kernels.cone_flow`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.group_events import GroupEvents, Moves, no_moves
from shallowflow.dynamics.group_recorder import Geometry, GroupStep, Log
from shallowflow.dynamics.outcome import Outcome
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
        from shallowflow.kernels import (
            cone_flow,
            cone_flow_commit,
            cone_flow_state,
            cone_forces,
            cone_geometry,
        )

        self._flow, self._commit, self._memory = cone_flow, cone_flow_commit, cone_flow_state
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
        self._loss = _LossOfPulls(loss, dataset, weight, function[2])
        self._released = self._two_valued = self._most_sliding = self._idle = 0
        self._stalled = False
        self._begin()

    def _begin(self) -> None:
        """Put the neurons into their groups; those that start on a wall or at w = 0 move at once."""
        problem, network = self._problem, self._network
        self._cones = len(problem.rays)
        self._state = self._memory.new_state(network.width, self._cones, len(problem.samples.targets))
        neurons, here = self._state[0], self._state[2].here
        neurons.theta[:, :2], neurons.theta[:, 2] = network.inner / self._root, network.outer
        self._buffer = self._memory.new_moves(network.width + 1024)
        count = self._flow.begin(self._buffer, self._state, problem) if self._cones else 0
        self._buffer.theta[:count] = neurons.theta[self._buffer.neuron[:count]]
        self._start = self.groups()
        self._ahead, self._syncs = self._taken(count, 0.0, 0.0), (np.empty(0, np.int64), np.empty((0, 3, 3)))
        self._counters = np.zeros(5, np.int64)
        scale = float(np.abs(here.pulls).max(initial=0.0)) or 1.0
        fastest = float(np.linalg.norm(here.forces, axis=1).max(initial=0.0)) or 1.0
        longest = float(np.linalg.norm(problem.samples.points, axis=1).max(initial=0.0))
        self._rest = HYSTERESIS * self._tolerance * scale * longest
        self._control = np.array([0.0, 1.0 / fastest, LOCAL * self._tolerance, scale, self._rest])
        self._release(here.forces)

    def groups(self) -> Ints:
        """Return the group of every neuron (`kernels.cone_flow_state`), (m,)."""
        slots = self._state[0].slot.astype(np.int64)
        return np.where(slots < 2 * self._cones, slots // 2, slots - self._cones)

    def geometry(self) -> Geometry:
        """Return what the path of this flow needs to know of the data."""
        gates = np.where(self._names.active, 1.0, self._problem.slope)
        return Geometry(self._start, self._problem.samples.points, gates, self._problem.rays, self._root)

    def network(self) -> ReLUNetwork:
        """Return the current network, its neurons in the caller's order."""
        neurons, groups, _, _ = self._state
        now = np.empty_like(neurons.theta)
        self._flow.neurons_now(neurons.theta, neurons.slot, groups.propagators, now)
        return self._network.moved({"inner": self._root * now[:, :2], "outer": now[:, 2].copy()})

    def advance(self, until: float) -> GroupStep:
        """Make one step, not beyond `until`."""
        start, (_, groups, work, _) = self.time, self._state
        occupied = np.flatnonzero(groups.counts[: 3 * self._cones])
        propagators = groups.propagators[occupied].reshape(-1, 3, 3)
        count, length = self._step(until)
        self._stalled = count < 0
        moves, syncs = self._ahead.then(self._taken(max(count, 0), start, length)), self._syncs
        self.time = until if length == until - start else start + length
        self._control[self._flow.TIME] = self.time
        self._idle = self._idle + 1 if length <= IDLE * self.time else 0
        pulls = work.pulls.copy()
        self._ahead, self._syncs = no_moves(), self._synchronise()
        if not self._stalled:
            self._release(work.forces[-1])
            self._judge(work.forces[-1])
        return GroupStep(
            start,
            self.time,
            self._loss(pulls),
            pulls,
            occupied,
            propagators,
            moves.log,
            *syncs,
            lambda most: self._names.name(moves, most),
            self.network,
        )

    def _step(self, until: float) -> tuple[int, float]:
        """Make one step in the kernel; return the number of moves (negative: there is none), its length."""
        if self._cones == 0:
            return 0, until - self.time
        while True:
            count, length, _ = self._flow.step(
                until, self._control, self._counters, self._buffer, self._state, self._problem
            )
            if count != self._memory.FULL:
                return count, length
            self._buffer = self._memory.new_moves(2 * len(self._buffer.neuron))

    def _taken(self, count: int, start: float, length: float) -> Moves:
        """Return the first moves of the buffer in the order of time."""
        buffer = self._buffer
        order = np.argsort(buffer.share[:count], kind="stable")
        kinds = buffer.kind[:count][order]
        self._two_valued += int(kinds.sum())
        log = Log(
            start + length * buffer.share[:count][order],
            buffer.neuron[:count][order],
            buffer.entered[:count][order],
            buffer.theta[:count][order],
        )
        return Moves(log, buffer.left[:count][order], kinds)

    def _synchronise(self) -> tuple[Ints, Floats]:
        """Re-synchronise groups with an uneven propagator; return them with their matrices."""
        listed, matrices = np.empty(3 * self._cones, np.int64), np.empty((3 * self._cones, 9))
        number = self._commit.synchronise(*self._state[:2], listed, matrices) if self._cones else 0
        return listed[:number], matrices[:number].reshape(-1, 3, 3)

    def _release(self, forces: Floats) -> None:
        """Release what is pulled off; the moves belong to the next step."""
        counts = self._state[1].counts
        sliding = int(counts[self._cones : 3 * self._cones].sum())
        self._most_sliding = max(self._most_sliding, sliding)
        if sliding + int(counts[3 * self._cones :].sum()) == 0:
            return
        if len(self._buffer.neuron) < self._network.width:
            self._buffer = self._memory.new_moves(self._network.width)
        count = self._commit.release(forces, self._rest, self._buffer, self._state, self._problem)
        self._released += count
        self._ahead = self._ahead.then(self._taken(count, self.time, 0.0))

    def _judge(self, forces: Floats) -> None:
        """Note the norm of the gradient, if the run is to end where it is small."""
        if self._stop > 0 and self._cones:
            inner, outer = self._flow.squared_gradient(forces, self._state[1], self._problem.rays)
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
        flow, counters = self._flow, self._counters
        return {
            "sweeps": int(counters[flow.SWEEPS]),
            "attempts": int(counters[flow.ATTEMPTS]),
            "steps cut at events": int(counters[flow.CUTS]),
            "checks": int(counters[flow.CHECKS]),
            "most sliding neurons": self._most_sliding,
            "released": self._released,
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


class _LossOfPulls:
    """The loss from the pulls rate·(−∂ℓ/∂h_k), (q, k) → (q,); points at the origin add a constant."""

    def __init__(self, loss: SquareLoss | LogisticLoss, dataset: Dataset, weight: float, rate: float) -> None:
        self._square, self._weight, self._rate = isinstance(loss, SquareLoss), weight, rate
        resting = dataset.targets[~np.any(dataset.inputs != 0, axis=1)]
        parts = 0.5 * resting**2 if self._square else np.full(len(resting), np.log(2.0))
        self._constant = weight * float(parts.sum())

    def __call__(self, pulls: Floats) -> Floats:
        slopes = pulls / self._rate
        # Of the logistic loss ln(1 + e^-m) the slope is p = 1/(1 + e^m), up to sign: it is -ln(1 - p).
        parts = 0.5 * slopes**2 if self._square else -np.log1p(-np.abs(slopes))
        losses: Floats = self._weight * parts.sum(axis=1) + self._constant
        return losses
