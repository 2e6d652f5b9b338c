"""Descents one step after the other: in NumPy for every network, compiled for a `ReLUNetwork`.

**In NumPy** plain descent is the reference of all faster engines; O(m·n·d) per step.

**Compiled** descents go neuron by neuron and sample by sample, in double or single precision. "fused": one
pass over the data per step, in register tiles; "lanes": neurons side by side, for few samples (both:
`kernels.dense`); "decoupled": on orthogonal inputs, without products (`kernels.orthogonal.descent`).
`SpannedDescent`: any engine, in the span of at most d inputs.

**Mini-batches** of a data set: in NumPy for every network, compiled ("lanes") for a `ReLUNetwork`. A batch of
all samples is the data set itself, in its own order: the steps are those of `gradient_descent` with the
engine of the same name, to the last bit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import BatchTask, SampledTask, Task
from shallowflow.dynamics.clock.protocol import Engine, N, Piece, Statistics, Ticking
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import (
    OUTER_LAYER,
    BaseNetwork,
    LogScaledNetwork,
    Network,
    Parameters,
    ReLUNetwork,
)

if TYPE_CHECKING:
    from shallowflow.kernels.shared.vectors import Problem


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


PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


class SweepDescent(Ticking):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; two products of m·n·d per step.

    The state, `_inner` and `_outer`, and the problem are laid out as `_advance` and `_sum`, of the
    kernel, read them.
    """

    _advance: Callable[..., int]
    _sum: Callable[..., float]
    _inner: NDArray[Any]
    _outer: NDArray[Any]
    _problem: Problem

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.shared.vectors import LOGISTIC, SQUARE

        super().__init__(task.step)
        network = task.network
        assert isinstance(network, ReLUNetwork)
        self._network, self._inputs, self._precision = network, task.dataset.inputs, task.precision
        self._loss, self._weight = SQUARE if isinstance(task.loss, SquareLoss) else LOGISTIC, task.weight
        rate = task.step * network.scale * task.weight
        # In the order of the names in `kernels.shared.vectors`.
        constants = [0.0, network.slope, 1.0, network.scale, rate * task.epsilon, rate]
        self._constants: NDArray[Any] = np.array(constants, PRECISIONS[task.precision])
        self._lay_out(task.dataset)

    @abstractmethod
    def _lay_out(self, dataset: Dataset) -> None:
        """Lay the data and the start out as the kernel reads them."""

    def _blocks(self, values: Floats, length: int) -> NDArray[Any]:
        """Return values (…, k) as (…, blocks, length) in the precision of the run, zeros behind them."""
        blocks = -(-values.shape[-1] // length)
        padded = np.zeros((*values.shape[:-1], blocks * length), self._constants.dtype)
        padded[..., : values.shape[-1]] = values
        return padded.reshape(*values.shape[:-1], blocks, length)

    def _steps(self, count: int) -> int:
        done = int(self._advance(self._inner, self._outer, self._problem, count, np.empty(0)))
        return done if np.isfinite(self._inner).all() else min(done, count - 1)

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        return self._weight * float(self._sum(self._inner, self._outer, self._problem))

    @abstractmethod
    def network(self) -> ReLUNetwork:
        """Return the present network."""

    def _moved(self, inner: NDArray[Any], outer: NDArray[Any]) -> ReLUNetwork:
        return self._network.moved({"inner": inner.astype(np.float64), "outer": outer.astype(np.float64)})

    def statistics(self) -> Statistics:
        """Return the precision."""
        return {"precision": self._precision}


class FusedDescent(SweepDescent):
    """One compiled pass over many samples per step."""

    name = "fused"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels import dense
        from shallowflow.kernels.shared.vectors import Problem

        self._advance, self._sum, constants = dense.advance_tiles, dense.tiles_loss, self._constants
        samples = dense.PANEL // constants.itemsize
        self._inner = dense.packed(self._network.inner, dense.ROWS, constants)
        self._outer = self._blocks(self._network.outer, dense.ROWS)
        inputs = dense.packed(dataset.inputs, samples, constants)
        self._problem = Problem(inputs, self._blocks(dataset.targets, samples), constants, self._loss)

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        width, dimension = self._network.inner.shape
        rows = self._inner.transpose(0, 2, 1).reshape(-1, self._inner.shape[1])
        return self._moved(rows[:width, :dimension], self._outer.reshape(-1)[:width])


class LanesDescent(SweepDescent):
    """Few samples, one after the other, the neurons side by side in vector registers."""

    name = "lanes"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels import dense
        from shallowflow.kernels.shared.vectors import Problem

        self._advance, self._sum, kind = dense.advance_lanes, dense.lanes_loss, self._constants.dtype
        self._inner = np.array(self._network.inner.T, kind, order="C")
        self._outer = self._network.outer.astype(kind)
        inputs, targets = np.array(dataset.inputs, kind), np.array(dataset.targets, kind)
        self._problem = Problem(inputs, targets, self._constants, self._loss)

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        return self._moved(self._inner.T, self._outer.copy())


class DecoupledDescent(SweepDescent):
    """Orthogonal inputs, on which the preactivations move one by one; O(m·n) per step.

    The state is z_ji = ⟨w_j, x_i⟩; w_j = w_j(0) + Σ_i (z_ji − z_ji(0)) x_i/‖x_i‖² is made when asked for.
    """

    name = "decoupled"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.orthogonal import descent
        from shallowflow.kernels.shared.vectors import Problem, aligned

        self._advance, self._sum = descent.advance, descent.loss_now
        network, constants = self._network, self._constants
        samples = descent.BLOCK // constants.itemsize
        squares = np.einsum("id,id->i", dataset.inputs, dataset.inputs)
        data = self._blocks(squares, samples), self._blocks(dataset.targets, samples)
        self._problem = Problem(*data, constants, self._loss)
        values = self._blocks(network.preactivations(dataset.inputs), samples)
        self._inner = aligned(values.size, values).reshape(-1, network.width, samples)
        self._inner[:] = values.transpose(1, 0, 2)
        self._outer = network.outer.astype(constants.dtype)
        self._start = self._inner.copy()

    def network(self) -> ReLUNetwork:
        """Return the present network; this costs a product of m·n·d."""
        size = len(self._inputs)
        rows = (self._inner - self._start).transpose(1, 0, 2).reshape(self._network.width, -1)
        squares = self._problem.inputs.reshape(-1)[:size].astype(np.float64)
        moved = rows[:, :size].astype(np.float64) / np.where(squares > 0, squares, 1.0)
        return self._moved(self._network.inner + moved @ self._inputs, self._outer)


class SpannedDescent(Ticking):
    """At most d samples: another engine, in the coordinates of their span.

    With Xᵀ = QR, Q (d, n), a step changes W by multiples of the inputs only, and sees W by WQ only: the steps
    are those of u = WQ on the inputs Rᵀ, of dimension n, by any engine, and W = W(0) + (u − u(0))Qᵀ. Exact up
    to rounding; a neuron exactly on a data point's hyperplane may count as on either side of it. Rᵀ is a
    triangle, half of which "fused" skips.
    """

    def __init__(self, task: Task, engine: Callable[[Task], Engine[Any]]) -> None:
        super().__init__(task.step)
        network = task.network
        assert isinstance(network, ReLUNetwork)
        self._network = network
        self._basis, triangle = np.linalg.qr(task.dataset.inputs.T)
        self._start = network.inner @ self._basis
        inside = ReLUNetwork(self._start, network.outer, network.slope, network.scale)
        dataset = Dataset(np.ascontiguousarray(triangle.T), task.dataset.targets)
        self._engine: Engine[Any] = engine(replace(task, network=inside, dataset=dataset, in_span=False))
        self.name: str = self._engine.name

    def advance(self, until: float, rows: bool) -> Piece:
        """Make the steps up to `until`."""
        piece = self._engine.advance(until, rows)
        self.made = round(float(piece.times[-1]) / self.tick)
        return piece

    def loss(self) -> float:
        """Return the present loss."""
        return self._engine.loss()

    def network(self) -> ReLUNetwork:
        """Return the present network; this costs a product of m·n·d."""
        now: ReLUNetwork = self._engine.network()
        inner = self._network.inner + (now.inner - self._start) @ self._basis.T
        return self._network.moved({"inner": inner, "outer": now.outer})

    def statistics(self) -> Statistics:
        """Return what the engine counted, and the dimension of the span."""
        return {**self._engine.statistics(), "span": self._start.shape[1]}


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
        from shallowflow.kernels.dense import advance_batches

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
