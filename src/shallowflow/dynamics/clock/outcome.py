"""`Event`: something that happened at a time. `Outcome`: how a run ended, and what to try next.

An engine stops with a code and numbers, a `Stop`; its sentence is found here, one for each code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shallowflow.arrays import Floats, count, one_of, real

EVENT_KINDS = (
    "on",  # a data point becomes active for a neuron
    "off",  # a data point becomes inactive for a neuron
    "slide",  # a neuron starts to slide along a data point
    "release",  # a neuron stops sliding
    "death",  # a neuron loses its last active point and never moves again
    "two-valued",  # the solution is not unique from here on: one branch was taken
    "jump",  # a limit process jumps to its next saddle
    "hit",  # a neuron reaches a jump of the target and stays there
    "pass",  # a neuron passes a jump of the target
)

STATUSES = (
    "completed",  # reached the requested time or number of steps
    "converged",  # the stopping rule was met before
    "unstable",  # the step is beyond the stability limit
    "diverged",  # a parameter or the loss became infinite or NaN
    "stalled",  # the integrator cannot advance
    "memory",  # the recording reached its memory limit
)


@dataclass(frozen=True)
class Event:
    """At `time`, `kind` happened to `neuron` at data point `point` (−1: not about one)."""

    time: float
    kind: str
    neuron: int = -1
    point: int = -1

    def __post_init__(self) -> None:
        one_of(self.kind, "kind", EVENT_KINDS)
        object.__setattr__(self, "time", real(self.time, "time"))
        object.__setattr__(self, "neuron", count(self.neuron, "neuron", at_least=-1))
        object.__setattr__(self, "point", count(self.point, "point", at_least=-1))


@dataclass(frozen=True)
class Outcome:
    """How a run ended: a status word, what happened, and what to try (empty when all is well)."""

    status: str
    message: str
    advice: str = ""

    def __post_init__(self) -> None:
        one_of(self.status, "status", STATUSES)

    @property
    def ok(self) -> bool:
        """Whether the run did what was asked."""
        return self.status in ("completed", "converged")

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" + (f" Try: {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class Stop:
    """Why a run cannot or need not go on: a code of `SENTENCES`, and what its sentence says."""

    code: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)


BLOW_UP = 100.0
"""A loss this many times its start on the way means that a run blew up, wherever it ended."""
SMALLER_STEP, LARGER_TOLERANCE = "a smaller step.", "a larger tolerance."
OTHER_KNOTS = "knots among the data: `landscape.fully_trained` makes some, `ANLSRegressor` finds its own."
OTHER_START = "a larger tolerance, or another initial network."

SENTENCES: dict[str, tuple[str, str, str]] = {
    "steps done": ("completed", "{total} steps, loss {loss:.6g}.", ""),
    "time reached": ("completed", "reached t = {until:g}, loss {loss:.6g}.", ""),
    "moves made": ("completed", "{made} moves made, loss {loss:.6g}.", ""),
    "unfitted": (
        "completed",
        "reached t = {until:g}; {points}",
        "a wider network, or another seed, to fit them.",
    ),
    "loss below, after steps": ("converged", "loss {loss:.6g} is below {bound:g} after {made} steps.", ""),
    "loss below, at time": ("converged", "loss {loss:.6g} is below {bound:g} at t = {time:.6g}.", ""),
    "stationary": ("converged", "the gradient vanished to the given bound at t = {time:.6g}.", ""),
    "small gradient": ("converged", "the gradient fell to {norm:.3g} at t = {time:.6g}.", ""),
    "no move": ("converged", "no move lowers the loss after {made}, loss {loss:.6g}.", ""),
    "no living knot": (
        "stalled",
        "no data point lies right of a knot: all are dead, loss {loss:.6g}.",
        OTHER_KNOTS,
    ),
    "no knot among the data": (
        "stalled",
        "all knots lie left of the data, and no move lowers the loss after {made}, loss {loss:.6g}.",
        OTHER_KNOTS,
    ),
    "rounding": ("converged", "after {made} moves gains are lost in rounding, loss {loss:.6g}.", ""),
    "interpolates": ("converged", "interpolates after {jumps} jumps.{ties}", ""),
    "rose": ("unstable", "the loss rose from {first:.6g} to {loss:.6g}.", SMALLER_STEP),
    "rose on the way": (
        "unstable",
        "on the way the loss rose from {first:.3g} to {highest:.3g}.",
        SMALLER_STEP,
    ),
    "overflow at the start": ("diverged", "the loss overflowed at the start.", "rescale the data."),
    "overflow after steps": (
        "diverged",
        "a parameter or the loss overflowed after step {made} of {total}.",
        SMALLER_STEP,
    ),
    "loss overflow": ("diverged", "the loss overflowed at t = {time:g}.", "rescale the data."),
    "parameter overflow": (
        "diverged",
        "a parameter left the range of floating point numbers at t = {time:.6g}.",
        "inputs and targets of moderate size: scale the data.",
    ),
    "step underflow": ("stalled", "the step size underflowed at t = {time:.6g}.", LARGER_TOLERANCE),
    "no step": ("stalled", "the integrator found no step at t = {time:.6g}.", OTHER_START),
    "no step by groups": (
        "stalled",
        "the integrator found no step at t = {time:.6g}.",
        "another tolerance, engine='dense', or another initial network.",
    ),
    "gates chatter": (
        "stalled",
        "gates change repeatedly at t = {time:.6g}.",
        "a smaller tolerance; the solution may not be unique from here on.",
    ),
    "events repeat": (
        "stalled",
        "events repeat without end at τ = {time:.6g}.",
        "slightly other initial positions.",
    ),
    "misjudged": (
        "stalled",
        "after {made} moves the loss of the chosen candidate was misjudged: "
        "a predicted relative gain of {gain:.2g} was not realised, loss {loss:.6g}.",
        'method="windowed", whose losses are exact.',
    ),
    "never fitted": ("stalled", "{points}{ties}", "a wider network, or another seed."),
    "memory": (
        "memory",
        "the record reached its limit of {gigabytes:.3g} GB at t = {time:.6g}.",
        "record=Record.at(times), Record.geometric(), or a larger max_bytes.",
    ),
}
"""Code → status, message, advice."""


def in_words(stop: Stop) -> Outcome:
    """Return the outcome of a run that ended by `stop`."""
    status, message, advice = SENTENCES[stop.code]
    return Outcome(status, message.format(**stop.numbers), advice)


def end_of_steps(losses: Floats, made: int, total: int) -> Stop:
    """Return how a run of fixed steps ended that nothing but overflow could stop: by where its loss went."""
    first, loss, highest = float(losses[0]), float(losses[-1]), float(np.max(losses))
    if not np.isfinite(first):
        return Stop("overflow at the start")
    if made < total:
        return Stop("overflow after steps", {"made": made, "total": total})
    if loss > first * (1 + 1e-9):
        return Stop("rose", {"first": first, "loss": loss})
    if highest > BLOW_UP * first:
        return Stop("rose on the way", {"first": first, "highest": highest})
    return Stop("steps done", {"total": total, "loss": loss})
