"""The faces of the arrangement against linear programs, Cover's count and the plane's own geometry; few data
in many dimensions: what is found in their span is what is found without it.
"""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy.optimize import linprog

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import cell_bound, extremal_vectors, face_bound, neuron_alignment
from shallowflow.landscape.early_alignment.ends import balance
from shallowflow.landscape.early_alignment.extremal import extremal_vectors_of
from shallowflow.landscape.early_alignment.pulls import alignment_constants, pull
from shallowflow.landscape.geometry.cones import (
    Cones,
    _by_angle,
    _by_rays,
    _hyperplanes,
    _representatives,
    cones,
    faces_of,
    rays_and_patterns,
    rays_of,
    span_of,
)


def test_the_plane_by_angle_agrees_with_the_general_method() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        units = rng.integers(-3, 4, (9, 2)).astype(np.float64)
        units = units[units.any(axis=1)]
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        normals = _representatives(units, _hyperplanes(units)[0])
        by_angle, by_rays = _by_angle(normals), _by_rays(normals)
        ordered = [{tuple(row) for row in faces.patterns.tolist()} for faces in (by_angle, by_rays)]
        assert ordered[0] == ordered[1]
        assert len(by_angle.patterns) == len(by_rays.patterns) == 4 * len(normals)


def test_coordinate_planes_have_every_sign_pattern_as_a_face() -> None:
    found = faces_of(np.eye(3))
    assert len(np.unique(found.patterns, axis=0)) == len(found.patterns) == 3**3 - 1
    np.testing.assert_array_equal(found.dimensions, np.sum(found.patterns != 0, axis=1))
    rays, patterns = rays_and_patterns(np.eye(3))
    np.testing.assert_allclose(rays, patterns, atol=1e-15)


DEGENERATE = {
    "coincident, antipodal and zero": [[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0]],
    "one line of inputs in the plane": [[1.0, 2.0], [-2.0, -4.0]],
    "three normals in a plane of space": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]],
    "six normals of a cube's diagonals": [
        [1, 1, 0],
        [1, -1, 0],
        [1, 0, 1],
        [1, 0, -1],
        [0, 1, 1],
        [0, 1, -1],
    ],
    "a plane of inputs in space": [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]],
    "fewer inputs than dimensions": [[1.0, 2.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]],
    "the line": [[2.0], [-1.0], [0.0]],
    "nothing but zeros": [[0.0, 0.0], [0.0, 0.0]],
}


def dataset(inputs: Floats) -> Dataset:
    return Dataset(inputs, np.ones(len(inputs)))


def exists(inputs: Floats, signs: tuple[int, ...]) -> bool:
    """Whether some w has these signs, by a linear program: s⟨w, x⟩ ≥ 1, or ⟨w, x⟩ = 0 where s = 0."""
    rows, s = inputs[: len(signs)], np.array(signs)
    upper = (
        (-s[s != 0, None] * rows[s != 0], -np.ones(int(np.sum(s != 0)))) if np.any(s != 0) else (None, None)
    )
    equal = (rows[s == 0], np.zeros(int(np.sum(s == 0)))) if np.any(s == 0) else (None, None)
    zero = np.zeros(inputs.shape[1])
    return bool(linprog(zero, *upper, *equal, bounds=(None, None), method="highs").status == 0)


def patterns_by_programs(inputs: Floats) -> set[tuple[int, ...]]:
    """All sign patterns of w ≠ 0, one hyperplane after the other."""
    found: list[tuple[int, ...]] = [()]
    for _ in inputs:
        found = [signs for old in found for s in (-1, 0, 1) if exists(inputs, signs := (*old, s))]
    spans = np.linalg.matrix_rank(inputs) == inputs.shape[1]
    return {signs for signs in found if any(signs) or not spans}


def patterns(found: Cones) -> list[tuple[int, ...]]:
    return [tuple(int(s) for s in row) for row in found.patterns]


def check_geometry(found: Cones, inputs: Floats) -> None:
    """The representative lies in its face, and generators are in the closure and span the right dimension."""
    scale = np.linalg.norm(inputs, axis=1)
    for cone in found:
        values = inputs @ cone.direction
        np.testing.assert_array_equal(
            np.where(np.abs(values) <= 1e-9 * scale, 0, np.sign(values)), cone.pattern
        )
        on_rays = cone.rays @ inputs.T
        np.testing.assert_array_less(-1e-9, (cone.pattern * on_rays).ravel())
        np.testing.assert_allclose(on_rays[:, cone.pattern == 0], 0.0, atol=1e-9)
        rank = np.linalg.matrix_rank(inputs[cone.pattern == 0]) if np.any(cone.pattern == 0) else 0
        assert cone.dimension == inputs.shape[1] - rank
        generated = np.linalg.matrix_rank(cone.rays) if len(cone.rays) else 0
        assert generated == cone.dimension - found.lineality


@pytest.mark.parametrize(("size", "dimension"), [(5, 2), (4, 3), (3, 4), (5, 3)])
def test_random_arrangements_have_the_faces_that_linear_programs_find(size: int, dimension: int) -> None:
    inputs = np.random.default_rng(size).standard_normal((size, dimension))
    found = cones(dataset(inputs))
    assert len(set(patterns(found))) == len(found)
    assert set(patterns(found)) == patterns_by_programs(inputs)
    check_geometry(found, inputs)
    assert found.general


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_arrangements_have_the_faces_that_linear_programs_find(name: str) -> None:
    inputs = np.array(DEGENERATE[name], dtype=np.float64)
    found = cones(dataset(inputs))
    assert len(set(patterns(found))) == len(found)
    assert set(patterns(found)) == patterns_by_programs(inputs)
    check_geometry(found, inputs)
    assert found.general == (name == "fewer inputs than dimensions")


@pytest.mark.parametrize(
    ("size", "dimension"), [(1, 1), (7, 2), (30, 2), (6, 3), (20, 3), (9, 4), (8, 5), (4, 7)]
)
def test_general_position_has_as_many_cells_as_cover_says(size: int, dimension: int) -> None:
    inputs = np.random.default_rng(0).standard_normal((size, dimension))
    found, rank = cones(dataset(inputs)), min(size, dimension)
    assert found.cells == 2 * sum(comb(size - 1, i) for i in range(rank)) == cell_bound(size, rank)
    assert len(found) - (dimension > size) == face_bound(size, rank)
    # Euler's relation of the sphere, cut by the arrangement, when the inputs span the space.
    counts = np.bincount(found.dimensions, minlength=dimension + 1)[1:]
    if size >= dimension:
        assert sum((-1) ** k * int(c) for k, c in enumerate(counts)) == 1 + (-1) ** (dimension - 1)


def test_rays_alone_are_the_rays_of_all_faces() -> None:
    inputs = np.array(DEGENERATE["six normals of a cube's diagonals"], dtype=np.float64)
    found, alone = cones(dataset(inputs)), rays_of(inputs)
    assert len(alone) == int(np.sum(found.dimensions == 1)) == len(found.rays)
    np.testing.assert_allclose(np.sort(alone @ found.rays.T, axis=1)[:, -1], 1.0, rtol=1e-12)


def test_too_many_faces_are_refused_with_the_count() -> None:
    inputs = np.random.default_rng(0).standard_normal((30, 4))
    bound = sum(comb(30, 4 - k) * 2 * sum(comb(29 - 4 + k, i) for i in range(k)) for k in range(1, 5))
    with pytest.raises(InvalidInputError, match=rf"{bound} activation cones .*[(]{cell_bound(30, 4)} cells"):
        cones(dataset(inputs))
    with pytest.raises(InvalidInputError, match="limit: must be >= 1"):
        cones(dataset(inputs), limit=0)


def test_faces_are_read_like_a_sequence() -> None:
    found = cones(dataset(np.eye(2)))
    assert len(list(found)) == len(found) == 8
    assert found[-1] == list(found)[7]
    with pytest.raises(IndexError):
        found[8]
    assert not found[0].pattern.flags.writeable


def few_in_many(size: int = 4, dimension: int = 9) -> sf.Dataset:
    rng = np.random.default_rng(5)
    return sf.Dataset(rng.standard_normal((size, dimension)), rng.choice([-1.0, 1.0], size), "few")


def test_inner_products_and_norms_stay() -> None:
    data = few_in_many()
    space = span_of(data)
    assert space.dataset.inputs.shape == (4, 5)
    assert space.dataset.inputs @ space.dataset.inputs.T == pytest.approx(data.inputs @ data.inputs.T)
    network = sf.initialize.gaussian(30, 9, init_scale=1.0, seed=1)
    inside = space.network(network)
    assert inside.preactivations(space.dataset.inputs) == pytest.approx(network.preactivations(data.inputs))
    assert balance(inside).values == pytest.approx(balance(network).values)
    found, direct = neuron_alignment(inside, space.dataset), neuron_alignment(network, data)
    assert found.cosines == pytest.approx(direct.cosines)
    assert np.array_equal(found.states, direct.states)


def test_extremal_vectors_and_constants_are_those_of_all_coordinates() -> None:
    """The kinds too: a face that is a ray in the span is none in R^d."""
    data = few_in_many()
    found, arrangement = pull(data), cones(data)
    shortest = found.minimal_all(arrangement.patterns)
    direct = extremal_vectors_of(found, arrangement, shortest)
    quick = extremal_vectors(data)
    assert quick.complete
    assert len(quick) == len(direct) > 2
    for one, other in zip(quick, direct, strict=True):
        assert (one.kind, one.pattern.tolist()) == (other.kind, other.pattern.tolist())
        assert one.direction == pytest.approx(other.direction, abs=1e-10)
        assert one.vector == pytest.approx(other.vector, abs=1e-10)
    constants = alignment_constants(found, arrangement, shortest).threshold(0.25, 0.1)
    threshold = sf.landscape.alignment_threshold(data)
    for name in ("scale", "d_max", "d_min", "alpha_plus", "alpha_minus", "delta_0", "log_constant"):
        assert getattr(threshold, name) == pytest.approx(getattr(constants, name), rel=1e-7), name


def test_data_that_fill_their_space_are_left_alone() -> None:
    data = few_in_many(4, 5)
    space = span_of(data)
    assert space.dataset is data
    network = sf.initialize.balanced(3, 5, init_scale=1.0, seed=0)
    assert space.network(network) is network


def test_a_search_is_lifted_too() -> None:
    data = few_in_many()
    found = extremal_vectors(data, starts=10)
    assert not found.complete
    known = {vector.pattern.tobytes(): vector for vector in extremal_vectors(data)}
    assert len(found) >= 2
    for vector in found:
        assert vector.direction.shape == (9,)
        assert vector.direction == pytest.approx(known[vector.pattern.tobytes()].direction, abs=1e-9)
