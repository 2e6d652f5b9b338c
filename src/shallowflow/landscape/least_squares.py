"""The least-squares estimator β* = (XᵀX)⁻¹Xᵀy, in which small networks may end [early_alignment] Thm 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset


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
