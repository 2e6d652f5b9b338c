"""Networks of steps: descent on sorted samples, and one-pass stochastic descent against a target.

"windows" makes the steps of plain descent and evaluates σ only for samples inside a neuron's window. The
engines of stochastic descent, "plain", "plateaus" and "hats", draw from the same random stream and make the
same steps up to rounding.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.protocol import Ticking
from shallowflow.dynamics.problem import SampledTask, Task
from shallowflow.landscape.two_timescale.population import step_loss
from shallowflow.models.loss import NormLoss
from shallowflow.models.networks import AdditiveStepNetwork, Network, StepNetwork

FEWEST_CELLS, CELLS_PER_NEURON, VECTOR = 4096, 8, 8


class WindowDescent(Ticking):
    """The steps of plain descent; σ is evaluated only for samples inside a neuron's window."""

    name = "windows"

    def __init__(self, task: Task) -> None:
        super().__init__(task.step)
        network, dataset = task.network, task.dataset
        assert isinstance(network, StepNetwork | AdditiveStepNetwork)
        self._network, self._measure = network, task.measure
        shape = (network.width, dataset.dimension)
        self._u = np.array(network.positions.reshape(shape).T, order="C")
        self._a = np.array(network.outer.reshape(shape).T, order="C")
        self._offset = np.array([float(network.offset)])
        order = np.argsort(dataset.inputs, axis=0, kind="stable").T.astype(np.int64)
        x = np.take_along_axis(dataset.inputs.T, order, axis=1)
        self._samples = (np.ascontiguousarray(x), np.ascontiguousarray(order), dataset.targets.copy())
        self._rates = (task.step, task.step * task.epsilon)
        norm = isinstance(task.loss, NormLoss)
        self._loss = (norm, 1.0 if norm else task.weight)

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.steps.descent import advance_windows

        state, sharpness = (self._u, self._a, self._offset), self._network.sharpness
        done = int(advance_windows(*state, sharpness, self._samples, self._rates, self._loss, count))
        finite = np.isfinite(self._u).all() and np.isfinite(self._a).all()
        return done if finite else min(done, count - 1)

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self.network())

    def network(self) -> Network:
        """Return the present network."""
        shape = self._network.positions.shape
        return self._network.moved(
            {
                "positions": self._u.T.reshape(shape).copy(),
                "outer": self._a.T.reshape(shape).copy(),
                "offset": np.asarray(float(self._offset[0])),
            }
        )


class _StepSGD(Ticking):
    """What the engines share: the copied arrays, the network, its exact loss."""

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.sgd import seeded

        super().__init__(task.sampling.step)
        network, target, sampling = task.network, task.target, task.sampling
        assert isinstance(network, StepNetwork)
        assert isinstance(target, PiecewiseConstant)
        self._network, self._sampling, self._whole_target = network, sampling, target
        self._target = (target.breakpoints.copy(), target.values.copy())
        self._state = seeded(sampling.seed)

    def _moved(self, positions: Floats, a: Floats) -> StepNetwork:
        return self._network.moved(
            {"positions": positions.copy(), "outer": a[1:].copy(), "offset": np.asarray(float(a[0]))}
        )

    def network(self) -> StepNetwork:
        """Return the present network."""
        raise NotImplementedError

    def loss(self) -> float:
        """Return ½∫(f − f*)² of the present network."""
        return step_loss(self.network(), self._whole_target)


class PlainSteps(_StepSGD):
    """Formula (9) as it is written, for any batch; O(m) per sample."""

    name = "plain"

    def __init__(self, task: SampledTask) -> None:
        super().__init__(task)
        network = self._network
        self._u = network.positions.copy()
        self._a = np.concatenate([[float(network.offset)], network.outer])

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.steps.sgd import advance_batches, advance_plain

        start = (self._u, self._a, self._network.sharpness, self._target, self._sampling.rates)
        box, batch = self._sampling.box, self._sampling.batch
        if batch == 1:
            return int(advance_plain(*start, box, count, self._state))
        return int(advance_batches(*start, box, (count, batch), self._state))

    def network(self) -> StepNetwork:
        """Return the present network."""
        return self._moved(self._u, self._a)


class _SortedSteps(_StepSGD):
    """Sorted positions and the table of cells."""

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.sgd import locate, pieces_of_cells, refill

        super().__init__(task)
        network = self._network
        self._labels: Ints = np.argsort(network.positions, kind="stable").astype(np.int64)
        self._u = network.positions[self._labels]
        cells = FEWEST_CELLS
        while cells < CELLS_PER_NEURON * network.width:
            cells *= 2
        low, high = np.empty(network.width, np.int64), np.empty(network.width, np.int64)
        for slot in range(network.width):
            locate(self._u, 0.5 * network.sharpness, low, high, slot, cells)
        pieces, codes = pieces_of_cells(self._target[0], cells), np.empty(cells, np.int32)
        refill(codes, pieces, low, high, 0, cells - 1)
        self._cells = (codes, pieces, low, high)

    def _in_order(self, a: Floats) -> StepNetwork:
        """Return the network from weights (m + 1,) in sorted order."""
        positions, outer = np.empty(self._u.size), np.empty(self._u.size)
        positions[self._labels], outer[self._labels] = self._u, a[1:]
        return self._moved(positions, np.concatenate([a[:1], outer]))

    def _sorted_weights(self) -> Floats:
        network = self._network
        return np.concatenate([[float(network.offset)], network.outer[self._labels]])


class PlateauSteps(_SortedSteps):
    """Plateau values instead of weights: one load and one vector sweep per sample outside the windows."""

    name = "plateaus"

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.plateaus import ramps

        super().__init__(task)
        network = self._network
        padded = -(-(network.width + 2) // VECTOR) * VECTOR
        self._c = np.zeros(padded)
        self._c[: network.width + 1] = np.cumsum(self._sorted_weights())
        self._ramp, self._scratch = ramps(network.width, padded), np.empty(padded)

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.steps.plateaus import advance_plateaus

        return int(
            advance_plateaus(
                self._u,
                self._c,
                self._labels,
                self._cells,
                self._ramp,
                self._scratch,
                self._network.sharpness,
                self._target,
                self._sampling.rates,
                self._sampling.box,
                count,
                self._state,
            )
        )

    def network(self) -> StepNetwork:
        """Return the present network."""
        return self._in_order(np.diff(self._c[: self._u.size + 1], prepend=0.0))


class HatSteps(_SortedSteps):
    """Plateau values in a hierarchy of hat functions: three short sweeps per sample outside the windows."""

    name = "hats"

    def __init__(self, task: SampledTask) -> None:
        from shallowflow.kernels.steps.hats import AHEAD, DRAWS, FAN, hats

        super().__init__(task)
        network = self._network
        self._levels = hats(self._sorted_weights())
        self._rulers = (np.arange(float(self._levels[0].size)), np.arange(float(FAN)))
        self._draws = np.zeros(DRAWS + 2 * AHEAD), np.zeros(DRAWS)
        self._scratch = np.empty(network.width)

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.steps.hats import advance_hats

        return int(
            advance_hats(
                self._u,
                self._labels,
                self._levels,
                self._rulers,
                self._cells,
                self._draws,
                self._scratch,
                self._network.sharpness,
                self._target,
                self._sampling.rates,
                self._sampling.box,
                count,
                self._state,
            )
        )

    def network(self) -> StepNetwork:
        """Return the present network."""
        from shallowflow.kernels.steps.hats import weights

        return self._in_order(weights(*self._levels, self._u.size))
