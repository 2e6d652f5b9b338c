"""Descent of a `ReLUNetwork` by groups of neurons that see the same data: one linear map for each group.

In the plane the groups are the activation cones, and the cost per step does not grow with the width
(`kernels.cones.descent`); in any dimension they are the sign patterns (`kernels.cones.patterns`). The same
iterates as plain descent up to rounding, with crossings in the same steps.

The ratio epsilon is absorbed: inputs √epsilon·x, inner weights w/√epsilon. So for epsilon ≠ 1 a neuron on a
data point's hyperplane may count as on either side of it, by rounding.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Statistics, Ticking
from shallowflow.models.loss import LogisticLoss
from shallowflow.models.networks import ReLUNetwork


class _Grouped(Ticking):
    """What both share: the start and the data in coordinates without epsilon, the loss's kind and weight."""

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones import geometry

        super().__init__(task.step)
        network, dataset = task.network, task.dataset
        assert isinstance(network, ReLUNetwork)
        self._template, self._root, self._weight = network, float(np.sqrt(task.epsilon)), task.weight
        kind = geometry.LOGISTIC if isinstance(task.loss, LogisticLoss) else geometry.SQUARE
        self._function = kind, float(network.scale), float(task.step * network.scale * task.weight)
        self._at_origin = geometry.error_at_origin(dataset.inputs, dataset.targets, kind)
        self._inputs, self._targets = self._root * dataset.inputs, np.array(dataset.targets)
        self._start = network.inner / self._root, network.outer

    @abstractmethod
    def _neurons(self) -> Floats:
        """Return (w/√epsilon, a) of all neurons in the caller's order, (m, d + 1)."""

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        theta = self._neurons()
        return self._template.moved({"inner": self._root * theta[:, :-1], "outer": theta[:, -1].copy()})

    def write(self, row: Floats) -> None:
        """Write θ of the present network into a row (P,)."""
        theta, inner = self._neurons(), self._template.inner
        np.multiply(theta[:, :-1], self._root, out=row[: inner.size].reshape(inner.shape))
        row[inner.size :] = theta[:, -1]


class ConeDescent(_Grouped):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon, one linear map per activation cone (d = 2)."""

    name = "cones"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones import descent, geometry

        super().__init__(task)
        self._kernel = descent
        walls, samples = geometry.arrange(self._inputs, self._targets)
        self._problem = walls, samples, float(self._template.slope), self._function
        inner, outer = self._start
        self._state = descent.begin(inner, outer, *self._problem)

    def _steps(self, count: int) -> int:
        return int(self._kernel.advance(self._state, *self._problem, count))

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        off_origin = self._kernel.loss_now(self._state, *self._problem[1:])
        return float(self._weight * (off_origin + self._at_origin))

    def _neurons(self) -> Floats:
        return self._kernel.neurons_now(self._state)

    def statistics(self) -> Statistics:
        """Return how many crossings there were, and what finding them took.

        checks: how often a neuron was looked at; hot neurons: stepped one by one, at present and at most.
        """
        from shallowflow.kernels.cones import groups as kernel

        counters = self._state.counters
        return {
            "crossings": int(counters[kernel.CROSSINGS]),
            "checks": int(counters[kernel.CHECKS]),
            "hot neurons": int(counters[kernel.STEPPED]),
            "most hot neurons": int(counters[kernel.MOST_STEPPED]),
            "occupied cones": int(counters[kernel.OCCUPIED]),
        }


class PatternDescent(_Grouped):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon, by one linear map per sign pattern."""

    name = "patterns"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.cones import pattern_table, patterns

        super().__init__(task)
        self._kernel = patterns
        points = pattern_table.points_off_origin(self._inputs, self._targets, float(self._template.slope))
        self._problem = points, self._function
        self._state = patterns.begin(*self._start, points)

    def _steps(self, count: int) -> int:
        return int(self._kernel.advance(self._state, *self._problem, count))

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        return float(self._weight * (self._kernel.loss_now(self._state, *self._problem) + self._at_origin))

    def _neurons(self) -> Floats:
        return self._kernel.neurons_now(self._state)

    def statistics(self) -> Statistics:
        """Return how many crossings there were, what finding them took, and how many patterns there are."""
        from shallowflow.kernels.cones import pattern_table as kernel

        counters = self._state.counters
        return {
            "crossings": int(counters[kernel.CROSSINGS]),
            "checks": int(counters[kernel.CHECKS]),
            "hot neurons": int(counters[kernel.STEPPED]),
            "most hot neurons": int(counters[kernel.MOST_STEPPED]),
            "patterns": int(self._state.table.size[0]),
        }
