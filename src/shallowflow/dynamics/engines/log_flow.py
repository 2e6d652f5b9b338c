"""Gradient flow of a `LogScaledNetwork` on orthonormal data, at any scale: see `kernels.orthogonal.flow`.

Plateaus are leapt over in closed form, jumps are integrated step by step, so that the cost depends on the
number of jumps and not on ln(1/α).
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.driver import Progress
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.replayed import Replayed
from shallowflow.dynamics.replayed_recorder import ReplayedRecorder
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import (
    check_orthonormal,
    mask_matrix,
    neuron_signs,
    never_fitted,
)
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import LogScaledNetwork

NUMBERS_AT_ONCE = 2_000_000
SLACK = 1e-2
"""A residual is settled, a neuron small, at this part of the tolerance."""


class LogFlow:
    """Follow θ' = −speed·∇L(θ) with neurons kept as log-norm and direction."""

    name = "leaps"

    def __init__(
        self, network: LogScaledNetwork, dataset: Dataset, loss: SquareLoss, speed: float, tolerance: float
    ) -> None:
        check_orthonormal(dataset, "the flow of a LogScaledNetwork")
        signs, size = neuron_signs(network), np.abs(network.outer)
        excess = float(np.max(np.linalg.norm(network.inner, axis=1) / size))
        if excess > 1 + 1e-9:
            raise InvalidInputError(
                f"network: the flow of a LogScaledNetwork needs ‖w_j‖ ≤ |a_j|, got a ratio of {excess:.6g}"
            )
        self._network, self._dataset, self._loss = network, dataset, loss
        self._rate, self._tolerance = speed * loss.weight(dataset.size), tolerance
        self._signs, self._targets = signs, dataset.targets.copy()
        rho = network.log_scales + np.log(size)
        g = np.maximum(network.preactivations(dataset.inputs) / size[:, None], 0.0)
        self._rho, self._g = np.ascontiguousarray(rho), np.ascontiguousarray(g)
        self._events: list[tuple[Floats, Ints]] = []
        self._counts = np.zeros(4, np.int64)

    def run(self, until: float, record: Record, progress: Progress | None) -> Trajectory:
        """Follow the flow to `until` and keep what the record asks for."""
        from shallowflow.kernels.orthogonal import flow as kernel
        from shallowflow.kernels.orthogonal.step import problem_of

        tiny = SLACK * self._tolerance
        data = self._dataset.inputs, self._dataset.targets
        start = Replayed(
            self._network, np.zeros(1), _states(self._rho[None], self._g[None]), *data, self._rate, tiny
        )
        recorder = ReplayedRecorder(start, self._loss, record, until)
        clock, status = kernel.Clock(0.0, until, 0.0), kernel.OUT_OF_ROOM
        capacity = max(8, min(256, NUMBERS_AT_ONCE // self._g.size))
        problem = problem_of(self._signs, self._targets, self._rate, tiny)
        while status == kernel.OUT_OF_ROOM and not recorder.full:
            status, clock, path = kernel.integrate(
                self._rho, self._g, problem, clock, self._tolerance, capacity
            )
            recorder.add(path.times, _states(path.rho, path.g))
            self._events.append((path.event_times, path.events))
            self._counts += path.counts[: len(self._counts)]
            if progress:
                progress(clock.time / until)
        return self._trajectory(recorder, self._outcome(status, clock.time, until), record.max_events)

    def _outcome(self, status: int, time: float, until: float) -> Outcome:
        from shallowflow.kernels.orthogonal.flow import NOT_FINITE, OUT_OF_ROOM, STALLED

        if status == OUT_OF_ROOM:
            return Outcome(
                "memory", f"the record reached its limit at t = {time:.6g}.", "a larger max_bytes."
            )
        if status == STALLED:
            return Outcome(
                "stalled", f"the integrator found no step at t = {time:.6g}.", "a larger tolerance."
            )
        if status == NOT_FINITE:
            return Outcome(
                "diverged", f"a parameter overflowed at t = {time:.6g}.", "labels of moderate size."
            )
        mask = mask_matrix(self._network, self._dataset)
        lonely = np.flatnonzero(~mask.any(axis=1) & (self._targets != 0))
        if not lonely.size:
            return Outcome("completed", f"reached t = {until:g}.")
        return Outcome(
            "completed",
            f"reached t = {until:g}; {never_fitted(lonely)}",
            "a wider network, or another seed, to fit them.",
        )

    def _trajectory(self, recorder: ReplayedRecorder, outcome: Outcome, max_events: int) -> Trajectory:
        found = [
            Event(float(t), "off", int(j), int(k))
            for times, events in self._events
            for t, (j, k) in zip(times, events, strict=True)
        ]
        found.sort(key=lambda event: event.time)
        leaps, steps, rejected, shortened = (int(c) for c in self._counts)
        return Trajectory(
            *recorder.recorded(),
            tuple(found[:max_events]),
            outcome,
            {
                "engine": self.name,
                "leaps": leaps,
                "steps": steps,
                "rejected": rejected,
                "shortened": shortened,
                "events": len(found),
            },
        )


def _states(rho: Floats, g: Floats) -> Floats:
    return np.concatenate([rho[:, :, None], g], axis=2)
