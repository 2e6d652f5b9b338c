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
        from shallowflow.kernels.orthogonal.descent import descend

        check_orthonormal(dataset, "engine 'scaled'")
        self._descend, self._start, self._dataset = descend, network, dataset
        weight = loss.weight(dataset.size)
        self._rates = step * epsilon * weight, step * weight
        self._z = np.ascontiguousarray(network.preactivations(dataset.inputs))
        self._outer, self._log_scales = network.outer.copy(), network.log_scales.copy()
        self._targets, self._steps = dataset.targets.copy(), 0

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        done = int(self._descend(self._z, self._outer, self._log_scales, self._targets, *self._rates, steps))
        self._steps += done
        return done

    def network(self) -> LogScaledNetwork:
        """Return the current network; the part of the weights orthogonal to the data has not moved."""
        if self._steps == 0:
            return self._start
        inputs = self._dataset.inputs
        rest = self._start.inner - self._start.preactivations(inputs) @ inputs
        kept = np.exp(np.minimum(self._start.log_scales - self._log_scales, 700.0))
        return self._start.moved(
            {
                "inner": self._z @ inputs + kept[:, None] * rest,
                "outer": self._outer.copy(),
                "log_scales": self._log_scales.copy(),
            }
        )

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}
