"""Few data in many dimensions: what the inputs do not span is one coordinate, not d − n of them.

Pulls, activation cones and everything [early_alignment] says of them depend on inner products alone. If
d > n + 1, an orthonormal basis Q (d, n) of a space that holds the inputs turns x_k into (Qᵀx_k, 0) and a
neuron into (Qᵀw, ‖w − QQᵀw‖), both in R^(n+1): all inner products with the data and all norms stay as they
are. No gradient has a part outside the span, so that the flow keeps that last coordinate.

The least-squares estimator β* = (XᵀX)⁻¹Xᵀy, in which small networks may end [early_alignment] Thm 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.models.networks import ReLUNetwork


@dataclass(frozen=True)
class Span:
    """Data in at most n + 1 coordinates; basis (d, n), or None where the data stay as they are."""

    dataset: Dataset
    basis: Floats | None = None

    def network(self, network: ReLUNetwork) -> ReLUNetwork:
        """Return a network in the same coordinates: equal on the data, with the same norms."""
        if self.basis is None:
            return network
        along = network.inner @ self.basis
        across = np.linalg.norm(network.inner - along @ self.basis.T, axis=1)
        inner = np.column_stack([along, across])
        return ReLUNetwork(inner, network.outer, slope=network.slope, scale=network.scale)

    def lifted(self, vector: Floats) -> Floats:
        """Return a vector of the span in the coordinates of the data as given, (d,)."""
        return vector if self.basis is None else np.asarray(self.basis @ vector[:-1])


def span_of(dataset: Dataset) -> Span:
    """Return the data in n + 1 coordinates if they have more, else as they are.

    Examples
    --------
    >>> data = Dataset([[3.0, 0.0, 4.0, 0.0]], [1.0])
    >>> abs(span_of(data).dataset.inputs)
    array([[5., 0.]])
    """
    if dataset.dimension <= dataset.size + 1:
        return Span(dataset)
    basis, corner = np.linalg.qr(dataset.inputs.T)
    inputs = np.column_stack([corner.T, np.zeros(dataset.size)])
    return Span(Dataset(inputs, dataset.targets, dataset.name), basis)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """β* (d,) and its loss ½·mean (⟨β*, x_k⟩ − y_k)²."""

    coefficients: Floats
    loss: float


def least_squares(dataset: Dataset) -> LeastSquares:
    """Return the linear least-squares fit (of minimal norm if the inputs do not determine it).

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> round(least_squares(three_points()).loss, 7)
    0.0875214
    """
    solution = np.linalg.lstsq(dataset.inputs, dataset.targets)[0]
    coefficients = np.asarray(solution, dtype=np.float64)
    residual = dataset.inputs @ coefficients - dataset.targets
    return LeastSquares(coefficients, 0.5 * float(np.mean(residual**2)))
