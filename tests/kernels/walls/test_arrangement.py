"""Walls of special inputs, coordinates in their span, signs in words, and the nodes of a step."""

from __future__ import annotations

import numpy as np

from shallowflow.kernels.walls.field import arrange, basis_of
from shallowflow.kernels.walls.step import pack, radau_nodes, unpack


def test_inputs_on_one_line_share_a_wall() -> None:
    inputs = np.array([[1.0, 2.0], [0.0, 0.0], [-2.0, -4.0], [1.0, 2.0], [3.0, -1.0]])
    normals, samples, kept = arrange(inputs, np.arange(5.0))
    assert kept.tolist() == [0, 2, 3, 4]
    assert samples.walls.tolist() == [0, 0, 0, 1]
    found = (samples.sides * samples.lengths)[:, None] * normals[samples.walls]
    np.testing.assert_allclose(found, inputs[kept], rtol=1e-15)


def test_the_basis_spans_the_normals_and_is_theirs_if_they_are_orthogonal() -> None:
    rng = np.random.default_rng(0)
    orthogonal = np.linalg.qr(rng.normal(size=(5, 3)))[0].T
    basis, aligned = basis_of(orthogonal)
    assert aligned
    np.testing.assert_array_equal(basis, orthogonal.T)
    few = rng.normal(size=(2, 5))
    few = np.vstack([few, few.sum(axis=0)])
    basis, aligned = basis_of(few / np.linalg.norm(few, axis=1)[:, None])
    assert (basis.shape, aligned) == ((5, 2), False)
    np.testing.assert_allclose(few @ basis @ basis.T, few, atol=1e-14)


def test_signs_come_back_from_words() -> None:
    signs = np.random.default_rng(0).integers(-1, 2, (4, 70))
    assert pack(signs).shape == (4, 3)
    np.testing.assert_array_equal(unpack(pack(signs), 70), signs)


def test_radau_nodes_integrate_polynomials_of_degree_ten() -> None:
    nodes = radau_nodes(6)
    weights = np.linalg.solve(np.vander(nodes, increasing=True).T, 1.0 / np.arange(1, 7))
    for power in range(11):
        np.testing.assert_allclose(weights @ nodes**power, 1.0 / (power + 1), rtol=1e-12)
