"""Gradient flow of a `KnotNetwork`, stage by stage, in O(width) per step: see `kernels.knots.flow`.

A stiff (Rosenbrock) method between the meetings of knots and samples; each meeting is located and decided as
the differential inclusion says: cross, be held there (slide), be released, or die.
"""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.flow_recorder import Segments
from shallowflow.dynamics.outcome import Event, Outcome
from shallowflow.landscape.geometry.blocks import sort_data
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork

STEPS_AT_ONCE = 256


class KnotFlow:
    """Follow b' = −speed·ε·∂L/∂b, c' = −speed·∂L/∂c."""

    name = "stages"

    def __init__(
        self,
        network: KnotNetwork,
        dataset: Dataset,
        loss: SquareLoss,
        speed: float,
        epsilon: float,
        tolerance: float,
        stop: float,
    ) -> None:
        from shallowflow.kernels.knots import flow as knot_flow
        from shallowflow.kernels.knots import meetings as knot_verdicts
        from shallowflow.kernels.knots import stage as knot_blocks

        self._kernel, self._codes = knot_flow, _event_kinds(knot_verdicts)
        self._order, x, y = sort_data(dataset)
        self._data = knot_blocks.summarize(x, y)
        weight = loss.weight(dataset.size)
        self._rates = speed * epsilon * weight, speed * weight
        size = max(float(np.abs(network.knots).max()), float(np.abs(network.outer).max()))
        self._tolerances = tolerance, tolerance * max(size, 1e-300)
        self._stop = stop / weight
        # Writable copies: read-only arrays would be a second type to compile for.
        self._state = network.knots.copy(), network.outer.copy(), np.full(network.width, -1)
        self.time, self._step, self._status = 0.0, 0.0, knot_flow.OUT_OF_STEPS
        self._counts = np.zeros(5, dtype=np.int64)

    def advance(self, until: float) -> Segments:
        """Advance by some hundred steps, not beyond `until`."""
        knots, outer, pinned = self._state
        status, time, step, knots, outer, pinned, times, _, nodes, event_times, events, counts = (
            self._kernel.integrate(
                knots,
                outer,
                pinned,
                *self._data,
                self._rates,
                self.time,
                until,
                self._step,
                self._tolerances,
                self._stop,
                STEPS_AT_ONCE,
                2 * len(knots) + STEPS_AT_ONCE * 16,
                1,
                True,
            )
        )
        self._state, self.time, self._step = (knots, outer, pinned), float(time), float(step)
        self._status, self._counts = int(status), self._counts + counts
        found = [
            Event(float(moment), self._codes[int(kind)], int(neuron), int(self._order[point]))
            for moment, (kind, neuron, point) in zip(event_times, events, strict=True)
        ]
        return Segments(times, nodes, found)

    def verdict(self) -> Outcome | None:
        """Return why the flow cannot or need not go on, or None while it can."""
        kernel = self._kernel
        if self._status == kernel.STATIONARY:
            return Outcome("converged", f"the gradient vanished to the given bound at t = {self.time:.6g}.")
        if self._status == kernel.STEP_TOO_SMALL:
            return Outcome(
                "stalled", f"the step size underflowed at t = {self.time:.6g}.", "a larger tolerance."
            )
        if self._status == kernel.NOT_FINITE:
            return Outcome(
                "diverged",
                f"a parameter left the range of floating point numbers at t = {self.time:.6g}.",
                "inputs and targets of moderate size: scale the data.",
            )
        return None

    def statistics(self) -> dict[str, float | int | str]:
        """Return how many steps were attempted, rejected and shortened for an event."""
        attempted, rejected, unstable, shortened, _ = (int(count) for count in self._counts)
        return {"attempted": attempted, "rejected": rejected + unstable, "shortened": shortened}


def _event_kinds(codes: object) -> dict[int, str]:
    """Return the event kind of every code of `kernels.knots.meetings`."""
    names = {
        "CROSS_LEFT": "on",
        "CROSS_RIGHT": "off",
        "PIN": "slide",
        "RELEASE_LEFT": "release",
        "RELEASE_RIGHT": "release",
        "DEATH": "death",
        "RIDGE_LEFT": "two-valued",
        "RIDGE_RIGHT": "two-valued",
    }
    return {getattr(codes, code): kind for code, kind in names.items()}
