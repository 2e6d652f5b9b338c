"""Neurons under frozen forces: when a plateau ends, a later one too, and where each neuron turns to.

While a set of neurons contributes next to nothing, the residual does not feel them, and each moves alone,
pulled by g_k = −∂L/∂h_k: the flow of [early_alignment] (31), in closed form from one data hyperplane to the
next (`kernels.frozen`). `exit_time` adds up what they will have grown to: the time at which a plateau ends,
without a time step, at any scale. `destinations` lets every neuron run to its end: an extremal vector, or
death.

**The end of a later plateau**: awake neurons run on, dormant ones are moved by the clock in their residual.

While some neurons are awake the forces on the dormant ones are not frozen: the awake ones are never quite
done. So both are moved, in turns of a time h = 0.15/‖D‖_max: half a turn of plain descent on the awake
neurons, the dormant ones for h in closed form under the forces of that moment, the other half. What it costs
is the simulation of the awake neurons alone, and the steps need not be small for the sake of neurons of size
10⁻⁸.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, count, mask, probability, public
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.early_alignment.extremal import ExtremalVector, extremal_vector
from shallowflow.landscape.early_alignment.pulls import is_extremal, pull
from shallowflow.landscape.geometry.activity import (
    Resting,
    Signs,
    activity,
    census,
    check_relu,
    check_relu_problem,
)
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

Small = ReLUNetwork | LogScaledNetwork
State = tuple[Floats, Floats, Floats, Signs]
"""Directions (m, d), outer weights, log-scales (m,), signs (m, n)."""
SCAN = 0.5
"""Between two looks at the loss the fastest neuron grows by e to this power at most …"""
LEAP = 0.25
"""… or by this share of what it takes, in the exponent, until the neurons together matter."""
BISECTIONS = 50
LARGEST, SLOWEST = 1e140, 1e-290
"""Weights are cut there, and slower neurons are taken to stand: squares and times stay numbers."""
CLOSE = 1e-13
"""Relative distance to the goal at which the loss is there."""
MOST_LOOKS = 4000
WALLS_PER_POINT = 20
"""A neuron is given up after this many walls per data point."""


class FrozenFlow:
    """Neurons of a network, moved by `advance` under forces (n,) that stay until they are set anew.

    which: the neurons that move (m,); the others are left out. A network with output factor s moves s times
    as fast.
    """

    def __init__(
        self,
        network: Small,
        dataset: Dataset,
        forces: Floats,
        *,
        which: Bools | None = None,
        resting: Resting | None = None,
    ) -> None:
        chosen = np.ones(network.width, np.bool_) if which is None else which
        self.network, self.which = network, chosen
        self._inputs = dataset.inputs
        self._scale = network.scale if isinstance(network, ReLUNetwork) else 1.0
        logs = network.log_scales if isinstance(network, LogScaledNetwork) else np.zeros(network.width)
        signs = activity(network, dataset.inputs, resting=resting)[chosen]
        # A zero input pulls at no neuron, and no neuron rests on it.
        signs[:, ~dataset.inputs.any(axis=1)] = -1
        self._parts: State = (
            network.inner[chosen].copy(),
            network.outer[chosen].copy(),
            logs[chosen].copy(),
            signs,
        )
        self.walls, self.time, self.moving = 0, 0.0, True
        self.forces = forces
        self.pulls = np.zeros_like(self._parts[0])

    def advance(self, duration: float) -> Floats:
        """Move for a time (inf: every neuron to its end); return when each has arrived, ends as in the
        kernel."""
        from shallowflow.kernels.frozen import FADES, STANDS, Fates, Forces, Neurons, follow

        count = len(self._parts[1])
        fates = Fates(
            np.zeros_like(self._parts[0]),
            np.zeros(count, np.int64),
            np.zeros(count),
            np.full(count, np.inf),
            np.zeros(count, np.int64),
        )
        most = WALLS_PER_POINT * (len(self._inputs) + 10)
        total = float(np.abs(self.forces) @ np.linalg.norm(self._inputs, axis=1))
        forces = Forces(np.ascontiguousarray(self._inputs), self.forces.copy(), self.network.slope, total)
        follow(Neurons(*self._parts), forces, float(duration) * self._scale, most, fates)
        self.walls += int(fates.walls.sum())
        self.time += duration
        self.pulls, self.ends = fates.pulls, fates.ends
        self.moving = bool(np.any((fates.ends != STANDS) & (fates.ends != FADES)))
        return fates.arrivals / self._scale

    def state(self) -> State:
        """Return a copy of where the neurons are, for `restore`."""
        inner, outer, logs, signs = self._parts
        return inner.copy(), outer.copy(), logs.copy(), signs.copy()

    def restore(self, state: State, time: float) -> None:
        """Go back to a state."""
        self._parts = state
        self._parts = self.state()
        self.time = time

    @property
    def rates(self) -> Floats:
        """‖D_j‖ times the output factor, (m,): the growth rate of an aligned neuron."""
        return self._scale * np.asarray(np.linalg.norm(self.pulls, axis=1))

    def outputs(self) -> Floats:
        """Return what these neurons add to the outputs on the data, (n,)."""
        inner, outer, logs, signs = self._parts
        z = inner @ self._inputs.T
        z = np.where(signs > 0, np.maximum(z, 0.0), np.where(signs < 0, np.minimum(z, 0.0), 0.0))
        gates = np.where(signs > 0, 1.0, self.network.slope)
        with np.errstate(over="ignore"):
            weights = self._scale * np.exp(2.0 * logs) * outer
        # So that squares of what a neuron has become by then are numbers too.
        found: Floats = np.clip(weights, -LARGEST, LARGEST) @ (gates * z)
        return found

    def moved(self) -> Small:
        """Return the network with these neurons where they are now."""
        inner, outer, logs, _ = self._parts
        parts = {name: values.copy() for name, values in self.network.parameters.items()}
        factor = 1.0 if isinstance(self.network, LogScaledNetwork) else np.exp(logs)
        parts["inner"][self.which] = inner * np.reshape(factor, (-1, 1)) if np.ndim(factor) else inner
        parts["outer"][self.which] = outer * factor
        if isinstance(self.network, LogScaledNetwork):
            parts["log_scales"][self.which] = logs
        return self.network.moved(parts)

    @property
    def directions(self) -> Floats:
        """The neurons, each up to a positive factor, (m, d)."""
        return self._parts[0]

    @property
    def outer(self) -> Floats:
        """Their outer weights, each up to the same factor, (m,)."""
        return np.asarray(self._parts[1])


@dataclass(frozen=True)
class Exit:
    """When the loss will have fallen by the share `fall`, counted from now; inf: it does not get there.

    loss: then; lowest: the least loss on the way where it does not get there; rate: of the fastest neuron,
    ‖D‖; walls: data points met on the way; frozen: whether the forces were frozen (else the awake neurons ran
    on).
    """

    time: float
    fall: float
    loss: float
    lowest: float
    rate: float
    walls: int
    frozen: bool = True

    @property
    def reached(self) -> bool:
        """Whether the loss gets there."""
        return bool(np.isfinite(self.time))


@public
def exit_time(
    network: Small,
    dataset: Dataset,
    *,
    fall: float = 0.01,
    loss: Loss | None = None,
    dormant: Bools | None = None,
    resting: Resting | None = None,
) -> Exit:
    """Return when a plateau ends: the neurons of `dormant` (m,) (default: all) move under the forces of now.

    The loss at a later time is that of h + (what they add then) − (what they add now). No time step: the
    neurons are moved in closed form, and no piece of their ways is made again but in the last stretch, where
    a root finder looks for the time. On a first plateau (all neurons small) the time of 1 % is right to some
    0.2 %; for larger falls, and where other neurons still move, see `next_exit`.

    Examples
    --------
    >>> import shallowflow as sf
    >>> start = sf.initialize.balanced(200, 2, init_scale=1e-5, seed=0)
    >>> round(float(exit_time(start, sf.data.GENERATORS["three_points"]()).time), 4)  # the flow: 12.9894
    12.9844
    """
    check_relu_problem(network, dataset, log_scaled=True)
    share, square = probability(fall, "fall"), SquareLoss() if loss is None else loss
    dormant = mask(dormant, "dormant", network.width)
    square.check(dataset.targets)
    now = network.predict(dataset.inputs)
    flow = FrozenFlow(network, dataset, -square.slopes(now, dataset.targets), which=dormant, resting=resting)
    others = now - flow.outputs()
    start = square.value(now, dataset.targets)
    goal = (1.0 - share) * start

    def value() -> float:
        return square.value(others + flow.outputs(), dataset.targets)

    lowest = found = start
    flow.advance(0.0)
    for _ in range(MOST_LOOKS):
        rate = float(np.max(flow.rates, initial=0.0))
        if rate <= SLOWEST or not flow.moving:
            break
        before = flow.state(), flow.time, found
        flow.advance(_stride(flow, square, others, dataset, share * start) / rate)
        found = value()
        if found <= goal:
            walls, time = flow.walls, _found(flow, value, goal, before, flow.time)
            return Exit(time, share, value(), goal, float(np.max(flow.rates)), walls)
        if not found <= 2.0 * start:
            break
        lowest = min(lowest, found)
    return Exit(np.inf, share, lowest, lowest, float(np.max(flow.rates, initial=0.0)), flow.walls)


def _stride(flow: FrozenFlow, loss: Loss, others: Floats, dataset: Dataset, needed: float) -> float:
    """Return by how much the exponent of the fastest neuron may grow until the next look."""
    added = flow.outputs()
    slopes = np.abs(loss.slopes(others + added, dataset.targets))
    gained = float(slopes @ np.abs(added))
    if gained <= 0.0:
        # Too small for a number: by its logarithm.
        return max(SCAN, LEAP * max(-float(np.max(flow.state()[2], initial=-np.inf)), 0.0))
    return max(SCAN, LEAP * (np.log(needed) - np.log(gained))) if gained < needed else SCAN


def _found(
    flow: FrozenFlow, value: Callable[[], float], goal: float, low: tuple[State, float, float], high: float
) -> float:
    """Return when the loss passes its goal between a state (with its time and loss) and the time `high`.

    The flow is left there. Each trial starts from the last state above the goal: no piece of a path that lies
    before it is made again. Straight lines through the logarithms of what is above and below, halved in
    weight where one end stays (Illinois).
    """
    state, time, loss = low
    above, below, side = np.log(loss / goal), min(np.log(value() / goal), -CLOSE), 0
    for _ in range(BISECTIONS):
        middle = time + (high - time) * above / (above - below)
        if not time < middle < high:
            break
        flow.restore(state, time)
        flow.advance(middle - time)
        found = np.log(value() / goal)
        if abs(found) <= CLOSE:
            return float(middle)
        if found > 0.0:
            state, time, above = flow.state(), middle, found
            below = 0.5 * below if side > 0 else below
            side = 1
        else:
            high, below = middle, found
            above = 0.5 * above if side < 0 else above
            side = -1
    flow.restore(state, time)
    flow.advance(high - time)
    return high


@dataclass(frozen=True, eq=False, repr=False)
class Destinations(FrozenArrays):
    """Where the neurons of a small network turn to while the forces stay.

    vectors: the extremal vectors that are reached, the most visited first; of: (m,) which of them neuron j
    reaches, −1 if none; arrivals: (m,) when the cosine of its angle to it stays above 0.99, inf if it never
    does; dead: (m,) neurons on which no force acts in the end; walls: (m,) how many data points each meets.
    """

    vectors: tuple[ExtremalVector, ...]
    of: Ints
    arrivals: Floats
    dead: Bools

    @property
    def visits(self) -> Ints:
        """How many neurons reach each of the vectors."""
        return np.array([np.sum(self.of == i) for i in range(len(self.vectors))], dtype=np.int64)

    def __repr__(self) -> str:
        return (
            f"Destinations({len(self.of)} neurons: {np.sum(self.dead)} die, the others reach "
            f"{len(self.vectors)} extremal vectors, {self.visits.tolist()})"
        )


@public
def destinations(network: Small, dataset: Dataset, *, loss: Loss | None = None) -> Destinations:
    """Return which extremal vector each neuron reaches under the forces at the network's outputs, and when.

    For a small network these are the forces at zero, and this is where early alignment leads
    ([early_alignment] Thm 1). No cone is listed: each neuron is followed, so that hundreds of points in tens
    of dimensions are no trouble.

    Examples
    --------
    >>> import shallowflow as sf
    >>> start = sf.initialize.balanced(200, 2, init_scale=1e-5, seed=0)
    >>> destinations(start, sf.data.GENERATORS["three_points"]())
    Destinations(200 neurons: 128 die, the others reach 1 extremal vectors, [72])
    """
    check_relu_problem(network, dataset, log_scaled=True)
    square = SquareLoss() if loss is None else loss
    found = pull(dataset, square, network.slope)
    forces = -square.slopes(network.predict(dataset.inputs), dataset.targets)
    found = type(found)(found.inputs, forces, found.slope)
    flow = FrozenFlow(network, dataset, forces)
    arrivals = flow.advance(np.inf)
    dead = ~flow.pulls.any(axis=1) | (flow.rates <= 1e-14 * found.scale)
    reached: dict[bytes, list[int]] = {}
    ends: dict[bytes, ExtremalVector] = {}
    for j in np.flatnonzero(~dead).tolist():
        sign = np.sign(flow.outer[j]) or np.sign(flow.pulls[j] @ flow.directions[j])
        # One that shrinks for ever is opposed to its pull, and points to a minimum.
        fading = sign * float(flow.pulls[j] @ flow.directions[j]) < 0
        pattern = found.pattern(flow.directions[j] if fading else sign * flow.pulls[j])
        if not is_extremal(found, pattern, found.minimal(pattern)[0]):
            continue
        key = pattern.tobytes()
        if key not in ends:
            ends[key] = extremal_vector(found, pattern, found.minimal(pattern)[0])
        reached.setdefault(key, []).append(j)
    order = sorted(reached, key=lambda key: -len(reached[key]))
    of = np.full(network.width, -1, dtype=np.int64)
    for number, key in enumerate(order):
        of[reached[key]] = number
    arrivals[of < 0] = np.inf
    return Destinations(tuple(ends[key] for key in order), of, arrivals, dead)


TURN = 0.15
"""The fastest dormant neuron grows by e to this power in one turn."""
STEP = 0.1
"""Step × λ_max of the awake neurons' descent."""
TURNS_PER_LOOK = 5
"""λ_max is computed anew after this many turns."""
SMALL = 400
"""n up to which λ_max is computed; the trace bounds it beyond."""


@public
def next_exit(
    network: ReLUNetwork,
    dataset: Dataset,
    *,
    fall: float = 0.02,
    loss: Loss | None = None,
    dormant: Bools | None = None,
    resting: Resting | None = None,
    most: int = 30_000,
) -> Exit:
    """Return when the loss will have fallen by the share `fall`, the awake neurons running on.

    dormant: (m,) by default those of the census; with none awake this is `exit_time`. most: steps of descent
    on the awake neurons after which it is given up (time inf; `lowest`: the least loss seen).

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["stewart"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(60, 2, init_scale=1e-2, seed=0), data, until=300.0)
    >>> found = next_exit(run(80.0), data, fall=0.05, resting=run.resting(80.0))
    >>> bool(abs(80.0 + found.time - 285.4) < 3.0)  # the flow: 285.4
    True
    """
    check_relu(network)
    share, square = probability(fall, "fall"), SquareLoss() if loss is None else loss
    found = census(network, dataset, square, resting=resting)
    given = mask(dormant, "dormant", network.width)
    sleeping = found.dormant if given is None else given
    awake = ~(sleeping | found.dead)
    if not awake.any():
        return exit_time(network, dataset, fall=share, loss=square, dormant=sleeping, resting=resting)
    return _Relay(network, dataset, square, awake, sleeping).run(share, resting, count(most, "most"))


class _Relay:
    """The awake neurons (inner, outer) as plain arrays, beside a `FrozenFlow` of the dormant ones."""

    def __init__(
        self, network: ReLUNetwork, dataset: Dataset, loss: Loss, awake: Bools, sleeping: Bools
    ) -> None:
        self.network, self.dataset, self.loss, self.sleeping = network, dataset, loss, sleeping
        self.inner, self.outer = network.inner[awake].copy(), network.outer[awake].copy()

    def run(self, share: float, resting: Resting | None, most: int) -> Exit:
        """Take turns until the loss has fallen by a share of what it is."""
        targets = self.dataset.targets
        zero = np.zeros(self.dataset.size)
        flow = FrozenFlow(self.network, self.dataset, zero, which=self.sleeping, resting=resting)
        start = lowest = self.loss.value(self._outputs() + flow.outputs(), targets)
        goal, made, time, before = (1.0 - share) * start, 0, 0.0, start
        step = self._step(flow.outputs())
        for turn in range(10**9):
            flow.forces = -self.loss.slopes(self._outputs() + flow.outputs(), targets)
            flow.advance(0.0)
            rate = float(np.max(flow.rates, initial=0.0))
            fastest = max(rate, self._fastest(flow.forces))
            if turn % TURNS_PER_LOOK == TURNS_PER_LOOK - 1:
                step = self._step(flow.outputs())
            length = min(TURN / fastest, 100.0 * step) if fastest > 0 else 100.0 * step
            pieces = max(1, int(np.ceil(0.5 * length / step)))
            self._descend(step, pieces, flow.outputs())
            flow.forces = -self.loss.slopes(self._outputs() + flow.outputs(), targets)
            flow.advance(2.0 * pieces * step)
            self._descend(step, pieces, flow.outputs())
            made, time = made + 2 * pieces, time + 2.0 * pieces * step
            value = self.loss.value(self._outputs() + flow.outputs(), targets)
            if value <= goal:
                # Between two turns the logarithm of the loss is taken for straight.
                time -= 2.0 * pieces * step * (1.0 - np.log(before / goal) / np.log(before / value))
                return Exit(float(time), share, goal, goal, rate, flow.walls, frozen=False)
            lowest = min(lowest, value)
            if made >= most or not np.isfinite(value) or value > 2.0 * start:
                break
            before = value
        return Exit(np.inf, share, lowest, lowest, rate, flow.walls, frozen=False)

    def _fastest(self, forces: Floats) -> float:
        """Return the largest ‖D_j‖ of the awake neurons, times the output factor."""
        gates = np.where(self.dataset.inputs @ self.inner.T > 0, 1.0, self.network.slope)
        pulls = (gates * forces[:, None]).T @ self.dataset.inputs
        return self.network.scale * float(np.max(np.linalg.norm(pulls, axis=1)))

    def _outputs(self) -> Floats:
        z = self.dataset.inputs @ self.inner.T
        return np.asarray(
            self.network.scale * (np.maximum(z, self.network.slope * z) @ self.outer), dtype=np.float64
        )

    def _descend(self, step: float, steps: int, others: Floats) -> None:
        """Make steps of plain descent on the awake neurons, the outputs of the others standing."""
        inputs, targets, slope, scale = (
            self.dataset.inputs,
            self.dataset.targets,
            self.network.slope,
            self.network.scale,
        )
        for _ in range(steps):
            z = inputs @ self.inner.T
            gates = np.where(z > 0, 1.0, slope)
            features = gates * z
            slopes = self.loss.slopes(scale * (features @ self.outer) + others, targets)
            weighted = gates * slopes[:, None]
            turned = (step * scale) * self.outer[:, None] * (weighted.T @ inputs)
            self.outer -= (step * scale) * (features.T @ slopes)
            self.inner -= turned

    def _step(self, others: Floats) -> float:
        """Return a step that is stable for the awake neurons: 0.1/λ_max of their Gauss–Newton matrix."""
        awake = ReLUNetwork(self.inner, self.outer, self.network.slope, self.network.scale)
        inputs, targets = self.dataset.inputs, self.dataset.targets
        root = np.sqrt(self.loss.curvatures(self._outputs() + others, targets))
        kernel = root[:, None] * awake.tangent_kernel(inputs) * root
        largest = float(np.linalg.eigvalsh(kernel)[-1]) if len(root) <= SMALL else float(np.trace(kernel))
        # Neurons that are small, but grow, have a small λ_max, and soon a larger one.
        fastest = self._fastest(self.loss.slopes(self._outputs() + others, targets))
        return STEP / max(largest, fastest) if max(largest, fastest) > 0 else 1.0
