"""What the experiments of [plateau] share: the training runs, in iterations and mean squared errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.figure import Series
from shallowflow.models import KnotNetwork

RATE = 1e-3
STEP = 2 * RATE
"""The step on ½·mean that equals the paper's rate on the mean squared error."""


@dataclass(frozen=True)
class Training:
    """A training run: its iterations (k,), mean squared errors (k,), and networks on the way."""

    name: str
    iterations: Floats
    errors: Floats
    trajectory: Trajectory

    @property
    def final(self) -> KnotNetwork:
        """The network at the end."""
        return self.network(float(self.iterations[-1]))

    def network(self, iteration: float) -> KnotNetwork:
        """Return the network at a recorded iteration."""
        times, iterations = self.trajectory.times, self.iterations
        network = self.trajectory(float(times[int(np.searchsorted(iterations, iteration))]))
        assert isinstance(network, KnotNetwork)
        return network

    def series(self, tone: str = "auto") -> Series:
        """Return the error curve, from the first iteration on."""
        return Series(self.iterations[1:], self.errors[1:], self.name, tone=tone)


def descend(
    network: KnotNetwork, dataset: Dataset, steps: int, *, points: int, progress: Callable[[float], None]
) -> Training:
    """Train by gradient descent at the paper's rate."""
    trajectory = gradient_descent(
        network, dataset, step=STEP, steps=steps, record=Record.geometric(points), progress=progress
    )
    return Training("GD", trajectory.times / STEP, 2 * trajectory.losses, trajectory)


def curve_series(name: str, network: KnotNetwork, tone: str = "auto") -> Series:
    """Return the graph of a network on [−1, 1]."""
    x = np.linspace(-1.0, 1.0, 1001)
    return Series(x, network(x), name, tone=tone)
