"""Jumps of the gradient flow from a small but finite start on orthogonal data, without running it.

Algorithm 1 of [incremental] is about α → 0. At a given α its jumps happen one by one only where ln‖w_j‖ of
the next neuron that shares a point lies far below; where it is within `MERGED` of its own jump, the two
compete for their points. Ours: between jumps every ln‖w_j‖ is a straight line whose offset is known
(`landscape.incremental`); a jump that is alone moves the lines of the others in closed form; jumps that are
not alone, or are of points with unequal norms, are integrated together (`kernels.orthogonal.flow`), with the
neurons and the unfitted points that take part and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import Scaled, log_sizes, relative
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.saddle_to_saddle import check_plain
from shallowflow.landscape.geometry.orthonormal import (
    check_labels,
    check_orthogonal,
    mask_matrix,
    neuron_signs,
    unit_inputs,
)
from shallowflow.landscape.incremental import TURN, start_offsets, turn_offsets
from shallowflow.models.networks import ReLUNetwork

if TYPE_CHECKING:
    from shallowflow.kernels.orthogonal.step import Problem

MERGED = 16.0
"""ln‖w‖ below its own jump within which a neuron takes part in the jump of another: e^{−2·16} is 10⁻¹⁴."""
BIG = 8.0
"""A neuron has jumped, or is about to, if ln‖w‖ is within this of its largest possible value."""
SETTLED = 1e-9
"""A point is fitted when its residual has fallen to this part of the largest drive."""
SHARE = 0.01
"""A jump begins and ends when this part of its loss has gone, and is left."""
TOLERANCE, TINY = 1e-10, 1e-12
"""Of the integrations, absolute in ln‖w‖; and what counts as nothing in them."""
KNOTS = 64
"""Steps between two looks at whether an integration is over."""


@dataclass(frozen=True, eq=False, repr=False)
class PredictedJumps(FrozenArrays):
    """What the flow from a given start does: J jumps, some of them of several neurons that compete.

    times (J,): plain time, when the squared norm of the (first) neuron reaches half its final value; begins,
    ends (J,): when 1 % of its part of the loss has gone, and when 1 % is left; neurons, fitted: of each jump,
    the neurons that own its points, in the order of time, and the points, when it is over; losses (J + 1,):
    ½·mean of squares before the first and after each; unfitted: the points left at the end; final: the
    network at the end, what has not jumped being 0.
    """

    times: Floats
    begins: Floats
    ends: Floats
    neurons: tuple[Ints, ...]
    fitted: tuple[Ints, ...]
    losses: Floats
    unfitted: Ints
    final: ReLUNetwork

    @property
    def merged(self) -> int:
        """How many jumps are made by several neurons together."""
        return sum(len(each) > 1 for each in self.neurons)

    @property
    def plateaus(self) -> Floats:
        """(P, 3): begin, end and loss of every plateau that is there: jumps may overlap in time."""
        over = np.maximum.accumulate(np.append(0.0, self.ends))
        until = np.append(np.minimum.accumulate(self.begins[::-1])[::-1], np.inf)
        seen = until > over
        return np.column_stack([over, until, self.losses])[seen]


def predict_jumps(network: Scaled, dataset: Dataset) -> PredictedJumps:
    """Return the jumps of the flow from this network's own scale, |a_j| ≥ ‖w_j‖, on orthogonal inputs.

    Where `saddle_to_saddle` is the limit of scale 0, this is for the scale at hand: jumps that are too close
    for the limit (ln‖w‖ of a neuron within 16 of its own jump at that of another with which it shares a
    point) are integrated together. The square loss is ½·mean; times are plain t.

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["orthonormal"](16, seed=3)
    >>> net = sf.initialize.log_scaled(8, 16, log_scale=-30 * np.log(10), seed=3)
    >>> found, flow = predict_jumps(net, data), sf.gradient_flow(net, data, until=20_000.0)
    >>> found.merged, bool(abs(found.losses[-1] - flow.losses[-1]) < 1e-9)
    (1, True)
    """
    check_plain(network)
    check_problem(network, dataset, log_scaled=True)
    check_orthogonal(dataset, "predict_jumps")
    check_labels(dataset)
    lines = _Lines(network, dataset)
    while lines.next_jump():
        pass
    return lines.result()


class _Lines:
    """ln|a_j| = offsets_j + rates_j t of the neurons that have not jumped; what the others have fitted."""

    def __init__(self, network: Scaled, dataset: Dataset) -> None:
        self._network, self._dataset = network, dataset
        self._mask = mask_matrix(network, dataset).T.copy()  # (m, n)
        self._units, self._norms = unit_inputs(dataset.inputs)
        self._labels, self._signs = np.abs(dataset.targets), neuron_signs(network)
        self._size = dataset.size
        directions = np.maximum(relative(network) @ self._units.T, 0.0)
        drives = self._norms * dataset.targets
        self._offsets = log_sizes(network) + start_offsets(directions, self._signs, drives, self._mask.T)
        self._left: Bools = np.ones(self._size, np.bool_)
        self._alive: Bools = np.asarray(self._mask.any(axis=1))
        self._found = list[tuple[tuple[float, float, float], Ints, Ints]]()
        self._inner, self._outer = np.zeros_like(network.inner), np.zeros(network.width)

    def _drives(self) -> Floats:
        """ν_k|y_k| on the unfitted points in every neuron's mask, (m, n)."""
        drives: Floats = self._mask * self._left * (self._norms * self._labels)
        return drives * self._alive[:, None]

    def _rates(self) -> Floats:
        rates: Floats = np.linalg.norm(self._drives(), axis=1) / self._size
        return rates

    def _tops(self) -> Floats:
        """½ ln N_j, where a lone neuron ends; −∞ for one without unfitted points."""
        reached = np.divide(self._labels, self._norms, out=np.zeros(self._size), where=self._norms > 0)
        with np.errstate(divide="ignore"):
            norms = np.linalg.norm(self._mask * self._left * reached, axis=1)
            tops: Floats = 0.5 * np.log(norms)
        return tops

    def next_jump(self) -> bool:
        """Make the next jump, alone or merged; return whether there was one."""
        rates, tops = self._rates(), self._tops()
        self._alive &= rates > 0
        if not self._alive.any():
            return False
        arrivals = np.full(len(rates), np.inf)
        arrivals[self._alive] = (tops - self._offsets)[self._alive] / rates[self._alive]
        first = int(np.argmin(arrivals))
        time = float(arrivals[first])
        near = self._alive & (self._offsets + rates * time > tops - MERGED)
        members = self._connected(first, near)
        norms = self._norms[self._points(members)]
        if members.sum() == 1 and np.all(norms == norms[0]):
            self._alone(first, time, rates)
        else:
            self._together(members, rates)
        return True

    def _connected(self, first: int, near: Bools) -> Bools:
        """Return the neurons of `near` that share unfitted points with the first, or with one that does."""
        members = np.zeros(len(near), np.bool_)
        members[first] = True
        while True:
            points = self._points(members)
            grown = members | (near & (self._mask & points).any(axis=1))
            if np.array_equal(grown, members):
                return members
            members = grown

    def _points(self, neurons: Bools) -> Bools:
        """Return the unfitted points in the masks of some neurons, (n,)."""
        points: Bools = self._mask[neurons].any(axis=0) & self._left
        return points

    def _alone(self, neuron: int, time: float, rates: Floats) -> None:
        """Let one neuron jump, its points of one norm; turn the lines of those that share them."""
        points, own = self._points(np.arange(len(rates)) == neuron), rates[neuron]
        self._left &= ~points
        self._alive[neuron] = False
        after = self._rates()
        turning = np.flatnonzero((self._mask & points).any(axis=1) & (after > 0))
        fading = (
            np.linalg.norm(self._mask[turning] * points * self._norms * self._labels, axis=1) / self._size
        )
        turned = turn_offsets(fading / own, after[turning] / own)
        self._offsets[turning] += (rates - after)[turning] * time + turned
        reached = self._labels[points] / self._norms[points]
        size = np.sqrt(np.linalg.norm(reached))
        self._keep(np.array([neuron]), size[None], (reached / size**2)[None] @ self._units[points])
        begins, ends = lone_widths(own)
        when = time, time + float(begins), time + float(ends)
        self._found.append((when, np.array([neuron]), np.flatnonzero(points)))

    def _keep(self, neurons: Ints, sizes: Floats, directions: Floats) -> None:
        """Note the final weights of neurons that have jumped; directions w_j/|a_j|, (J, d)."""
        self._inner[neurons] = sizes[:, None] * directions
        self._outer[neurons] = self._signs[neurons] * sizes

    def _together(self, members: Bools, rates: Floats) -> None:
        """Integrate the jump of several neurons, with all that points link to them, until it is over.

        Those that do not share a point with them are passengers, as long as none in between grows.
        """
        touched = self._connected(int(np.argmax(members)), self._alive)
        neurons, points = np.flatnonzero(touched), np.flatnonzero(self._points(touched))
        tops = self._tops()
        start = float(np.min((tops - TURN - self._offsets)[members] / rates[members]))
        rho = (self._offsets + rates * start)[neurons]
        drives = self._drives()[np.ix_(neurons, points)]
        g = drives / np.linalg.norm(drives, axis=1, keepdims=True)
        ran = _integrated(rho, g, _System(self._labels[points], self._norms[points], self._size))
        rho, g, big = ran.rho, ran.g, ran.big
        fitted = points[(g[big] > 0).any(axis=0)]
        self._left[fitted] = False
        self._alive[neurons[big]] = False
        after, left = self._rates(), self._left[points]
        for i in np.flatnonzero(~big & (after[neurons] > 0)):
            aligned = g[i, left] @ drives[i, left] / (self._size * after[neurons[i]])
            line = rho[i] + np.log((1.0 + aligned) / 2.0) - after[neurons[i]] * (start + ran.time)
            self._offsets[neurons[i]] = line
        self._keep(neurons[big], np.exp(rho[big]), g[big] @ self._units[points])
        owners = np.unique(np.argmax(np.exp(2.0 * rho)[:, None] * g, axis=0)[~left])
        order = owners[np.argsort(ran.halves[owners], kind="stable")]
        when = start + float(ran.halves[order[0]]), start + ran.begin, start + ran.end
        self._found.append((when, neurons[order], fitted))

    def result(self) -> PredictedJumps:
        """Return what was found, in the order of time."""
        found = sorted(self._found, key=lambda jump: jump[0])
        squares = self._dataset.targets**2
        fallen = np.cumsum([0.0, *(float(squares[points].sum()) for _, _, points in found)])
        times, begins, ends = np.array([when for when, _, _ in found]).reshape(-1, 3).T
        return PredictedJumps(
            times,
            begins,
            ends,
            tuple(neurons for _, neurons, _ in found),
            tuple(points for _, _, points in found),
            np.maximum(squares.sum() - fallen, 0.0) / (2 * self._size),
            np.flatnonzero(self._left),
            ReLUNetwork(self._inner, self._outer),
        )


def lone_widths(rates: Floats) -> Floats:
    """Return how long after its time (2, …) a lone jump of a neuron that grows at a rate γ begins and ends.

    The loss of the jump is 1/(1 + e^{2s})² of itself at s = γ(t − t_i).
    """
    return np.multiply.outer(0.5 * np.log(1.0 / np.sqrt([1 - SHARE, SHARE]) - 1.0), 1.0 / np.asarray(rates))


class _System(NamedTuple):
    """Neurons of one sign on some points: |y| (p,), ν (p,), and n of the whole data set."""

    labels: Floats
    norms: Floats
    size: int

    def residual(self, rho: Floats, g: Floats) -> Floats:
        """Return ν_k r_k, (p,)."""
        left: Floats = self.norms * self.labels - self.norms**2 * (np.exp(2.0 * rho) @ g)
        return left

    def tops(self, g: Floats, points: Bools) -> Floats:
        """Return ½ ln N_j, where neurons end that are active on some of these points, else −∞."""
        with np.errstate(divide="ignore"):
            norms = np.linalg.norm((g > 0) * (points * self.labels / self.norms), axis=1)
            tops: Floats = 0.5 * np.log(norms)
        return tops

    def big(self, rho: Floats, g: Floats) -> Bools:
        """Return which neurons have jumped or are about to, (m,)."""
        big: Bools = rho > self.tops(g, np.ones(g.shape[1], np.bool_)) - BIG
        return big

    def over(self, rho: Floats, g: Floats) -> bool:
        """Whether some neuron is big, the points of those that are have been fitted, and no other is near."""
        big = self.big(rho, g)
        touched: Bools = np.asarray((g[big] > 0).any(axis=0))
        bound = SETTLED * float(np.max(self.norms * self.labels))
        if not big.any() or np.any(np.abs(self.residual(rho, g)[touched]) > bound):
            return False
        tops = self.tops(g, ~touched)
        return not np.any(~big & (tops > -np.inf) & (rho > tops - TURN))


@dataclass(frozen=True, eq=False)
class _Run:
    """The end of an integration: its time, ρ (m,), g (m, p), which are big; when e^{2ρ} reached half its end,
    (m,); when the loss had fallen by 1 % of what it falls, and by all but 1 %.
    """

    time: float
    rho: Floats
    g: Floats
    big: Bools
    halves: Floats
    begin: float
    end: float


def _integrated(rho: Floats, g: Floats, system: _System) -> _Run:
    """Follow the neurons until the jump is over."""
    from shallowflow.kernels.orthogonal.flow import Clock, integrate
    from shallowflow.kernels.orthogonal.step import problem_of

    problem = problem_of(np.ones(len(rho)), system.labels, 1.0 / system.size, TINY, system.norms)
    slowest = float(np.min(np.linalg.norm((g > 0) * system.norms * system.labels, axis=1))) / system.size
    clock = Clock(0.0, 1e6 * (TURN - float(np.min(rho))) / slowest, 0.0)
    times, states, done = [0.0], [(rho.copy(), g.copy())], False
    while not done:
        status, clock, path = integrate(rho, g, problem, clock, TOLERANCE, KNOTS)
        for moment, *state in zip(path.times, path.rho, path.g, strict=True):
            times.append(float(moment))
            states.append((state[0], state[1]))
            done = system.over(*states[-1])
            if done:
                break
        done = done or status > 0
    last, final = states[-1]
    losses = np.array([np.sum((system.residual(*state) / system.norms) ** 2) for state in states])
    fallen = (losses[0] - losses) / max(losses[0] - losses[-1], 1e-300)
    begin, end = (float(times[int(np.argmax(fallen >= share))]) for share in (SHARE, 1 - SHARE))
    halves = _half_times(np.array(times), states, problem)
    return _Run(times[-1], last, final, system.big(last, final), halves, begin, end)


def _half_times(times: Floats, states: list[tuple[Floats, Floats]], problem: Problem) -> Floats:
    """Return when each e^{2ρ} last rose to half its end, (m,)."""
    from scipy.optimize import brentq

    from shallowflow.kernels.orthogonal.flow import replay

    curves = np.array([rho for rho, _ in states])
    halves = np.zeros(curves.shape[1])
    for j, curve in enumerate(curves.T):
        level = float(curve[-1] - 0.5 * np.log(2.0))
        below = np.flatnonzero(curve < level)
        if not below.size:
            continue
        begun = int(below[-1])

        def excess(passed: float, begun: int = begun, j: int = j, level: float = level) -> float:
            rho, g = states[begun][0].copy(), states[begun][1].copy()
            replay(rho, g, problem, passed)
            return float(rho[j]) - level

        length = float(times[begun + 1] - times[begun])
        halves[j] = times[begun] + brentq(excess, 0.0, length, xtol=1e-12 * length)
    return halves
