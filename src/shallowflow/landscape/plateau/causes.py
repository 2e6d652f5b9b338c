"""Why a loss hardly falls: its parts that belong to the pattern, to the kinks' places, to the outer weights.

While the pattern lasts the loss cannot fall below its level Q₀ ([plateau] Thm 3.1, `pattern_level`); while
the inner layer stays where it is, not below LSQ, the loss of the best outer weights (4.1). So

    L = Q₀ + (LSQ − Q₀) + (L − LSQ),

three parts ≥ 0: what only a passage can remove, what the kinks can remove inside their gaps, and what the
outer weights can remove alone. The third part is a linear problem: its flow is known exactly,

    L(t) = LSQ + ½ Σ_i z_i² exp(−2 s_i² t),   A = U s Vᵀ,   z = Uᵀ(A c − y),

A (n, m) the outputs of the neurons. Where L is flat and this curve is as flat, what holds the loss up is the
conditioning of A, not the pattern. The split and the comparison are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, numbers, positive, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity
from shallowflow.landscape.geometry.floors import pattern_level
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, ReLUNetwork


@dataclass(frozen=True)
class LossParts:
    """L = pattern + places + weights: Q₀, LSQ − Q₀ and L − LSQ."""

    pattern: float
    places: float
    weights: float

    @property
    def total(self) -> float:
        """The loss."""
        return self.pattern + self.places + self.weights

    @property
    def shares(self) -> tuple[float, float, float]:
        """The parts as shares of the loss (0, 0, 0 where it vanishes)."""
        whole = self.total
        return (
            (self.pattern / whole, self.places / whole, self.weights / whole)
            if whole > 0
            else (0.0, 0.0, 0.0)
        )


@public
def loss_parts(
    network: KnotNetwork | ReLUNetwork, dataset: Dataset, loss: SquareLoss | None = None
) -> LossParts:
    """Return what of the loss belongs to the pattern, to the places of the kinks, and to the outer weights.

    loss: ½·mean of squares by default.

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [0.0, 0.0, 1.0, 2.0])
    >>> found = loss_parts(KnotNetwork([0.5], [0.0]), data)  # fits once the knot is at 1
    >>> round(found.pattern, 6), round(found.places, 6), round(found.weights, 6)
    (0.0, 0.021429, 0.603571)
    """
    square = SquareLoss() if loss is None else loss
    level = pattern_level(network, dataset, square)
    residual, free = _split(network, dataset)
    weight = 0.5 * square.weight(dataset.size)
    best = max(weight * float(residual @ residual), level)
    return LossParts(level, best - level, weight * float(np.sum(free.coordinates**2)))


@dataclass(frozen=True, eq=False)
class _Free:
    """The residual in the singular basis of A: coordinates z (r,), sizes s (r,)."""

    coordinates: Floats
    sizes: Floats


def _split(network: KnotNetwork | ReLUNetwork, dataset: Dataset) -> tuple[Floats, _Free]:
    """Return the residual that no outer weights remove, (n,), and what they do remove."""
    if not isinstance(network, KnotNetwork | ReLUNetwork):
        raise InvalidInputError(
            f"network: must be a KnotNetwork or ReLUNetwork, got {type(network).__name__}"
        )
    checked_dataset(dataset)
    z = network.preactivations(dataset.inputs).T
    slope, scale = (network.slope, network.scale) if isinstance(network, ReLUNetwork) else (0.0, 1.0)
    features = scale * np.maximum(z, slope * z)
    basis, sizes, _ = np.linalg.svd(features, full_matrices=False)
    kept = sizes > max(features.shape) * np.finfo(float).eps * sizes[0]
    residual = features @ network.outer - dataset.targets
    coordinates = basis[:, kept].T @ residual
    return residual - basis[:, kept] @ coordinates, _Free(coordinates, sizes[kept])


@public
def frozen_losses(
    network: KnotNetwork | ReLUNetwork,
    dataset: Dataset,
    times: ArrayLike,
    loss: SquareLoss | None = None,
    *,
    step: float | None = None,
) -> Floats:
    """Return the loss at times (k,) after `network` if only the outer weights move, exactly.

    step: of gradient descent, whose times are multiples of it; None is the flow.

    Examples
    --------
    >>> data = Dataset([[1.0]], [1.0])
    >>> frozen_losses(KnotNetwork([0.0], [0.0]), data, [0.0, 1.0, 100.0]).round(6)
    array([0.5     , 0.067668, 0.      ])
    """
    square = SquareLoss() if loss is None else loss
    weight = square.weight(checked_dataset(dataset).size)
    residual, free = _split(network, dataset)
    rates, moments = weight * free.sizes**2, numbers(times, "times", 1)
    if step is None:
        factors = np.exp(-rates * moments[:, None])
    else:
        factors = (1.0 - positive(step, "step") * rates) ** np.rint(moments / step)[:, None]
    return np.asarray(
        0.5 * weight * (residual @ residual + np.sum((factors * free.coordinates) ** 2, axis=1))
    )


@dataclass(frozen=True)
class Passage:
    """`neuron` meets data point `point` after `time`, if it moves on as it does now (∞, −1, −1: none)."""

    time: float
    neuron: int
    point: int


@public
def next_passage(network: KnotNetwork | ReLUNetwork, dataset: Dataset, loss: Loss | None = None) -> Passage:
    """Return which neuron of the flow meets which data point next, from gaps and present velocities.

    A first guess of when the stage of [plateau] Thm 3.1 ends: the least −z_jk/ż_jk over the pairs that
    approach each other, z_jk = ⟨w_j, x_k⟩ (x_k − b_j for knots).

    Examples
    --------
    >>> next_passage(KnotNetwork([0.5], [1.0]), Dataset([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]))
    Passage(time=0.375, neuron=0, point=0)
    """
    if not isinstance(network, KnotNetwork | ReLUNetwork):
        raise InvalidInputError(
            f"network: must be a KnotNetwork or ReLUNetwork, got {type(network).__name__}"
        )
    square = SquareLoss() if loss is None else loss
    inputs = checked_dataset(dataset).inputs
    pulls = network.pullback(inputs, -square.slopes(network.predict(inputs), dataset.targets))
    if isinstance(network, KnotNetwork):
        speeds = np.broadcast_to(-pulls["knots"][:, None], (network.width, dataset.size))
    else:
        speeds = pulls["inner"] @ inputs.T
    z, living = network.preactivations(inputs), activity(network, inputs)
    meeting = (living * speeds < 0) & np.any(living > 0, axis=1)[:, None]
    times = np.full(z.shape, np.inf)
    np.divide(-z, speeds, out=times, where=meeting)
    if not meeting.any():
        return Passage(np.inf, -1, -1)
    neuron, point = np.unravel_index(int(np.argmin(times)), times.shape)
    return Passage(float(times[neuron, point]), int(neuron), int(point))
