"""The minimal-norm element of the subgradient set, for neurons that lie on data hyperplanes.

For one neuron let B = Σ_{k∉K} gate_k c_k n_k be the part of the (inner) gradient whose gates are known and
u_k = c_k n_k, k ∈ K, the parts whose gates may be anything in [slope, 1] because ⟨w, x_k⟩ = 0. The flow takes

    min_{slope ≤ η_k ≤ 1} ‖B + Σ_{k∈K} η_k u_k‖,

[early_alignment] §2.1 and (17). With all η inside the bounds the result is orthogonal to every u_k: the
neuron slides.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, numbers, public, unit_interval
from shallowflow.errors import InvalidInputError

SAME = 1e-9
"""Parts are taken for linearly dependent below this share of the largest one."""
STEADY = 1e-6
"""Above this share triangular solves replace the singular value decomposition."""
EXCHANGES = 20
"""Exchanges of gates between the bounds and the inside before a slower, safe method takes over."""


@public
def minimal_gates(known: Floats, parts: Floats, slope: float = 0.0) -> Floats:
    """Return the gates η (k,) that minimise ‖known + η @ parts‖ over [slope, 1]^k.

    known: (d,); parts: (k, d). One part has a closed form; several are a box-constrained least-squares
    problem, solved by exchanging all gates that break the optimality conditions at once.

    Examples
    --------
    >>> import numpy as np
    >>> minimal_gates(np.array([1.0, 3.0]), np.array([[-4.0, 0.0]]))
    array([0.25])
    """
    known, parts, slope = (
        numbers(known, "known", 1),
        numbers(parts, "parts", 2),
        unit_interval(slope, "slope"),
    )
    if parts.shape[1] != len(known):
        raise InvalidInputError(f"parts: must have shape (k, {len(known)}) as `known`, got {parts.shape}")
    return gates_of(known, parts, unit_interval(slope, "slope"))


def gates_of(known: Floats, parts: Floats, slope: float) -> Floats:
    """Return `minimal_gates` of checked arguments."""
    if len(parts) == 1:
        return np.clip(unbounded_gate(known, parts[0], slope), slope, 1.0)[None]
    exchanged = _exchanged(known, parts, slope)
    if exchanged is not None:
        return exchanged
    from scipy.optimize import lsq_linear

    result = lsq_linear(parts.T, -known, bounds=(slope, 1.0), method="bvls", tol=1e-15)
    # Rounding can leave the box by a bit.
    return np.clip(np.asarray(result.x, dtype=np.float64), slope, 1.0)


def unbounded_gates(known: Floats, parts: Floats) -> Floats:
    """Return the gates η (k,) that minimise ‖known + η @ parts‖ without bounds.

    known: (d,), or (d, F) for many such problems with the same parts (k, d); the gates are then (k, F).
    """
    if len(parts) <= parts.shape[1]:
        left, corner = np.linalg.qr(parts.T)
        sizes = np.abs(np.diagonal(corner))
        if sizes.min() > STEADY * sizes.max():
            return np.asarray(np.linalg.solve(corner, -(left.T @ known)))
    return np.asarray(np.linalg.lstsq(parts.T, -known, rcond=SAME)[0])


def _exchanged(known: Floats, parts: Floats, slope: float) -> Floats | None:
    """Return the gates by block exchanges from the unbounded ones, or None if these do not settle."""
    gates = unbounded_gates(known, parts)
    side = np.where(gates > 1.0, 1, np.where(gates < slope, -1, 0))
    rounding = 1e-14 * np.linalg.norm(parts, axis=1) * np.abs(parts).sum()
    for _ in range(EXCHANGES):
        inside = side == 0
        gates = np.where(side > 0, 1.0, slope)
        if inside.any():
            gates[inside] = unbounded_gates(known + gates[~inside] @ parts[~inside], parts[inside])
        rates = parts @ (known + gates @ parts)
        out = np.where(gates > 1.0, 1, np.where(gates < slope, -1, 0))
        back = side * rates > rounding
        if not (out[inside].any() or back.any()):
            return np.clip(gates, slope, 1.0)
        side = np.where(inside, out, np.where(back, 0, side))
    return None


def unbounded_gate(known: Floats, part: Floats, slope: float = 0.0) -> Floats:
    """Return η = −⟨known, part⟩/‖part‖², the gate at which the neuron would slide (slope if part = 0)."""
    square = part @ part
    return np.asarray(-(known @ part) / square if square > 0 else slope)
