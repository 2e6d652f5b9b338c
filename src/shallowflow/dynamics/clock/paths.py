"""Paths that networks take, kept as arrays: at recorded times, by polynomials, or to be made again.

`Snapshots` keeps θ at recorded times; `Polynomials` one polynomial per step of an integrator, as its values
at the Chebyshev–Lobatto nodes of the step, so that it can be read at any time at the integrator's accuracy.
`Replayed` keeps states of the flow on orthogonal data, and makes a step again to read inside it. Other
kinds: `flow_paths`, and beside their engines `Moves` and `Saddles`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, ClassVar

import numpy as np

from shallowflow.arrays import Floats, Ints, frozen, positive
from shallowflow.dynamics.clock.protocol import Column, N_co, Path, unflatten, within
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.landscape.geometry.orthonormal import input_norms, unit_inputs
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork


def lobatto_nodes(count: int) -> Floats:
    """Return the Chebyshev–Lobatto nodes (1 − cos(πk/(q−1)))/2 of [0, 1]."""
    return 0.5 * (1.0 - np.cos(np.pi * np.arange(count) / (count - 1)))


def lobatto_weights(share: float | Floats, count: int) -> Floats:
    """Return the Lagrange weights at `share` ∈ [0, 1] by the barycentric formula: p = weights @ values.

    share: a number, or an array (k,) for weights (k, q).
    """
    gaps = np.subtract.outer(share, lobatto_nodes(count))
    # On a node, up to rounding, the value there is all that counts.
    hits = np.abs(gaps) < 1e-15
    gaps[hits.any(axis=-1)] = np.inf
    gaps[hits] = 1.0
    signs = (-1.0) ** np.arange(count)
    signs[[0, -1]] *= 0.5
    terms: Floats = signs / gaps
    return np.asarray(terms / terms.sum(axis=-1, keepdims=True))


@cache
def integration_matrix(count: int) -> Floats:
    """Return Q (q, q): Σ_j Q_ij f_j is the integral from 0 to node i of the polynomial through f."""
    chebyshev = np.polynomial.chebyshev
    shares = 2.0 * lobatto_nodes(count) - 1.0
    integrals = [chebyshev.chebval(shares, chebyshev.chebint(e, lbnd=-1.0)) / 2.0 for e in np.eye(count)]
    solved = np.linalg.solve(chebyshev.chebvander(shares, count - 1).T, np.array(integrals))
    return frozen(solved.T.astype(np.float64))


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
