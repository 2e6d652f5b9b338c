"""Networks of steps: descent on sorted samples, and one-pass stochastic descent against a target.

"windows" makes the steps of plain descent and evaluates σ only for samples inside a neuron's window. The
engines of stochastic descent, "plain", "plateaus" and "hats", draw from the same random stream and make the
same steps up to rounding.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.problem import SampledTask, Task
from shallowflow.dynamics.clock.protocol import Ticking
from shallowflow.landscape.two_timescale.population import step_loss
from shallowflow.models.loss import NormLoss
from shallowflow.models.networks import AdditiveStepNetwork, Network, StepNetwork


class WindowDescent(Ticking):
    """The steps of plain descent; σ is evaluated only for samples inside a neuron's window."""

    name = "windows"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.steps import descent

        super().__init__(task.step)
        network, dataset = task.network, task.dataset
        assert isinstance(network, StepNetwork | AdditiveStepNetwork)
        self._kernel, self._network = descent, network
        shape = (network.width, dataset.dimension)
        u = np.array(network.positions.reshape(shape).T, order="C")
        a = np.array(network.outer.reshape(shape).T, order="C")
        self._neurons = descent.new_neurons(u, a, float(network.offset), network.sharpness, dataset.size)
        order = np.argsort(dataset.inputs, axis=0, kind="stable").T.astype(np.int64)
        x = np.ascontiguousarray(np.take_along_axis(dataset.inputs.T, order, axis=1))
        self._samples = descent.Samples(x, np.ascontiguousarray(order), dataset.targets.copy())
        norm = isinstance(task.loss, NormLoss)
        weight = 1.0 if norm else task.weight
        self._rules = descent.Rules(task.step, task.step * task.epsilon, norm, weight)

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
        self._network, self._batch, self._whole_target = network, sampling.batch, target
        # Writable copies: read-only arrays would be a second type to compile for.
        self._target = Target(target.breakpoints.copy(), target.values.copy())
        self._rules = Rules(sampling.step, sampling.slow, sampling.noise, network.sharpness, sampling.box)
        self._state = seeded(sampling.seed)

    def _moved(self, positions: Floats, a: Floats) -> StepNetwork:
        return self._network.moved(
            {"positions": positions.copy(), "outer": a[1:].copy(), "offset": np.asarray(float(a[0]))}
        )

    @abstractmethod
    def network(self) -> StepNetwork:
        """Return the present network."""

    def loss(self) -> float:
        """Return ½∫(f − f*)² of the present network."""
        return step_loss(self.network(), self._whole_target)


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

    def network(self) -> StepNetwork:
        """Return the present network."""
        return self._moved(self._u, self._a)


class _SortedSteps(_StepSGD):
    """Sorted positions and the table of cells."""

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.sgd import new_cells

        super().__init__(task)
        network = self._network
        self._labels: Ints = np.argsort(network.positions, kind="stable").astype(np.int64)
        self._u = network.positions[self._labels]
        self._cells = new_cells(self._u, 0.5 * network.sharpness, self._target.breaks)

    def _in_order(self, a: Floats) -> StepNetwork:
        """Return the network from weights (m + 1,) in sorted order."""
        positions, outer = np.empty(self._u.size), np.empty(self._u.size)
        positions[self._labels], outer[self._labels] = self._u, a[1:]
        return self._moved(positions, np.concatenate([a[:1], outer]))

    def _sorted_weights(self) -> Floats:
        return np.concatenate([[float(self._network.offset)], self._network.outer[self._labels]])


class PlateauSteps(_SortedSteps):
    """Plateau values instead of weights: one load and one vector sweep per sample outside the windows."""

    name = "plateaus"

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps import plateaus

        super().__init__(task)
        self._kernel = plateaus
        self._neurons = plateaus.new_plateaus(self._u, self._labels, self._sorted_weights())

    def _steps(self, count: int) -> int:
        start = self._neurons, self._cells, self._target, self._rules
        return int(self._kernel.advance_plateaus(*start, count, self._state))

    def network(self) -> StepNetwork:
        """Return the present network."""
        return self._in_order(self._kernel.weights(self._neurons))


class HatSteps(_SortedSteps):
    """Plateau values in a hierarchy of hat functions: three short sweeps per sample outside the windows."""

    name = "hats"

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps import hats

        super().__init__(task)
        self._kernel = hats
        self._neurons = hats.new_hats(self._u, self._labels, self._sorted_weights())

    def _steps(self, count: int) -> int:
        start = self._neurons, self._cells, self._target, self._rules
        return int(self._kernel.advance_hats(*start, count, self._state))

    def network(self) -> StepNetwork:
        """Return the present network."""
        return self._in_order(self._kernel.weights(self._neurons))
