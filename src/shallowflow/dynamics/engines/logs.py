"""ReLU networks on orthogonal data: descent and gradient flow from starts as small as you like.

Descent (`kernels.orthogonal.descent`) costs O(m·n) per step, each neuron with a log-scale of its own. In the
flow (`kernels.orthogonal.flow`) plateaus are leapt over in closed form and jumps are integrated step by step,
so that the cost depends on the number of jumps and not on ln(1/α).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.paths import Replayed, Scaled, log_sizes, relative
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, Ticking
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import (
    BALANCED,
    check_orthogonal,
    check_orthonormal,
    mask_matrix,
    neuron_signs,
    never_fitted,
    unit_inputs,
)
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

NUMBERS_AT_ONCE = 2_000_000
SLACK = 1e-2
"""A residual is settled, a neuron small, at this part of the tolerance."""


class LogDescent(Ticking):
    """w ← w − step·epsilon·∂L/∂w, a ← a − step·∂L/∂a, each neuron with a log-scale of its own."""

    name = "scaled"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.orthogonal import descent

        super().__init__(task.step)
        network, dataset = task.network, task.dataset
        assert isinstance(network, LogScaledNetwork)
        check_orthonormal(dataset, "engine 'scaled'")
        self._kernel, self._start, self._dataset, self._weight = descent, network, dataset, task.weight
        self._rates = task.step * task.epsilon * task.weight, task.step * task.weight
        z = np.ascontiguousarray(network.preactivations(dataset.inputs))
        self._neurons = descent.LogNeurons(z, network.outer.copy(), network.log_scales.copy())
        self._targets = dataset.targets.copy()

    def _steps(self, count: int) -> int:
        return int(self._kernel.descend(self._neurons, self._targets, self._rates, count, np.empty(0)))

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        return self._weight * float(self._kernel.log_loss_now(self._neurons, self._targets))

    def network(self) -> LogScaledNetwork:
        """Return the present network; the part of the weights orthogonal to the data has not moved."""
        if self.made == 0:
            return self._start
        inputs = self._dataset.inputs
        rest = self._start.inner - self._start.preactivations(inputs) @ inputs
        z, outer, log_scales = self._neurons
        kept = np.exp(np.minimum(self._start.log_scales - log_scales, 700.0))
        return self._start.moved(
            {
                "inner": z @ inputs + kept[:, None] * rest,
                "outer": outer.copy(),
                "log_scales": log_scales.copy(),
            }
        )


class LogFlow:
    """Follow θ' = −speed·∇L(θ) with neurons kept as log-norm and direction; inputs may have any norms."""

    name = "leaps"
    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Replayed

    def __init__(self, task: Task) -> None:
        network, dataset = task.network, task.dataset
        assert isinstance(network, Scaled)
        check_orthogonal(dataset, "the flow by leaps")
        self._signs, start = neuron_signs(network), relative(network)
        excess = float(np.max(np.linalg.norm(start, axis=1)))
        if excess > 1 + BALANCED:
            raise InvalidInputError(
                f"network: the flow by leaps needs ‖w_j‖ ≤ |a_j|, got a ratio of {excess:.6g}"
            )
        self._network, self._dataset, self._weight = network, dataset, task.weight
        scale = network.scale if isinstance(network, ReLUNetwork) else 1.0
        self._rate, self._tolerance = task.speed * task.weight * scale, task.tolerance
        units, self._norms = unit_inputs(dataset.inputs)
        self._targets = dataset.targets
        self._rho = np.ascontiguousarray(log_sizes(network))
        self._g = np.ascontiguousarray(np.maximum(start @ units.T, 0.0))
        self._time = self._step = 0.0
        self._loss = task.measure(network)
        self._counts, self._events = np.zeros(4, np.int64), 0

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by at most 256 steps or leaps."""
        from shallowflow.kernels.orthogonal.flow import Clock, integrate
        from shallowflow.kernels.orthogonal.step import problem_of

        start, before = self._time, _states(self._rho[None], self._g[None])
        capacity = max(8, min(256, NUMBERS_AT_ONCE // self._g.size))
        tiny = SLACK * self._tolerance
        problem = problem_of(self._signs, self._targets, self._rate, tiny, self._norms)
        clock = Clock(start, until, self._step)
        status, clock, made = integrate(self._rho, self._g, problem, clock, self._tolerance, capacity)
        self._time, self._step = float(clock.time), float(clock.h)
        self._counts += made.counts[: len(self._counts)]
        self._events += len(made.event_times)
        event_times, events = made.event_times, made.events
        times = np.append(start, made.times)
        path = self.path(times, {"values": np.concatenate([before, _states(made.rho, made.g)])})
        losses = 0.5 * self._weight * np.sum((path.predictions() - self._targets) ** 2, axis=1)
        self._loss = float(losses[-1])

        def named(most: int) -> list[Event]:
            order = np.argsort(event_times, kind="stable")[:most]
            return [Event(float(event_times[i]), "off", *map(int, events[i])) for i in order]

        return Piece(times, losses, None, {"values": path.values}, named, self._why(int(status)))

    def _why(self, status: int) -> Stop | None:
        from shallowflow.kernels.orthogonal.flow import NOT_FINITE, OUT_OF_ROOM, STALLED

        if status == OUT_OF_ROOM:
            return None
        if status in (STALLED, NOT_FINITE):
            return Stop("no step" if status == STALLED else "parameter overflow", {"time": self._time})
        mask = mask_matrix(self._network, self._dataset)
        unreachable = np.flatnonzero(~mask.any(axis=1) & (self._targets != 0))
        return Stop("unfitted", {"points": never_fitted(unreachable)}) if unreachable.size else None

    def loss(self) -> float:
        """Return the present loss."""
        return self._loss

    def network(self) -> Scaled:
        """Return the present network."""
        if self._time == 0:
            return self._network
        state = _states(self._rho[None], self._g[None])
        return self.path(np.array([self._time]), {"values": state}).network(state[0])

    def path(self, times: Floats, rows: Rows) -> Replayed:
        """Return the path through these states."""
        inputs, targets = self._dataset.inputs, self._dataset.targets
        tiny = SLACK * self._tolerance
        return Replayed(self._network, times, rows["values"], inputs, targets, self._rate, tiny)

    def statistics(self) -> Statistics:
        """Return the numbers of leaps, steps, rejected and shortened steps, and of events."""
        leaps, steps, rejected, shortened = (int(c) for c in self._counts)
        return {
            "leaps": leaps,
            "steps": steps,
            "rejected": rejected,
            "shortened": shortened,
            "events": self._events,
        }


def _states(rho: Floats, g: Floats) -> Floats:
    return np.concatenate([rho[:, :, None], g], axis=2)
