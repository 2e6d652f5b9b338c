"""Gathers the steps of a wide flow into a trajectory without a number per neuron and step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.flow_recorder import memory_outcome
from shallowflow.dynamics.group_path import GroupPath, Indices
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import Path, flatten, snapshots
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork


@dataclass(frozen=True)
class Log:
    """Changes of group: times, neurons, groups entered, θ̂ there."""

    times: Floats
    neurons: Indices
    groups: Indices
    references: Floats


@dataclass(frozen=True)
class GroupStep:
    """One step of a wide flow, as `GroupPath` keeps it.

    losses (q,) and pulls (q, k) at the nodes; occupied groups and their propagators at the start; the moves
    in the order of time; groups re-synchronised at the start with their matrices; `events(k)` makes the first
    k events, `network()` the network at the end.
    """

    start: float
    end: float
    losses: Floats
    pulls: Floats
    occupied: Ints
    propagators: Floats
    moves: Log
    synced: Ints
    syncs: Floats
    events: Callable[[int], list[Event]]
    network: Callable[[], ReLUNetwork]

    @property
    def nbytes(self) -> int:
        """Memory that a path needs for the step."""
        floats = self.pulls.size + self.propagators.size + self.syncs.size
        return 8 * floats + self.moves.times.size * 40 + self.occupied.nbytes


@dataclass(frozen=True)
class Geometry:
    """What `GroupPath` knows of the data: see there."""

    start_groups: Ints
    points: Floats
    seen: Floats
    rays: Floats
    root: float


class GroupRecorder:
    """Takes steps; keeps them all (`Record.every`), or networks at the times that the record asks for."""

    def __init__(
        self, network: ReLUNetwork, dataset: Dataset, loss: Loss, record: Record, until: float
    ) -> None:
        self._template, self._dataset, self._loss, self._record = network, dataset, loss, record
        self._moments = record.moments(until, first=1e-6 * until)
        theta = flatten(network)
        if self._moments is not None:
            record.check_memory(len(self._moments), theta.size)
        self.loss = self._measure(network)
        self._times, self._losses = [0.0], [self.loss]
        self._kept_times, self._kept = [0.0], [theta]
        self._steps: list[GroupStep] = []
        self._events: list[Event] = []
        self._last: GroupStep | None = None
        self._bytes, self._number, self._counted, self._next = 0, 0, 0, 1

    @property
    def full(self) -> bool:
        """Whether what is kept so far reaches the record's limit."""
        return self._bytes > self._record.max_bytes

    def memory_outcome(self) -> Outcome:
        """Return the outcome of a run that was stopped because the record was full."""
        return memory_outcome(self._record, self._last.end if self._last else 0.0)

    def target(self, until: float) -> float:
        """Return the time at which the next step must end at the latest."""
        return until if self._moments is None else float(self._moments[self._next])

    def add(self, step: GroupStep) -> None:
        """Take a step."""
        self._last = step
        self._number += 1
        self._counted += len(step.moves.times)
        room = self._record.max_events - len(self._events)
        if room > 0:
            self._events.extend(step.events(room))
        if self._moments is not None:
            if step.end >= self._moments[self._next]:
                self._note_network(step)
                self._next += 1
            return
        assert self._record.interval is not None
        if self._record.networks:
            self._steps.append(step)
            self._bytes += step.nbytes
        if self._record.interval == 1:
            shares = 0.5 * (1.0 - np.cos(np.pi * np.arange(1, len(step.losses)) / (len(step.losses) - 1)))
            self._times.extend((step.start + shares[:-1] * (step.end - step.start)).tolist())
            self._losses.extend(step.losses[1:-1].tolist())
        if self._number % self._record.interval == 0:
            self._times.append(step.end)
            self._losses.append(float(step.losses[-1]))
            self.loss = self._losses[-1]

    def _note_network(self, step: GroupStep) -> None:
        network = step.network()
        self.loss = self._measure(network)
        self._times.append(step.end)
        self._losses.append(self.loss)
        if self._record.networks:
            self._kept_times.append(step.end)
            self._kept.append(flatten(network))

    def _measure(self, network: ReLUNetwork) -> float:
        return self._loss.value(network.predict(self._dataset.inputs), self._dataset.targets)

    def note_end(self) -> None:
        """Record the loss at the time reached, from the network itself."""
        if self._last is not None:
            self.loss = self._measure(self._last.network())
            if self._times[-1] < self._last.end:
                self._times.append(self._last.end)
                self._losses.append(self.loss)
            self._losses[-1] = self.loss

    def trajectory(
        self, outcome: Outcome, statistics: dict[str, float | int | str], geometry: Geometry
    ) -> Trajectory:
        """Return what was gathered."""
        self.note_end()
        counts = {"segments": self._number, "events": self._counted}
        return Trajectory(
            np.array(self._times),
            np.array(self._losses),
            self._path(geometry),
            tuple(self._events),
            outcome,
            {**statistics, **counts},
        )

    def _path(self, geometry: Geometry) -> Path:
        if self._steps:
            return joined(self._template, self._steps, geometry)
        if self._last is not None and self._kept_times[-1] < self._last.end:
            self._kept_times.append(self._last.end)
            self._kept.append(flatten(self._last.network()))
        return snapshots(self._template, self._kept_times, self._kept, sparse=not self._record.networks)


def joined(template: ReLUNetwork, steps: Sequence[GroupStep], geometry: Geometry) -> GroupPath:
    """Return the path made of these steps."""
    logs = [step.moves for step in steps]
    return GroupPath(
        template,
        np.array([steps[0].start, *(step.end for step in steps)]),
        np.array([step.pulls for step in steps]),
        _offsets([len(step.occupied) for step in steps]),
        np.concatenate([step.occupied for step in steps]),
        np.concatenate([step.propagators for step in steps]),
        _offsets([len(log.times) for log in logs]),
        np.concatenate([log.times for log in logs]),
        np.concatenate([log.neurons for log in logs]),
        np.concatenate([log.groups for log in logs]),
        np.concatenate([log.references for log in logs]),
        np.repeat(np.arange(len(steps)), [len(step.synced) for step in steps]),
        np.concatenate([step.synced for step in steps]),
        np.concatenate([step.syncs for step in steps]),
        geometry.start_groups,
        geometry.points,
        geometry.seen,
        geometry.rays,
        geometry.root,
    )


def _offsets(lengths: Sequence[int]) -> Ints:
    """Return where the pieces of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
