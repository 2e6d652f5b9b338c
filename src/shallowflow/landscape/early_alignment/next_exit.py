"""The end of a later plateau: awake neurons run on, dormant ones are moved by the clock in their residual.

While some neurons are awake the forces on the dormant ones are not frozen: the awake ones are never quite
done. So both are moved, in turns of a time h = 0.15/‖D‖_max: half a turn of plain descent on the awake
neurons, the dormant ones for h in closed form under the forces of that moment, the other half. What it costs
is the simulation of the awake neurons alone, and the steps need not be small for the sake of neurons of size
10⁻⁸.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Bools, Floats, count, mask, probability, public
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.early_alignment.frozen import Exit, FrozenFlow, exit_time
from shallowflow.landscape.geometry.activity import Resting, check_relu
from shallowflow.landscape.geometry.census import census
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

TURN = 0.15
"""The fastest dormant neuron grows by e to this power in one turn."""
STEP = 0.1
"""Step × λ_max of the awake neurons' descent."""
TURNS_PER_LOOK = 5
"""λ_max is computed anew after this many turns."""
SMALL = 400
"""n up to which λ_max is computed; the trace bounds it beyond."""


@public
def next_exit(
    network: ReLUNetwork,
    dataset: Dataset,
    *,
    fall: float = 0.02,
    loss: Loss | None = None,
    dormant: Bools | None = None,
    resting: Resting | None = None,
    most: int = 30_000,
) -> Exit:
    """Return when the loss will have fallen by the share `fall`, the awake neurons running on.

    dormant: (m,) by default those of the census; with none awake this is `exit_time`. most: steps of descent
    on the awake neurons after which it is given up (time inf; `lowest`: the least loss seen).

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["stewart"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(60, 2, init_scale=1e-2, seed=0), data, until=300.0)
    >>> found = next_exit(run(80.0), data, fall=0.05, resting=run.resting(80.0))
    >>> bool(abs(80.0 + found.time - 285.4) < 3.0)  # the flow: 285.4
    True
    """
    check_relu(network)
    share, square = probability(fall, "fall"), SquareLoss() if loss is None else loss
    found = census(network, dataset, square, resting=resting)
    given = mask(dormant, "dormant", network.width)
    sleeping = found.dormant if given is None else given
    awake = ~(sleeping | found.dead)
    if not awake.any():
        return exit_time(network, dataset, fall=share, loss=square, dormant=sleeping, resting=resting)
    return _Relay(network, dataset, square, awake, sleeping).run(share, resting, count(most, "most"))


class _Relay:
    """The awake neurons (inner, outer) as plain arrays, beside a `FrozenFlow` of the dormant ones."""

    def __init__(
        self, network: ReLUNetwork, dataset: Dataset, loss: Loss, awake: Bools, sleeping: Bools
    ) -> None:
        self.network, self.dataset, self.loss, self.sleeping = network, dataset, loss, sleeping
        self.inner, self.outer = network.inner[awake].copy(), network.outer[awake].copy()

    def run(self, share: float, resting: Resting | None, most: int) -> Exit:
        """Take turns until the loss has fallen by a share of what it is."""
        targets = self.dataset.targets
        zero = np.zeros(self.dataset.size)
        flow = FrozenFlow(self.network, self.dataset, zero, which=self.sleeping, resting=resting)
        start = lowest = self.loss.value(self._outputs() + flow.outputs(), targets)
        goal, made, time, before = (1.0 - share) * start, 0, 0.0, start
        step = self._step(flow.outputs())
        for turn in range(10**9):
            flow.forces = -self.loss.slopes(self._outputs() + flow.outputs(), targets)
            flow.advance(0.0)
            rate = float(np.max(flow.rates, initial=0.0))
            fastest = max(rate, self._fastest(flow.forces))
            if turn % TURNS_PER_LOOK == TURNS_PER_LOOK - 1:
                step = self._step(flow.outputs())
            length = min(TURN / fastest, 100.0 * step) if fastest > 0 else 100.0 * step
            pieces = max(1, int(np.ceil(0.5 * length / step)))
            self._descend(step, pieces, flow.outputs())
            flow.forces = -self.loss.slopes(self._outputs() + flow.outputs(), targets)
            flow.advance(2.0 * pieces * step)
            self._descend(step, pieces, flow.outputs())
            made, time = made + 2 * pieces, time + 2.0 * pieces * step
            value = self.loss.value(self._outputs() + flow.outputs(), targets)
            if value <= goal:
                # Between two turns the logarithm of the loss is taken for straight.
                time -= 2.0 * pieces * step * (1.0 - np.log(before / goal) / np.log(before / value))
                return Exit(float(time), share, goal, goal, rate, flow.walls, frozen=False)
            lowest = min(lowest, value)
            if made >= most or not np.isfinite(value) or value > 2.0 * start:
                break
            before = value
        return Exit(np.inf, share, lowest, lowest, rate, flow.walls, frozen=False)

    def _fastest(self, forces: Floats) -> float:
        """Return the largest ‖D_j‖ of the awake neurons, times the output factor."""
        gates = np.where(self.dataset.inputs @ self.inner.T > 0, 1.0, self.network.slope)
        pulls = (gates * forces[:, None]).T @ self.dataset.inputs
        return self.network.scale * float(np.max(np.linalg.norm(pulls, axis=1)))

    def _outputs(self) -> Floats:
        z = self.dataset.inputs @ self.inner.T
        return np.asarray(
            self.network.scale * (np.maximum(z, self.network.slope * z) @ self.outer), dtype=np.float64
        )

    def _descend(self, step: float, steps: int, others: Floats) -> None:
        """Make steps of plain descent on the awake neurons, the outputs of the others standing."""
        inputs, targets, slope, scale = (
            self.dataset.inputs,
            self.dataset.targets,
            self.network.slope,
            self.network.scale,
        )
        for _ in range(steps):
            z = inputs @ self.inner.T
            gates = np.where(z > 0, 1.0, slope)
            features = gates * z
            slopes = self.loss.slopes(scale * (features @ self.outer) + others, targets)
            weighted = gates * slopes[:, None]
            turned = (step * scale) * self.outer[:, None] * (weighted.T @ inputs)
            self.outer -= (step * scale) * (features.T @ slopes)
            self.inner -= turned

    def _step(self, others: Floats) -> float:
        """Return a step that is stable for the awake neurons: 0.1/λ_max of their Gauss–Newton matrix."""
        awake = ReLUNetwork(self.inner, self.outer, self.network.slope, self.network.scale)
        inputs, targets = self.dataset.inputs, self.dataset.targets
        root = np.sqrt(self.loss.curvatures(self._outputs() + others, targets))
        kernel = root[:, None] * awake.tangent_kernel(inputs) * root
        largest = float(np.linalg.eigvalsh(kernel)[-1]) if len(root) <= SMALL else float(np.trace(kernel))
        # Neurons that are small, but grow, have a small λ_max, and soon a larger one.
        fastest = self._fastest(self.loss.slopes(self._outputs() + others, targets))
        return STEP / max(largest, fastest) if max(largest, fastest) > 0 else 1.0
