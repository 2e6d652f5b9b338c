"""From the moves between groups of a wide flow to events: a data point switched on or off, or slid along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.group_path import Indices
from shallowflow.dynamics.group_recorder import Log
from shallowflow.dynamics.outcome import Event


@dataclass(frozen=True)
class GroupMoves:
    """Moves in the order of time: the log, the groups left, and whether the way was one of several."""

    log: Log
    left: Indices
    two_valued: Indices

    def then(self, later: GroupMoves) -> GroupMoves:
        """Return these moves followed by later ones."""
        both = zip(vars(self.log).values(), vars(later.log).values(), strict=True)
        return GroupMoves(
            Log(*(np.concatenate(pair) for pair in both)),
            np.concatenate([self.left, later.left]),
            np.concatenate([self.two_valued, later.two_valued]),
        )


def no_moves() -> GroupMoves:
    """Return an empty list of moves."""
    none = np.empty(0, np.int32)
    return GroupMoves(Log(np.empty(0), none, none, np.empty((0, 3))), none, none)


class GroupEvents:
    """Names moves between groups (`kernels.cones.flow_state`) by the data points that they are about."""

    def __init__(self, inputs: Floats, samples: Any, cones: int, slope: float) -> None:
        lines = max(cones // 2, 1)
        self.cones, self._slope = cones, slope
        turns = (np.arange(cones)[:, None] - samples.walls) % max(cones, 1)
        self.active = turns < lines
        # The samples are the inputs off the origin in another order; equal inputs may be exchanged.
        rows = {row.tobytes(): list[int]() for row in inputs}
        for index in range(len(inputs) - 1, -1, -1):
            rows[inputs[index].tobytes()].append(index)
        self._index = [rows[point.tobytes()].pop() for point in samples.points]
        self._on_line = samples.walls % lines

    def name(self, moves: GroupMoves, most: int) -> list[Event]:
        """Return the first events of the moves."""
        events = list[Event]()
        log = moves.log
        changes = (log.times, log.neurons, moves.left, log.groups, moves.two_valued)
        known = dict[tuple[int, int, int], list[tuple[str, int]]]()
        for time, neuron, *change in zip(*(part[:most].tolist() for part in changes), strict=True):
            key = change[0], change[1], change[2]
            if key not in known:
                known[key] = self._names(*key)
            events += [Event(time, kind, neuron, point) for kind, point in known[key]]
        return events[:most]

    def _names(self, left: int, entered: int, two_valued: int) -> list[tuple[str, int]]:
        cones = self.cones
        if left < cones and entered < cones:
            if left == entered:
                return []
            changed = np.flatnonzero(self.active[left] != self.active[entered])
            dead = self._slope == 0 and not self.active[entered].any()
            off = "death" if dead else "off"
            return [("on" if self.active[entered, k] else off, self._index[k]) for k in changed]
        kind = "two-valued" if two_valued else "slide" if left < cones else "release"
        if max(left, entered) >= 3 * cones or min(left, entered) >= cones:
            # At w = 0 a neuron lies on the hyperplanes of all data points.
            return [("slide" if entered >= 3 * cones else kind, -1)]
        wall = (max(left, entered) - cones) // 2
        on_wall = np.flatnonzero(self._on_line == wall % (cones // 2))
        return [(kind, self._index[k]) for k in on_wall]
