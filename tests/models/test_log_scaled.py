from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from tests.rounding import assert_rounded


def example(log_scale: float = -1.3) -> sf.LogScaledNetwork:
    rng = np.random.default_rng(4)
    return sf.LogScaledNetwork(rng.standard_normal((5, 3)), rng.standard_normal(5), log_scale + rng.random(5))


def test_it_is_the_plain_network_of_its_weights() -> None:
    network, x = example(), np.random.default_rng(0).standard_normal((7, 3))
    factors = np.exp(network.log_scales)
    plain = sf.ReLUNetwork(factors[:, None] * network.inner, factors * network.outer)
    assert network.to_relu() == plain
    assert_rounded(network(x), plain(x), 5 + 3, size=float(np.max(np.abs(plain.outer)) * np.abs(x).sum()))
    assert_rounded(network.log_norms, np.log(np.linalg.norm(plain.inner, axis=1)), 10)
    assert network.acceleration == pytest.approx(-np.log(np.abs(plain.outer).max()))
    assert_rounded(network.tangent_kernel(x, 0.5), plain.tangent_kernel(x, 0.5), 10 * 5 * 3)


def test_its_pullback_is_the_plain_one_over_the_scales() -> None:
    network, rng = example(), np.random.default_rng(1)
    x, covector = rng.standard_normal((7, 3)), rng.standard_normal(7)
    factors, plain = np.exp(network.log_scales), network.to_relu().pullback(x, covector)
    found = network.pullback(x, covector)
    assert_rounded(factors[:, None] * found["inner"], plain["inner"], 10 * 7)
    assert_rounded(factors * found["outer"], plain["outer"], 10 * 7)
    assert not found["log_scales"].any()


def test_rescaling_changes_nothing_but_the_scales() -> None:
    network = sf.LogScaledNetwork([[3.0, 4.0], [0.1, 0.2], [1.0, 1.0]], [-8.0, 0.25, 1.5], [-5.0, 2.0, 0.0])
    again = network.rescaled()
    np.testing.assert_array_equal(again.outer, [-1.0, 1.0, 1.5])
    np.testing.assert_allclose(again.log_scales, [-5.0 + np.log(8.0), 2.0 - np.log(4.0), 0.0], rtol=1e-14)
    np.testing.assert_allclose(again.to_relu().inner, network.to_relu().inner, rtol=1e-14)
    assert again.rescaled() is again


def test_a_scale_beyond_floating_point_is_no_trouble() -> None:
    network = sf.initialize.log_scaled(4, 6, log_scale=-1000 * np.log(10.0), seed=0)
    np.testing.assert_allclose(np.linalg.norm(network.inner, axis=1), 1.0, rtol=1e-14)
    assert set(np.abs(network.outer)) == {1.0}
    np.testing.assert_allclose(network.log_norms, -2302.585092994046, rtol=1e-14)
    assert not network(np.eye(6)).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], [1.0], [0.0, 0.0]), "outer, log_scales: must have equal lengths"),
        (([[1.0]], [1.0, 2.0], [0.0]), "inner, outer: must have equal lengths"),
        (([[1.0]], [1.0], [-np.inf]), "log_scales: entries must be finite"),
    ],
)
def test_wrong_shapes_and_values_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(sf.InvalidInputError, match=message):
        sf.LogScaledNetwork(*arguments)  # type: ignore[arg-type]


def test_only_verbs_that_know_scales_take_it() -> None:
    data = sf.Dataset(np.eye(3), np.ones(3))
    with pytest.raises(sf.InvalidInputError, match="to_relu"):
        sf.adam(example(), data, steps=3)
    with pytest.raises(sf.InvalidInputError, match="to_relu"):
        sf.least_squares_outer(example(), data)
