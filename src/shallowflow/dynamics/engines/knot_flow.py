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
        from shallowflow.kernels.knots import flow, meetings, stage

        self._kernel, self._codes = flow, _event_kinds(meetings)
        self._order, x, y = sort_data(dataset)
        self._data = stage.summarize(x, y)
        weight = loss.weight(dataset.size)
        size = max(float(np.abs(network.knots).max()), float(np.abs(network.outer).max()))
        self._options = flow.Options(
            rates=(speed * epsilon * weight, speed * weight),
            tolerances=(tolerance, tolerance * max(size, 1e-300)),
            gradient_stop=stop / weight,
            max_steps=STEPS_AT_ONCE,
            max_events=2 * network.width + STEPS_AT_ONCE * 16,
        )
        self._state = flow.FlowState(network.knots, network.outer, np.full(network.width, -1))
        self.time, self._status = 0.0, flow.OUT_OF_STEPS
        self._counts = np.zeros(5, dtype=np.int64)

    def advance(self, until: float) -> Segments:
        """Advance by some hundred steps, not beyond `until`."""
        made = self._kernel.integrate(self._state, self._data, until, self._options)
        self._state, self.time = made.state, made.state.time
        self._status, self._counts = made.status, self._counts + made.counts
        found = [
            Event(float(moment), self._codes[int(kind)], int(neuron), int(self._order[point]))
            for moment, (kind, neuron, point) in zip(made.event_times, made.events, strict=True)
        ]
        return Segments(made.times, made.nodes, found)

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
