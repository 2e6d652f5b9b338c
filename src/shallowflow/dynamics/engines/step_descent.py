"""Fast gradient descent of `StepNetwork` and `AdditiveStepNetwork` on sorted samples."""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import NormLoss, SquareLoss
from shallowflow.models.networks import AdditiveStepNetwork, Network, StepNetwork


class WindowDescent:
    """The steps of plain descent; σ is evaluated only for samples inside a neuron's window."""

    name = "windows"

    def __init__(
        self,
        network: StepNetwork | AdditiveStepNetwork,
        dataset: Dataset,
        loss: SquareLoss | NormLoss,
        step: float,
        epsilon: float,
    ) -> None:
        self._network = network
        shape = (network.width, dataset.dimension)
        self._u = np.array(network.positions.reshape(shape).T, order="C")
        self._a = np.array(network.outer.reshape(shape).T, order="C")
        self._offset = np.array([float(network.offset)])
        order = np.argsort(dataset.inputs, axis=0, kind="stable").T.astype(np.int64)
        x = np.take_along_axis(dataset.inputs.T, order, axis=1)
        self._samples = (np.ascontiguousarray(x), np.ascontiguousarray(order), dataset.targets.copy())
        self._rates = (step, step * epsilon)
        norm = isinstance(loss, NormLoss)
        self._loss = (norm, 1.0 if isinstance(loss, NormLoss) else loss.weight(dataset.size))

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where the loss overflows."""
        from shallowflow.kernels.steps.descent import advance_windows

        done = advance_windows(
            self._u,
            self._a,
            self._offset,
            self._network.sharpness,
            self._samples,
            self._rates,
            self._loss,
            steps,
        )
        finite = np.isfinite(self._u).all() and np.isfinite(self._a).all()
        return int(done) if finite else min(int(done), steps - 1)

    def network(self) -> Network:
        """Return the current network."""
        shape = self._network.positions.shape
        return self._network.moved(
            {
                "positions": self._u.T.reshape(shape).copy(),
                "outer": self._a.T.reshape(shape).copy(),
                "offset": np.asarray(float(self._offset[0])),
            }
        )

    def events(self, step: float) -> tuple[Event, ...]:
        """Nothing is watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}
