"""Which neurons are active on which data points: the one meaning of "active".

A neuron is active on x if ⟨w, x⟩ > 0 (x > b for a knot b), inactive if it is < 0, and *resting* if x lies on
its hyperplane. Rounded weights do not carry exact zeros: a flow that holds a neuron at ⟨w, x⟩ = 0 leaves a
product of ±1e-17, whose sign means nothing. So what is within rounding of zero is resting, and so is what a
flow says that it held. σ'(0) = 0: a resting pair contributes nothing, as an inactive one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shallowflow.arrays import Floats, Ints, public, shown
from shallowflow.data.dataset import checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork
from shallowflow.models.relu import inputs_of

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
