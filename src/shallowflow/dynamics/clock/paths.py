"""Paths that networks take, kept as arrays: at recorded times, by polynomials, or to be made again.

`Snapshots` keeps θ at recorded times, as an array or as a `Table` that makes it when asked; `Polynomials`
one polynomial per step of an integrator, as its values at the Chebyshev–Lobatto nodes of the step, so that it
can be read at any time at the integrator's accuracy.
`Replayed` keeps states of the flow on orthogonal data, and makes a step again to read inside it. Beside
their engines: `Moves` and `Saddles`.

Paths of flows of ReLU networks that keep few numbers per step, and are read by following the neurons
again.

`GroupPath`, of a wide flow in the plane: every neuron at every time from a few numbers per step and the log
of its moves. In a step all neurons of a group follow one linear map (`kernels.cones.flow_state`), so a path
of m neurons needs no m numbers per step: kept are the pulls −∂L/∂h_k at the nodes of every step, the groups'
propagators at its start, and for each move of a neuron the group it enters and what it is there, θ̂. A neuron
at time t is

    θ = Φ_g(t) · P_g(start of the step) · (re-synchronisations of g since the move) · θ̂,

with Φ_g' = M_g Φ_g solved on the nodes of the step by a linear system.

`WallPath`, in any dimension: kept of every step are the pulls at its nodes and the neurons at its beginning.
Given the pulls, the neurons follow exactly (`kernels.walls.trace`), crossings and sliding included, so that
any moment inside a step is found as the run itself found its end. A step takes little more than one network.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, FrozenArrays, Ints, frozen, positive
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


class Table(FrozenArrays):
    """θ at recorded times, (K, P), whose rows are made when asked for: for networks of many neurons."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Records, and parameters of a network."""

    @abstractmethod
    def __getitem__(self, record: int) -> Floats:
        """Return θ (P,) at a record; beyond the last one, raise `IndexError`."""

    def __iter__(self) -> Iterator[Floats]:
        """Yield all rows, in less time than each for itself takes."""
        return (self[k] for k in range(len(self)))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return 8 * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all rows as one array."""
        whole = np.empty(self.shape)
        for k, row in enumerate(self):
            whole[k] = row
        return whole if dtype is None else whole.astype(dtype, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class Snapshots(RestLog[N_co]):
    """Networks at recorded times (K,), values (K, P); linear between neighbours.

    Between two consecutive steps of a descent the straight line is the descent itself; between sparser
    records it is an interpolation. With `sparse` (networks not recorded on the way) only the recorded times
    themselves may be asked for.
    """

    kind: ClassVar[str] = "snapshots"
    values: Annotated[Floats | Table, Column(("s+1", "P"), finite=False)]
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
        return np.asarray(self.values)

    def __eq__(self, other: object) -> bool:
        """Whether all is equal, however the values are kept."""
        if not isinstance(other, Snapshots):
            return NotImplemented
        if isinstance(self.values, np.ndarray) and isinstance(other.values, np.ndarray):
            return super().__eq__(other)
        nothing = np.empty((0, 0))
        return (
            FrozenArrays.__eq__(replace(self, values=nothing), replace(other, values=nothing))
            and self.values.shape == other.values.shape
            and all(np.array_equal(*rows, True) for rows in zip(self.values, other.values, strict=True))
        )


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


Indices = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class GroupPath(Path[ReLUNetwork]):
    """Networks of m neurons over s steps, by groups; C cones in the plane, k data points off the origin.

    times (s+1,); pulls (s, q, k). propagators (N, 3, 3) of the groups `occupied` (N,), those of step i from
    occupied_from[i] to occupied_from[i+1]. moves: move_times (M,), movers (M,), targets (M,), references
    (M, 3) in the order of time, those of step i from moves_from[i] to moves_from[i+1]. syncs (R, 3, 3) of the
    groups synced (R,) at the start of the steps sync_steps (R,). start_groups (m,). points
    (k, 2), seen (C, k): the gates of the cones, rays (C, 2): the directions of the walls; root: √epsilon,
    by which inner weights are divided and inputs multiplied. on_lines (n,): the line through the origin, of
    the C/2 that the walls make, on which each data point lies; −1 at the origin (None: not known).
    """

    kind: ClassVar[str] = "groups"
    compact: ClassVar[bool] = True
    pulls: Annotated[Floats, Column(("s", "q", "k"))]
    occupied_from: Annotated[Ints, Column(("s+1",), "counts", whole=True, rising=True)]
    occupied: Annotated[Ints, Column(("N",), whole=True, below="3C")]
    propagators: Annotated[Floats, Column(("N", 3, 3))]
    moves_from: Annotated[Ints, Column(("s+1",), "counts", whole=True, rising=True)]
    move_times: Annotated[Floats, Column(("M",))]
    movers: Annotated[Indices, Column(("M",), whole=True, below="m")]
    targets: Annotated[Indices, Column(("M",), whole=True, below="3C+2")]
    references: Annotated[Floats, Column(("M", 3))]
    sync_steps: Annotated[Ints, Column(("R",), whole=True, below="s", rising=True)]
    synced: Annotated[Ints, Column(("R",), whole=True, below="3C")]
    syncs: Annotated[Floats, Column(("R", 3, 3))]
    start_groups: Annotated[Ints, Column(("m",), "fixed", whole=True, below="3C+2")]
    points: Annotated[Floats, Column(("k", 2), "fixed")]
    seen: Annotated[Floats, Column(("C", "k"), "fixed")]
    rays: Annotated[Floats, Column(("C", 2), "fixed")]
    root: float = 1.0
    on_lines: Annotated[Ints, Column(("n",), "fixed", whole=True)] | None = field(default=None, kw_only=True)

    def __call__(self, time: float) -> ReLUNetwork:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        if time == self.times[0] or len(self.times) == 1:
            return self.template
        step = self._step_at(time)
        groups, references, born = self._members(step, time)
        present = np.flatnonzero(np.bincount(groups, minlength=1))
        theta = np.empty_like(references)
        flows = self._flows(step, time, present)
        # Sorting once beats a mask per group.
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups)[present])
        for group, flow, rows in zip(present, flows, np.split(order, ends[:-1]), strict=True):
            theta[rows] = self._brought_up_to_date(int(group), step, flow, references[rows], born[rows])
        return self.template.moved({"inner": self.root * theta[:, :2], "outer": theta[:, 2].copy()})

    def _members(self, step: int, time: float) -> tuple[Ints, Floats, Ints]:
        """Return the group of every neuron at a time, its θ̂ and the step in which it got there."""
        low, high = self.moves_from[step], self.moves_from[step + 1]
        last = low + int(np.searchsorted(self.move_times[low:high], time, side="right"))
        network = self.template
        groups, born = np.array(self.start_groups), np.zeros(len(self.start_groups), np.int64)
        references = np.column_stack([network.inner / self.root, network.outer])
        movers = self.movers[:last]
        # Of several moves of one neuron the last one stays.
        groups[movers], references[movers] = self.targets[:last], self.references[:last]
        born[movers] = np.searchsorted(self.moves_from, np.arange(last), side="right") - 1
        return groups, references, born

    def _flows(self, step: int, time: float, groups: Ints) -> Floats:
        """Return Φ(t)·P of the groups, (len(groups), 3, 3)."""
        length = float(self.times[step + 1] - self.times[step])
        weights = lobatto_weights((time - float(self.times[step])) / length, self.pulls.shape[1])
        forces = self._forces(step, groups)
        count, nodes = forces.shape[:2]
        rates = np.zeros((count, nodes, 3, 3))
        rates[:, :, :2, 2] = rates[:, :, 2, :2] = length * forces
        integral = integration_matrix(nodes)
        system = np.eye(3 * nodes) - np.einsum("ij,gjab->giajb", integral, rates).reshape(
            count, 3 * nodes, 3 * nodes
        )
        ones = np.broadcast_to(np.tile(np.eye(3), (nodes, 1)), (count, 3 * nodes, 3))
        solved = np.linalg.solve(system, ones).reshape(count, nodes, 3, 3)
        flows: Floats = np.einsum("i,giab->gab", weights, solved)
        here = slice(self.occupied_from[step], self.occupied_from[step + 1])
        known = dict(zip(self.occupied[here].tolist(), self.propagators[here], strict=True))
        for at, group in enumerate(groups.tolist()):
            if group in known:
                flows[at] = flows[at] @ known[group]
        return flows

    def _forces(self, step: int, groups: Ints) -> Floats:
        """Return the forces on the groups at the nodes of a step, (len(groups), q, 2)."""
        cones = len(self.rays)
        forces = np.zeros((len(groups), self.pulls.shape[1], 2))
        moving = groups < 3 * cones
        wall = np.where(groups < cones, groups, (groups - cones) // 2)[moving]
        forces[moving] = np.einsum("qk,gk,kd->gqd", self.pulls[step], self.seen[wall], self.points)
        sliding = moving & (groups >= cones)
        rays = self.rays[(groups[sliding] - cones) // 2]
        along = np.einsum("gqd,gd->gq", forces[sliding], rays)
        forces[sliding] = along[:, :, None] * rays[:, None, :]
        return forces

    def _brought_up_to_date(
        self, group: int, step: int, flow: Floats, references: Floats, born: Ints
    ) -> Floats:
        """Return θ (j, 3) of neurons of one group from their θ̂, set in the steps `born` (j,)."""
        chosen = (self.synced == group) & (self.sync_steps <= step)
        steps, matrices = self.sync_steps[chosen], self.syncs[chosen]
        missing = np.searchsorted(steps, born, side="right")
        theta = np.empty_like(references)
        product = flow
        for epoch in range(len(steps), -1, -1):
            rows = missing == epoch
            theta[rows] = references[rows] @ product.T
            if epoch > 0:
                product = product @ matrices[epoch - 1]
        return theta

    def resting(self, time: float) -> tuple[Ints, Ints] | None:
        """Return neurons and data points, pair by pair, that rest on each other."""
        if self.on_lines is None:
            return None
        time = within(time, self.times)
        groups, lines = self._members(self._step_at(time), time)[0], len(self.rays) // 2
        sliding = np.flatnonzero((groups >= 2 * lines) & (groups < 6 * lines))
        on_line = [np.flatnonzero(self.on_lines == line) for line in range(lines)]
        found = [on_line[(groups[j] - 2 * lines) // 2 % lines] for j in sliding.tolist()]
        neurons = np.repeat(sliding, [len(points) for points in found])
        return neurons, np.concatenate([np.empty(0, np.int64), *found])

    def check(self) -> None:
        """Refuse other networks, steps of one node, and offsets that do not reach their end."""
        if not isinstance(self.template, ReLUNetwork) or self.template.dimension != 2:
            raise FileFormatError("a path by groups needs a ReLUNetwork on inputs of dimension 2")
        for name, end in (("occupied_from", len(self.occupied)), ("moves_from", len(self.movers))):
            if getattr(self, name)[[0, -1]].tolist() != [0, end]:
                raise FileFormatError(f"path_{name} does not go from 0 to {end}")
        if self.pulls.shape[1] < 2 or not self.root > 0:
            raise FileFormatError("path_pulls has fewer than 2 nodes per step, or root is not positive")


@dataclass(frozen=True, eq=False, repr=False)
class WallPath(RestLog[ReLUNetwork]):
    """Networks of m neurons over s steps, with k inputs off the origin, in c coordinates of their span.

    pulls (s, q, k) at the Radau nodes; inner (s, m, c), outer (s, m) and signs (s, m, b), packed, at the
    beginning of each step. inputs (n, d), basis (d, c). root: √epsilon, by which inner weights are divided
    and inputs multiplied; rest: the force by which a sliding neuron must be pulled off.
    """

    kind: ClassVar[str] = "walls"
    alone: ClassVar[bool] = True
    compact: ClassVar[bool] = True
    pulls: Annotated[Floats, Column(("s", "q", "k"))]
    inner: Annotated[Floats, Column(("s", "m", "c"))]
    outer: Annotated[Floats, Column(("s", "m"))]
    signs: Annotated[Ints, Column(("s", "m", "b"), whole=True)]
    inputs: Annotated[Floats, Column(("n", "d"), "fixed")]
    basis: Annotated[Floats, Column(("d", "c"), "fixed")]
    root: float
    rest: float

    def __call__(self, time: float) -> ReLUNetwork:
        """Return the network at a time in [times[0], times[-1]]."""
        from shallowflow.kernels.walls.desk import Neurons
        from shallowflow.kernels.walls.step import Reader, unpack

        time = within(time, self.times)
        if time == self.times[0] or len(self.times) == 1:
            return self.template
        step, problem = self._step_at(time), self._problem()
        length = float(self.times[step + 1] - self.times[step])
        share = np.array([min((time - float(self.times[step])) / length, 1.0)])
        signs = unpack(self.signs[step], len(problem.normals))
        start = Neurons(np.array(self.inner[step]), np.array(self.outer[step]), signs)
        then, _ = Reader(1, problem)(length, self.rest, start, self.pulls[step], share)
        return moved_in_span(self.template, then.inner, then.outer, self.basis, self.root)

    def _problem(self) -> Any:
        """The geometry of the problem; targets and weights do not matter where the pulls are known."""
        from shallowflow.kernels.walls.field import SQUARE, Problem, arrange

        normals, samples, _ = arrange(self.root * self.inputs, np.zeros(len(self.inputs)))
        inside = np.ascontiguousarray(normals @ self.basis)
        aligned = inside.shape[0] == inside.shape[1] and bool(
            np.abs(inside - np.eye(len(inside))).max(initial=0.0) < 1e-12
        )
        if aligned:
            inside = np.eye(len(inside))
        network = self.template
        return Problem(
            inside, samples, int(aligned), float(network.scale), float(network.slope), 1.0, SQUARE, 0.0
        )

    def check(self) -> None:
        """Refuse other networks, steps of no length, and what does not fit the data."""
        from shallowflow.kernels.walls.field import TERMS

        if not isinstance(self.template, ReLUNetwork):
            raise FileFormatError("a path by walls needs a ReLUNetwork")
        if len(self.times) < 2 or np.any(np.diff(self.times) <= 0):
            raise FileFormatError("path_times must have a step, and all steps a length")
        if not (self.root > 0 and self.rest >= 0 and np.isfinite(self.root + self.rest)):
            raise FileFormatError("root must be positive and rest not negative")
        walls = len(self._problem().normals)
        off_origin = int(np.any(self.inputs != 0, axis=1).sum())
        if (
            self.pulls.shape[1] != TERMS
            or self.pulls.shape[2] != off_origin
            or self.signs.shape[2] != -(-walls // 31)
        ):
            raise FileFormatError("path_pulls or path_signs do not fit path_inputs")
        if np.any(self.signs < 0) or np.any(self.signs & self.signs >> 1 & 0x1555555555555555):
            raise FileFormatError("path_signs has codes that are no signs")


def moved_in_span(
    network: ReLUNetwork, inner: Floats, outer: Floats, basis: Floats, root: float
) -> ReLUNetwork:
    """Return the network with its neurons moved, given in coordinates of the span and divided by `root`."""
    start = (network.inner / root) @ basis
    return network.moved(
        {"inner": network.inner + root * ((inner - start) @ basis.T), "outer": np.array(outer)}
    )
