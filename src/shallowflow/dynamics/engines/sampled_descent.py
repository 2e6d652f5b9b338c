"""One-pass SGD in NumPy, for every network with a target on [0, 1]^d: fresh samples at every step."""

from __future__ import annotations

import numpy as np

from shallowflow.data.targets import Target
from shallowflow.dynamics.engines.step_sgd import Sampling
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import Loss
from shallowflow.models.networks import OUTER_LAYER, Network


class SampledDescent:
    """θ ← θ − rate·∇L_batch(θ) with a new batch at every step; O(batch·m·d)."""

    name = "dense"

    def __init__(self, network: Network, target: Target, loss: Loss, sampling: Sampling) -> None:
        self._network, self._target, self._loss, self._sampling = network, target, loss, sampling
        self._rng = np.random.default_rng(sampling.seed)
        self._rates = {
            name: sampling.step if name in OUTER_LAYER else sampling.slow for name in network.PARAMETERS
        }

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        sampling = self._sampling
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(steps):
                network = self._network
                inputs = self._rng.random((sampling.batch, network.dimension))
                targets = self._target(inputs if network.dimension > 1 else inputs[:, 0])
                if sampling.noise > 0:
                    targets = targets + sampling.noise * self._rng.uniform(-1.0, 1.0, sampling.batch)
                covector = self._loss.slopes(network.predict(inputs), targets)
                gradient = network.pullback(inputs, covector)
                moved = {
                    name: values - self._rates[name] * gradient[name]
                    for name, values in network.parameters.items()
                }
                if not all(np.isfinite(values).all() for values in moved.values()):
                    return done
                self._network = network.moved(moved)
        return steps

    def network(self) -> Network:
        """Return the current network."""
        return self._network

    def events(self, step: float) -> tuple[Event, ...]:
        """Nothing is watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}
