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
        from shallowflow.kernels.steps import descent

        self._kernel, self._network = descent, network
        shape = (network.width, dataset.dimension)
        u = np.array(network.positions.reshape(shape).T, order="C")
        a = np.array(network.outer.reshape(shape).T, order="C")
        self._neurons = descent.new_neurons(u, a, float(network.offset), network.sharpness, dataset.size)
        order = np.argsort(dataset.inputs, axis=0, kind="stable").T.astype(np.int64)
        x = np.take_along_axis(dataset.inputs.T, order, axis=1)
        self._samples = descent.Samples(
            np.ascontiguousarray(x), np.ascontiguousarray(order), dataset.targets.copy()
        )
        norm = isinstance(loss, NormLoss)
        weight = 1.0 if isinstance(loss, NormLoss) else loss.weight(dataset.size)
        self._rules = descent.Rules(step, step * epsilon, norm, weight)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where the loss overflows."""
        done = int(self._kernel.advance_windows(self._neurons, self._samples, self._rules, steps))
        finite = np.isfinite(self._neurons.u).all() and np.isfinite(self._neurons.a).all()
        return done if finite else min(done, steps - 1)

    def network(self) -> Network:
        """Return the current network."""
        shape = self._network.positions.shape
        return self._network.moved(
            {
                "positions": self._neurons.u.T.reshape(shape).copy(),
                "outer": self._neurons.a.T.reshape(shape).copy(),
                "offset": np.asarray(float(self._neurons.offset[0])),
            }
        )

    def events(self, step: float) -> tuple[Event, ...]:
        """Nothing is watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}
