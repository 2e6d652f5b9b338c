"""Descent of a `LogScaledNetwork`, orthonormal data, O(m·n) per step: see `kernels.orthogonal.descent`."""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.landscape.geometry.orthonormal import check_orthonormal
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import LogScaledNetwork


class LogDescent:
    """w ← w − step·epsilon·∂L/∂w, a ← a − step·∂L/∂a, each neuron with a log-scale of its own."""

    name = "scaled"

    def __init__(
        self, network: LogScaledNetwork, dataset: Dataset, loss: SquareLoss, step: float, epsilon: float
    ) -> None:
        from shallowflow.kernels.orthogonal import descent

        check_orthonormal(dataset, "engine 'scaled'")
        self._kernel, self._start, self._dataset = descent, network, dataset
        self._weight = loss.weight(dataset.size)
        self._rates = step * epsilon * self._weight, step * self._weight
        z = np.ascontiguousarray(network.preactivations(dataset.inputs))
        self._neurons = descent.LogNeurons(z, network.outer.copy(), network.log_scales.copy())
        self._targets, self._steps = dataset.targets.copy(), 0

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        done = int(self._kernel.descend(self._neurons, self._targets, self._rates, steps, np.empty(0)))
        self._steps += done
        return done

    def loss(self) -> float:
        """Return the present loss without making the network."""
        return self._weight * self._kernel.log_loss_now(self._neurons, self._targets)

    def network(self) -> LogScaledNetwork:
        """Return the current network; the part of the weights orthogonal to the data has not moved."""
        if self._steps == 0:
            return self._start
        inputs = self._dataset.inputs
        rest = self._start.inner - self._start.preactivations(inputs) @ inputs
        z, outer, log_scales = self._neurons
        kept = np.exp(np.minimum(self._start.log_scales - log_scales, 700.0))
        return self._start.moved(
            {
                "inner": z @ inputs + kept[:, None] * rest,
                "outer": outer.copy(),
                "log_scales": log_scales.copy(),
            }
        )

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}
