"""Plain gradient flow of kinks, of order 8 between located events, and the two-timescale limit on data.

Between events the signs of the gates are frozen and the flow is smooth; every accepted step is searched for
changes at the nodes of its interpolant, the first change is located by Brent's method, and the integration
starts afresh there. O(m·n·d) per evaluation: the reference of faster flows. After `CALM` steps without an
event LSODA takes over, whose steps do not shrink where the flow is stiff.

In the limit the inner layer flows, u' = −∂L/∂u (a*(u), u) with a*(u) of least squares and minimum norm
(envelope theorem, [two_timescale] Remark 1). ⟨w_j, ∂L/∂w_j⟩ = a_j ∂L/∂a_j = 0 there: neurons keep their
norms, and one at zero stays. Where the rank of the features changes a*(u) may jump, and the flow with it.

**Gates.** Samples on one line through the origin share a wall (`kernels.walls.field`; of a `KnotNetwork`:
equal inputs), so that repeated, collinear and opposite inputs are decided together, and inputs at the origin
not at all. A sign (j, w) is ±1 for the side of wall w on which neuron j is, or 0: it slides along it. With
c_k = ∂L/∂h_k, x_k = s_k ρ_k e_w (of a `KnotNetwork`: s = ρ = 1, e = −1) and γ the leaky slope,

    D_j = Σ_w (F_w + σ_jw C_w) e_w,   F_w = ½(1 + γ) Σ_k s_k ρ_k c_k,   C_w = ½(1 − γ) Σ_k ρ_k c_k,
    dz_jw/dt = −outer_j ⟨D_j, e_w⟩ (times positive factors),   σ = ±1, or of least ‖D_j‖ where it slides.

At z_jw = 0 the one-sided velocities decide (Filippov), by the rule of `kernels.walls.settle`: a wall with
outer_j C_w > 0 attracts, and is crossed or holds the neuron until |σ| > 1; one with outer_j C_w < 0 is
crossed by a neuron that arrives. A neuron that is on it, because it starts there or because its outer weight
has changed sign while it slid, may leave to both sides: its future is two-valued, and a hash of its number
draws the side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853, LSODA
from scipy.optimize import brentq

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.baselines import distinct_points, minimum_norm_outer
from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Path, Piece, Rows, Statistics, Stop, flatten, unflatten
from shallowflow.dynamics.engines.smooth_flow import layer_rates, order_eight
from shallowflow.dynamics.engines.wall_flow import WallEvents, WallLog
from shallowflow.kernels.walls.field import Problem, Samples, arrange
from shallowflow.landscape.geometry.activity import Meeting
from shallowflow.models.loss import Loss
from shallowflow.models.networks import OUTER_LAYER, KnotNetwork, ReLUNetwork

Trained = ReLUNetwork | KnotNetwork
Signs = NDArray[np.int8]
ROUNDING = 1e-13
"""A preactivation is zero when it is below this share of the neuron's size."""
GRAZE = 10.0
"""Tolerances within which a neuron that has just left a wall may stray back by errors of the integrator."""


class Gates:
    """On which side of every wall each neuron is, (m, W), and the rules by which that changes."""

    def __init__(self, network: Trained, dataset: Dataset, loss: Loss, tolerance: float) -> None:
        self.tolerance, self.loss, self.slope = tolerance, loss, float(network.slope)
        self._targets, self._scale = dataset.targets, 1.0
        if isinstance(network, ReLUNetwork):
            self.normals, self._samples, self._kept = arrange(dataset.inputs, dataset.targets)
            self._places, self._scale = np.zeros(len(self.normals)), float(network.scale)
        else:
            self._places, walls = np.unique(dataset.inputs[:, 0], return_inverse=True)
            self.normals, self._kept = -np.ones((len(self._places), 1)), np.arange(dataset.size)
            ones = np.ones(dataset.size)
            self._samples = Samples(walls.astype(np.int64), ones, ones, dataset.targets)
        problem = Problem(self.normals, self._samples, 0, self._scale, self.slope, 1.0, 0, 0.0)
        self.names = WallEvents(problem, self._kept)
        z = self.distances(network)
        near, still = np.abs(z) <= self._rounding(network), self._sizes(network) == 0
        self.signs: Signs = np.where(still, -1, np.where(near, 0, np.sign(z))).astype(np.int8)
        # The sign of the outer weight with which a neuron slides; walls that a neuron has just left.
        self._ways = np.zeros(network.width)
        self._grazing = np.zeros(z.shape, np.bool_)

    def distances(self, network: Trained) -> Floats:
        """Return z (m, W): ⟨w_j, e_w⟩, or how far a point lies to the right of a knot."""
        if isinstance(network, KnotNetwork):
            away: Floats = self._places - network.knots[:, None]
            return away
        return network.inner @ self.normals.T

    def _sizes(self, network: Trained) -> Floats:
        """Return the size (m, W) against which a distance is measured; 0 for a neuron that never moves."""
        if isinstance(network, KnotNetwork):
            largest = float(np.abs(self._places).max()) or 1.0
            return np.abs(network.knots)[:, None] + np.full(len(self._places), largest, np.float64)
        lengths = np.linalg.norm(network.inner, axis=1)[:, None]
        return np.broadcast_to(lengths, (network.width, len(self.normals)))

    def _rounding(self, network: Trained) -> Floats:
        """Return the size below which z_jw is rounding, (m, W)."""
        return ROUNDING * self._sizes(network)

    def forces(self, network: Trained) -> tuple[Floats, Floats]:
        """Return F and C (W,), with the prediction continued smoothly by the present signs."""
        walls, sides, lengths, _ = self._samples
        predictions = self.features(network) @ network.outer
        pulls = self._scale * lengths * self.loss.slopes(predictions, self._targets)[self._kept]
        count = len(self.normals)
        mean, jump = (np.asarray(np.bincount(walls, f, count), np.float64) for f in (sides * pulls, pulls))
        return 0.5 * (1.0 + self.slope) * mean, 0.5 * (1.0 - self.slope) * jump

    def features(self, network: Trained) -> Floats:
        """Return Φ (n, m), f = Φ·outer at the samples, continued smoothly by the present signs."""
        walls, sides, lengths, _ = self._samples
        z, signs = self.distances(network)[:, walls], self.signs[:, walls] * sides
        found = np.zeros((len(self._targets), network.width))
        gates = np.where(signs > 0, 1.0, np.where(signs < 0, self.slope, 0.0))
        found[self._kept] = (self._scale * lengths * sides * gates * z).T
        return found

    def multipliers(self, mean: Floats, jump: Floats) -> Floats:
        """Return σ (m, W): ±1, and for a sliding neuron what keeps it on its walls."""
        found = self.signs.astype(np.float64)
        for j in np.unique(np.nonzero(self.signs == 0)[0]):
            sliding = self.signs[j] == 0
            known = (mean + found[j] * jump) @ self.normals
            found[j, sliding] = np.linalg.lstsq((jump[:, None] * self.normals)[sliding].T, -known)[0]
        return found

    def gradient(self, network: Trained) -> dict[str, Floats]:
        """Return the gradient in both layers with the present signs."""
        mean, jump = self.forces(network)
        pulls = mean + self.multipliers(mean, jump) * jump
        inner = network.outer[:, None] * (pulls @ self.normals)
        outer = np.sum(self.distances(network) * np.where(self.signs == 0, 0.0, pulls), axis=1)
        return {"outer": outer} | (
            {"knots": inner[:, 0]} if isinstance(network, KnotNetwork) else {"inner": inner}
        )

    @property
    def sliding(self) -> bool:
        """Whether a neuron slides."""
        return bool((self.signs == 0).any())

    def margins(self, network: Trained) -> Floats:
        """Return how far every sign is from a change, (m, W + 1): negative where it has already changed.

        The last column is that of the outer weights of sliding neurons. Without a sliding neuron the outer
        weights do not count. A neuron at zero never moves: its margins are infinite.
        """
        sizes = self._sizes(network)
        still = sizes == 0
        slack = np.where(self._grazing, GRAZE * self.tolerance, ROUNDING) * sizes
        margins = np.where(still, np.inf, self.signs * self.distances(network) + slack)
        turns = np.full(network.width, np.inf)
        slides = self.signs == 0
        if slides.any():
            mean, jump = self.forces(network)
            margins = np.where(slides, self._slack(network, self.multipliers(mean, jump), jump), margins)
            rows = slides.any(axis=1)
            rest = ROUNDING * np.abs(network.outer).max()
            way, outer = self._ways[rows], network.outer[rows]
            turns[rows] = rest + np.where(way == 0, -np.abs(outer), way * outer)
        return np.column_stack([margins, turns])

    def due(self, network: Trained, first: int) -> list[int]:
        """Return the neurons to be settled with the first: those that meet a wall with it, but for rounding.

        Equal neurons would else part there.
        """
        near = (self.signs != 0) & (self.signs * self.distances(network) <= 4 * self._rounding(network))
        near &= self._sizes(network) > 0
        return [first, *(j for j in np.flatnonzero(near.any(axis=1)).tolist() if j != first)]

    def _slack(self, network: Trained, multipliers: Floats, jump: Floats) -> Floats:
        """Return how far sliding neurons (m, W) are from release, as a speed: negative for who must go.

        σ beyond [−1, 1] by δ means that the neuron is pulled off at the speed δ·|outer_j C_w|. It is released
        when that speed exceeds what the integrator errs; otherwise a neuron that slides into an equilibrium,
        where all forces vanish, would be released and caught again at every step.
        """
        beyond = (np.abs(multipliers) - 1.0) * np.abs(np.outer(network.outer, jump))
        slack: Floats = 10 * self.tolerance * self._sizes(network) - beyond
        return slack

    def start(self, network: Trained) -> WallLog:
        """Settle every neuron that starts on walls; return what they do."""
        whole = nothing()
        for j in np.unique(np.nonzero(self.signs == 0)[0]).tolist():
            log = self.settle(network, j, 0.0)[1]
            seen = (log.after == 0) | (log.kinds > 0)
            whole = whole.then(WallLog([column[seen] for column in log.columns]))
        return whole

    def settle(self, network: Trained, j: int, time: float) -> tuple[Trained, WallLog]:
        """Decide every wall of neuron j that is at its limit.

        Return the network with the neuron put exactly onto the walls that it met, and what has changed (at
        time 0, where it starts on walls: all of them).
        """
        mean, jump = self.forces(network)
        before, all_values = self.signs[j].copy(), self.multipliers(mean, jump)
        way = float(np.sign(network.outer[j]))
        kept_way = time > 0 and way == self._ways[j]
        slack = self._slack(network, all_values, jump)[j]
        staying = (before == 0) & (slack >= 0) & kept_way
        near = before * self.distances(network)[j] <= 4 * self._rounding(network)[j]
        at_limit = ~staying & ((before == 0) | near)
        # A neuron whose outer weight is zero goes the way that the weight is about to take.
        outer = float(network.outer[j]) or -float(self.gradient(network)["outer"][j])
        meeting = Meeting(self.normals, mean, jump, outer, at_limit | staying)
        first = meeting.first_signs(j, before, all_values[j])
        signs, two_valued = meeting.settled(first, before)
        self.signs[j], self._ways[j], self._grazing[j] = signs, way, (at_limit | staying) & (signs != 0)
        changed = np.flatnonzero((signs != before) | (at_limit & (time == 0)))
        log = self._log(j, changed, (time, before, two_valued))
        return self._put(network, {j: at_limit | staying}), log

    def _log(self, j: int, walls: Ints, what: tuple[float, Signs, Bools]) -> WallLog:
        """Return the changes of one neuron in the columns of a `WallLog`."""
        time, before, two_valued = what
        now = self.signs[j]
        active = np.any(now[self._samples.walls] * self._samples.sides > 0) or np.any(now == 0)
        many = len(walls)
        return WallLog(
            [
                np.full(many, time),
                np.full(many, j),
                walls,
                before[walls].astype(np.int64),
                now[walls].astype(np.int64),
                two_valued[walls].astype(np.int64),
                np.full(many, not active and self.slope == 0),
                np.full(many, False),
            ]
        )

    def onto_walls(self, network: Trained) -> Trained:
        """Return the network with every sliding neuron put exactly onto its walls; note who has left them."""
        self._grazing &= np.abs(self.distances(network)) <= 2 * GRAZE * self.tolerance * self._sizes(network)
        sliding = np.unique(np.nonzero(self.signs == 0)[0])
        return self._put(network, {int(j): self.signs[j] == 0 for j in sliding})

    def _put(self, network: Trained, faces: Mapping[int, Bools]) -> Trained:
        """Return the network with the given neurons moved the shortest way onto the given walls."""
        if not faces:
            return network
        if isinstance(network, KnotNetwork):
            knots = network.knots.copy()
            for j, walls in faces.items():
                knots[j] = self._places[np.argmax(walls)]
            return network.moved({"knots": knots})
        inner = network.inner.copy()
        for j, walls in faces.items():
            normals = self.normals[walls]
            inner[j] -= np.linalg.pinv(normals) @ (normals @ inner[j])
        return network.moved({"inner": inner})


def nothing() -> WallLog:
    """Return a log without changes."""
    return WallLog([np.empty(0, dtype) for dtype in (float, int, int, int, int, int, bool, bool)])


NODES = 8
STUCK = 200
CALM = 60
RANK = 1e-10
"""Singular values of the features below this share of the largest count as 0."""
SAME = 1e-14
"""Unit vectors that differ by less in every coordinate are one."""


class DenseFlow:
    """Follow θ' = −rates·∇L(θ), one accepted step or one event at a time."""

    name = "dense"

    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, task: Task) -> None:
        network = task.network
        assert isinstance(network, Trained)
        self._template, self._measure = network, task.measure
        self._tolerance, self._stop = task.tolerance, task.stop
        self._rates = self.rates(task)
        self._evaluations = self._idle = self._segments = self._events = self._two_valued = 0
        self.gates = Gates(network, task.dataset, task.loss, task.tolerance)
        start = self.best(network)
        self._ahead = self.gates.start(start)
        self._time, self._theta, self._step = 0.0, flatten(self.best(start)), 0.0
        self._solver: DOP853 | LSODA | None = None
        self._calm = 0
        self._count(self._ahead)

    def statistics(self) -> Statistics:
        """Return the numbers of evaluations of the gradient, of steps and of events."""
        return {
            "evaluations": self._evaluations,
            "two-valued": self._two_valued,
            "segments": self._segments,
            "events": self._events,
        }

    def _count(self, log: WallLog) -> None:
        self._events += len(log.neurons)
        self._two_valued += len(np.unique(log.neurons[log.kinds > 0]))

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self.network())

    def network(self) -> Trained:
        """Return the present network."""
        return self.whole(unflatten(self._template, self._theta))

    def rates(self, task: Task) -> Floats:
        """Return the speed of every parameter."""
        return layer_rates(task.network, task.speed, task.epsilon)

    def best(self, network: Trained) -> Trained:
        """Return the network that a state stands for: itself."""
        return network

    def whole(self, network: Trained) -> Trained:
        """Return the network as it is shown: itself."""
        return network

    def named(self, log: WallLog) -> WallLog:
        """Return a log with the neurons of the network that is shown."""
        return log

    def _at(self, theta: Floats) -> Trained:
        return self.best(unflatten(self._template, theta))

    def path(self, times: Floats, rows: Rows) -> Polynomials[Trained]:
        """Return the polynomials of these steps."""
        return Polynomials(self.network(), times, **rows)

    def velocity(self, _: float, theta: Floats) -> Floats:
        """Return −rates·∇L with the present signs."""
        self._evaluations += 1
        gradient = self.gates.gradient(self._at(theta))
        flat: Floats = np.concatenate([gradient[name].ravel() for name in self._template.PARAMETERS])
        return -self._rates * flat

    def _begin(self, until: float) -> DOP853 | LSODA:
        """Return a solver that starts from the present state."""
        span = self.velocity, self._time, self._theta, until
        if self._calm > CALM:
            size = max(float(np.abs(self._theta).max()), 1e-300)
            return LSODA(*span, rtol=self._tolerance, atol=self._tolerance * size)
        first = min(self._step, until - self._time) or None
        return order_eight(*span, tolerance=self._tolerance, first_step=first)

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by one accepted step, or to the first event in it."""
        solver = self._solver
        if solver is None or solver.t_bound != until:
            solver = self._begin(until)
        solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            return Piece(np.array([self._time]), stop=Stop("no step", {"time": self._time}))
        if isinstance(solver, DOP853):
            self._step = float(solver.h_abs)
        end = float(solver.t)
        piece = self._cut(solver.dense_output(), end, rows)
        self._calm = self._calm + 1 if self._time == end else 0
        going = self._time == end and self._calm > CALM and isinstance(solver, LSODA)
        self._solver = solver if going else None
        if self._idle > STUCK:
            return replace(piece, stop=Stop("gates chatter", {"time": self._time}))
        if self._stop > 0:
            norm = float(
                np.linalg.norm(
                    self.velocity(self._time, self._theta) / np.where(self._rates > 0, self._rates, 1.0)
                )
            )
            if norm <= self._stop:
                return replace(piece, stop=Stop("small gradient", {"norm": norm, "time": self._time}))
        return piece

    def _cut(self, dense: Callable[[float], Floats], end: float, rows: bool) -> Piece:
        """Return the step up to its first change, and make that change."""
        start, log = self._time, self._ahead
        found = self._first_change(dense, start, end)
        if found is not None:
            end = found[0]
        network = self.best(self.gates.onto_walls(unflatten(self._template, np.asarray(dense(end)))))
        for neuron in self.gates.due(network, found[1]) if found is not None else ():
            network, changes = self.gates.settle(network, neuron, end)
            self._count(changes)
            log = log.then(changes)
        network = self.best(network)
        self._idle = self._idle + 1 if end - start <= 1e-14 * max(end, 1e-300) else 0
        self._segments, passed, kept = self._segments + 1, end > start, dict[str, Any]()
        if rows:
            inside = start + (end - start) * lobatto_nodes(NODES)[1:-1]
            ends = unflatten(self._template, self._theta), network
            between = [self._at(np.asarray(dense(t))) for t in inside]
            values = [flatten(self.whole(now)) for now in (ends[0], *between, ends[1])]
            kept = {"values": np.array(values)[None] if passed else np.array(values)[None][:0]}
        self._time, self._theta, self._ahead = end, flatten(network), nothing()
        log = self.named(log)
        return Piece(
            np.array([start, end]) if passed else np.array([start]),
            rows=kept | self.gates.names.rests(log),
            events=lambda most: self.gates.names.name(log, most),
        )

    def _first_change(
        self, dense: Callable[[float], Floats], start: float, end: float
    ) -> tuple[float, int] | None:
        """Return (time, neuron) of the first change in (start, end], or None."""
        whole = self._at if self.gates.sliding else lambda theta: unflatten(self._template, theta)

        def margins(t: float) -> Floats:
            return self.gates.margins(whole(np.asarray(dense(t))))

        before = start
        for t in (start + (end - start) * lobatto_nodes(NODES))[1:]:
            if (margins(t) < 0).any():
                return self._locate(margins, before, float(t))
            before = float(t)
        return None

    def _locate(self, margins: Callable[[float], Floats], before: float, after: float) -> tuple[float, int]:
        """Locate the first zero of the smallest margin in [before, after]; the time returned is after it."""

        def smallest(t: float) -> float:
            return float(margins(t).min())

        if smallest(before) < 0:
            after = before
        else:
            root = float(brentq(smallest, before, after, xtol=1e-15 * max(after, 1e-300), rtol=1e-15))
            after = self._just_after(smallest, root, after)
        return after, int(np.argmin(margins(after).min(axis=1)))

    @staticmethod
    def _just_after(smallest: Callable[[float], float], root: float, after: float) -> float:
        """Return a time at or just after the root at which the sign has changed."""
        width = 1e-15 * max(abs(after), 1e-300)
        while root < after and smallest(root) >= 0:
            root, width = min(root + width, after), 2 * width
        return root


class LimitFlow(DenseFlow):
    """θ = (u, a*(u)): whatever a state says of the outer layer, it is that of least squares.

    ReLU neurons of one direction are one neuron here, as long as it lasts: with norms ν_i the minimum norm
    gives them outer weights in proportion to ν_i, and they turn alike. So they are followed as one, of norm
    √(Σν_i²): apart they would be torn apart by rounding, since a*(u) has no limit where they meet.
    """

    name = "limit"

    def __init__(self, task: Task) -> None:
        self._targets, network = task.dataset.targets, task.network
        self._points = distinct_points(task.dataset) if isinstance(network, KnotNetwork) else None
        self._owners, self._shares = np.arange(network.width), np.ones(network.width)
        if isinstance(network, ReLUNetwork):
            self._owners, self._shares, inner = merged(network.inner)
            network = ReLUNetwork(inner, np.zeros(len(inner)), network.slope, network.scale)
        super().__init__(replace(task, network=network))

    def rates(self, task: Task) -> Floats:
        """Return the speed of every parameter: the outer layer has none of its own."""
        return np.concatenate(
            [
                np.full(values.size, 0.0 if name in OUTER_LAYER else task.speed)
                for name, values in task.network.parameters.items()
            ]
        )

    def best(self, network: Trained) -> Trained:
        """Return the network with the outer layer of least squares."""
        if self._points is not None:
            assert isinstance(network, KnotNetwork)
            return network.moved({"outer": minimum_norm_outer(network.knots, self._points)})
        outer = np.linalg.lstsq(self.gates.features(network), self._targets, rcond=RANK)[0]
        return network.moved({"outer": np.asarray(outer, np.float64)})

    def whole(self, network: Trained) -> Trained:
        """Return the network with all neurons of a direction."""
        if isinstance(network, KnotNetwork):
            return network
        inner = self._shares[:, None] * network.inner[self._owners]
        return network.moved({"inner": inner, "outer": self._shares * network.outer[self._owners]})

    def named(self, log: WallLog) -> WallLog:
        """Return a log with all neurons of a direction."""
        rows, members = np.nonzero(log.neurons[:, None] == self._owners)
        columns = [column[rows] for column in log.columns]
        return WallLog([columns[0], members, *columns[2:]])


def merged(inner: Floats) -> tuple[Ints, Floats, Floats]:
    """Return which neuron stands for each (m,), its share in it (m,), and those: one per direction (M, d)."""
    lengths = np.linalg.norm(inner, axis=1)
    units = inner / np.where(lengths > 0, lengths, 1.0)[:, None]
    owners, firsts = np.empty(len(inner), np.int64), list[int]()
    for j, unit in enumerate(units):
        same = [k for k, i in enumerate(firsts) if np.abs(units[i] - unit).max(initial=0.0) < SAME]
        owners[j] = same[0] if same else len(firsts)
        if not same:
            firsts.append(j)
    alone = np.bincount(owners) == 1
    sizes = np.where(alone, lengths[firsts], np.sqrt(np.bincount(owners, lengths**2)))
    shares = np.divide(lengths, sizes[owners], out=np.ones(len(inner)), where=sizes[owners] > 0)
    return owners, shares, np.where(alone[:, None], inner[firsts], sizes[:, None] * units[firsts])
