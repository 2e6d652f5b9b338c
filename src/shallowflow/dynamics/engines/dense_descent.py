"""Plain gradient descent in NumPy, for every network: the reference of all faster engines."""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import Loss
from shallowflow.models.networks import OUTER_LAYER, LogScaledNetwork, Network


class DenseDescent:
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; O(m·n·d) per step."""

    name = "dense"

    def __init__(self, network: Network, dataset: Dataset, loss: Loss, step: float, epsilon: float) -> None:
        self._network = network
        self._dataset = dataset
        self._loss = loss
        self._rates = {name: step if name in OUTER_LAYER else step * epsilon for name in network.PARAMETERS}

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        inputs, targets = self._dataset.inputs, self._dataset.targets
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(steps):
                network = self._network
                covector = self._loss.slopes(network.predict(inputs), targets)
                gradient = network.pullback(inputs, covector)
                moved = {
                    name: values - self._rates[name] * gradient[name]
                    for name, values in network.parameters.items()
                }
                if not all(np.isfinite(values).all() for values in moved.values()):
                    return done
                network = network.moved(moved)
                self._network = network.rescaled() if isinstance(network, LogScaledNetwork) else network
        return steps

    def network(self) -> Network:
        """Return the current network."""
        return self._network

    def events(self, step: float) -> tuple[Event, ...]:
        """Plain descent does not watch for crossings."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Plain descent counts nothing."""
        return {}
