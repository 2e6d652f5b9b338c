"""`Record`: what a run keeps, said explicitly, so that no run fills the memory by accident."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, Ints, count, increasing, positive
from shallowflow.errors import InvalidInputError

DEFAULT_POINTS = 200
DEFAULT_BYTES = 2**30


@dataclass(frozen=True, eq=False, repr=False)
class Record(FrozenArrays):
    """When to record, and what: losses always, networks unless `networks=False`.

    Use one of `Record.every(k)`, `Record.geometric(points)`, `Record.at(times)`. The first and the last
    network are always kept. Networks may take `max_bytes` at most; asking for more is an error before the
    run begins. At most `max_events` events are listed (all are counted in the statistics).

    Examples
    --------
    >>> Record.every(100).indices(steps=250, step=0.1)
    array([  0, 100, 200, 250])
    """

    interval: int | None = None
    points: int | None = None
    times: Floats | None = None
    networks: bool = True
    max_bytes: int = DEFAULT_BYTES
    max_events: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("interval", "points", "times") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInputError(f"record: takes one of interval, points, times; got {', '.join(given)}")
        if self.interval is not None:
            count(self.interval, "interval")
        if self.points is not None:
            count(self.points, "points", at_least=2)
        count(self.max_bytes, "max_bytes", at_least=0)
        count(self.max_events, "max_events", at_least=0)

    @classmethod
    def every(
        cls, k: int, *, networks: bool = True, max_bytes: int = DEFAULT_BYTES, max_events: int = 10_000
    ) -> Record:
        """Record every k-th step. (A flow keeps all its polynomials and notes every k-th loss.)"""
        return cls(count(k, "every"), None, None, networks, max_bytes, max_events)

    @classmethod
    def geometric(
        cls,
        points: int = DEFAULT_POINTS,
        *,
        networks: bool = True,
        max_bytes: int = DEFAULT_BYTES,
        max_events: int = 10_000,
    ) -> Record:
        """Record at about `points` steps or times that grow geometrically."""
        points = count(points, "points", 2)
        return cls(None, points, None, networks, max_bytes, max_events)

    @classmethod
    def at(
        cls,
        times: ArrayLike,
        *,
        networks: bool = True,
        max_bytes: int = DEFAULT_BYTES,
        max_events: int = 10_000,
    ) -> Record:
        """Record at these times (a descent takes the nearest step)."""
        chosen = increasing(times, "times")
        if chosen[0] < 0:
            raise InvalidInputError(f"times: must be >= 0, got {chosen[0]:g}")
        return cls(None, None, chosen, networks, max_bytes, max_events)

    def indices(self, steps: int, step: float) -> Ints:
        """Return the recorded step numbers of a descent, from 0 to `steps`."""
        if self.interval is not None:
            chosen = np.arange(0, steps + 1, self.interval)
        elif self.times is not None:
            chosen = np.rint(self._within(steps * step) / step).astype(np.int64)
        else:
            chosen = np.rint(np.geomspace(1, steps, self.points or DEFAULT_POINTS)).astype(np.int64)
        ordered = np.concatenate([[0], chosen, [steps]])
        # Not np.unique, which takes seconds for millions of integers, sorted or not.
        return ordered[np.diff(ordered, prepend=-1) > 0]

    def moments(self, until: float, first: float) -> Floats | None:
        """Return the recorded times of a flow, or None for "at its own steps"."""
        if self.interval is not None:
            return None
        if self.times is not None:
            return np.unique(np.concatenate([[0.0], self._within(until), [until]]))
        start = min(positive(first, "first"), until)
        grown = np.geomspace(start, until, self.points or DEFAULT_POINTS)
        return np.unique(np.concatenate([[0.0], np.minimum(grown, until)]))

    def _within(self, until: float) -> Floats:
        assert self.times is not None
        if self.times[-1] > until * (1 + 1e-12):
            raise InvalidInputError(f"times: must be <= the final time {until:g}, got {self.times[-1]:g}")
        return np.minimum(self.times, until)

    def check_memory(self, networks: int, numbers: int) -> None:
        """Refuse to keep more than `max_bytes` of networks with that many numbers each."""
        needed = 8 * networks * numbers
        if self.networks and needed > self.max_bytes:
            raise InvalidInputError(
                f"record: keeping {networks} networks of {numbers} numbers needs {needed / 1e9:.3g} GB, "
                f"the limit is {self.max_bytes / 1e9:.3g} GB; record fewer, pass networks=False, "
                "or raise max_bytes"
            )


def default_record(numbers: int) -> Record:
    """Return the default of a descent: 200 geometric points; only losses if the networks would not fit."""
    affordable = DEFAULT_BYTES // (8 * max(numbers, 1))
    if affordable >= DEFAULT_POINTS + 2:
        return Record.geometric(DEFAULT_POINTS)
    return Record.geometric(DEFAULT_POINTS, networks=False)
