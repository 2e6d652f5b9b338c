"""A census of the neurons: dead, resting, dormant, awake, duplicate; and how many neurons a network really
uses.

One sign function for all of it (`activity`): a product ⟨w_j, x_k⟩ at rounding level is 0. With S_jk the signs
and

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

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, public, shown
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting, Signs, activity
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork

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
