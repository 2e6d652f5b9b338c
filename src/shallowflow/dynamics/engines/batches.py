"""Mini-batch descent on a data set: the batches, in NumPy for every network, compiled for a `ReLUNetwork`.

A batch of all samples is the data set itself, in its own order: the steps are those of `gradient_descent`
with the engine of the same name, to the last bit.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.clock.problem import BatchTask
from shallowflow.dynamics.clock.protocol import Statistics
from shallowflow.dynamics.engines.stepping import DenseDescent
from shallowflow.dynamics.engines.sweeps import LanesDescent
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import LogScaledNetwork

BLOCK = 256
"""Steps whose samples are drawn at once, with replacement; without, those of an epoch."""


class Batches:
    """The samples of each step (b,), and the noise of their labels, whatever the pieces of a run.

    Without replacement every epoch is a new permutation, cut into ⌊n/b⌋ batches: what is left over waits for
    the next. Samples and noise have streams of their own.
    """

    def __init__(self, task: BatchTask) -> None:
        self._size, self._batch = task.dataset.size, task.batch
        self._replace, self._noise = task.replacement, task.noise
        self.whole = task.batch == task.dataset.size and not task.replacement
        drawn, shaken = task.seed.spawn(2)
        self._samples, self._labels = np.random.default_rng(drawn), np.random.default_rng(shaken)
        self._order, self._shifts = np.empty((0, task.batch), np.int64), np.empty((0, task.batch))

    def take(self, steps: int) -> tuple[Ints, Floats]:
        """Return the samples of the next steps, (k, b), and what is added to their labels, (k, b) or (k, 0).

        Drawn in blocks, so that the stream does not depend on how a run is cut.
        """
        while len(self._order) < steps:
            self._order = np.concatenate([self._order, self._drawn()])
        order, self._order = self._order[:steps], self._order[steps:]
        if self._noise == 0:
            return order, np.empty((steps, 0))
        while len(self._shifts) < steps:
            more = self._noise * self._labels.uniform(-1.0, 1.0, (BLOCK, self._batch))
            self._shifts = np.concatenate([self._shifts, more])
        shifts, self._shifts = self._shifts[:steps], self._shifts[steps:]
        return order, shifts

    def _drawn(self) -> Ints:
        """Return the samples of some steps, (k, b)."""
        if self.whole:
            return np.tile(np.arange(self._size), (BLOCK, 1))
        if self._replace:
            return self._samples.integers(self._size, size=(BLOCK, self._batch))
        used = self._size // self._batch * self._batch
        return self._samples.permutation(self._size)[:used].reshape(-1, self._batch)


class BatchDescent(DenseDescent):
    """θ ← θ − factor·step·∇L_batch(θ), O(b·m·d)."""

    def __init__(self, task: BatchTask) -> None:
        super().__init__(task)
        self._batches, self._factors, self._number = Batches(task), task.factors, 0
        # The gradient of a sum over a batch is unbiased when it is multiplied by n/b; that of a mean is.
        summed = isinstance(task.loss, SquareLoss) and task.loss.reduction == "sum"
        self._rescaling, self._size = task.dataset.size / task.batch if summed else 1.0, task.batch

    def _step(self) -> None:
        (order,), (shifts,) = self._batches.take(1)
        inputs, targets = self._dataset.inputs, self._dataset.targets
        if not self._batches.whole:
            inputs, targets = inputs[order], targets[order]
        if shifts.size:
            targets = targets + shifts
        factor = self._rescaling * (1.0 if self._factors is None else float(self._factors[self._number]))
        self._number += 1
        now = self._now
        gradient = now.pullback(inputs, self._loss.slopes(now.predict(inputs), targets))
        for name, values in self._theta.items():
            values -= factor * self._rates[name] * gradient[name]
        if isinstance(now, LogScaledNetwork):
            for name, values in now.rescaled().parameters.items():
                self._theta[name][...] = values

    def statistics(self) -> Statistics:
        """Return the samples per step, and the passes through the data."""
        return {"batch": self._size, "epochs": self._number * self._size / self._dataset.size}


class LanesBatches(LanesDescent):
    """The same, compiled, neurons side by side in vector registers."""

    def __init__(self, task: BatchTask) -> None:
        super().__init__(task)
        self._batches, self._factors, self._number = Batches(task), task.factors, 0
        # The rates are those of all samples: 1/n becomes 1/b in a mean, and 1 becomes n/b in a sum.
        self._share, self._size = task.dataset.size / task.batch, task.batch
        self._plain = task.noise == 0 and task.factors is None

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.dense.batches import advance_batches

        if self._batches.whole and self._plain:
            self._number += count
            return super()._steps(count)
        made = 0
        while made < count:
            steps = min(BLOCK, count - made)
            factors = np.ones(steps) if self._factors is None else self._factors[self._number :][:steps]
            order, shifts = self._batches.take(steps)
            state = self._inner, self._outer, self._problem
            done = int(advance_batches(*state, order, shifts, self._share * factors))
            made, self._number = made + done, self._number + done
            if done < steps or not np.isfinite(self._inner).all():
                return min(made, count - 1)
        return made

    def statistics(self) -> Statistics:
        """Return the samples per step, and the passes through the data."""
        return {"batch": self._size, "epochs": self._number * self._size / len(self._inputs)}
