"""The few neurons that a wide network amounts to, once its neurons have aligned.

Neurons with one direction e act as one: Σ_j a_j σ(⟨w_j, x⟩) = (Σ_j a_j‖w_j‖) σ(⟨e, x⟩).
[early_alignment] App. B counts a trained network in such neurons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, positive
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.relu_problem import check_relu_problem
from shallowflow.models.networks import ReLUNetwork


@dataclass(frozen=True, eq=False, repr=False)
class MergedNeurons(FrozenArrays):
    """directions (g, d): unit vectors; weights (g,): Σ a_j‖w_j‖ of each group; counts (g,): its neurons.

    Heaviest group first.
    """

    directions: Floats
    weights: Floats
    counts: Ints

    def __len__(self) -> int:
        return len(self.weights)


def merged_neurons(
    network: ReLUNetwork, dataset: Dataset, *, tolerance: float = 1e-2, share: float = 1e-2
) -> MergedNeurons:
    """Return the groups of neurons with one direction that make up the network on the data.

    Neurons that no data point activates are left out (unless the activation is leaky). tolerance: directions
    this close to that of a group's heaviest neuron belong to it; share: groups whose |weight| is below this
    share of the heaviest one's are left out.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> found = merged_neurons(ReLUNetwork([[1.0, 0.0], [2.0, 0.0], [-1.0, -1.0]], [1.0, -1.0, 5.0]), data)
    >>> found.weights, found.counts
    (array([-1.]), array([2]))
    """
    tolerance, share = positive(tolerance, "tolerance"), positive(share, "share")
    check_relu_problem(network, dataset)
    lengths = np.linalg.norm(network.inner, axis=1)
    alive = np.any(network.preactivations(dataset.inputs) > 0, axis=1) | (network.slope > 0)
    used = np.flatnonzero(alive & (lengths > 0) & (network.outer != 0))
    sizes = network.scale * network.outer[used] * lengths[used]
    units = network.inner[used] / lengths[used, None]
    groups: list[tuple[Floats, float, int]] = []
    heaviest = 0.0
    remaining = np.arange(len(used))
    while remaining.size and np.sum(np.abs(sizes[remaining])) > share * heaviest:
        first = remaining[np.argmax(np.abs(sizes[remaining]))]
        near = np.linalg.norm(units[remaining] - units[first], axis=1) <= tolerance
        members = remaining[near]
        weight = float(np.sum(sizes[members]))
        groups.append((units[first], weight, int(members.size)))
        heaviest = max(heaviest, abs(weight))
        remaining = remaining[~near]
    groups = sorted((g for g in groups if abs(g[1]) > share * heaviest), key=lambda g: -abs(g[1]))
    directions = np.array([g[0] for g in groups]).reshape(len(groups), dataset.dimension)
    return MergedNeurons(directions, np.array([g[1] for g in groups]), np.array([g[2] for g in groups], int))
