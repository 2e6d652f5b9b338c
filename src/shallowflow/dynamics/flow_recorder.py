"""Gathers the segments of a flow into a trajectory, keeping no more than the record allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, frozen
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.driver import Measure, sample_loss
from shallowflow.dynamics.nodes import lobatto_weights
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import Path, Polynomials, flatten, snapshots, unflatten
from shallowflow.dynamics.record import DEFAULT_BYTES, Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.models.loss import Loss
from shallowflow.models.networks import Network

EXPECTED_NODES = 40_000


def dense_record(network: Network) -> Record:
    """Return the default of a flow: every step, or 200 snapshots where that would take too much memory."""
    if 8 * EXPECTED_NODES * flatten(network).size <= DEFAULT_BYTES:
        return Record.every(1)
    return Record.geometric()


def memory_outcome(record: Record, time: float) -> Outcome:
    """Return the outcome of a run that was stopped at a time because its record was full."""
    return Outcome(
        "memory",
        f"the record reached its limit of {record.max_bytes / 1e9:.3g} GB at t = {time:.6g}.",
        "record=Record.at(times), Record.geometric(), or a larger max_bytes.",
    )


@dataclass(frozen=True)
class Segments:
    """Smooth pieces of a flow: times (s+1,), θ at the Lobatto nodes of each (s, q, P), events on the way."""

    times: Floats
    values: Floats
    events: Sequence[Event]


class PathRecorder:
    """Takes segments [t_i, t_{i+1}] with θ at their Lobatto nodes; keeps what the record asks for."""

    def __init__(self, network: Network, loss_of: Measure, record: Record, until: float) -> None:
        self._template, self._loss_of, self._record = network, loss_of, record
        self._moments = record.moments(until, first=1e-6 * until)
        theta = flatten(network)
        if self._moments is not None:
            record.check_memory(len(self._moments), theta.size)
        self.loss = self._measure(theta)
        self._times, self._losses = [0.0], [self.loss]
        self._kept_times, self._kept, self._pieces = [0.0], [theta], list[Floats]()
        self._events: list[Event] = []
        self._last, self._end = theta, 0.0
        self._bytes, self._segments, self._counted, self._next = 0, 0, 0, 1

    @property
    def full(self) -> bool:
        """Whether the networks kept so far reach the record's limit."""
        return self._bytes > self._record.max_bytes

    def memory_outcome(self) -> Outcome:
        """Return the outcome of a run that was stopped because the record was full."""
        return memory_outcome(self._record, self._end)

    def target(self, until: float) -> float:
        """Return the time at which the next segment must end at the latest."""
        return until

    def add(self, segments: Segments) -> None:
        """Take what an engine has just passed through."""
        times, events = segments.times, segments.events
        for start, end, nodes in zip(times[:-1], times[1:], segments.values, strict=True):
            self._segments += 1
            if self._moments is None:
                self._add_step(float(start), float(end), nodes)
            else:
                self._add_moments(float(start), float(end), nodes, self._moments)
            self._last, self._end = nodes[-1], float(end)
        self._counted += len(events)
        self._events.extend(events[: max(self._record.max_events - len(self._events), 0)])

    def _add_step(self, start: float, end: float, nodes: Floats) -> None:
        assert self._record.interval is not None
        if end > start:
            if self._record.networks:
                self._pieces.append(nodes)
                self._kept_times.append(end)
                self._bytes += nodes.nbytes
            if self._segments % self._record.interval == 0:
                self._note(end, nodes[-1])

    def _add_moments(self, start: float, end: float, nodes: Floats, moments: Floats) -> None:
        while self._next < len(moments) and moments[self._next] <= end:
            moment = float(moments[self._next])
            share = (moment - start) / (end - start) if end > start else 1.0
            theta = lobatto_weights(share, len(nodes)) @ nodes
            self._note(moment, theta)
            if self._record.networks:
                self._kept_times.append(moment)
                self._kept.append(theta)
            self._next += 1

    def _note(self, time: float, theta: Floats) -> None:
        self.loss = self._measure(theta)
        self._times.append(time)
        self._losses.append(self.loss)

    def _measure(self, theta: Floats) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return self._loss_of(unflatten(self._template, theta))

    def note_end(self) -> None:
        """Record the loss at the time reached, if the record has not done so."""
        if self._times[-1] < self._end:
            self._note(self._end, self._last)

    def trajectory(self, outcome: Outcome, statistics: dict[str, float | int | str]) -> Trajectory:
        """Return what was gathered."""
        self.note_end()
        counts = {"segments": self._segments, "events": self._counted}
        return Trajectory(
            np.array(self._times),
            np.array(self._losses),
            self._path(),
            tuple(self._events),
            outcome,
            {**statistics, **counts},
        )

    def _path(self) -> Path:
        if self._pieces:
            return Polynomials(
                self._template, frozen(np.array(self._kept_times)), frozen(np.array(self._pieces))
            )
        if self._kept_times[-1] < self._end:
            self._kept_times.append(self._end)
            self._kept.append(self._last)
        return snapshots(self._template, self._kept_times, self._kept, sparse=not self._record.networks)


class FlowRecorder(PathRecorder):
    """A `PathRecorder` whose losses are those on a data set."""

    def __init__(self, network: Network, dataset: Dataset, loss: Loss, record: Record, until: float) -> None:
        super().__init__(network, sample_loss(dataset, loss), record, until)
