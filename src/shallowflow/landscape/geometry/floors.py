"""Floors: the least loss that can be reached while the pattern of activity stands; and what a loss is made
of.

With gates S⁺ (1 active, γ inactive, 0 resting) and for a set J of neurons,

    pattern floor   ½ mean (y − Π_V y)²,  V = Σ_{j∈J} {S⁺_j ∘ Xv : v ⊥ x_k for all k on which j rests}
    feature floor   the same with V = span{S⁺_j ∘ X w_j}: only the outer layer moves
    cone floor      the least loss with the pattern *and* the signs of a standing: a_j w_j ∈ sign(a_j)·C_j (in
    the plane)

Outputs on the data are sums of S⁺_j ∘ X(a_j w_j), so L ≥ feature ≥ pattern and L ≥ cone ≥ pattern. If no a_j
is 0, V is the range of the tangent kernel: the pattern floor is where the frozen kernel ends. It is [plateau]
Thm 3.1's Q₀, in any dimension. A floor of rank n is no floor: the pattern can interpolate.

`pattern_level` is the pattern floor of a flow, for any ReLU network in any dimension. A univariate network
with a bias coordinate keeps its own V: `to_knots` would give it functions that its parameters cannot reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting
from shallowflow.landscape.geometry.blocks import blocks
from shallowflow.landscape.geometry.census import Kinked, Neurons, neurons_of
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, ReLUNetwork

RANK = 1e-10
"""Columns of length 1 whose new part is smaller than this are dependent."""

EXTRA = 10
"""Columns beyond n that random sums need."""


@dataclass(frozen=True)
class Floor:
    """A level of the loss, and the rank of what can be reached."""

    level: float
    rank: int
    size: int

    @property
    def interpolates(self) -> bool:
        """Whether everything can be reached: there is no floor."""
        return self.rank >= self.size


@dataclass(frozen=True)
class Floors:
    """The floors of a set of neurons; cone is None beyond the plane."""

    feature: Floor
    pattern: Floor
    cone: float | None = None


@public
def floors(
    network: Kinked,
    dataset: Dataset,
    loss: SquareLoss | None = None,
    *,
    resting: Resting | None = None,
) -> Floors:
    """Return the feature, pattern and (in the plane) cone floor of a network.

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["three_points"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), data, until=200.0)
    >>> found = floors(run.final, data)
    >>> round(float(run.losses[-1]), 6), round(found.pattern.level, 6), found.pattern.rank
    (0.087521, 0.087521, 2)
    """
    square = _square(loss)
    neurons = neurons_of(network, dataset, resting)
    weight = square.weight(dataset.size)
    cone = cone_floor(neurons, dataset.targets, weight) if neurons.inputs.shape[1] == 2 else None
    return Floors(
        feature_floor(neurons, dataset.targets, weight),
        pattern_floor(neurons, dataset.targets, weight),
        cone,
    )


def _square(loss: object) -> SquareLoss:
    if loss is None:
        return SquareLoss()
    if not isinstance(loss, SquareLoss):
        raise InvalidInputError(f"loss: a floor is that of a SquareLoss, got {loss}")
    return loss


def feature_floor(neurons: Neurons, targets: Floats, weight: float, which: Bools | None = None) -> Floor:
    """Return the least loss if only the outer weights of the chosen neurons (m,) move and the others are
    gone."""
    chosen = np.ones(len(neurons.outer), np.bool_) if which is None else which
    return level_of(neurons.features[:, chosen], targets, weight)


def pattern_floor(neurons: Neurons, targets: Floats, weight: float, which: Bools | None = None) -> Floor:
    """Return the least loss of the chosen neurons (m,) alone while their pattern stands."""
    return level_of(pattern_span(neurons, which), targets, weight)


def pattern_span(neurons: Neurons, which: Bools | None = None, held: Bools | None = None) -> Floats:
    """Return vectors (n, k) that span V: d or fewer for each pattern among the chosen neurons.

    held: (m, n) the pairs at whose points a neuron is held, by default all that rest.
    """
    chosen = np.ones(len(neurons.outer), np.bool_) if which is None else which
    inputs, filled = neurons.inputs, neurons.filled
    fixed = (neurons.signs == 0) & filled if held is None else held & filled
    parts = [np.empty((len(inputs), 0))]
    rows = np.column_stack([neurons.signs[chosen], fixed[chosen]])
    for row in np.unique(rows, axis=0):
        pattern, on = np.split(row, 2)
        gates = np.where(pattern > 0, 1.0, np.where(pattern < 0, neurons.slope, 0.0))
        if gates.any():
            parts.append(gates[:, None] * (inputs @ free_directions(inputs[on > 0])))
    return np.hstack(parts)


def free_directions(held: Floats) -> Floats:
    """Return an orthonormal basis (d, c) of the directions orthogonal to the rows of held (k, d)."""
    if not len(held):
        return np.eye(held.shape[1])
    units = held / np.linalg.norm(held, axis=1)[:, None]
    _, sizes, rows = np.linalg.svd(units)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    return np.asarray(rows[rank:].T)


def level_of(columns: Floats, targets: Floats, weight: float) -> Floor:
    """Return ½·weight times the square distance of the targets (n,) to the span of columns (n, k)."""
    from scipy.linalg import qr

    lengths = np.linalg.norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    left, rank = targets, 0
    if columns.shape[1] > 2 * len(targets):
        # Random sums of the columns, some more than n of them, span the same space and cost less to factor.
        mixed = np.random.default_rng(0).standard_normal((columns.shape[1], len(targets) + EXTRA))
        columns = columns @ mixed
    if columns.shape[1]:
        basis, corner, _ = qr(columns, mode="economic", pivoting=True, check_finite=False)
        rank = int(np.sum(np.abs(np.diagonal(corner)) > RANK))
        for _ in range(2):
            left = left - basis[:, :rank] @ (basis[:, :rank].T @ left)
    level = 0.0 if rank >= len(targets) else 0.5 * weight * float(left @ left)
    return Floor(level, rank, len(targets))


def cone_floor(neurons: Neurons, targets: Floats, weight: float) -> float:
    """Return the least loss while pattern and signs of a stand, in the plane: non-negative least squares on
    rays.

    A cone of the plane is spanned by its extreme rays, which are orthogonal to data points.
    """
    from scipy.optimize import nnls

    inputs = neurons.inputs[neurons.filled]
    units = inputs / np.linalg.norm(inputs, axis=1)[:, None]
    across = np.column_stack([-units[:, 1], units[:, 0]])
    candidates = np.unique(np.vstack([across, -across]).round(14), axis=0)
    products = candidates @ units.T
    products[np.abs(products) <= 1e-12] = 0.0
    columns = []
    keys = np.column_stack([neurons.signs, np.sign(neurons.outer).astype(np.int8)])
    for key, first in zip(*np.unique(keys, axis=0, return_index=True), strict=True):
        pattern, side = key[:-1][neurons.filled], key[-1]
        allowed = np.all(pattern * products >= 0, axis=1) & np.all(products[:, pattern == 0] == 0, axis=1)
        # Its own direction is inside: it stands in where a cone is a half-plane or more.
        rays = np.vstack([candidates[allowed], neurons.inner[first]])
        gates = np.where(key[:-1] > 0, 1.0, np.where(key[:-1] < 0, neurons.slope, 0.0))
        columns.append(side * gates[:, None] * (neurons.inputs @ rays.T))
    matrix = np.hstack(columns)
    matrix = matrix[:, np.any(matrix != 0, axis=0)]
    rest = (
        nnls(matrix / np.linalg.norm(matrix, axis=0), targets)[1]
        if matrix.shape[1]
        else np.linalg.norm(targets)
    )
    return 0.5 * weight * float(rest) ** 2


@dataclass(frozen=True)
class Anatomy:
    """What a loss is made of: four parts that add up to it.

    outer: what solving the outer layer would take away; turning: what the awake neurons could take away by
    turning within their pattern; dormant: what dormant neurons could, by growing; pattern: what is left until
    some neuron crosses a data point. interpolates: whether the pattern of all neurons can fit everything.
    """

    outer: float
    turning: float
    dormant: float
    pattern: float
    interpolates: bool

    @property
    def total(self) -> float:
        """The loss."""
        return self.outer + self.turning + self.dormant + self.pattern

    @property
    def shares(self) -> dict[str, float]:
        """The parts as shares of the loss, by name."""
        parts = {name: getattr(self, name) for name in ("outer", "turning", "dormant", "pattern")}
        return {name: part / self.total if self.total > 0 else 0.0 for name, part in parts.items()}


def anatomy(value: float, feature: Floor, awake: Floor, every: Floor) -> Anatomy:
    """Return the parts of a loss `value`: from it to feature(awake), to pattern(awake), to pattern(all), to
    0.

    Without the dormant neurons the feature floor may lie a little above the loss; it is cut there.
    """
    solved = min(value, feature.level)
    turned = min(solved, awake.level)
    least = min(turned, every.level)
    return Anatomy(value - solved, solved - turned, turned - least, least, every.interpolates)


ReLUs = ReLUNetwork | LogScaledNetwork | KnotNetwork


@public
def pattern_level(
    network: ReLUs, dataset: Dataset, loss: SquareLoss | None = None, *, resting: Resting | None = None
) -> float:
    """Return the level that no flow of the network gets below while its pattern of activity lasts.

    loss: ½·mean of squares by default, or `SquareLoss("sum")`; resting: pairs (neurons, points) that a flow
    holds on their hyperplanes, `trajectory.resting(t)`: such a neuron only moves with ⟨w_j, x_k⟩ = 0. For a
    `KnotNetwork` without such pairs this is `plateau_level`.

    Examples
    --------
    >>> x = np.linspace(-1.0, 1.0, 21)
    >>> data = Dataset(x[:, None], 1.0 + x**2).with_bias()
    >>> network = ReLUNetwork([[-1.0, 0.05]], [1.0])  # silent for x ≥ 0.05: these points stay where they are
    >>> round(pattern_level(network, data, SquareLoss("sum")), 4)
    10.1596
    """
    square = SquareLoss() if loss is None else loss
    if not isinstance(square, SquareLoss):
        raise InvalidInputError(f"loss: a level is that of a SquareLoss, got {square}")
    targets = checked_dataset(dataset).targets
    if isinstance(network, KnotNetwork) and resting is None:
        return 0.5 * square.weight(dataset.size) * blocks(network, dataset).missed_squares
    return level_of(held_span(network, dataset, resting), targets, square.weight(dataset.size)).level


def held_span(network: ReLUs, dataset: Dataset, resting: Resting | None = None) -> Floats:
    """Return vectors (n, k) that span V, only the pairs of `resting` being held on their hyperplanes.

    (`floors` takes every pair at rounding level for held.)
    """
    neurons = neurons_of(network, dataset, resting)
    held = np.zeros(neurons.signs.shape, dtype=np.bool_)
    if resting is not None:
        held[resting] = True
    return pattern_span(neurons, held=held)
