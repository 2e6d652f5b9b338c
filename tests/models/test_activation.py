"""Activations against their definitions, written out point by point."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import CubicStep, LeakyReLU

Activation = CubicStep | LeakyReLU

REALS = st.floats(-3, 3)


def paper_step(x: float) -> float:
    """The activation as [two_timescale] App. C prints it."""
    return min(max(4 * (x + 0.5) ** 3, 0.0), 0.5) + min(max(0.5 - 4 * (0.5 - x) ** 3, 0.0), 0.5)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(z=REALS, slope=st.floats(0, 0.99))
def test_leaky_relu(z: float, slope: float) -> None:
    sigma = LeakyReLU(slope)
    assert sigma(np.array([z]))[0] == (z if z > 0 else slope * z)
    assert sigma.derivative(np.array([z]))[0] == (1.0 if z > 0 else slope)


def test_the_derivative_of_relu_at_zero_is_zero() -> None:
    assert LeakyReLU().derivative(np.array([0.0, -0.0])).tolist() == [0.0, 0.0]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(x=st.floats(-1, 1), sharpness=st.sampled_from([0.01, 0.3, 1.0, 5.0]))
def test_cubic_step_is_the_printed_one(x: float, sharpness: float) -> None:
    assert CubicStep(sharpness)(np.array([x * sharpness]))[0] == pytest.approx(paper_step(x), abs=1e-14)


def test_cubic_step_borders() -> None:
    sigma = CubicStep(0.5)
    z = np.array([-9.0, -0.25, 0.0, 0.25, 9.0])
    np.testing.assert_array_equal(sigma(z), [0.0, 0.0, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(sigma.derivative(z), [0.0, 0.0, 6.0, 0.0, 0.0])
    grid = np.linspace(-0.4, 0.4, 801)
    assert np.all(np.diff(sigma(grid)) >= 0)
    assert 0.001 * sigma.derivative(grid).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("sigma", [LeakyReLU(), LeakyReLU(0.3), CubicStep(0.7)])
def test_derivatives_agree_with_central_differences(sigma: Activation) -> None:
    z = np.random.default_rng(1).uniform(-0.6, 0.6, 500)
    z = z[np.abs(z) > 1e-3]
    h = 1e-5
    measured = (sigma(z + h) - sigma(z - h)) / (2 * h)
    np.testing.assert_allclose(sigma.derivative(z), measured, rtol=0, atol=1e-8)


def test_borders() -> None:
    with pytest.raises(InvalidInputError, match=r"^slope: must lie in \[0, 1\), got -0\.5$"):
        LeakyReLU(-0.5)
    with pytest.raises(InvalidInputError, match=r"^slope: must lie in \[0, 1\), got 1$"):
        LeakyReLU(1)
    with pytest.raises(InvalidInputError, match=r"^sharpness: must be > 0, got 0$"):
        CubicStep(0)
    with pytest.raises(InvalidInputError, match=r"^sharpness: must be finite, got nan$"):
        CubicStep(float("nan"))


@pytest.mark.parametrize("sigma", [LeakyReLU(0.3), CubicStep(0.7)])
def test_activations_are_values(sigma: Activation) -> None:
    assert pickle.loads(pickle.dumps(sigma)) == sigma
    assert copy.deepcopy(sigma) == sigma
    with pytest.raises(AttributeError, match="cannot assign"):
        sigma.slope = 0.1  # type: ignore[union-attr, misc]
