from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.landscape.incremental import (
    HALVING_RATIO,
    min_norm_interpolator,
    min_squared_norm,
    norm_constant,
    squared_norm,
)


@pytest.mark.parametrize("labels", ["gaussian", "positive"])
def test_it_interpolates_with_the_norm_of_the_paper(labels: str) -> None:
    data = sf.data.GENERATORS["orthonormal"](9, 12, labels=labels, seed=1)
    network = min_norm_interpolator(data)
    np.testing.assert_allclose(network(data.inputs), data.targets, atol=1e-13)
    assert squared_norm(network) == pytest.approx(min_squared_norm(data.targets), rel=1e-13)
    assert network.width == (2 if labels == "gaussian" else 1)


def test_no_interpolator_found_by_optimisation_is_smaller() -> None:
    """Four neurons, penalised least squares from random starts: at interpolation none beats the formula."""
    targets = np.array([1.0, 2.0, -1.5])
    best = np.inf

    def objective(theta: Floats) -> tuple[float, Floats]:
        w, a = theta[:12].reshape(4, 3), theta[12:]
        residual = a @ np.maximum(w, 0.0) - targets
        slopes = [(a[:, None] * (w > 0) * residual).ravel(), np.maximum(w, 0.0) @ residual]
        return float(1e4 * residual @ residual + theta @ theta), 2e4 * np.concatenate(slopes) + 2 * theta

    for seed in range(6):
        found = minimize(
            objective, np.random.default_rng(seed).standard_normal(16), jac=True, method="L-BFGS-B"
        )
        best = min(best, float(found.fun))
    bound = min_squared_norm(targets)
    assert best >= bound * (1 - 1e-3)
    assert best <= bound * (1 + 1e-2)


def test_norms_of_scaled_networks_and_constants() -> None:
    network = sf.LogScaledNetwork([[3.0, 4.0]], [2.0], [np.log(0.1)])
    assert squared_norm(network) == pytest.approx(0.29)
    assert norm_constant(12.0, [3.0, -1.0, 1.0, 1.0]) == pytest.approx(2.0)
    terms = [2.0 ** (-(k + 1) / 2) for k in range(200)]
    assert pytest.approx(sum(terms)) == HALVING_RATIO


def test_zero_labels_need_no_neuron_and_other_inputs_are_refused() -> None:
    assert not min_norm_interpolator(sf.Dataset(np.eye(2), [0.0, 0.0])).outer.any()
    with pytest.raises(sf.InvalidInputError, match="min_norm_interpolator needs orthogonal inputs"):
        min_norm_interpolator(sf.Dataset([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.0]))
    with pytest.raises(sf.InvalidInputError, match="an input 0 with a label that is not 0"):
        min_norm_interpolator(sf.Dataset([[1.0, 0.0], [0.0, 0.0]], [1.0, 1.0]))


def test_inputs_of_any_norm_have_a_least_interpolator() -> None:
    """Scaling x by ν is scaling y by 1/ν: the same neuron does."""
    norms, targets = np.array([0.5, 2.0, 3.0]), np.array([1.0, 2.0, -3.0])
    network = min_norm_interpolator(sf.Dataset(np.diag(norms), targets))
    unit = min_norm_interpolator(sf.Dataset(np.eye(3), targets / norms))
    np.testing.assert_allclose(network(np.diag(norms)), targets, rtol=1e-14)
    np.testing.assert_allclose(network.inner, unit.inner, rtol=1e-14)
    assert squared_norm(network) == pytest.approx(min_squared_norm(targets, norms), rel=1e-13)


def test_what_has_no_norm_or_constant_is_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="targets: must not all be zero"):
        norm_constant(1.0, [0.0, 0.0])
    for wrong in ("a", None, sf.KnotNetwork([0.5], [1.0])):
        with pytest.raises(sf.InvalidInputError, match="network: must be a ReLUNetwork or LogScaledNetwork"):
            squared_norm(wrong)  # type: ignore[arg-type]
