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

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting, activity
from shallowflow.landscape.geometry.blocks import blocks
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, ReLUNetwork

ReLUs = ReLUNetwork | LogScaledNetwork | KnotNetwork


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
    left = targets - reached(pattern_span(network, dataset, resting), targets)
    return 0.5 * square.weight(dataset.size) * float(left @ left)


def pattern_span(network: ReLUs, dataset: Dataset, resting: Resting | None = None) -> Floats:
    """Return vectors (n, k) that span V: one for each coordinate of each set of neurons with one pattern."""
    signs = activity(network, dataset.inputs, resting=resting)
    slope = network.slope if isinstance(network, ReLUNetwork) else 0.0
    inputs = dataset.inputs
    if isinstance(network, KnotNetwork):
        inputs = np.column_stack([inputs[:, 0], np.ones(dataset.size)])
    held: dict[int, list[int]] = {}
    for neuron, point in zip(*resting, strict=True) if resting is not None else ():
        held.setdefault(int(neuron), []).append(int(point))
    free = np.ones(network.width, dtype=np.bool_)
    free[list(held)] = False
    patterns = np.unique(signs[free], axis=0)
    parts = [_gates(pattern, slope)[:, None] * inputs for pattern in patterns]
    for neuron, points in held.items():
        basis = np.linalg.qr(inputs[points].T)[0]
        parts.append(_gates(signs[neuron], slope)[:, None] * (inputs - inputs @ basis @ basis.T))
    return np.hstack(parts)


def _gates(pattern: Floats, slope: float) -> Floats:
    return np.where(pattern > 0, 1.0, np.where(pattern < 0, slope, 0.0))


def reached(span: Floats, targets: Floats) -> Floats:
    """Return Π_V y, (n,), for V spanned by the columns of span (n, k), which may depend on each other."""
    basis, sizes, _ = np.linalg.svd(span, full_matrices=False)
    basis = basis[:, sizes > max(span.shape) * np.finfo(float).eps * sizes[0]]
    return np.asarray(basis @ (basis.T @ targets))
