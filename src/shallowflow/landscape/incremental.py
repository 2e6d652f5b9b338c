"""Minimal-norm interpolators on orthonormal data, and the norms of [incremental] §5."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, non_negative, shown, vector
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import check_orthonormal
from shallowflow.models.networks import LogScaledNetwork, ReLUNetwork

HALVING_RATIO = 1.0 + np.sqrt(2.0)
"""Limit of ‖θ_∞‖²/‖θ_*‖² for equal labels if every jump fits half of what is left: Σ_k 2^{−(k+1)/2}."""
SHARED_RATIO = np.sqrt(2.0)
"""‖θ‖²/‖θ_*‖² if many neurons of a sign grow at one rate and fit its points together.

Each of m neurons is active on a random half M_j of the points of its sign, so that a point has m/2 of them
and |a_j| w_j = (2/m) Σ_{k ∈ M_j} |y_k| x_k. With q = Σ y_k² this is a_j² = ‖w_j‖² = (2/m) √(q/2), and ‖θ‖²
sums to 2√(2q) where the minimum is 2√q. Neurons active on a part p of q instead of ½ give 1/√p."""


def squared_norm(network: ReLUNetwork | LogScaledNetwork) -> float:
    """Return ‖θ‖² = Σ_j a_j² + ‖w_j‖²."""
    plain = network.to_relu() if isinstance(network, LogScaledNetwork) else network
    if not isinstance(plain, ReLUNetwork):
        raise InvalidInputError(f"network: must be a ReLUNetwork or LogScaledNetwork, got {shown(network)}")
    return float(np.sum(plain.outer**2) + np.sum(plain.inner**2))


def fitting_neuron(inputs: Floats, targets: Floats) -> tuple[Floats, float]:
    """Return (w, |a|) of the balanced neuron with |a|·w = Σ_k |y_k| x_k: it fits labels of one sign.

    q = Σ y_k²,  ‖w‖² = a² = √q, [incremental] (12)–(14).
    """
    size = float(np.sqrt(np.linalg.norm(targets)))
    return np.abs(targets) @ inputs / size, size


def min_norm_interpolator(dataset: Dataset) -> ReLUNetwork:
    """Return an interpolator of least ‖θ‖², orthonormal data: one neuron per label sign, [incremental] (15).

    Zero labels need no neuron.

    Examples
    --------
    >>> net = min_norm_interpolator(Dataset([[1.0, 0.0], [0.0, 1.0]], [4.0, -9.0]))
    >>> net.outer, squared_norm(net), min_squared_norm([4.0, -9.0])
    (array([ 2., -3.]), 26.0, 26.0)
    """
    check_orthonormal(dataset, "min_norm_interpolator")
    inner, outer = [], []
    for sign in (1.0, -1.0):
        chosen = sign * dataset.targets > 0
        if chosen.any():
            weights, size = fitting_neuron(dataset.inputs[chosen], dataset.targets[chosen])
            inner.append(weights)
            outer.append(sign * size)
    if not inner:
        return ReLUNetwork(np.zeros((1, dataset.dimension)), [0.0])
    return ReLUNetwork(np.array(inner), outer)


def min_squared_norm(targets: Floats | list[float]) -> float:
    """Return the least ‖θ‖² of an interpolator: 2(√Σ_{y>0} y² + √Σ_{y<0} y²), [incremental] (15)."""
    y = vector(targets, "targets")
    return float(2.0 * (np.linalg.norm(y[y > 0]) + np.linalg.norm(y[y < 0])))


def norm_constant(norm: float, targets: Floats | list[float]) -> float:
    """Return C in ‖θ‖² = C·max|y|·√n: bounded with high probability by [incremental] Theorem 3."""
    y = vector(targets, "targets")
    if not np.any(y):
        raise InvalidInputError("targets: must not all be zero, for C divides by max|y|; got zeros only")
    return float(non_negative(norm, "norm") / (np.abs(y).max() * np.sqrt(len(y))))
