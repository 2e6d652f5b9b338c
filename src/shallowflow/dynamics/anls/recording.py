"""From the moves of a run to its trajectory: losses, networks, events, outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.anls.candidates import LEFT
from shallowflow.dynamics.anls.iteration import Moves
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.dynamics.outer_weights import DistinctPoints, minimum_norm_outer
from shallowflow.dynamics.path import Snapshots
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import KnotNetwork

EVERY_NETWORK = 1000
"""Up to this many moves every network is kept by default; beyond, 200 at geometric numbers of moves."""


@dataclass(frozen=True, eq=False)
class Story:
    """A run and what it was about: the given network, its sorting order (n,), the data, the moves."""

    network: KnotNetwork
    order: Ints
    points: DistinctPoints
    moves: Moves

    @property
    def total(self) -> int:
        """The number of moves."""
        return len(self.moves.neurons)


def trajectory(story: Story, record: Record | None, weight: float, method: str) -> Trajectory:
    """Return the trajectory of a run; its losses are weight · Σ (f(x_i) − y_i)²."""
    losses = weight * story.moves.losses
    outcome = _outcome(story.moves, float(losses[-1]))
    if record is None:
        times, rules = np.arange(story.total + 1), Record()
        kept = times if story.total <= EVERY_NETWORK else iterations(Record.geometric(), story.total)
    else:
        times, rules = iterations(record, story.total), record
        kept = times if record.networks else _ends(story.total)
    try:
        rules.check_memory(len(kept), 2 * story.network.width)
    except InvalidInputError as error:
        kept = _ends(story.total)
        outcome = Outcome("memory", f"{outcome.message} Only two networks are kept: {error}.", outcome.advice)
    values = _networks(story, kept)
    sparse = len(kept) < len(times)
    return Trajectory(
        times.astype(np.float64),
        losses[times],
        Snapshots(story.network, kept.astype(np.float64), values, sparse),
        _events(story, rules.max_events),
        outcome,
        {"engine": method, "iterations": story.total, "distinct inputs": len(story.points.x)},
    )


def iterations(record: Record, total: int) -> Ints:
    """Return the recorded iteration numbers of a run that ended after `total` moves: 0, …, total."""
    if total == 0:
        return _ends(0)
    if record.times is None:
        return record.indices(total, 1.0)
    reached = np.rint(record.times[record.times <= total]).astype(np.int64)
    return np.unique(np.concatenate([_ends(total), reached]))


def _ends(total: int) -> Ints:
    return np.unique(np.array([0, total]))


def _outcome(moves: Moves, loss: float) -> Outcome:
    advice = "" if moves.status != "stalled" else 'method="windowed", whose losses are exact.'
    return Outcome(moves.status, f"{moves.note}, loss {loss:.6g}.", advice)


def _networks(story: Story, kept: Ints) -> Floats:
    """Return (knots, outer weights of minimum norm) after each of the `kept` numbers of moves, (k, 2n)."""
    width, order, moves = story.network.width, story.order, story.moves
    knots = story.network.knots[order]
    values = np.empty((len(kept), 2 * width))
    done = 0
    for row, index in enumerate(kept):
        knots[moves.neurons[done:index]] = moves.positions[done:index]  # of several moves of a knot the last
        values[row, order] = knots
        values[row, width + order] = minimum_norm_outer(knots, story.points)
        done = int(index)
    return values


def _events(story: Story, limit: int) -> tuple[Event, ...]:
    """Return the data points passed, in the numbering of the data set; "on": they became active."""
    inactive = np.searchsorted(story.points.x, story.network.knots[story.order], side="right")
    events = []
    for i in range(min(story.total, limit)):
        k, direction = int(story.moves.neurons[i]), int(story.moves.directions[i])
        passed = inactive[k] - 1 if direction == LEFT else inactive[k]
        inactive[k] += direction
        kind = "on" if direction == LEFT else "off"
        events.append(Event(float(i + 1), kind, int(story.order[k]), int(story.points.first[passed])))
    return tuple(events)
