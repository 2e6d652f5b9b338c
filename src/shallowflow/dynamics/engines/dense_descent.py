"""Plain gradient descent in NumPy, for every network: the reference of all faster engines."""

from __future__ import annotations

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.stepping import SteppingEngine, moved_if_finite
from shallowflow.models.loss import Loss
from shallowflow.models.networks import OUTER_LAYER, LogScaledNetwork, Network


class DenseDescent(SteppingEngine):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; O(m·n·d) per step."""

    name = "dense"

    def __init__(self, network: Network, dataset: Dataset, loss: Loss, step: float, epsilon: float) -> None:
        super().__init__(network)
        self._dataset, self._loss = dataset, loss
        self._rates = {name: step if name in OUTER_LAYER else step * epsilon for name in network.PARAMETERS}

    def _next(self, network: Network) -> Network | None:
        inputs, targets = self._dataset.inputs, self._dataset.targets
        gradient = network.pullback(inputs, self._loss.slopes(network.predict(inputs), targets))
        moved = {
            name: values - self._rates[name] * gradient[name] for name, values in network.parameters.items()
        }
        after = moved_if_finite(network, moved)
        return after.rescaled() if isinstance(after, LogScaledNetwork) else after
