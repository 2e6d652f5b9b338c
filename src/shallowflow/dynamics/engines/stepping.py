"""Engines in NumPy, for every network: one step after the other, on parameters that change in place.

Plain gradient descent is the reference of all faster engines; O(m·n·d) per step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic

import numpy as np

from shallowflow.dynamics.clock.problem import SampledTask, Task
from shallowflow.dynamics.clock.protocol import N, Ticking
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import LogScaledNetwork, Network
from shallowflow.models.relu import OUTER_LAYER, BaseNetwork, Parameters


class Stepping(Ticking, Generic[N]):
    """An engine that is given by its single step; its loss is measured."""

    def __init__(self, network: N, measure: Callable[[N], float], tick: float) -> None:
        super().__init__(tick)
        self._measure = measure
        self._theta: Parameters = {name: np.array(values) for name, values in network.parameters.items()}
        self._now = network.moved(self._theta)  # a view: it moves with the parameters

    @abstractmethod
    def _step(self) -> None:
        """Make one step, in place."""

    def _steps(self, count: int) -> int:
        for done in range(count):
            self._step()
            # A sum over numbers that are not all finite is not finite.
            if not all(np.isfinite(np.add.reduce(values, axis=None)) for values in self._theta.values()):
                return done
        return count

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self._now)

    def network(self) -> N:
        """Return the present network."""
        return self._now.moved({name: values.copy() for name, values in self._theta.items()})


def layer_steps(network: BaseNetwork, outer: float, inner: float) -> dict[str, float]:
    """Return the step of every parameter array by name."""
    return {name: outer if name in OUTER_LAYER else inner for name in network.PARAMETERS}


class DenseDescent(Stepping[Network]):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon."""

    name = "dense"

    def __init__(self, task: Task) -> None:
        super().__init__(task.network, task.measure, task.step)
        self._dataset, self._loss = task.dataset, task.loss
        self._rates = layer_steps(task.network, task.step, task.step * task.epsilon)

    def _step(self) -> None:
        now, inputs = self._now, self._dataset.inputs
        gradient = now.pullback(inputs, self._loss.slopes(now.predict(inputs), self._dataset.targets))
        for name, values in self._theta.items():
            values -= self._rates[name] * gradient[name]
        if isinstance(now, LogScaledNetwork):
            for name, values in now.rescaled().parameters.items():
                self._theta[name][...] = values


class SampledDescent(Stepping[Network]):
    """θ ← θ − rate·∇L_batch(θ) with fresh samples of a target at every step; O(batch·m·d)."""

    name = "dense"

    def __init__(self, task: SampledTask) -> None:
        sampling = task.sampling
        super().__init__(task.network, task.measure, sampling.step)
        self._target, self._loss, self._sampling = task.target, task.loss or SquareLoss(), sampling
        self._rng = np.random.default_rng(sampling.seed)
        self._rates = layer_steps(task.network, sampling.step, sampling.slow)

    def _step(self) -> None:
        now, batch, noise = self._now, self._sampling.batch, self._sampling.noise
        inputs = self._rng.random((batch, now.dimension))
        targets = self._target(inputs if now.dimension > 1 else inputs[:, 0])
        if noise > 0:
            targets = targets + noise * self._rng.uniform(-1.0, 1.0, batch)
        gradient = now.pullback(inputs, self._loss.slopes(now.predict(inputs), targets))
        for name, values in self._theta.items():
            values -= self._rates[name] * gradient[name]
