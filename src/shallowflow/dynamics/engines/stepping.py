"""What engines in NumPy share: a loop over single steps that stops at the first one with trouble."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from shallowflow.dynamics.outcome import Event
from shallowflow.models.networks import Network, Parameters


class SteppingEngine(ABC):
    """An engine that is given by its single step; it watches for no crossings and counts nothing."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @abstractmethod
    def _next(self, network: Network) -> Network | None:
        """Return the network after one more step, or None if a parameter is not finite there."""

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(steps):
                network = self._next(self._network)
                if network is None:
                    return done
                self._network = network
        return steps

    def network(self) -> Network:
        """Return the current network."""
        return self._network

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}


def moved_if_finite(network: Network, parameters: Parameters) -> Network | None:
    """Return the network with these parameters, or None if one of them is not finite."""
    if all(np.isfinite(values).all() for values in parameters.values()):
        return network.moved(parameters)
    return None
