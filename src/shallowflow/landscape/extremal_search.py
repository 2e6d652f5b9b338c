"""The alignment flow of one neuron, followed exactly from cone to cone until it ends.

While the network's output is negligible, the direction of a neuron with outer weight of sign s moves on the
sphere along the great circle towards s·D_u, as long as it stays in A⁻¹(u), [early_alignment] (31) at θ = 0.
At a data hyperplane the velocities ⟨s·D, x_k⟩ on its two sides decide: it crosses, or it is held (both
point to the hyperplane) and slides with the minimal-norm D until a gate reaches the end of [γ, 1]. The path
ends where s·D_u lies in the neuron's own cone, or opposite to it on a ray (extremal vectors), or D_u = 0
(nothing moves).
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.landscape.alignment import ON, Pull
from shallowflow.landscape.arrangement import Signs

MOST_CONES = 100
"""The path is given up after this many cones per data point: it runs into a degenerate corner."""


def ascend(found: Pull, direction: Floats, sign: int) -> Signs | None:
    """Return the pattern of the cone in which the flow of sign·G from `direction` (d,) ends, or None.

    None: the flow ends at D_u = 0, or it was given up.
    """
    point = direction / np.linalg.norm(direction)
    pattern = found.pattern(point)
    pulled = found.minimal(pattern)
    for _ in range(MOST_CONES * len(found.inputs)):
        pattern, gradient = _released(found, pattern, *pulled)
        if not gradient.any():
            return None
        target = sign * gradient / np.linalg.norm(gradient)
        # Opposed to its target a neuron shrinks without turning: on a face that is a ray, that is an end too.
        if np.array_equal(found.pattern(target), pattern) or point @ target < ON - 1.0:
            return pattern
        point, hit = _advance(found, point, pattern, target)
        if hit < 0:
            return None
        pattern, pulled = _passed(found, pattern, hit, sign)
    return None


def _released(found: Pull, pattern: Signs, gradient: Floats, gates: Floats) -> tuple[Signs, Floats]:
    """Return the pattern without the hyperplanes whose gate is at the end of [γ, 1], and its gradient."""
    pattern = pattern.copy()
    on = np.flatnonzero(pattern == 0)
    ends = np.where(gates >= 1.0, 1, np.where(gates <= found.slope, -1, 0))
    pattern[on] = np.where(found.inputs[on].any(axis=1), ends, 0)
    return pattern, gradient


def _advance(found: Pull, point: Floats, pattern: Signs, target: Floats) -> tuple[Floats, int]:
    """Move towards the target up to the first hyperplane; return the new point and that (−1: none)."""
    room, goal = np.maximum(pattern * (found.inputs @ point), 0.0), pattern * (found.inputs @ target)
    leaving = np.flatnonzero(goal < 0)
    if not leaving.size:
        return point, -1
    shares = room[leaving] / (room[leaving] - goal[leaving])
    first = int(np.argmin(shares))
    moved = (1.0 - shares[first]) * point + shares[first] * target
    return moved / np.linalg.norm(moved), int(leaving[first])


def _passed(found: Pull, pattern: Signs, hit: int, sign: int) -> tuple[Signs, tuple[Floats, Floats]]:
    """Return the pattern after meeting hyperplane `hit`, with its gradient and gates.

    The hyperplane is crossed, or held if the other side pushes back.
    """
    beyond = pattern.copy()
    beyond[hit] = -pattern[hit]
    pulled = found.minimal(beyond)
    if sign * float(pulled[0] @ found.inputs[hit]) * beyond[hit] > 0:
        return beyond, pulled
    beyond[hit] = 0
    return beyond, found.minimal(beyond)
