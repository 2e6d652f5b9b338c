"""Networks of steps: descent on sorted samples, and one-pass stochastic descent against a target.

"windows" makes the steps of plain descent and evaluates σ only for samples inside a neuron's window. The
engines of stochastic descent, "plain", "plateaus" and "hats", draw from the same random stream and make the
same steps up to rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import PiecewiseConstant
from shallowflow.dynamics.clock.problem import SampledTask, Task
from shallowflow.dynamics.clock.protocol import Ticking
from shallowflow.models.loss import NormLoss
from shallowflow.models.networks import AdditiveStepNetwork, Network, StepNetwork


class WindowDescent(Ticking):
    """The steps of plain descent; σ is evaluated only for samples inside a neuron's window."""

    name = "windows"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.steps import windows

        super().__init__(task.step)
        network, dataset = task.network, task.dataset
        assert isinstance(network, StepNetwork | AdditiveStepNetwork)
        self._kernel, self._network = windows, network
        shape = (network.width, dataset.dimension)
        u = np.array(network.positions.reshape(shape).T, order="C")
        a = np.array(network.outer.reshape(shape).T, order="C")
        self._neurons = windows.new_neurons(u, a, float(network.offset), network.sharpness, dataset.size)
        order = np.argsort(dataset.inputs, axis=0, kind="stable").T.astype(np.int64)
        x = np.ascontiguousarray(np.take_along_axis(dataset.inputs.T, order, axis=1))
        self._samples = windows.Samples(x, np.ascontiguousarray(order), dataset.targets.copy())
        norm = isinstance(task.loss, NormLoss)
        weight = 1.0 if norm else task.weight
        self._rules = windows.Rules(task.step, task.step * task.epsilon, norm, weight)

    def _steps(self, count: int) -> int:
        done = int(self._kernel.advance_windows(self._neurons, self._samples, self._rules, count))
        finite = np.isfinite(self._neurons.u).all() and np.isfinite(self._neurons.a).all()
        return done if finite else min(done, count - 1)

    def loss(self) -> float:
        """Return the present loss."""
        return self._kernel.loss(self._neurons, self._samples, self._rules)

    def network(self) -> Network:
        """Return the present network."""
        shape = self._network.positions.shape
        return self._network.moved(
            {
                "positions": self._neurons.u.T.reshape(shape).copy(),
                "outer": self._neurons.a.T.reshape(shape).copy(),
                "offset": np.asarray(float(self._neurons.offset[0])),
            }
        )


class _StepSGD(Ticking):
    """What the engines share: the copied arrays, the network, its exact loss."""

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.sgd import Rules, Target, seeded

        network, target, sampling = task.network, task.target, task.sampling
        super().__init__(sampling.step)
        assert isinstance(network, StepNetwork)
        assert isinstance(target, PiecewiseConstant)
        self._network, self._batch = network, sampling.batch
        # Writable copies: read-only arrays would be a second type to compile for.
        self._target = Target(target.breakpoints.copy(), target.values.copy())
        self._rules = Rules(sampling.step, sampling.slow, sampling.noise, network.sharpness, sampling.box)
        self._state = seeded(sampling.seed)

    @abstractmethod
    def _arrays(self) -> tuple[Floats, Floats]:
        """Return positions (m,) and weights (m + 1,), the offset first, in the order of the network."""

    def network(self) -> StepNetwork:
        """Return the present network."""
        u, a = self._arrays()
        return self._network.moved({"positions": u.copy(), "outer": a[1:].copy(), "offset": np.asarray(a[0])})

    def loss(self) -> float:
        """Return ½∫(f − f*)² of the present network."""
        from shallowflow.kernels.steps.windows import population_loss

        return population_loss(*self._arrays(), self._network.sharpness, *self._target)


class PlainSteps(_StepSGD):
    """Formula (9) as it is written, for any batch; O(m) per sample."""

    name = "plain"

    def __init__(self, task: SampledTask) -> None:
        super().__init__(task)
        self._u = self._network.positions.copy()
        self._a = np.concatenate([[float(self._network.offset)], self._network.outer])

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.steps.sgd import advance_batches, advance_plain

        start, scratch = (self._u, self._a, self._target, self._rules), np.empty((3, self._a.size))
        if self._batch == 1:
            return int(advance_plain(*start, count, self._state, scratch[0]))
        return int(advance_batches(*start, (count, self._batch), self._state, scratch))

    def _arrays(self) -> tuple[Floats, Floats]:
        return self._u, self._a


class _SortedSteps(_StepSGD):
    """Sorted positions, the table of cells, and plateau values, kept as functions of a kernel know.

    make(u, labels, a): the neurons; weights(neurons): a; steps: makes steps in place.
    """

    def __init__(
        self,
        task: SampledTask,
        make: Callable[..., Any],
        weights: Callable[[Any], Floats],
        steps: Callable[..., int],
    ) -> None:
        from shallowflow.kernels.steps.cells import new_cells

        super().__init__(task)
        network = self._network
        labels = np.argsort(network.positions, kind="stable").astype(np.int64)
        u = network.positions[labels]
        a = np.concatenate([[float(network.offset)], network.outer[labels]])
        self._neurons, self._weights, self._make_steps = make(u, labels, a), weights, steps
        self._cells = new_cells(u, 0.5 * network.sharpness, self._target.breaks)

    def _steps(self, count: int) -> int:
        start = self._neurons, self._cells, self._target, self._rules
        return int(self._make_steps(*start, count, self._state))

    def _arrays(self) -> tuple[Floats, Floats]:
        sorted_weights = self._weights(self._neurons)
        positions, weights = np.empty(self._neurons.u.size), sorted_weights.copy()
        positions[self._neurons.labels] = self._neurons.u
        weights[1:][self._neurons.labels] = sorted_weights[1:]
        return positions, weights


class PlateauSteps(_SortedSteps):
    """Plateau values instead of weights: one load and one vector sweep per sample outside the windows."""

    name = "plateaus"

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.cells import advance_plateaus, new_plateaus, plateau_weights

        super().__init__(task, new_plateaus, plateau_weights, advance_plateaus)


class HatSteps(_SortedSteps):
    """Plateau values in a hierarchy of hat functions: three short sweeps per sample outside the windows."""

    name = "hats"

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.cells import advance_hats, hat_weights, new_hats

        super().__init__(task, new_hats, hat_weights, advance_hats)
