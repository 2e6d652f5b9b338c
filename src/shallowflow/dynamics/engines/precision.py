"""What the fused, Gram and decoupled engines share: precisions, blocks, and constants of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
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


def blocks_of(values: Floats, length: int, like: NDArray[Any]) -> NDArray[Any]:
    """Return values (…, k) as (…, blocks, length) of the type of `like`, zeros behind them."""
    blocks = -(-values.shape[-1] // length)
    padded = np.zeros((*values.shape[:-1], blocks * length), like.dtype)
    padded[..., : values.shape[-1]] = values
    return padded.reshape(*values.shape[:-1], blocks, length)
