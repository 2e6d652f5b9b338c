"""What the compiled engines "fused", "lanes", "gram" and "decoupled" share; in double or single precision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import LogisticLoss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

if TYPE_CHECKING:
    from shallowflow.kernels.shared.losses import Problem

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


class SweepDescent(ABC):
    """θ ← θ − step·∇L(θ) of a `ReLUNetwork`, the inner layer with step·epsilon.

    The state, `_inner` and `_outer`, and the problem are laid out as `_kernel` reads them.
    """

    _kernel: ModuleType
    _inner: NDArray[Any]
    _outer: NDArray[Any]
    _problem: Problem

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss | LogisticLoss,
        step: float,
        epsilon: float,
        precision: str = "double",
    ) -> None:
        from shallowflow.kernels.shared.losses import LOGISTIC, SQUARE

        self._network, self._inputs, self._precision = network, dataset.inputs, precision
        if isinstance(loss, SquareLoss):
            self._loss, self._weight = SQUARE, loss.weight(dataset.size)
        else:
            self._loss, self._weight = LOGISTIC, 1.0 / dataset.size
        rate = step * network.scale * self._weight
        # In the order of the names in `kernels.shared.losses`.
        constants = [0.0, network.slope, 1.0, network.scale, rate * epsilon, rate]
        self._constants: NDArray[Any] = np.array(constants, PRECISIONS[precision])
        self._lay_out(dataset)

    @abstractmethod
    def _lay_out(self, dataset: Dataset) -> None:
        """Lay the data and the start out as the kernel reads them."""

    def _blocks(self, values: Floats, length: int) -> NDArray[Any]:
        """Return values (…, k) as (…, blocks, length) in the precision of the run, zeros behind them."""
        blocks = -(-values.shape[-1] // length)
        padded = np.zeros((*values.shape[:-1], blocks * length), self._constants.dtype)
        padded[..., : values.shape[-1]] = values
        return padded.reshape(*values.shape[:-1], blocks, length)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop when a parameter has become non-finite."""
        done = int(self._kernel.advance(self._inner, self._outer, self._problem, steps, np.empty(0)))
        return done if np.isfinite(self._inner).all() else min(done, steps - 1)

    def loss(self) -> float:
        """Return the present loss without making the network."""
        return self._weight * float(self._kernel.loss_now(self._inner, self._outer, self._problem))

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return the precision."""
        return {"precision": self._precision}
