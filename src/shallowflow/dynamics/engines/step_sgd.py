"""Engines of one-pass SGD for a `StepNetwork`: the plain loop, plateaus, hat functions, batches.

All four draw from the same random stream and make the same steps up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.outcome import Event
from shallowflow.models.networks import Network, StepNetwork


@dataclass(frozen=True)
class Sampling:
    """Steps and noise of a run: h, εh, half the width of the uniform noise, samples per step, the seed."""

    step: float
    slow: float
    noise: float
    batch: int
    seed: np.random.SeedSequence
    box: bool = False


class _StepSGD:
    """What the engines share: the copied arrays, the network, no events."""

    name: str

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps.sgd import Rules, Target, seeded

        self._network, self._batch = network, sampling.batch
        # Writable copies: read-only arrays would be a second type to compile for.
        self._target = Target(target.breakpoints.copy(), target.values.copy())
        self._rules = Rules(sampling.step, sampling.slow, sampling.noise, network.sharpness, sampling.box)
        self._state = seeded(sampling.seed)

    def _moved(self, positions: Floats, a: Floats) -> StepNetwork:
        return self._network.moved(
            {"positions": positions.copy(), "outer": a[1:].copy(), "offset": np.asarray(float(a[0]))}
        )

    def events(self, step: float) -> tuple[Event, ...]:
        """Nothing is watched for."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Nothing is counted."""
        return {}


class PlainSteps(_StepSGD):
    """Formula (9) as it is written, for any batch; O(m) per sample."""

    name = "plain"

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        super().__init__(network, target, sampling)
        self._u = network.positions.copy()
        self._a = np.concatenate([[float(network.offset)], network.outer])

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where a residual overflows."""
        from shallowflow.kernels.steps.sgd import advance_batches, advance_plain

        start, scratch = (self._u, self._a, self._target, self._rules), np.empty((3, self._a.size))
        if self._batch == 1:
            return int(advance_plain(*start, steps, self._state, scratch[0]))
        return int(advance_batches(*start, (steps, self._batch), self._state, scratch))

    def network(self) -> Network:
        """Return the current network."""
        return self._moved(self._u, self._a)


class _SortedSteps(_StepSGD):
    """Sorted positions and the table of cells."""

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps.sgd import new_cells

        super().__init__(network, target, sampling)
        self._labels: Ints = np.argsort(network.positions, kind="stable").astype(np.int64)
        self._u = network.positions[self._labels]
        self._cells = new_cells(self._u, 0.5 * network.sharpness, self._target.breaks)

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

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps import plateaus

        super().__init__(network, target, sampling)
        self._kernel = plateaus
        self._neurons = plateaus.new_plateaus(self._u, self._labels, self._sorted_weights())

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where a residual overflows."""
        start = self._neurons, self._cells, self._target, self._rules
        return int(self._kernel.advance_plateaus(*start, steps, self._state))

    def network(self) -> Network:
        """Return the current network."""
        return self._in_order(self._kernel.weights(self._neurons))


class HatSteps(_SortedSteps):
    """Plateau values in a hierarchy of hat functions: three short sweeps per sample outside the windows."""

    name = "hats"

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps import hats

        super().__init__(network, target, sampling)
        self._kernel = hats
        self._neurons = hats.new_hats(self._u, self._labels, self._sorted_weights())

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where a residual overflows."""
        start = self._neurons, self._cells, self._target, self._rules
        return int(self._kernel.advance_hats(*start, steps, self._state))

    def network(self) -> Network:
        """Return the current network."""
        return self._in_order(self._kernel.weights(self._neurons))
