"""How far the neurons of a network are aligned with extremal vectors, [early_alignment] Thm 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, positive
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.alignment import ON, is_extremal, pull
from shallowflow.landscape.arrangement import Signs
from shallowflow.landscape.balance import check_relu
from shallowflow.landscape.extremal import KINDS, extremal_vector
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
    values = network.preactivations(dataset.inputs)
    near = np.abs(values) <= tolerance * lengths[:, None] * np.linalg.norm(dataset.inputs, axis=1)
    signs = np.where(near, 0, np.sign(values)).astype(np.int8)
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
