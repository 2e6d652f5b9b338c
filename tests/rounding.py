"""What rounding may do to a result, for comparisons that must hold whatever the processor.

Numba and BLAS add up in an order, and fuse products with sums, as the width of the processor's registers has
it. A sum of N products is known to N·ε·Σ|terms| only: relative to the largest numbers that go into it, not to
the one that comes out. Bounds are therefore norm-wise, and count operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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
