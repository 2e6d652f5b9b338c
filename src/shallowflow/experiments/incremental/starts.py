"""The rule by which the starts of single trainings are chosen: the first whose jumps are apart."""

from __future__ import annotations

SEPARATED = 16.0
"""On 200 random problems the flow followed Algorithm 1 wherever gap × ln(1/α) was at least this."""
CHOSEN = (
    "The start has the first seed with which Algorithm 1 interpolates and jumps are apart "
    f"(gap × ln(1/α) ≥ {SEPARATED:g})."
)
"""The rule, for captions."""
