"""The least-squares line against the normal equations."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.landscape.early_alignment.spurious import least_squares
from tests.rounding import EPSILON


def test_three_points_have_the_published_line() -> None:
    """Normal equations by hand; the loss is 0.0875213675 (½ mean)."""
    dataset = sf.data.GENERATORS["three_points"]()
    x, y = dataset.inputs, dataset.targets
    fit = least_squares(dataset)
    np.testing.assert_allclose(fit.coefficients, np.linalg.solve(x.T @ x, x.T @ y), rtol=1e-12)
    assert fit.loss == pytest.approx(0.0875213675, abs=1e-10)


def test_undetermined_data_take_the_shortest_coefficients() -> None:
    fit = least_squares(sf.Dataset([[1.0, 1.0]], [2.0]))
    np.testing.assert_allclose(fit.coefficients, [1.0, 1.0])
    assert fit.loss <= 0.5 * (10 * EPSILON * 2.0) ** 2
