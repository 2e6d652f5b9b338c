"""Which neurons are active on which data points: the one meaning of "active"; and a census of the neurons.

A neuron is active on x if ⟨w, x⟩ > 0 (x > b for a knot b), inactive if it is < 0, and *resting* if x lies on
its hyperplane. Rounded weights do not carry exact zeros: a flow that holds a neuron at ⟨w, x⟩ = 0 leaves a
product of ±1e-17, whose sign means nothing. So what is within rounding of zero is resting, and so is what a
flow says that it held. σ'(0) = 0: a resting pair contributes nothing, as an inactive one.

**The gradient where neurons rest** on data hyperplanes: the minimal-norm element of the subgradient set. For
one neuron let B = Σ_{k∉K} gate_k c_k n_k be the part of the (inner) gradient whose gates are known and
u_k = c_k n_k, k ∈ K, the parts whose gates may be anything in [slope, 1] because ⟨w, x_k⟩ = 0. The flow takes

    min_{slope ≤ η_k ≤ 1} ‖B + Σ_{k∈K} η_k u_k‖,

[early_alignment] §2.1 and (17). With all η inside the bounds the result is orthogonal to every u_k: the
neuron slides.

**Census**: dead, resting, dormant, awake, duplicate; and how many neurons a network really uses. One sign
function for all of it (`activity`): a product ⟨w_j, x_k⟩ at rounding level is 0. With S_jk the signs and

    o_j = |a_j| rms_k σ(⟨w_j, x_k⟩)

the size of what neuron j adds to the outputs, a neuron is **dead** if no S_jk is +1 (and the slope γ is 0):
it has no gradient, for ever as far as these data go; **resting** if it is alive and some S_jk is 0;
**dormant** if it is alive and among the smallest ones, which together change the loss by 2 % at most (Σ o_j ·
rms ∂L/∂h ≤ 2 % of L; for squares: Σ o_j ≤ 1 % of rms r); **awake** otherwise. Awake neurons with the same
column of S and the same sign of a are **duplicates**: on the data they act as one, Σ_j a_j σ(⟨w_j, x_k⟩) = ±
σ(⟨v, x_k⟩) with v = Σ_j |a_j| w_j, because a cone is convex. The number of distinct ones is the effective
width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, numbers, public, shown, unit_interval
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork, inputs_of

Signs = NDArray[np.int8]
Resting = tuple[Ints, Ints]
"""Pairs known to be resting: neurons (k,) and data points (k,)."""

RESTING = 1e-12
"""|⟨w, x⟩| ≤ RESTING·‖w‖‖x‖, or |x − b| ≤ RESTING·(|x| + |b|), is rounding.

For a knot, the largest |x| among the inputs counts too: a knot at 10⁻¹⁶ rests on x = 0."""


@public
def activity(network: Network, inputs: ArrayLike, *, resting: Resting | None = None) -> Signs:
    """Return +1 (active), −1 (inactive) or 0 (resting) for every neuron and every row of inputs, (m, n).

    resting: pairs (neurons, points) that a flow held on their hyperplanes, `trajectory.resting(t)`.

    Examples
    --------
    >>> activity(ReLUNetwork([[1.0, -1.0], [3.0, 1.0]], [1.0, 1.0]), [[1.0, 1.0], [0.0, 2.0]])
    array([[ 0, -1],
           [ 1,  1]], dtype=int8)
    """
    if not isinstance(network, ReLUNetwork | LogScaledNetwork | KnotNetwork):
        raise InvalidInputError(
            f"network: must be a ReLUNetwork, LogScaledNetwork or KnotNetwork, got {shown(network)}"
        )
    points = inputs_of(inputs, network.dimension)
    if isinstance(network, KnotNetwork):
        sizes = np.abs(points[:, 0]) + np.abs(network.knots[:, None])
        sizes = np.maximum(sizes, np.abs(points).max(initial=0.0))
    else:
        sizes = np.linalg.norm(network.inner, axis=1)[:, None] * np.linalg.norm(points, axis=1)
    found = signs_of(network.preactivations(points), sizes)
    if resting is not None:
        found[_checked_pairs(resting, found.shape)] = 0
    return found


def signs_of(values: Floats, sizes: Floats, tolerance: float = RESTING) -> Signs:
    """Return the signs of the values, 0 where |value| ≤ tolerance·size."""
    return np.where(np.abs(values) <= tolerance * sizes, 0, np.sign(values)).astype(np.int8)


def resting_ends(knots: Floats, size: float = 0.0) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of inputs on which knots rest; size: the largest |x| of the data."""
    ratio, least = (1.0 + RESTING) / (1.0 - RESTING), RESTING * size
    ends = knots / ratio, knots * ratio
    return np.minimum(np.minimum(*ends), knots - least), np.maximum(np.maximum(*ends), knots + least)


def _checked_pairs(resting: object, shape: tuple[int, ...]) -> Resting:
    if not isinstance(resting, tuple | list) or len(resting) != 2:
        rule = "must be (neurons, points), two integer arrays of one length"
        raise InvalidInputError(f"resting: {rule}, got {shown(resting)}")
    neurons, points = (np.asarray(part) for part in resting)
    whole = all(part.ndim == 1 and np.issubdtype(part.dtype, np.integer) for part in (neurons, points))
    if not whole or len(neurons) != len(points):
        raise InvalidInputError("resting: must be (neurons, points), two integer arrays of one length")
    for part, size in zip((neurons, points), shape, strict=True):
        if part.size and not 0 <= part.min() <= part.max() < size:
            raise InvalidInputError(f"resting: indices must be in 0 … {size - 1}, got {shown(part.tolist())}")
    return neurons, points


def check_relu(network: object, name: str = "network") -> ReLUNetwork:
    """Return the network if it is a `ReLUNetwork`, else refuse it."""
    if not isinstance(network, ReLUNetwork):
        raise InvalidInputError(f"{name}: must be a ReLUNetwork, got {type(network).__name__}")
    return network


def check_relu_problem(network: object, dataset: object, *, log_scaled: bool = False) -> None:
    """Refuse anything but a `ReLUNetwork` (or, if welcome, a `LogScaledNetwork`) on data of its dimension."""
    kinds = (ReLUNetwork, LogScaledNetwork) if log_scaled else (ReLUNetwork,)
    if not isinstance(network, kinds):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidInputError(f"network: must be a {words}, got {shown(network)}")
    found = checked_dataset(dataset)
    if network.dimension != found.dimension:
        raise InvalidInputError(
            f"dataset: inputs must have the network's dimension {network.dimension}, got {found.dimension}"
        )


SAME = 1e-9
"""Parts are taken for linearly dependent below this share of the largest one."""
STEADY = 1e-6
"""Above this share triangular solves replace the singular value decomposition."""
FULLY = 1.0 - 1e-12
"""A multiplier beyond this is that of a neuron that leaves."""
DEPENDENT = 1e-7
"""Unit normals with a smaller part outside the span of others depend on them."""
EXCHANGES = 20
"""Exchanges of gates between the bounds and the inside before a slower, safe method takes over."""


@public
def minimal_gates(known: Floats, parts: Floats, slope: float = 0.0) -> Floats:
    """Return the gates η (k,) that minimise ‖known + η @ parts‖ over [slope, 1]^k.

    known: (d,); parts: (k, d). One part has a closed form; several are a box-constrained least-squares
    problem, solved by exchanging all gates that break the optimality conditions at once.

    Examples
    --------
    >>> import numpy as np
    >>> minimal_gates(np.array([1.0, 3.0]), np.array([[-4.0, 0.0]]))
    array([0.25])
    """
    known, parts, slope = (
        numbers(known, "known", 1),
        numbers(parts, "parts", 2),
        unit_interval(slope, "slope"),
    )
    if parts.shape[1] != len(known):
        raise InvalidInputError(f"parts: must have shape (k, {len(known)}) as `known`, got {parts.shape}")
    return gates_of(known, parts, unit_interval(slope, "slope"))


def gates_of(known: Floats, parts: Floats, slope: float) -> Floats:
    """Return `minimal_gates` of checked arguments."""
    if len(parts) == 1:
        return np.clip(unbounded_gate(known, parts[0], slope), slope, 1.0)[None]
    exchanged = _exchanged(known, parts, slope)
    if exchanged is not None:
        return exchanged
    from scipy.optimize import lsq_linear

    result = lsq_linear(parts.T, -known, bounds=(slope, 1.0), method="bvls", tol=1e-15)
    # Rounding can leave the box by a bit.
    return np.clip(np.asarray(result.x, dtype=np.float64), slope, 1.0)


def unbounded_gates(known: Floats, parts: Floats) -> Floats:
    """Return the gates η (k,) that minimise ‖known + η @ parts‖ without bounds.

    known: (d,), or (d, F) for many such problems with the same parts (k, d); the gates are then (k, F).
    """
    if len(parts) <= parts.shape[1]:
        left, corner = np.linalg.qr(parts.T)
        sizes = np.abs(np.diagonal(corner))
        if sizes.min() > STEADY * sizes.max():
            return np.asarray(np.linalg.solve(corner, -(left.T @ known)))
    return np.asarray(np.linalg.lstsq(parts.T, -known, rcond=SAME)[0])


def _exchanged(known: Floats, parts: Floats, slope: float) -> Floats | None:
    """Return the gates by block exchanges from the unbounded ones, or None if these do not settle."""
    gates = unbounded_gates(known, parts)
    side = np.where(gates > 1.0, 1, np.where(gates < slope, -1, 0))
    rounding = 1e-14 * np.linalg.norm(parts, axis=1) * np.abs(parts).sum()
    for _ in range(EXCHANGES):
        inside = side == 0
        gates = np.where(side > 0, 1.0, slope)
        if inside.any():
            gates[inside] = unbounded_gates(known + gates[~inside] @ parts[~inside], parts[inside])
        rates = parts @ (known + gates @ parts)
        out = np.where(gates > 1.0, 1, np.where(gates < slope, -1, 0))
        back = side * rates > rounding
        if not (out[inside].any() or back.any()):
            return np.clip(gates, slope, 1.0)
        side = np.where(inside, out, np.where(back, 0, side))
    return None


def unbounded_gate(known: Floats, part: Floats, slope: float = 0.0) -> Floats:
    """Return η = −⟨known, part⟩/‖part‖², the gate at which the neuron would slide (slope if part = 0)."""
    square = part @ part
    return np.asarray(-(known @ part) / square if square > 0 else slope)


def _uniform(number: int) -> float:
    """Return the number in (0, 1) that the compiled flow draws for a neuron."""
    from shallowflow.kernels.walls.settle import uniform

    with np.errstate(over="ignore"):
        return float(uniform.py_func(number))


class Meeting:
    """One neuron at the walls `here` (W,): which of them hold it, and what it may do."""

    def __init__(self, normals: Floats, mean: Floats, jump: Floats, outer: float, here: Bools) -> None:
        self._normals, self._mean, self._jump, self._outer = normals, mean, jump, outer
        self._here, self._held = here, here & (outer * jump > 0)
        self._passing = here & ~self._held
        # A velocity that counts as none.
        self._rest = 1e-12 * abs(outer) * float(np.sum(np.abs(mean) + np.abs(jump)))

    def first_signs(self, neuron: int, before: NDArray[np.int8], values: Floats) -> Floats:
        """Return σ (W,) to begin with: who arrives crosses; who is on a repelling wall has its side drawn.

        The share of each side is the part of time that descent by small steps would spend there.
        """
        found = np.where(before == 0, values, before)
        drawn = self._passing & (before == 0)
        arriving = self._passing & ~drawn
        found[arriving] = np.where(self._velocity(found) > 0, 1.0, -1.0)[arriving]
        if drawn.any():
            parts = (self._jump[:, None] * self._normals)[self._here]
            known = (self._mean + np.where(self._here, 0.0, found) * self._jump) @ self._normals
            balance = np.zeros(len(found))
            balance[self._here] = np.linalg.lstsq(parts.T, -known)[0]
            for k, wall in enumerate(np.flatnonzero(drawn).tolist()):
                found[wall] = 1.0 if _uniform(neuron + 7919 * k) < 0.5 * (1.0 + balance[wall]) else -1.0
        return found

    def _velocity(self, values: Floats) -> Floats:
        """Return dz/dt (W,), up to a positive factor."""
        velocity: Floats = -self._outer * (
            self._normals @ ((self._mean + values * self._jump) @ self._normals)
        )
        return velocity

    def _agreed(self, trial: Floats) -> Floats:
        """Turn signs of repelling walls, one at a time, until no velocity is against its sign."""
        trial = trial.copy()
        for _ in range(2 * int(self._passing.sum()) + 4):
            if self._held.any():
                trial[self._held] = 0.0
                known = (self._mean + trial * self._jump) @ self._normals
                parts = (self._jump[:, None] * self._normals)[self._held]
                trial[self._held] = gates_of(known, parts, -1.0)
            against = self._passing & (trial * self._velocity(trial) < -self._rest)
            if not against.any():
                break
            trial[np.argmax(against)] *= -1.0
        return trial

    def settled(self, first: Floats, before: NDArray[np.int8]) -> tuple[NDArray[np.int8], Bools]:
        """Return the signs (W,), and where they were one of two possible ones, (W,)."""
        values = self._agreed(first)
        two_valued = np.zeros(len(before), np.bool_)
        for wall in np.flatnonzero(self._passing & (before == 0)).tolist():
            other = values.copy()
            other[wall] *= -1.0
            two_valued[wall] = self._agreed(other)[wall] == other[wall]
        signs = np.where(self._here, 0, before).astype(np.int8)
        inside = np.abs(values) < FULLY
        signs[self._here] = np.where(inside, 0, np.sign(values))[self._here]
        # A wall whose normal lies in the span of those along which the neuron slides is not left.
        slides = self._held & inside
        if slides.any() and (self._here & ~slides).any():
            _, sizes, basis = np.linalg.svd(self._normals[slides], full_matrices=False)
            basis = basis[sizes > DEPENDENT * sizes[0]]
            rest = self._normals - (self._normals @ basis.T) @ basis
            bound = np.linalg.norm(rest, axis=1) < DEPENDENT
            signs[self._here & bound & (np.abs(self._velocity(values)) <= self._rest)] = 0
        return signs, two_valued


Kinked = ReLUNetwork | LogScaledNetwork | KnotNetwork
DORMANT = 0.02
"""Dormant neurons together change the loss by this share at most, to first order."""


@dataclass(frozen=True, eq=False, repr=False)
class Neurons(FrozenArrays):
    """What every reading asks of a network on data: f(x_k) = Σ_j outer_j gate_jk ⟨inner_j, x_k⟩.

    inputs (n, d), for a `KnotNetwork` with a coordinate 1; inner (m, d); outer (m,), output factor and scales
    of the neurons included; signs (m, n); slope γ.
    """

    inputs: Floats
    inner: Floats
    outer: Floats
    signs: Signs
    slope: float

    @property
    def gates(self) -> Floats:
        """1 where active, γ where inactive, 0 where resting, (m, n)."""
        return np.where(self.signs > 0, 1.0, np.where(self.signs < 0, self.slope, 0.0))

    @property
    def features(self) -> Floats:
        """What each neuron gives per unit of outer weight, (n, m)."""
        return (self.gates * (self.inner @ self.inputs.T)).T

    @property
    def filled(self) -> Bools:
        """Which inputs are not zero, (n,): on the others nothing can be read."""
        return np.asarray(self.inputs.any(axis=1))


def neurons_of(network: Network, dataset: Dataset, resting: Resting | None = None) -> Neurons:
    """Return a ReLU network of any kind on data as `Neurons`, or refuse it."""
    if not isinstance(network, ReLUNetwork | LogScaledNetwork | KnotNetwork):
        raise InvalidInputError(
            f"network: must be a ReLUNetwork, LogScaledNetwork or KnotNetwork, got {shown(network)}"
        )
    if checked_dataset(dataset).dimension != network.dimension:
        raise InvalidInputError(
            f"dataset: inputs must have the network's dimension {network.dimension}, got {dataset.dimension}"
        )
    signs = activity(network, dataset.inputs, resting=resting)
    if isinstance(network, KnotNetwork):
        inputs = np.column_stack([dataset.inputs[:, 0], np.ones(dataset.size)])
        inner = np.column_stack([np.ones(network.width), -network.knots])
        return Neurons(inputs, inner, network.outer, signs, 0.0)
    if isinstance(network, LogScaledNetwork):
        outer = np.exp(2.0 * network.log_scales) * network.outer
        return Neurons(dataset.inputs, network.inner, outer, signs, 0.0)
    return Neurons(dataset.inputs, network.inner, network.scale * network.outer, signs, network.slope)


@dataclass(frozen=True, eq=False, repr=False)
class Census(FrozenArrays):
    """Which neurons are dead, resting, dormant or awake, each (m,); sizes o_j (m,).

    groups: (m,) the number of the set of duplicates that an awake neuron belongs to, −1 for the others.
    """

    dead: Bools
    resting: Bools
    dormant: Bools
    sizes: Floats
    groups: Ints

    @property
    def awake(self) -> Bools:
        """Neither dead nor dormant."""
        return ~(self.dead | self.dormant)

    @property
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.dead)

    @property
    def effective_width(self) -> int:
        """The number of distinct (pattern, sign of a) among the awake."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def duplicates(self) -> int:
        """How many awake neurons are copies of another one."""
        return int(self.awake.sum()) - self.effective_width

    def __repr__(self) -> str:
        words = ("dead", "resting", "dormant", "awake")
        counts = ", ".join(f"{int(getattr(self, word).sum())} {word}" for word in words)
        return f"Census({self.width} neurons: {counts}; effective width {self.effective_width})"


@public
def census(
    network: Kinked, dataset: Dataset, loss: Loss | None = None, *, resting: Resting | None = None
) -> Census:
    """Return which neurons are dead, resting, dormant, awake and duplicate.

    resting: pairs (neurons, points) that a flow held on their hyperplanes, `trajectory.resting(t)`.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> inner = [[1.0, 0.5], [2.0, 0.1], [-1.0, -1.0], [1e-4, -1e-4]]
    >>> census(ReLUNetwork(inner, [1.0, 0.5, 1.0, 1e-4]), data)
    Census(4 neurons: 1 dead, 0 resting, 1 dormant, 2 awake; effective width 1)
    """
    return census_of(neurons_of(network, dataset, resting), network, dataset, loss)


def census_of(neurons: Neurons, network: Network, dataset: Dataset, loss: Loss | None = None) -> Census:
    """Return the census of neurons that `neurons_of` returned."""
    loss = SquareLoss() if loss is None else loss
    loss.check(dataset.targets)
    signs = neurons.signs[:, neurons.filled]
    if neurons.slope == 0.0:
        dead = ~np.any(signs > 0, axis=1)
    else:
        dead = ~np.any(neurons.inner @ neurons.inputs.T, axis=1)
    resting = ~dead & np.any(signs == 0, axis=1)
    sizes = np.abs(neurons.outer) * np.sqrt(np.mean(neurons.features**2, axis=0))
    predictions = network.predict(dataset.inputs)
    slopes = dataset.size * loss.slopes(predictions, dataset.targets)
    force, value = float(np.sqrt(np.mean(slopes**2))), loss.value(predictions, dataset.targets)
    allowed = DORMANT * value / force if force > 0.0 else 0.0
    dormant = np.zeros(len(sizes), np.bool_)
    alive = np.flatnonzero(~dead)
    order = alive[np.argsort(sizes[alive], kind="stable")]
    dormant[order[np.cumsum(sizes[order]) <= allowed]] = True
    return Census(dead, resting, dormant, sizes, _groups(signs, neurons.outer, ~(dead | dormant)))


def _groups(signs: Signs, outer: Floats, awake: Bools) -> Ints:
    """Return the number of the set of duplicates of each awake neuron, −1 for the others."""
    groups = np.full(len(outer), -1, dtype=np.int64)
    if awake.any():
        keys = np.column_stack([signs[awake], np.sign(outer[awake]).astype(np.int8)])
        groups[awake] = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    return groups


@public
def merge_duplicates(
    network: ReLUNetwork, dataset: Dataset, *, resting: Resting | None = None
) -> ReLUNetwork:
    """Return a network with the same outputs on the data and one neuron for each (pattern, sign of a).

    Dead neurons go (their outputs on the data are zero); all others are merged, v = Σ_j |a_j| w_j, and
    balanced: ‖w‖ = |a|. Away from the data the function may change.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> merged = merge_duplicates(ReLUNetwork([[1.0, 0.5], [2.0, 0.1], [-1.0, -1.0]], [1.0, 0.5, 1.0]), data)
    >>> merged.width, merged(data.inputs).round(12)
    (1, array([2.  , 0.55]))
    """
    if not isinstance(network, ReLUNetwork):
        raise InvalidInputError(f"network: must be a ReLUNetwork, got {shown(network)}")
    neurons = neurons_of(network, dataset, resting)
    signs = neurons.signs[:, neurons.filled]
    live = np.any(neurons.gates[:, neurons.filled] != 0.0, axis=1) & (network.outer != 0.0)
    if not live.any():
        return ReLUNetwork(network.inner[:1], np.zeros(1), network.slope, network.scale)
    groups = _groups(signs, network.outer, live)
    inner, outer = [], []
    for group in range(int(groups.max()) + 1):
        members = groups == group
        total = np.abs(network.outer[members]) @ network.inner[members]
        size = np.sqrt(np.linalg.norm(total))
        inner.append(total / size if size > 0 else total)
        outer.append(size * np.sign(network.outer[members][0]))
    return ReLUNetwork(inner, outer, network.slope, network.scale)
