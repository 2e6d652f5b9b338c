"""The path of a ReLU network's flow in any dimension: read between its states by tracing the neurons again.

Kept of every step are the pulls −∂L/∂h_k at its nodes and the neurons at its beginning. Given the pulls, the
neurons follow exactly (`kernels.walls.trace`), crossings and sliding included, so that any moment inside a
step is found as the run itself found its end. A step takes little more than one network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.dynamics.clock.paths import Column, RestLog, within
from shallowflow.errors import FileFormatError
from shallowflow.models.networks import ReLUNetwork


@dataclass(frozen=True, eq=False, repr=False)
class WallPath(RestLog[ReLUNetwork]):
    """Networks of m neurons over s steps, with k inputs off the origin, in c coordinates of their span.

    pulls (s, q, k) at the Radau nodes; inner (s, m, c), outer (s, m) and signs (s, m, b), packed, at the
    beginning of each step. inputs (n, d), basis (d, c). root: √epsilon, by which inner weights are divided
    and inputs multiplied; rest: the force by which a sliding neuron must be pulled off.
    """

    kind: ClassVar[str] = "walls"
    alone: ClassVar[bool] = True
    compact: ClassVar[bool] = True
    pulls: Annotated[Floats, Column(("s", "q", "k"))]
    inner: Annotated[Floats, Column(("s", "m", "c"))]
    outer: Annotated[Floats, Column(("s", "m"))]
    signs: Annotated[Ints, Column(("s", "m", "b"), whole=True)]
    inputs: Annotated[Floats, Column(("n", "d"), "fixed")]
    basis: Annotated[Floats, Column(("d", "c"), "fixed")]
    root: float
    rest: float

    def __call__(self, time: float) -> ReLUNetwork:
        """Return the network at a time in [times[0], times[-1]]."""
        from shallowflow.kernels.walls.desk import Neurons
        from shallowflow.kernels.walls.replay import replay, unpack

        time = within(time, self.times)
        if time == self.times[0] or len(self.times) == 1:
            return self.template
        step, problem = self._step_at(time), self._problem()
        length = float(self.times[step + 1] - self.times[step])
        share = np.array([min((time - float(self.times[step])) / length, 1.0)])
        signs = unpack(self.signs[step], len(problem.normals))
        start = Neurons(np.array(self.inner[step]), np.array(self.outer[step]), signs)
        then, _ = replay(length, self.rest, start, self.pulls[step], share, problem)
        return moved_in_span(self.template, then.inner, then.outer, self.basis, self.root)

    def _problem(self) -> Any:
        """The geometry of the problem; targets and weights do not matter where the pulls are known."""
        from shallowflow.kernels.walls.arrangement import SQUARE, Problem, arrange

        normals, samples, _ = arrange(self.root * self.inputs, np.zeros(len(self.inputs)))
        inside = np.ascontiguousarray(normals @ self.basis)
        aligned = inside.shape[0] == inside.shape[1] and bool(
            np.abs(inside - np.eye(len(inside))).max(initial=0.0) < 1e-12
        )
        if aligned:
            inside = np.eye(len(inside))
        network = self.template
        return Problem(
            inside, samples, int(aligned), float(network.scale), float(network.slope), 1.0, SQUARE, 0.0
        )

    def check(self) -> None:
        """Refuse other networks, steps of no length, and what does not fit the data."""
        if not isinstance(self.template, ReLUNetwork):
            raise FileFormatError("a path by walls needs a ReLUNetwork")
        if len(self.times) < 2 or np.any(np.diff(self.times) <= 0):
            raise FileFormatError("path_times must have a step, and all steps a length")
        if not (self.root > 0 and self.rest >= 0 and np.isfinite(self.root + self.rest)):
            raise FileFormatError("root must be positive and rest not negative")
        walls = len(self._problem().normals)
        off_origin = int(np.any(self.inputs != 0, axis=1).sum())
        if (
            self.pulls.shape[1] < 2
            or self.pulls.shape[2] != off_origin
            or self.signs.shape[2] != -(-walls // 31)
        ):
            raise FileFormatError("path_pulls or path_signs do not fit path_inputs")
        if np.any(self.signs < 0) or np.any(self.signs & self.signs >> 1 & 0x1555555555555555):
            raise FileFormatError("path_signs has codes that are no signs")


def moved_in_span(
    network: ReLUNetwork, inner: Floats, outer: Floats, basis: Floats, root: float
) -> ReLUNetwork:
    """Return the network with its neurons moved, given in coordinates of the span and divided by `root`."""
    start = (network.inner / root) @ basis
    return network.moved(
        {"inner": network.inner + root * ((inner - start) @ basis.T), "outer": np.array(outer)}
    )
