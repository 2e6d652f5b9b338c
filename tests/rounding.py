"""What rounding may do to a result, for comparisons that must hold whatever the processor.

Numba and BLAS add up in an order, and fuse products with sums, as the width of the processor's registers has
it. A sum of N products is known to N·ε·Σ|terms| only: relative to the largest numbers that go into it, not to
the one that comes out. Bounds are therefore norm-wise, and count operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shallowflow.arrays import Floats

EPSILON = float(np.finfo(float).eps)


def assert_rounded(
    found: ArrayLike, expected: ArrayLike, operations: int, *, size: float = 0.0, kind: type[Any] = np.float64
) -> None:
    """Assert that found and expected differ by `operations` roundings of the largest number among them.

    size : the largest number on the way, where it exceeds the result's own (by cancellation).
    kind : the precision of what was found.
    """
    wanted = np.asarray(expected, float)
    largest = max(size, float(np.max(np.abs(wanted), initial=0.0)))
    assert np.isfinite(largest)
    bound = operations * float(np.finfo(kind).eps) * largest
    np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=0.0, atol=bound)


def condition(matrix: Floats, cut: float) -> float:
    """Return κ, the largest singular value over the smallest; those below cut × the largest count as zero."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[0] / values[values > cut * values[0]][-1])


def least_squares_size(matrix: Floats, coefficients: NDArray[Any], targets: Floats, cut: float) -> float:
    """Return κ (‖c‖ + κ ‖r‖/‖A‖): ε times this is what an error ε‖A‖ in A does to c = argmin ‖Ac − y‖."""
    kappa, residual = condition(matrix, cut), np.linalg.norm(matrix @ coefficients - targets)
    return float(kappa * (np.linalg.norm(coefficients) + kappa * residual / np.linalg.norm(matrix, 2)))
