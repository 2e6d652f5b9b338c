"""The pass of the Gram engine against its formula."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.kernels.dense import gram as gram_descent
from tests.kernels.plain_descent import RATES, constants
from tests.rounding import assert_rounded


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize("size", [1, 7, 256, 601])
def test_the_pulls_are_residuals_behind_gates(size: int, slope: float) -> None:
    """One block, exactly one block, several blocks with a rest."""
    rng = np.random.default_rng(size)
    z, outer, targets = rng.standard_normal((6, size)), rng.standard_normal(6), rng.standard_normal(size)
    gates = np.where(z > 0, 1.0, slope)
    expected = gates * (targets - RATES["scale"] * (outer @ (gates * z)))
    pulls = np.empty_like(z)
    gram_descent.gate(z, outer, targets, constants(slope), pulls)
    largest = float(np.max(np.abs(outer) @ np.abs(z) + np.abs(targets)))
    assert_rounded(pulls, expected, 6 + 2, size=largest)
