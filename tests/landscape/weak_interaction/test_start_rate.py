from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.landscape import interaction, local_pl
from shallowflow.landscape.weak_interaction.interactions import largest_bias, start_curvature


@pytest.mark.parametrize(
    "dataset", [orthogonal(12, 16, seed=1), sphere(12, 6, seed=1)], ids=["axes", "sphere"]
)
def test_mean_and_spread_are_those_of_many_starts(dataset: sf.Dataset) -> None:
    """400 starts of width 400: (n/2)μ(0) has mean β₀ + O(1/m) and standard deviation γ₀/√m."""
    width, starts = 400, 400
    found = start_curvature(sf.initialize.asymmetric(20_000, dataset.dimension, seed=9), dataset)
    drawn = np.array(
        [
            0.5 * dataset.size * local_pl(sf.initialize.asymmetric(width, dataset.dimension, seed=s), dataset)
            for s in range(starts)
        ]
    )
    error = found.spread / np.sqrt(width * starts) + found.spread / np.sqrt(20_000)
    assert abs(drawn.mean() - found.mean) < 4 * error + 0.02 * found.mean
    # A standard deviation from 400 draws is known to 1/√800; that of heavier tails to about twice that.
    assert np.sqrt(width) * drawn.std() == pytest.approx(found.spread, rel=0.2)


def test_one_neuron_by_hand() -> None:
    """w = 1, a = ±1 on x = 1, y = 3: E h = 0, M = z² + a² = 2, β₀ = 2; φ = ±(4β₀ − 4·2)/… cancels: γ₀ = 0."""
    found = start_curvature(sf.ReLUNetwork([[1.0], [1.0]], [1.0, -1.0]), sf.Dataset([[1.0]], [3.0]))
    assert found.mean == pytest.approx(2.0)
    assert found.spread == pytest.approx(0.0, abs=1e-12)


def with_constant(dataset: sf.Dataset, constant: float) -> sf.Dataset:
    return sf.Dataset(np.column_stack([dataset.inputs, np.full(dataset.size, constant)]), dataset.targets)


def test_the_largest_bias_is_sharp_on_orthonormal_inputs_and_safe_on_others() -> None:
    base = sf.Dataset(np.eye(6), [1.0, -1.0, 2.0, 1.5, -1.2, 1.0])
    constant = largest_bias(base)
    assert interaction(with_constant(base, 0.999 * constant)).holds
    assert not interaction(with_constant(base, 1.001 * constant)).holds
    rng = np.random.default_rng(3)
    for _ in range(20):
        near = sf.Dataset(np.eye(6) + 0.01 * rng.standard_normal((6, 6)), base.targets)
        assert largest_bias(near) > 0
        assert interaction(with_constant(near, 0.999 * largest_bias(near))).holds
    assert largest_bias(sphere(12, 6)) == 0.0
    assert largest_bias(sf.Dataset([[1.0]], [1.0])) == np.inf


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(sf.InvalidInputError, match=r"Lemma 4 is about the ReLU, got slope 0\.1"):
        start_curvature(sf.ReLUNetwork([[1.0]], [1.0], slope=0.1), sf.Dataset([[1.0]], [1.0]))
    with pytest.raises(sf.InvalidInputError, match="must not fit the labels"):
        start_curvature(sf.ReLUNetwork([[1.0]], [1.0]), sf.Dataset([[1.0]], [1.0]))
