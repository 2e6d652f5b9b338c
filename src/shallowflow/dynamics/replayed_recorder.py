"""What a record keeps of a flow that passes knot by knot: all knots, or networks at chosen moments."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.path import Path, flatten, snapshots
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.replayed import Replayed
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import LogScaledNetwork


class ReplayedRecorder:
    """Takes the knots of a flow piece by piece and forgets those for which the record has no use."""

    def __init__(self, start: Replayed, loss: SquareLoss, record: Record, until: float) -> None:
        self._start, self._loss, self._record = start, loss, record
        self._moments = record.moments(until, first=1e-6 * until)
        if self._moments is not None:
            record.check_memory(len(self._moments), flatten(start.template).size)
        self._time, self._state, self._knots = 0.0, start.values[0], 0
        self._knot_times, self._states = [start.times], [start.values]
        self._times, self._losses, self._networks = list[float](), list[float](), list[Floats]()
        self._note(0.0, start.template)

    @property
    def full(self) -> bool:
        """Whether the knots that are kept have outgrown the record's limit."""
        return sum(states.nbytes for states in self._states) > self._record.max_bytes

    def add(self, times: Floats, states: Floats) -> None:
        """Take the next knots: times (K,), states (K, m, n + 1)."""
        if not len(times):
            return
        piece = self._path(np.append(self._time, times), np.concatenate([self._state[None], states]))
        if self._moments is None:
            self._add_knots(piece)
        else:
            passed = (self._moments > self._time) & (self._moments <= times[-1])
            for moment in self._moments[passed]:
                self._note(float(moment), piece.network(piece.state(float(moment))))
        self._time, self._state = float(times[-1]), states[-1]

    def _add_knots(self, piece: Replayed) -> None:
        assert self._record.interval is not None
        numbers = self._knots + np.arange(1, len(piece.times))
        chosen = np.flatnonzero(numbers % self._record.interval == 0) + 1
        residuals = piece.predictions()[chosen] - piece.targets
        losses = 0.5 * self._loss.weight(len(piece.targets)) * np.sum(residuals**2, axis=1)
        self._times.extend(piece.times[chosen].tolist())
        self._losses.extend(losses.tolist())
        self._knots = int(numbers[-1])
        if self._record.networks:
            self._knot_times.append(piece.times[1:])
            self._states.append(piece.values[1:])

    def _note(self, time: float, network: LogScaledNetwork) -> None:
        start = self._start
        self._times.append(time)
        self._losses.append(self._loss.value(network.predict(start.inputs), start.targets))
        if self._moments is not None and self._record.networks:
            self._networks.append(flatten(network))

    def _path(self, times: Floats, states: Floats) -> Replayed:
        start = self._start
        return Replayed(start.template, times, states, start.inputs, start.targets, start.rate, start.tiny)

    def recorded(self) -> tuple[Floats, Floats, Path]:
        """Return times, losses and the path, up to the last knot."""
        template = self._start.template
        final = self._start.network(self._state) if self._time > 0 else template
        if self._times[-1] < self._time:
            self._note(self._time, final)
        times, losses = np.array(self._times), np.array(self._losses)
        if not self._record.networks:
            ends = [flatten(template), flatten(final)]
            return times, losses, snapshots(template, [0.0, self._time], ends, sparse=True)
        if self._moments is not None:
            return times, losses, snapshots(template, self._times, self._networks, sparse=False)
        return times, losses, self._path(np.concatenate(self._knot_times), np.concatenate(self._states))
