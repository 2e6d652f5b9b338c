"""The driver of every training that goes step by step: it records, shows progress, and makes the trajectory.

An engine only advances parameters; what to record and when is a `Plan`; how a run ended is said by a judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.path import flatten, snapshots
from shallowflow.dynamics.problem import checked_record
from shallowflow.dynamics.record import Record, default_record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.models.loss import Loss
from shallowflow.models.networks import Network

Progress = Callable[[float], None]
Measure = Callable[[Network], float]
"""network → its loss."""
Judge = Callable[[list[float], int, int], Outcome]
"""(recorded losses, steps made, steps asked for) → outcome."""
PROGRESS_SECONDS = 0.2
BLOW_UP = 100.0
"""A loss this many times its start on the way means that a run blew up, wherever it ended."""


class Engine(Protocol):
    """What the driver needs: the current network, and a way to advance it."""

    name: str

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; return how many left all parameters finite."""
        ...

    def network(self) -> Network:
        """Return the current network."""
        ...

    def events(self, step: float) -> tuple[Event, ...]:
        """Return the events met so far; one step takes the time `step`."""
        ...

    def statistics(self) -> dict[str, float | int | str]:
        """Return what the engine counted."""
        ...


@runtime_checkable
class Compact(Protocol):
    """An engine whose network is dear to make: it gives predictions without it, and makes it later."""

    def predictions(self) -> Floats:
        """Return h at the data."""
        ...

    def snapshot(self) -> Callable[[], Network]:
        """Return a function that makes the network of this moment."""
        ...


@dataclass(frozen=True)
class Plan:
    """What to record, at which step numbers (from 0 to the last), and the time that one step takes."""

    record: Record
    indices: Ints
    clock: float


def plan(network: Network, record: Record | None, steps: int, clock: float) -> Plan:
    """Return the plan of a run of `steps` steps; refuse a record that would not fit into memory."""
    numbers = flatten(network).size
    record = checked_record(record, default_record(numbers))
    indices = record.indices(steps, clock)
    record.check_memory(len(indices), numbers)
    return Plan(record, indices, clock)


def drive(
    engine: Engine,
    dataset: Dataset,
    loss: Loss,
    plan: Plan,
    judge: Judge,
    progress: Progress | None,
    stop_below: float = 0.0,
) -> Trajectory:
    """Advance the engine from record to record, the loss measured on a data set.

    The run ends early, converged, at the first recorded loss below `stop_below`.
    """
    loss_of = sample_loss(dataset, loss)

    def measure() -> float:
        if isinstance(engine, Compact):
            return loss.value(engine.predictions(), dataset.targets)
        return loss_of(engine.network())

    return drive_measured(engine, measure, plan, judge, progress, stop_below)


def sample_loss(dataset: Dataset, loss: Loss) -> Measure:
    """Return the function network → its loss on a data set."""

    def measure(network: Network) -> float:
        return loss.value(network.predict(dataset.inputs), dataset.targets)

    return measure


def drive_measured(
    engine: Engine,
    current_loss: Callable[[], float],
    plan: Plan,
    judge: Judge,
    progress: Progress | None,
    stop_below: float = 0.0,
) -> Trajectory:
    """Advance the engine from record to record and gather the trajectory; as `drive`, for any loss."""

    def measure() -> float:
        # Trouble shows in the value: it becomes an outcome.
        with np.errstate(over="ignore", invalid="ignore"):
            return current_loss()

    start = engine.network()
    times, losses = [0.0], [measure()]
    kept_times, kept = [0.0], [flatten(start)]
    done, total, last, arrived = 0, int(plan.indices[-1]), _snapshot(engine), losses[0] < stop_below
    for index in plan.indices[1:]:
        if arrived:
            break
        finite = _advance(engine, int(index) - done, done, total, progress)
        value = measure() if finite else np.inf
        if not np.isfinite(value):
            break
        done = int(index)
        times.append(done * plan.clock)
        losses.append(value)
        last, arrived = _snapshot(engine), value < stop_below
        if plan.record.networks:
            kept_times.append(done * plan.clock)
            kept.append(flatten(last()))
    if kept_times[-1] < done * plan.clock:
        kept_times.append(done * plan.clock)
        kept.append(flatten(last()))
    return Trajectory(
        np.array(times),
        np.array(losses),
        snapshots(start, kept_times, kept, sparse=not plan.record.networks),
        engine.events(plan.clock)[: plan.record.max_events],
        _arrival(losses[-1], done, stop_below) if arrived else judge(losses, done, total),
        {"engine": engine.name, "steps": done, **engine.statistics()},
    )


def _snapshot(engine: Engine) -> Callable[[], Network]:
    """Return a function that gives the network of this moment, whatever the engine does next."""
    if isinstance(engine, Compact):
        return engine.snapshot()
    now = engine.network()
    return lambda: now


def _arrival(loss: float, done: int, stop_below: float) -> Outcome:
    return Outcome("converged", f"loss {loss:.6g} is below {stop_below:g} after {done} steps.")


def _advance(engine: Engine, steps: int, done: int, total: int, progress: Progress | None) -> bool:
    """Make `steps` steps in chunks short enough to show progress; return whether all stayed finite."""
    chunk = 1 if progress else steps
    while steps > 0:
        chunk = min(chunk, steps)
        clock = time.perf_counter()
        if engine.advance(chunk) < chunk:
            return False
        steps, done = steps - chunk, done + chunk
        if progress:
            progress(done / total)
            if time.perf_counter() - clock < PROGRESS_SECONDS / 2:
                chunk *= 2
    return True


def judge_training(losses: list[float], done: int, total: int) -> Outcome:
    """Judge a run whose stability is not known beforehand: by overflow, and by a loss that rose."""
    smaller = "a smaller step."
    if not np.isfinite(losses[0]):
        message = "the loss is beyond the largest number at the start."
        return Outcome("diverged", message, "rescale the data.")
    if done < total:
        message = f"a parameter or the loss overflowed after step {done} of {total}."
        return Outcome("diverged", message, smaller)
    if losses[-1] > losses[0] * (1 + 1e-9):
        return Outcome("unstable", f"the loss rose from {losses[0]:.6g} to {losses[-1]:.6g}.", smaller)
    if max(losses) > BLOW_UP * losses[0]:
        message = f"on the way the loss rose from {losses[0]:.3g} to {max(losses):.3g}."
        return Outcome("unstable", message, smaller)
    return Outcome("completed", f"{total} steps, loss {losses[-1]:.6g}.")
