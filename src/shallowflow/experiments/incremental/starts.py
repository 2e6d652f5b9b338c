"""The rule by which the starts of single trainings are chosen: the first whose jumps are apart."""

from __future__ import annotations

from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle

SEPARATED = 16.0
"""On 200 random problems the flow followed Algorithm 1 wherever gap × ln(1/α) was at least this."""
CHOSEN = (
    "The start has the first seed with which Algorithm 1 interpolates and jumps are apart "
    f"(gap × ln(1/α) ≥ {SEPARATED:g})."
)
"""The rule, for captions."""


def apart(limit: SaddleToSaddle, acceleration: float) -> bool:
    """Whether Algorithm 1 interpolates by jumps that α = e^{−acceleration} tells apart.

    Both the gap of a jump, |ρ| of the next neuron that shares a point, and the growth of ρ until the next
    jump, times ln(1/α), are at least `SEPARATED`.
    """
    least = min(float(limit.process.gaps.min()), float(limit.process.settling.min()))
    return limit.interpolates and least * acceleration >= SEPARATED
