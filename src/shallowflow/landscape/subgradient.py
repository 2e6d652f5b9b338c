"""The minimal-norm element of the subgradient set, for neurons that lie on data hyperplanes.

For one neuron let B = Σ_{k∉K} gate_k c_k n_k be the part of the (inner) gradient whose gates are known and
u_k = c_k n_k, k ∈ K, the parts whose gates may be anything in [slope, 1] because ⟨w, x_k⟩ = 0. The flow takes

    min_{slope ≤ η_k ≤ 1} ‖B + Σ_{k∈K} η_k u_k‖,

[early_alignment] §2.1 and (17). With all η inside the bounds the result is orthogonal to every u_k: the
neuron slides.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats


def minimal_gates(known: Floats, parts: Floats, slope: float = 0.0) -> Floats:
    """Return the gates η (k,) that minimise ‖known + η @ parts‖ over [slope, 1]^k.

    known: (d,); parts: (k, d). One part has a closed form; several are a box-constrained least-squares
    problem.

    Examples
    --------
    >>> import numpy as np
    >>> minimal_gates(np.array([1.0, 3.0]), np.array([[-4.0, 0.0]]))
    array([0.25])
    """
    if len(parts) == 1:
        return np.clip(unbounded_gate(known, parts[0], slope), slope, 1.0)[None]
    from scipy.optimize import lsq_linear

    result = lsq_linear(parts.T, -known, bounds=(slope, 1.0), method="bvls", tol=1e-15)
    # Rounding can leave the box by a bit.
    return np.clip(np.asarray(result.x, dtype=np.float64), slope, 1.0)


def unbounded_gate(known: Floats, part: Floats, slope: float = 0.0) -> Floats:
    """Return η = −⟨known, part⟩/‖part‖², the gate at which the neuron would slide (slope if part = 0)."""
    square = part @ part
    return np.asarray(-(known @ part) / square if square > 0 else slope)
