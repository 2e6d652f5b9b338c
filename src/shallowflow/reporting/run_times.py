"""At which times to show a run: often where it changes, seldom where it rests."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.path import Snapshots, flatten
from shallowflow.dynamics.trajectory import Trajectory

FIRST = 1e-6
"""The dense grid begins at this share of the run at the latest."""
DENSE = 240
MOST_NUMBERS = 20_000_000
"""Parameters times moments that are evaluated for a picture; wide networks are asked for at fewer moments."""


def dense_times(trajectory: Trajectory) -> Floats:
    """Return times at which the path is known, increasing: a logarithmic grid where it is continuous."""
    recorded = trajectory.path.times
    count = min(DENSE, max(60, MOST_NUMBERS // max(1, flatten(trajectory.initial).size)))
    if isinstance(trajectory.path, Snapshots) or recorded[-1] <= recorded[0]:
        return np.unique(recorded[np.linspace(0, len(recorded) - 1, count).astype(np.int64)])
    start, end = float(recorded[0]), float(recorded[-1])
    first = min(max(float(recorded[1]) - start, FIRST * (end - start)), end - start)
    # What is slow on a logarithmic scale may be fast on a linear one, late in the run.
    late = np.linspace(start, end, count // 3)
    early = np.minimum(start + np.geomspace(first, end - start, count - len(late)), end)
    return np.unique([start, *early, *late, end])


def eventful_times(trajectory: Trajectory, frames: int) -> Floats:
    """Return up to so many times, the first and the last among them, at equal steps of change.

    Change is the mean of two lengths, each relative to its sum over the run: of the path of the parameters
    θ, and of the path of θ/‖θ‖, in which an alignment at tiny norms counts as much as the growth after it.
    """
    times = dense_times(trajectory)
    lengths, turns = np.zeros(len(times)), np.zeros(len(times))
    before = flatten(trajectory(float(times[0])))
    for i, time in enumerate(times[1:].tolist(), start=1):
        after = flatten(trajectory(time))
        lengths[i] = np.linalg.norm(after - before)
        turns[i] = np.linalg.norm(_direction(after) - _direction(before))
        before = after
    shares = [part / part.sum() for part in (lengths, turns) if 0 < part.sum() < np.inf]
    if not shares:
        return np.unique(times[[0, -1]])
    travelled = np.cumsum(np.sum(shares, axis=0))
    wanted = np.linspace(0.0, travelled[-1], frames)
    chosen = np.searchsorted(travelled, wanted * (1 - 1e-12))
    chosen[-1] = len(times) - 1
    return np.asarray(times[np.unique(chosen)])


def _direction(theta: Floats) -> Floats:
    norm = float(np.linalg.norm(theta))
    return theta / norm if norm > 0 else theta
