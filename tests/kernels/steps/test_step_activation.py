"""The step, its slope and its integrals beside `CubicStep` and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import shallowflow as sf
from shallowflow.kernels.steps.windows import integral, slope, square_integral, step
from tests.rounding import EPSILON

PLACES = [-0.9, -0.5, -0.3, -1e-9, 0.0, 1e-9, 0.2, 0.49, 0.5, 1.7]


@pytest.mark.parametrize("z", PLACES)
def test_step_and_slope_are_those_of_the_activation(z: float) -> None:
    sigma = sf.CubicStep(1.0)
    assert step(z) == pytest.approx(float(sigma(np.array(z))), abs=10 * EPSILON)
    assert slope(z) == pytest.approx(float(sigma.derivative(np.array(z))), abs=10 * EPSILON)


@pytest.mark.parametrize("z", PLACES)
def test_integrals_equal_quadrature(z: float) -> None:
    places = [-0.5, 0.0, 0.5]
    for power, found in ((1, integral(z)), (2, square_integral(z))):
        expected = quad(lambda t, p=power: step(t) ** p, -1.0, z, points=places, epsabs=1e-14)[0]
        assert found == pytest.approx(expected, abs=1e-13)


def test_the_square_integrates_to_the_number_of_the_notes() -> None:
    assert square_integral(0.5) == pytest.approx(23 / 56, abs=10 * EPSILON)
    assert integral(0.5) == 0.5
