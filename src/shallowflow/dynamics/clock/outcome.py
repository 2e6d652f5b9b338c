"""`Event`: something that happened at a time. `Outcome`: how a run ended, and what to try next."""

from __future__ import annotations

from dataclasses import dataclass

from shallowflow.arrays import count, one_of, real

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
