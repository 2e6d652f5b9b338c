"""The Chebyshev–Lobatto nodes and their Lagrange polynomials."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.dynamics.clock.paths import integration_matrix, lobatto_nodes, lobatto_weights


@settings(deadline=None, derandomize=True, max_examples=80)
@given(count=st.integers(2, 20), share=st.floats(0, 1))
def test_lobatto_weights_are_the_lagrange_polynomials(count: int, share: float) -> None:
    nodes = lobatto_nodes(count)
    assert (nodes[0], nodes[-1]) == (0.0, 1.0)
    assert np.all(np.diff(nodes) > 0)
    np.testing.assert_allclose(nodes + nodes[::-1], np.ones(count), atol=1e-15)
    weights = lobatto_weights(share, count)
    lagrange = [
        np.prod([(share - nodes[j]) / (nodes[i] - nodes[j]) for j in range(count) if j != i])
        for i in range(count)
    ]
    np.testing.assert_allclose(weights, lagrange, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(lobatto_weights(float(nodes[count // 2]), count), np.eye(count)[count // 2])


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    count=st.integers(2, 20),
    node=st.integers(0, 19),
    power=st.integers(-17, -3),
    side=st.sampled_from([-1, 1]),
)
def test_lobatto_weights_are_stable_beside_a_node(count: int, node: int, power: int, side: int) -> None:
    nodes = lobatto_nodes(count)
    share = float(np.clip(nodes[node % count] + side * 10.0**power, 0, 1))
    assert lobatto_weights(share, count) @ nodes == pytest.approx(share, abs=1e-14)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(count=st.integers(2, 16), seed=st.integers(0, 10_000))
def test_the_integration_matrix_integrates_polynomials(count: int, seed: int) -> None:
    polynomial = np.polynomial.Polynomial(np.random.default_rng(seed).standard_normal(count))
    nodes, whole = lobatto_nodes(count), polynomial.integ()
    found = integration_matrix(count) @ polynomial(nodes)
    np.testing.assert_allclose(found, whole(nodes) - whole(0.0), rtol=0, atol=1e-11)
