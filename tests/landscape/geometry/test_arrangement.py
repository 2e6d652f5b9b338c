"""The two enumerations of faces agree; `test_cones` compares them with sampled patterns."""

from __future__ import annotations

import numpy as np

from shallowflow.landscape.geometry.cones import (
    _by_angle,
    _by_rays,
    _hyperplanes,
    _representatives,
    faces_of,
    rays_and_patterns,
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
