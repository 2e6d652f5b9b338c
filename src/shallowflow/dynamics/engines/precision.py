"""What the fused, Gram and decoupled engines share: their precisions, and the constants of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.data.dataset import Dataset
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


def constants_of(
    network: ReLUNetwork,
    dataset: Dataset,
    loss: SquareLoss,
    step: float,
    epsilon: float,
    kind: type[np.floating[Any]],
) -> NDArray[Any]:
    """Return the constants of `kernels.fused_descent`, in the order of its names."""
    rate = step * network.scale * loss.weight(dataset.size)
    return np.array([0.0, network.slope, 1.0, network.scale, rate * epsilon, rate], kind)
