"""Paths: networks as a function of time, kept as arrays.

A path is a class whose fields are its columns: arrays with a shape in symbols. The recorder joins the rows
that an engine hands down by these declarations, and files are checked by them. θ ∈ R^P is all parameters of a
network in one vector, in the order of `PARAMETERS`.

`Snapshots` keeps θ at recorded times; `Polynomials` one polynomial per step of an integrator, as its values
at the Chebyshev–Lobatto nodes of the step, so that it can be read at any time at the integrator's accuracy.
`Replayed` keeps states of the flow on orthogonal data, and makes a step again to read inside it. Other
kinds: `group_path`, and beside their engines `Moves` and `Saddles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, get_args, get_type_hints

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, positive, real
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.landscape.geometry.orthonormal import input_norms, unit_inputs
from shallowflow.lobatto import lobatto_weights
from shallowflow.models.networks import LogScaledNetwork, Network, ReLUNetwork
from shallowflow.models.relu import BaseNetwork

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


@dataclass(frozen=True, eq=False, repr=False)
class RestLog(Path[N_co]):
    """A path with a log of the pairs (neuron, data point) that rest on each other, as its flow knew them.

    rest_times (r,): when it changed; rest_neurons (r,); rest_points (r,): k ≥ 0 where the neuron comes to
    rest on point k, −1 − k where it leaves it. None: the run had no such log.
    """

    rest_times: Annotated[Floats, Column(("r",), rising=True)] | None = field(default=None, kw_only=True)
    rest_neurons: Annotated[Ints, Column(("r",), whole=True, below="m")] | None = field(
        default=None, kw_only=True
    )
    rest_points: Annotated[Ints, Column(("r",), whole=True)] | None = field(default=None, kw_only=True)

    def resting(self, time: float) -> tuple[Ints, Ints] | None:
        """Return neurons and data points, pair by pair, that rest on each other; None: not known."""
        if self.rest_times is None or self.rest_neurons is None or self.rest_points is None:
            return None
        known = int(np.searchsorted(self.rest_times, within(time, self.times), side="right"))
        pairs = dict[tuple[int, int], None]()
        for j, k in zip(self.rest_neurons[:known].tolist(), self.rest_points[:known].tolist(), strict=True):
            if k >= 0:
                pairs[j, k] = None
            else:
                pairs.pop((j, -1 - k), None)
        found = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]


@dataclass(frozen=True, eq=False, repr=False)
class Snapshots(RestLog[N_co]):
    """Networks at recorded times (K,), values (K, P); linear between neighbours.

    Between two consecutive steps of a descent the straight line is the descent itself; between sparser
    records it is an interpolation. With `sparse` (networks not recorded on the way) only the recorded times
    themselves may be asked for.
    """

    kind: ClassVar[str] = "snapshots"
    values: Annotated[Floats, Column(("s+1", "P"), finite=False)]
    sparse: bool = False

    def __call__(self, time: float) -> N_co:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        right = int(np.clip(np.searchsorted(self.times, time), 1, max(len(self.times) - 1, 1)))
        if len(self.times) == 1 or time <= self.times[right - 1]:
            return unflatten(self.template, self.values[right - 1])
        if time == self.times[right]:
            return unflatten(self.template, self.values[right])
        if self.sparse:
            raise InvalidInputError(
                f"t: networks were recorded at {len(self.times)} times only, none at {time:g}; "
                "run again with networks=True in the record"
            )
        share = (time - self.times[right - 1]) / (self.times[right] - self.times[right - 1])
        theta = (1 - share) * self.values[right - 1] + share * self.values[right]
        return unflatten(self.template, theta)

    def recorded(self) -> Floats:
        """Return θ at the recorded times, (K, P)."""
        return self.values


@dataclass(frozen=True, eq=False, repr=False)
class Polynomials(RestLog[N_co]):
    """One polynomial per step: values (s, q, P) at the q Chebyshev–Lobatto nodes of [times_i, times_i+1]."""

    kind: ClassVar[str] = "polynomials"
    alone: ClassVar[bool] = True
    values: Annotated[Floats, Column(("s", "q", "P"))]

    def __call__(self, time: float) -> N_co:
        """Return the network at a time in [times[0], times[-1]]."""
        return unflatten(self.template, self.table(np.array([within(time, self.times)]))[0])

    def table(self, times: Floats) -> Floats:
        """Return θ at these times (k,), (k, P)."""
        steps = self._steps_at(times)
        shares = (times - self.times[steps]) / (self.times[steps + 1] - self.times[steps])
        weights = lobatto_weights(shares, self.values.shape[1])
        return np.asarray(np.matmul(weights[:, None], self.values[steps])[:, 0])

    def recorded(self) -> Floats:
        """Return θ at the ends of the steps, (s + 1, P)."""
        self._check_table()
        return np.concatenate([self.values[:, 0], self.values[-1:, -1]])

    def check(self) -> None:
        """Refuse paths without a step, steps of no length, and steps with fewer than two nodes."""
        if len(self.times) < 2 or np.any(np.diff(self.times) <= 0):
            raise FileFormatError("path_times must have a step, and all steps a length")
        if self.values.shape[1] < 2:
            raise FileFormatError(
                f"path_values has {self.values.shape[1]} nodes per step instead of 2 or more"
            )


Scaled = LogScaledNetwork | ReLUNetwork


def log_sizes(network: Scaled) -> Floats:
    """Return ln|√scale·a_j|, (m,)."""
    if isinstance(network, LogScaledNetwork):
        return network.log_scales + np.log(np.abs(network.outer))
    return np.asarray(np.log(np.abs(network.outer)) + 0.5 * np.log(network.scale))


def relative(network: Scaled) -> Floats:
    """Return w_j/|a_j|, (m, d)."""
    return np.asarray(network.inner / np.abs(network.outer)[:, None])


@dataclass(frozen=True, eq=False, repr=False)
class Replayed(Path[Scaled]):
    """States at the ends of steps: values (s + 1, m, n + 1), ρ first; the problem's data, rate and tiny.

    Kept are states of `kernels.orthogonal.flow`: ρ_j = ln|a_j| and g_jk = ⟨w_j, x_k⟩/(|a_j|‖x_k‖) on active
    points, of (√scale·w, √scale·a). What a step does depends on the state at its start alone, so that a
    shorter step of the same kind gives any moment inside, at the accuracy of the integrator (exactly on a
    plateau).
    """

    kind: ClassVar[str] = "replayed"
    alone: ClassVar[bool] = True
    compact: ClassVar[bool] = True
    values: Annotated[Floats, Column(("s+1", "m", "n+1"), "knots")]
    inputs: Annotated[Floats, Column(("n", "d"), "fixed")]
    targets: Annotated[Floats, Column(("n",), "fixed")]
    rate: float
    tiny: float

    def __call__(self, time: float) -> Scaled:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        if time == 0:
            return self.template
        return self.network(self.state(time))

    def state(self, time: float) -> Floats:
        """Return (ρ, g) at a time in [times[0], times[-1]], (m, n + 1)."""
        from shallowflow.kernels.orthogonal.flow import replay
        from shallowflow.kernels.orthogonal.step import problem_of

        time = within(time, self.times)
        last = int(np.searchsorted(self.times, time, side="right")) - 1
        state = self.values[last].copy()
        if time > self.times[last]:
            rho, g = state[:, 0].copy(), state[:, 1:].copy()
            signs, norms = np.sign(self.template.outer), input_norms(self.inputs)
            problem = problem_of(signs, self.targets, self.rate, self.tiny, norms)
            replay(rho, g, problem, time - self.times[last])
            state[:, 0], state[:, 1:] = rho, g
        return np.asarray(state)

    def network(self, state: Floats) -> Scaled:
        """Return the network of a state; what never moves (inactive, or orthogonal to the data) is added."""
        units, _ = unit_inputs(self.inputs)
        start, rho = relative(self.template), state[:, 0]
        rest = start - np.maximum(start @ units.T, 0.0) @ units
        shrunk = np.exp(np.minimum(log_sizes(self.template) - rho, 700.0))
        inner, outer = state[:, 1:] @ units + shrunk[:, None] * rest, np.sign(self.template.outer)
        if isinstance(self.template, LogScaledNetwork):
            return self.template.moved({"inner": inner, "outer": outer, "log_scales": rho})
        size = np.exp(rho) / np.sqrt(self.template.scale)
        return self.template.moved({"inner": size[:, None] * inner, "outer": size * outer})

    def resting(self, time: float) -> tuple[Ints, Ints]:
        """Return neurons and data points, pair by pair, that rest on each other: active once, now at 0."""
        begun = self.values[0, :, 1:] > 0
        neurons, points = np.nonzero(begun & (self.state(time)[:, 1:] <= 0))
        return neurons.astype(np.int64), points.astype(np.int64)

    def predictions(self) -> Floats:
        """Return h(x_k) at `times`, (s + 1, n)."""
        weights = np.sign(self.template.outer) * np.exp(2.0 * self.values[:, :, 0])
        outputs: Floats = np.einsum("tj,tjk->tk", weights, self.values[:, :, 1:])
        return outputs * input_norms(self.inputs)

    def check(self) -> None:
        """Refuse other networks, and constants that are not positive."""
        if not isinstance(self.template, LogScaledNetwork | ReLUNetwork):
            raise FileFormatError(
                "a replayed path is that of a LogScaledNetwork or a ReLUNetwork, "
                f"not of a {type(self.template).__name__}"
            )
        positive(self.rate, "rate")
        positive(self.tiny, "tiny")
