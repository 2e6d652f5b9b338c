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

FEWEST_CELLS, CELLS_PER_NEURON, VECTOR = 4096, 8, 8


@dataclass(frozen=True)
class Sampling:
    """Steps and noise of a run: h, εh, half the width of the uniform noise, samples per step, the seed."""

    step: float
    slow: float
    noise: float
    batch: int
    seed: np.random.SeedSequence
    box: bool = False

    @property
    def rates(self) -> tuple[float, float, float]:
        """(h, εh, noise), as kernels take them."""
        return self.step, self.slow, self.noise


class _StepSGD:
    """What the engines share: the copied arrays, the network, no events."""

    name: str

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps.sgd import seeded

        self._network, self._sampling = network, sampling
        self._target = (target.breakpoints.copy(), target.values.copy())
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

        start = (self._u, self._a, self._network.sharpness, self._target, self._sampling.rates)
        box, batch = self._sampling.box, self._sampling.batch
        if batch == 1:
            return int(advance_plain(*start, box, steps, self._state))
        return int(advance_batches(*start, box, (steps, batch), self._state))

    def network(self) -> Network:
        """Return the current network."""
        return self._moved(self._u, self._a)


class _SortedSteps(_StepSGD):
    """Sorted positions and the table of cells."""

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps.sgd import locate, pieces_of_cells, refill

        super().__init__(network, target, sampling)
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

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps.plateaus import ramps

        super().__init__(network, target, sampling)
        padded = -(-(network.width + 2) // VECTOR) * VECTOR
        self._c = np.zeros(padded)
        self._c[: network.width + 1] = np.cumsum(self._sorted_weights())
        self._ramp, self._scratch = ramps(network.width, padded), np.empty(padded)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where a residual overflows."""
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
                steps,
                self._state,
            )
        )

    def network(self) -> Network:
        """Return the current network."""
        return self._in_order(np.diff(self._c[: self._u.size + 1], prepend=0.0))


class HatSteps(_SortedSteps):
    """Plateau values in a hierarchy of hat functions: three short sweeps per sample outside the windows."""

    name = "hats"

    def __init__(self, network: StepNetwork, target: PiecewiseConstant, sampling: Sampling) -> None:
        from shallowflow.kernels.steps.hats import AHEAD, DRAWS, FAN, hats

        super().__init__(network, target, sampling)
        self._levels = hats(self._sorted_weights())
        self._rulers = (np.arange(float(self._levels[0].size)), np.arange(float(FAN)))
        self._draws = np.zeros(DRAWS + 2 * AHEAD), np.zeros(DRAWS)
        self._scratch = np.empty(network.width)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop where a residual overflows."""
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
                steps,
                self._state,
            )
        )

    def network(self) -> Network:
        """Return the current network."""
        from shallowflow.kernels.steps.hats import weights

        return self._in_order(weights(*self._levels, self._u.size))
