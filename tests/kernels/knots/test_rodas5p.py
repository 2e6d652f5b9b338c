"""The coefficients of Rodas5P: order, stability and interpolant, on dense test equations."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from shallowflow.kernels.knots.stiff_step import COUPLING, DENSE_WEIGHTS, GAMMA, STAGE_WEIGHTS, STAGES

FloatArray = NDArray[np.float64]


def step(
    field: Callable[[FloatArray], FloatArray], jacobian: FloatArray, start: FloatArray, h: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """End state, error estimate and value of the interpolant at half the step."""
    matrix = np.eye(start.size) / (h * GAMMA) - jacobian
    stages = np.zeros((STAGES, start.size))
    for i in range(STAGES):
        inner = start + STAGE_WEIGHTS[i, :i] @ stages[:i]
        stages[i] = np.linalg.solve(matrix, field(inner) + COUPLING[i, :i] @ stages[:i] / h)
    end = inner + stages[-1]
    k = DENSE_WEIGHTS @ stages
    return end, stages[-1], 0.5 * start + 0.5 * (end + 0.5 * (k[0] + 0.5 * (k[1] + 0.5 * k[2])))


def riccati_equation(s: FloatArray) -> FloatArray:
    return np.array([-s[0] * s[1] + s[1] ** 2, s[0] ** 2 - 0.5 * s[1]])


def test_one_step_has_the_stated_orders() -> None:
    start = np.array([1.0, 0.4])
    jacobian = np.array([[-start[1], -start[0] + 2 * start[1]], [2 * start[0], -0.5]])
    errors = []
    for h in (0.04, 0.02):
        end, estimate, middle = step(riccati_equation, jacobian, start, h)
        # Reference: 400 classical Runge-Kutta steps, exact to rounding here.
        s, small = start, h / 400
        for i in range(400):
            k1 = riccati_equation(s)
            k2 = riccati_equation(s + small / 2 * k1)
            k3 = riccati_equation(s + small / 2 * k2)
            s = s + small / 6 * (k1 + 2 * k2 + 2 * k3 + riccati_equation(s + small * k3))
            if i == 199:
                half = s
        errors.append([np.abs(end - s).max(), np.abs(estimate).max(), np.abs(middle - half).max()])
    orders = np.log2(np.array(errors[0]) / np.array(errors[1]))
    assert orders[0] > 5.6  # local error of order 6
    assert 4.6 < orders[1] < 5.6  # estimate of order 5
    assert orders[2] > 4.6  # interpolant of order 5


def stability(z: complex) -> complex:
    """R(z) of y' = λ y, z = hλ."""
    stages = np.zeros(STAGES, dtype=complex)
    for i in range(STAGES):
        inner = 1 + STAGE_WEIGHTS[i, :i] @ stages[:i]
        stages[i] = (z * inner + COUPLING[i, :i] @ stages[:i]) / (1 / GAMMA - z)
    return complex(inner + stages[-1])


def test_method_is_l_stable() -> None:
    assert all(abs(stability(1j * y)) <= 1 + 1e-12 for y in np.geomspace(1e-2, 1e4, 400))
    assert abs(stability(-1e8)) < 1e-6
    assert stability(-0.1) == pytest.approx(np.exp(-0.1), abs=1e-8)
