"""How far the neurons of a network are aligned, and the few neurons that they then amount to.

`neuron_alignment` sets each neuron beside the extremal vector of its cone, [early_alignment] Thm 1. Neurons
with one direction e act as one, Σ_j a_j σ(⟨w_j, x⟩) = (Σ_j a_j‖w_j‖) σ(⟨e, x⟩); App. B counts a trained
network in such neurons (`merged_neurons`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, positive, public, real
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.extremal import (
    KINDS,
    extremal_vector,
)
from shallowflow.landscape.early_alignment.pulls import ON, is_extremal, pull
from shallowflow.landscape.geometry.activity import (
    Resting,
    Signs,
    activity,
    check_relu,
    check_relu_problem,
    signs_of,
)
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork

NOT_EXTREMAL, STILL = -2, -1
"""States of a neuron whose D(w_j, 0) is not extremal, or zero; the others index `KINDS`."""


@dataclass(frozen=True, eq=False, repr=False)
class NeuronAlignment(FrozenArrays):
    """The neurons of a network against D_j = D(w_j, 0), the pull of the data at output zero.

    norms (m,): ‖D_j‖; alignments (m,): ⟨D_j, w_j/a_j⟩, which the flow raises towards ‖D_j‖ (0 where a_j = 0);
    cosines (m,): of the angle between D_j and w_j/a_j (0 where one vanishes); states (m,): the number in
    `KINDS` of the critical point of G in the neuron's cone, `STILL` where D_j = 0 (a dead neuron), or
    `NOT_EXTREMAL`.
    """

    norms: Floats
    alignments: Floats
    cosines: Floats
    states: Signs

    @property
    def misalignments(self) -> Floats:
        """‖D_j‖ − ⟨D_j, w_j/a_j⟩ (m,), between 0 and 2‖D_j‖ if |a_j| ≥ ‖w_j‖."""
        return self.norms - self.alignments

    def opposed(self, tolerance: float = ON) -> Bools:
        """Return which neurons point exactly away from where they are pulled, (m,)."""
        return np.asarray(self.cosines <= tolerance - 1.0)

    def of_kind(self, kind: str) -> Bools:
        """Return which neurons lie in the cone of an extremal vector of this kind, (m,)."""
        return np.asarray(self.states == KINDS.index(kind))


@public
def neuron_alignment(
    network: ReLUNetwork, dataset: Dataset, *, loss: Loss | None = None, tolerance: float = ON
) -> NeuronAlignment:
    """Return how the neurons of a network are aligned with what pulls at them.

    loss: ½·mean of squares by default; tolerance: a neuron this close to a data hyperplane (cosine) lies on
    it.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> found = neuron_alignment(ReLUNetwork([[2.0, 2.0], [-1.0, -1.0]], [3.0, 1.0]), data)
    >>> found.cosines.round(6), found.states
    (array([1., 0.]), array([ 0, -1], dtype=int8))
    """
    check_relu(network)
    found, tolerance = pull(dataset, loss, network.slope), positive(tolerance, "tolerance")
    lengths = np.linalg.norm(network.inner, axis=1)
    signs = signs_of(network.preactivations(dataset.inputs), np.outer(lengths, found.lengths), tolerance)
    patterns, which = np.unique(signs, axis=0, return_inverse=True)
    shortest = found.minimal_all(patterns)
    states = np.full(len(patterns), NOT_EXTREMAL, np.int8)
    for i, (pattern, gradient) in enumerate(zip(patterns, shortest, strict=True)):
        if not gradient.any():
            states[i] = STILL
        elif is_extremal(found, pattern, gradient):
            states[i] = KINDS.index(extremal_vector(found, pattern, gradient).kind)
    pulls = shortest[which.ravel()]
    norms, products = np.linalg.norm(pulls, axis=1), np.einsum("jd,jd->j", pulls, network.inner)
    alignments = np.divide(products, network.outer, out=np.zeros_like(products), where=network.outer != 0)
    sizes = norms * lengths
    cosines = np.divide(np.sign(network.outer) * products, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    return NeuronAlignment(norms, alignments, cosines, states[which.ravel()])


@public
def alignment_time(norm: float, start: float, end: float) -> float:
    """Return how long ⟨D, w/a⟩ takes from `start` to `end` under f' = ‖D‖² − f², [early_alignment] (8).

    norm: ‖D‖; start, end in (−‖D‖, ‖D‖): (artanh(end/‖D‖) − artanh(start/‖D‖))/‖D‖. A neuron that starts
    almost opposed, f = −‖D‖√(1 − α₀²), is late by about ln(2/α₀)/‖D‖ beside one at f = 0 (Remark 1).

    Examples
    --------
    >>> round(alignment_time(2.0, 0.0, 1.0), 6)
    0.274653
    """
    norm = positive(norm, "norm")
    for name, value in (("start", start), ("end", end)):
        if not abs(real(value, name)) < norm:
            raise InvalidInputError(f"{name}: must lie between -norm and norm = {norm:g}, got {value:g}")
    return float((np.arctanh(end / norm) - np.arctanh(start / norm)) / norm)


def largest_misalignments(
    first: NeuronAlignment, last: NeuronAlignment, norms: Floats, alpha_0: float, tolerance: float = ON
) -> tuple[Floats, int]:
    """Return the largest ‖D‖ − ⟨D, w_j/a_j⟩ at each extremal vector, and the number of neurons elsewhere.

    first, last: the neurons of one network at the start and at τ; norms (v,): ‖D‖ of the extremal vectors.
    Counted are the neurons of Condition 1 of [early_alignment] Thm 1, ⟨D_j, w_j/a_j⟩ > −√(1 − α₀²) ‖D_j‖ at
    the start; at a vector are those whose pull at τ is extremal and as long, and does not oppose them (NaN if
    there are none).
    """
    chosen = first.alignments > -np.sqrt(1 - alpha_0**2) * first.norms
    arrived = chosen & (last.states >= 0) & ~last.opposed(tolerance)
    errors = np.full(len(norms), np.nan)
    for v, norm in enumerate(norms):
        here = arrived & np.isclose(last.norms, norm, rtol=1e-9)
        if here.any():
            errors[v] = float(np.max(last.misalignments[here]))
    return errors, int(np.sum(chosen & (last.states < 0) & (last.norms > 0)))


def mean_turn(before: ReLUNetwork, after: ReLUNetwork) -> float:
    """Return the angle between the mean directions Σ_{a_j > 0} a_j w_j of two networks, in radians."""
    first, second = (
        np.where(network.outer > 0, network.outer, 0.0) @ network.inner for network in (before, after)
    )
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.arccos(np.clip(cosine, -1.0, 1.0)))


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


@public
def merged_neurons(
    network: ReLUNetwork,
    dataset: Dataset,
    *,
    tolerance: float = 1e-2,
    share: float = 1e-2,
    resting: Resting | None = None,
) -> MergedNeurons:
    """Return the groups of neurons with one direction that make up the network on the data.

    Neurons that no data point activates are left out (unless the activation is leaky). tolerance: directions
    this close to that of a group's heaviest neuron belong to it; share: groups whose |weight| is below this
    share of the heaviest one's are left out; resting: as for `activity`.

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
    alive = np.any(activity(network, dataset.inputs, resting=resting) > 0, axis=1) | (network.slope > 0)
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
