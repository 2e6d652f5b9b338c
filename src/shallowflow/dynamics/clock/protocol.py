"""What the loop asks of an engine, and what an engine hands back: `Engine`, `Piece`, `Event`, `Stop`, `Path`.

An engine belongs to one run. It advances to a time, knows its loss without building a network, builds one on
request, and names the class of its path: networks as a function of time, kept as arrays. The fields of such a
class are its columns: arrays with a shape in symbols. The recorder joins the rows that an engine hands down
by these declarations, and files are checked by them. θ ∈ R^P is all parameters of a network in one vector, in
the order of `PARAMETERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, get_args, get_type_hints

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, count, one_of, real
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import BaseNetwork, Network

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    N_co = TypeVar("N_co", bound=BaseNetwork, default=Network, covariant=True)
    N = TypeVar("N", bound=BaseNetwork, default=Network)
else:
    from typing import TypeVar

    N_co = TypeVar("N_co", covariant=True)
    N = TypeVar("N")
Rows = Mapping[str, Any]
"""Columns (arrays) by name, as an engine hands them down for the steps of one piece."""
LARGEST_TABLE = 2**30
"""Bytes that `recorded` may take."""


@dataclass(frozen=True)
class Column:
    """What an array of a path holds.

    shape: numbers and symbols such as "s+1" or "3C"; P, m, d are the network's numbers of parameters, neurons
    and coordinates, other letters are set by the first array that has them. join: how the recorder makes one
    array from those of all pieces: "rows" (one after the other), "knots" (each begins where the last ended),
    "counts" (numbers per step, which become offsets), "fixed" (a constant of the run).
    whole: integers, which lie in [0, below) if that is given; rising: never falls; finite: no inf or NaN.
    """

    shape: tuple[str | int, ...]
    join: str = "rows"
    whole: bool = False
    below: str = ""
    rising: bool = False
    finite: bool = True


def flatten(network: BaseNetwork, out: Floats | None = None) -> Floats:
    """Return the parameters of a network as one vector (P,), written into `out` if that is given."""
    return np.concatenate([np.ravel(values) for values in network.parameters.values()], out=out)


def unflatten(template: N, theta: Floats) -> N:
    """Return the network of `template`'s shape with parameters θ."""
    parameters, start = {}, 0
    for name, values in template.parameters.items():
        parameters[name] = theta[start : start + values.size].reshape(values.shape)
        start += values.size
    return template.moved(parameters)


@dataclass(frozen=True, eq=False, repr=False)
class Path(FrozenArrays, Generic[N_co]):
    """Networks of `template`'s shape over the times of s steps, (s + 1,)."""

    kind: ClassVar[str]
    alone: ClassVar[bool] = False
    """Whether a piece can be read at times inside it, without the pieces before."""
    compact: ClassVar[bool] = False
    """Whether a step takes much less memory than a few networks."""

    template: N_co
    times: Annotated[Floats, Column(("s+1",), "knots", rising=True)]

    def __call__(self, time: float) -> N_co:
        """Return the network at a time in [times[0], times[-1]]; at a jump, the one after it."""
        raise NotImplementedError

    def resting(self, time: float) -> tuple[Ints, Ints] | None:
        """Return neurons and data points, pair by pair, that rest on each other; None: not known."""
        return None

    def table(self, times: Floats) -> Floats:
        """Return θ at these times (k,), (k, P)."""
        return np.array([flatten(self(float(time))) for time in times])

    def recorded(self) -> Floats:
        """Return θ at `times`, (s + 1, P)."""
        self._check_table()
        return self.table(self.times)

    def _check_table(self) -> None:
        size = sum(values.size for values in self.template.parameters.values())
        if 8 * size * len(self.times) > LARGEST_TABLE:
            raise InvalidInputError(
                f"trajectory: a table of {len(self.times)} networks of {size} numbers would take "
                f"{8e-9 * size * len(self.times):.3g} GB; ask for the times you need, one by one"
            )

    def check(self) -> None:
        """Refuse, in a file, what shapes and ranges do not show."""

    @classmethod
    @cache
    def columns(cls) -> dict[str, Column]:
        """Return the columns by name."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            field.name: column
            for field in fields(cls)
            for column in _extras(hints[field.name])
            if isinstance(column, Column)
        }

    @classmethod
    @cache
    def optional(cls) -> frozenset[str]:
        """Return the names of columns that may be None."""
        return frozenset(f.name for f in fields(cls) if f.name in cls.columns() and f.default is None)

    def _step_at(self, time: float) -> int:
        """Return the number of the step that contains a time, the later one of two."""
        return int(self._steps_at(np.array(time)))

    def _steps_at(self, times: Floats) -> Ints:
        """Return the same for many times."""
        return np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.times) - 2)


def _extras(hint: Any) -> tuple[Any, ...]:
    """Return what `Annotated` adds to a type, also to one that may be None."""
    parts = (hint, *get_args(hint))
    return tuple(extra for part in parts for extra in getattr(part, "__metadata__", ()))


def within(time: float, times: Floats) -> float:
    """Return a time checked to lie inside the recorded interval (up to rounding)."""
    time = real(time, "t")
    first, last = float(times[0]), float(times[-1])
    slack = 1e-12 * max(abs(first), abs(last))
    if not first - slack <= time <= last + slack:
        raise InvalidInputError(f"t: must lie in [{first:g}, {last:g}], got {time:g}")
    return min(max(time, first), last)


EVENT_KINDS = (
    "on",  # a data point becomes active for a neuron
    "off",  # a data point becomes inactive for a neuron
    "slide",  # a neuron starts to slide along a data point
    "release",  # a neuron stops sliding
    "death",  # a neuron loses its last active point and never moves again
    "two-valued",  # the solution is not unique from here on: one branch was taken
    "jump",  # a limit process jumps to its next saddle
    "hit",  # a neuron reaches a jump of the target and stays there
    "pass",  # a neuron passes a jump of the target
)


@dataclass(frozen=True)
class Event:
    """At `time`, `kind` happened to `neuron` at data point `point` (−1: not about one)."""

    time: float
    kind: str
    neuron: int = -1
    point: int = -1

    def __post_init__(self) -> None:
        # Runs have many thousands of them.
        plain = type(self.time) is float and type(self.neuron) is int and type(self.point) is int
        if (
            plain
            and type(self.kind) is str
            and self.kind in EVENT_KINDS
            and min(self.neuron, self.point) >= -1
            and isfinite(self.time)
        ):
            return
        one_of(self.kind, "kind", EVENT_KINDS)
        object.__setattr__(self, "time", real(self.time, "time"))
        object.__setattr__(self, "neuron", count(self.neuron, "neuron", at_least=-1))
        object.__setattr__(self, "point", count(self.point, "point", at_least=-1))

    @classmethod
    def known(cls, time: float, kind: str, neuron: int, point: int) -> Event:
        """Return an event whose values an engine has made itself: they need no checks."""
        event = object.__new__(cls)
        event.__dict__.update(time=time, kind=kind, neuron=neuron, point=point)
        return event


@dataclass(frozen=True)
class Stop:
    """Why a run cannot or need not go on: a code of `SENTENCES`, and what its sentence says."""

    code: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)


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
