"""The level of a pattern: the least loss that a network can reach while its activity does not change.

Where neuron j is active on the points A_j its output is a_j⟨w_j, x⟩ there, whatever w_j and a_j. So as long
as the pattern lasts, the outputs on the data stay in

    V = span{gate_j ⊙ X e_i : neurons j, coordinates i} ⊂ Rⁿ,   gate_jk = 1, γ, 0 (active, inactive, resting),

and the loss cannot fall below ½‖y − Π_V y‖² (or its mean): Q₀ of [plateau] Theorem 3.1, for any ReLU network
in any dimension. A univariate network with a bias coordinate keeps its own V: `to_knots` would give it
functions that its parameters cannot reach.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting
from shallowflow.landscape.geometry.blocks import blocks
from shallowflow.landscape.geometry.census import neurons_of
from shallowflow.landscape.geometry.floors import level_of, pattern_span
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, ReLUNetwork

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
