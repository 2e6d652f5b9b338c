"""Networks on the line: descent and gradient flow of a `KnotNetwork` in O(width) per step.

Descent (`kernels.knots.descent`) makes the iterates of plain descent up to rounding. The flow
(`kernels.knots.flow`) goes stage by stage: a stiff (Rosenbrock) method between the meetings of knots and
samples; each meeting is located and decided as the differential inclusion says: cross, be held there (slide),
be released, or die.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import sort_data
from shallowflow.dynamics.clock.paths import Polynomials
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Event, Path, Piece, Rows, Statistics, Stop, Ticking
from shallowflow.models.networks import KnotNetwork

STEPS_AT_ONCE = 256


class KnotDescent(Ticking):
    """θ ← θ − step·∇L(θ), the knots with step·epsilon, from block statistics; counts crossings."""

    name = "blocks"

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.knots import descent, sweeps

        super().__init__(task.step)
        assert isinstance(task.network, KnotNetwork)
        self._kernel, self._measure, self._weight = descent, sweeps.loss, task.weight
        self._template, self._now = task.network, (task.network.knots, task.network.outer)
        self._samples = descent.prepare(*sort_data(task.dataset)[1:])
        self._rates = task.step * task.epsilon * task.weight, task.step * task.weight
        self._crossings = 0

    def _steps(self, count: int) -> int:
        knots, outer, done, crossings = self._kernel.advance(*self._now, self._samples, self._rates, count)
        self._crossings += int(crossings)
        self._now = knots, outer
        return int(done)

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(np.array(self._now), self._samples.x, self._samples.y, self._weight)

    def network(self) -> KnotNetwork:
        """Return the present network."""
        return self._template.moved(dict(zip(("knots", "outer"), self._now, strict=True)))

    def statistics(self) -> Statistics:
        """Return the number of crossings."""
        return {"crossings": self._crossings}


class KnotFlow:
    """Follow b' = −speed·ε·∂L/∂b, c' = −speed·∂L/∂c."""

    name = "stages"
    tick = None
    reads: ClassVar[type[Path[Any]] | None] = Polynomials

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.knots import flow, stage

        network, weight = task.network, task.weight
        assert isinstance(network, KnotNetwork)
        self._kernel, self._stage, self._template = flow, stage, network
        self._kinds = _event_kinds(stage)
        self._order, x, y = sort_data(task.dataset)
        self._sorted = x, y
        self._data = stage.summarize(x, y)
        size = max(float(np.abs(network.knots).max()), float(np.abs(network.outer).max()))
        self._options = flow.Options(
            rates=(task.speed * task.epsilon * weight, task.speed * weight),
            tolerances=(task.tolerance, task.tolerance * max(size, 1e-300)),
            gradient_stop=task.stop / weight,
            max_steps=STEPS_AT_ONCE,
            max_events=2 * network.width + STEPS_AT_ONCE * 16,
        )
        self._weight, self._loss = weight, task.measure(network)
        self._state = flow.FlowState(network.knots, network.outer, np.full(network.width, -1))
        self._counts = np.zeros(5, dtype=np.int64)
        self._segments = self._events = 0

    def advance(self, until: float, rows: bool) -> Piece:
        """Advance by some hundred steps, not beyond `until`."""
        made = self._kernel.integrate(self._state, self._data, until, self._options._replace(keep=rows))
        self._state, self._counts = made.state, self._counts + made.counts
        self._segments += len(made.times) - 1
        self._events += len(made.event_times)
        # Steps of no length, at events, are left out.
        real = np.flatnonzero(np.diff(made.times) > 0)
        ends, losses = np.append(0, real + 1), self._weight * made.losses
        self._loss = float(losses[-1])
        values = {"values": made.nodes[real]} if rows else {}
        return Piece(
            made.times[ends],
            losses[ends],
            rows={**values, **self._rests(made.event_times, made.events)},
            events=lambda most: self._named(made.event_times[:most], made.events[:most]),
            stop=self._why(int(made.status)),
        )

    def _named(self, times: Floats, events: Ints) -> list[Event]:
        return [
            Event(float(time), self._kinds[int(kind)], int(neuron), int(self._order[point]))
            for time, (kind, neuron, point) in zip(times, events, strict=True)
        ]

    def _rests(self, times: Floats, events: Ints) -> Rows:
        """Return the log of pairs that come to rest on each other, and part."""
        kinds, neurons, points = events.T
        held = kinds == self._stage.PIN
        freed = np.isin(
            kinds, [code for code, kind in self._kinds.items() if kind in ("release", "two-valued")]
        )
        changes = np.flatnonzero(held | freed)
        named = self._order[points[changes]]
        rest_points = np.where(held[changes], named, -1 - named)
        return {"rest_times": times[changes], "rest_neurons": neurons[changes], "rest_points": rest_points}

    def _why(self, status: int) -> Stop | None:
        codes = {
            self._kernel.STATIONARY: "stationary",
            self._kernel.STEP_TOO_SMALL: "step underflow",
            self._kernel.NOT_FINITE: "parameter overflow",
        }
        return Stop(codes[status], {"time": self._state.time}) if status in codes else None

    def loss(self) -> float:
        """Return the present loss."""
        return self._loss

    def losses(self, thetas: Floats) -> list[float]:
        """Return the losses of networks, θ (k, 2m): knots, outer weights."""
        from shallowflow.kernels.knots.sweeps import loss

        x, y = self._sorted
        return [loss(theta.reshape(2, -1), x, y, self._weight) for theta in thetas]

    def network(self) -> KnotNetwork:
        """Return the present network."""
        return self._template.moved({"knots": self._state.knots.copy(), "outer": self._state.outer.copy()})

    def path(self, times: Floats, rows: Rows) -> Polynomials[KnotNetwork]:
        """Return the polynomials of these steps."""
        return Polynomials(self._template, times, **rows)

    def statistics(self) -> Statistics:
        """Return how many steps were attempted, rejected and shortened for an event."""
        attempted, rejected, unstable, shortened, _ = (int(count) for count in self._counts)
        return {
            "attempted": attempted,
            "rejected": rejected + unstable,
            "shortened": shortened,
            "segments": self._segments,
            "events": self._events,
        }


def _event_kinds(codes: object) -> dict[int, str]:
    """Return the event kind of every code of `kernels.knots.stage`."""
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
