"""All neurons on the last of three pieces: what the two-timescale limit does, [two_timescale] App. D.1.

Pieces of lengths ℓ₁, ℓ₂, ℓ₃ and values f₁, f₂, f₃; jumps s₁ = f₂ − f₁ at v₁ and s₂ = f₃ − f₂ at v₂. All
positions lie right of v₂, u the leftmost. With η = 0 plateaus are means of f*: c_0 over (0, u), all others
are f₃. So no other neuron moves, and

    du/dτ = −½[(f*(u) − c_0)² − (f*(u) − c_1)²] = −½(f₃ − c_0)².

Let M = f₂ − s₁ℓ₁/(ℓ₁ + ℓ₂) be the mean of the first two pieces.

* M = f₃: then c_0 = f₃ and nothing ever moves. That is a coincidence of levels and lengths: with the
  paper's 1, −1, 0 it takes equal lengths ℓ₁ = ℓ₂.
* Otherwise u reaches v₂. Just left of it f*(u) = f₂, c_0 = M, c_1 = f₃, and u goes on if and only if

      |f₂ − M| > |f₂ − f₃|,   that is   |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|.

  If not, du/dτ ≥ 0 left of v₂ and < 0 right of it: u stays at v₂, and v₁ is never found. (1, −1, 0 with
  ℓ₁ < ℓ₂: c_0 = M ∈ (−1, 0), so du/dτ = ½[1 − (1 + M)²] > 0 left of v₂.)
* If it goes on: on the second piece |f₂ − c_0| = |s₁| ℓ₁/u grows and |f₂ − c_1| ≤ |s₂| falls, so u reaches
  v₁ and is held there, as c_0 = f₁ ≠ c_1. The next neuron sees c_1 ≠ f₃ = c_2, moves left to v₂ and is
  held there, as then c_1 = f₂. Two neurons recover the target.
"""

from __future__ import annotations

from shallowflow.data.targets import PiecewiseConstant
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.step_class import checked_target

ROUNDING = 1e-14
STUCK, SECOND_ONLY, RECOVERS = "stuck", "second jump only", "recovers"


def fate_of_last_piece(target: PiecewiseConstant) -> str:
    """Return what becomes of two or more neurons that all start on the last of three pieces, η = 0.

    "stuck", "second jump only" or "recovers": "stuck" if f₃ is the mean of the first two pieces, else
    "recovers" if and only if |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|. [two_timescale] App. D.1 names the first case, for
    levels 1, −1, 0 and without its condition ℓ₁ = ℓ₂; the proof stands at the head of this module.

    Examples
    --------
    >>> for first in (0.3, 0.35, 0.25):
    ...     print(fate_of_last_piece(PiecewiseConstant([first, 0.6], [1.0, -1.0, 0.0])))
    stuck
    recovers
    second jump only
    """
    if checked_target(target).breakpoints.size != 2:
        raise InvalidInputError(f"target: must have three pieces, got {len(target.values)}")
    (first, both), (s1, s2) = target.breakpoints, target.jumps
    # M − f₂ and f₃ − f₂.
    mean, last = -s1 * first / both, s2
    rounding = ROUNDING * (abs(s1) + abs(s2))
    if abs(mean - last) <= rounding:
        return STUCK
    return RECOVERS if abs(mean) > abs(last) + rounding else SECOND_ONLY
