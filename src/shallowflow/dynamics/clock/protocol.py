"""What the loop asks of an engine, and what an engine hands back: `Engine`, `Piece`.

An engine belongs to one run. It advances to a time, knows its loss without building a network, builds one on
request, and names the class of its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.outcome import Event, Stop
from shallowflow.dynamics.clock.paths import N_co, Path, Rows, flatten

Statistics = Mapping[str, float | int | str]


def no_events(most: int) -> list[Event]:
    """Return no events."""
    return []


@dataclass(frozen=True)
class Piece:
    """What one call of `advance` passed through: s steps.

    times (s + 1,): before and after each step; losses (s + 1,) where the engine has them anyway; between:
    times and losses inside the steps; rows: the columns of the engine's path for these steps; events(k): the
    first k events; share: progress, where the time does not tell.
    """

    times: Floats
    losses: Floats | None = None
    between: tuple[Floats, Floats] | None = None
    rows: Rows = field(default_factory=dict)
    events: Callable[[int], list[Event]] = no_events
    stop: Stop | None = None
    share: float | None = None


class Engine(Protocol[N_co]):
    """What the loop needs."""

    reads: ClassVar[type[Path[Any]] | None]
    """The class of its path; None: networks are built one by one."""

    @property
    def name(self) -> str:
        """The name by which a user asks for it."""
        ...

    @property
    def tick(self) -> float | None:
        """The time of one step; None: the engine chooses its steps."""
        ...

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by one or more steps, not beyond `until`; leave out the rows if they are not wanted."""
        ...

    def loss(self) -> float:
        """Return the present loss."""
        ...

    def network(self) -> N_co:
        """Return the present network."""
        ...

    def path(self, times: Floats, rows: Rows) -> Path[N_co]:
        """Return the path made of these times and rows, with what stays the same for the whole run."""
        ...

    def statistics(self) -> Statistics:
        """Return what the engine counted."""
        ...


class Ticking:
    """An engine whose steps all take the same time: `_steps(count)` makes them, and returns how many it made.

    Fewer than asked for: a parameter overflowed in the next one.
    """

    reads: ClassVar[type[Path[Any]] | None] = None
    made = 0

    def __init__(self, tick: float) -> None:
        self.tick = tick

    def _steps(self, count: int) -> int:
        raise NotImplementedError

    def advance(self, until: float, rows: bool) -> Piece:
        """Make the steps up to `until`."""
        count, start = round(until / self.tick) - self.made, self.made
        done = self._steps(count)
        self.made += done
        # tick × number: the same time to the last bit, however the run is cut.
        times = self.tick * np.array([start, self.made])
        return Piece(times, stop=None if done == count else Stop("overflow"))

    def write(self, row: Floats) -> None:
        """Write θ of the present network into a row (P,)."""
        flatten(self.network(), row)

    def network(self) -> Any:
        """Return the present network."""
        raise NotImplementedError

    def path(self, times: Floats, rows: Rows) -> Any:
        """Networks are built one by one: there are no rows to read."""
        raise NotImplementedError

    def statistics(self) -> Statistics:
        """Return what the engine counted."""
        return {}
