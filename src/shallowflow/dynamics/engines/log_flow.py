"""Gradient flow of a `LogScaledNetwork` on orthonormal data, at any scale: see `kernels.log_flow`.

Plateaus are leapt over in closed form, jumps are integrated step by step, so that the cost depends on the
number of jumps and not on ln(1/α).
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.driver import Progress
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import Path, flatten, snapshots
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.replayed import Replayed
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.orthonormal import check_orthonormal, mask_matrix, neuron_signs
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
        self._times: list[Floats] = [np.zeros(1)]
        self._values: list[Floats] = [_states(rho[None], g[None])]
        self._events: list[tuple[Floats, Ints]] = []
        self._counts = np.zeros(4, np.int64)

    def run(self, until: float, record: Record, progress: Progress | None) -> Trajectory:
        """Follow the flow to `until` and keep what the record asks for."""
        from shallowflow.kernels import log_flow as kernel

        time, step, status, held = 0.0, 0.0, kernel.OUT_OF_ROOM, 0
        capacity = max(8, min(256, NUMBERS_AT_ONCE // self._g.size))
        while status == kernel.OUT_OF_ROOM and held <= record.max_bytes:
            (status, time, step), (times, rho, g), events, counts = kernel.integrate(
                self._rho,
                self._g,
                self._signs,
                self._targets,
                self._rate,
                time,
                until,
                step,
                self._tolerance,
                SLACK * self._tolerance,
                capacity,
            )
            self._times.append(times)
            self._values.append(_states(rho, g))
            self._events.append(events)
            self._counts += counts
            held += self._values[-1].nbytes
            if progress:
                progress(time / until)
        return self._trajectory(self._outcome(status, kernel, time, until), record, until)

    def _outcome(self, status: int, kernel: object, time: float, until: float) -> Outcome:
        codes = {name: getattr(kernel, name) for name in ("OUT_OF_ROOM", "STALLED", "NOT_FINITE")}
        if status == codes["OUT_OF_ROOM"]:
            return Outcome(
                "memory", f"the record reached its limit at t = {time:.6g}.", "a larger max_bytes."
            )
        if status == codes["STALLED"]:
            return Outcome(
                "stalled", f"the integrator found no step at t = {time:.6g}.", "a larger tolerance."
            )
        if status == codes["NOT_FINITE"]:
            return Outcome(
                "diverged", f"a parameter overflowed at t = {time:.6g}.", "labels of moderate size."
            )
        mask = mask_matrix(self._network, self._dataset)
        lonely = np.flatnonzero(~mask.any(axis=1) & (self._targets != 0))
        if not lonely.size:
            return Outcome("completed", f"reached t = {until:g}.")
        return Outcome(
            "completed",
            f"reached t = {until:g}; {lonely.size} points can never be fitted, no neuron of their "
            f"label's sign is active on them: {shown(lonely.tolist())}.",
            "a wider network, or another seed, to fit them.",
        )

    def _trajectory(self, outcome: Outcome, record: Record, until: float) -> Trajectory:
        path = Replayed(
            self._network,
            np.concatenate(self._times),
            np.concatenate(self._values),
            self._dataset.inputs,
            self._dataset.targets,
            self._rate,
            SLACK * self._tolerance,
        )
        moments = record.moments(until, first=1e-6 * until)
        found = [
            Event(float(t), "off", int(j), int(k))
            for times, events in self._events
            for t, (j, k) in zip(times, events, strict=True)
        ]
        found.sort(key=lambda event: event.time)
        leaps, steps, rejected, shortened = (int(c) for c in self._counts)
        return Trajectory(
            *self._recorded(path, record, moments),
            tuple(found[: record.max_events]),
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

    def _recorded(
        self, path: Replayed, record: Record, moments: Floats | None
    ) -> tuple[Floats, Floats, Path]:
        """Return times, losses and the path that the record asks for."""
        if moments is None:
            chosen = np.arange(0, len(path.times), record.interval)
            if chosen[-1] != len(path.times) - 1:
                chosen = np.append(chosen, len(path.times) - 1)
            residuals = path.predictions()[chosen] - path.targets
            losses = 0.5 * self._loss.weight(len(path.targets)) * np.sum(residuals**2, axis=1)
            kept: Path = path if record.networks else _ends(path)
            return path.times[chosen], losses, kept
        moments = moments[moments <= path.times[-1]]
        if moments[-1] < path.times[-1]:
            moments = np.append(moments, path.times[-1])
        record.check_memory(len(moments), flatten(self._network).size)
        networks = [path(float(moment)) for moment in moments]
        losses = np.array(
            [self._loss.value(net.predict(path.inputs), path.targets) for net in networks], dtype=np.float64
        )
        if not record.networks:
            return moments, losses, _ends(path)
        values = [flatten(network) for network in networks]
        return moments, losses, snapshots(self._network, moments.tolist(), values, sparse=False)


def _ends(path: Replayed) -> Path:
    ends = [float(path.times[0]), float(path.times[-1])]
    return snapshots(path.template, ends, [flatten(path(t)) for t in ends], sparse=True)


def _states(rho: Floats, g: Floats) -> Floats:
    return np.concatenate([rho[:, :, None], g], axis=2)
