"""How runs end, in words: one sentence per code, with what to try next."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.outcome import Outcome
from shallowflow.dynamics.clock.protocol import Stop

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
