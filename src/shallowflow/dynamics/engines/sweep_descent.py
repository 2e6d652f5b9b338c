"""What the engines of wide sweeps, "fused", "gram" and "decoupled", share; in double or single precision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


class SweepDescent(ABC):
    """θ ← θ − step·∇L(θ) of a `ReLUNetwork` with the square loss, the inner layer with step·epsilon."""

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss,
        step: float,
        epsilon: float,
        precision: str = "double",
    ) -> None:
        self._network, self._inputs, self._precision = network, dataset.inputs, precision
        rate = step * network.scale * loss.weight(dataset.size)
        # In the order of the names in `kernels.dense.fused`.
        constants = [0.0, network.slope, 1.0, network.scale, rate * epsilon, rate]
        self._constants: NDArray[Any] = np.array(constants, PRECISIONS[precision])
        self._lay_out(dataset)

    @abstractmethod
    def _lay_out(self, dataset: Dataset) -> None:
        """Lay the data and the start out as the kernel wants them."""

    def _blocks(self, values: Floats, length: int) -> NDArray[Any]:
        """Return values (…, k) as (…, blocks, length) in the precision of the run, zeros behind them."""
        blocks = -(-values.shape[-1] // length)
        padded = np.zeros((*values.shape[:-1], blocks * length), self._constants.dtype)
        padded[..., : values.shape[-1]] = values
        return padded.reshape(*values.shape[:-1], blocks, length)

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return the precision."""
        return {"precision": self._precision}
