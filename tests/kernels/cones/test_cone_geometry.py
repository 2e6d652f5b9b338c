"""Cones of the plane against the signs of inner products, in exact integers where ties matter."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Bools, Floats
from shallowflow.kernels.cones.geometry import STRAY, arrange, cone_of, first_cone

COORDINATE = st.integers(-4, 4)
VECTOR = st.tuples(COORDINATE, COORDINATE)


def pattern_of_cone(cone: int, inputs: Floats) -> Bools:
    """Which inputs a cone sees, by the walls at which they enter: those up to half a turn before it."""
    walls, samples = arrange(inputs, np.arange(float(len(inputs))))
    cones = walls.owners.size - 1
    seen = (cone - samples.walls) % cones < cones // 2
    active = np.zeros(len(inputs), dtype=bool)
    active[samples.targets.astype(int)] = seen
    return active


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(VECTOR, min_size=1, max_size=8), VECTOR, st.integers(0, 15))
def test_a_neuron_gets_the_cone_with_its_pattern(
    vectors: list[tuple[int, int]], w: tuple[int, int], start: int
) -> None:
    inputs = np.array(vectors, dtype=float)
    walls, _ = arrange(inputs, np.zeros(len(inputs)))
    cones = walls.owners.size - 1
    if cones == 0:
        assert not inputs.any()
        return
    products = inputs @ np.array(w, dtype=float)
    cone = first_cone(float(w[0]), float(w[1]), walls)
    assert cone_of(float(w[0]), float(w[1]), start % cones, walls) == cone
    if cone == STRAY:
        # Only where inputs in opposite directions are both at right angles to w, or w = 0.
        assert not any(w) or any(
            np.array_equal(np.sign(x), -np.sign(y))
            for x in inputs[(products == 0) & inputs.any(axis=1)]
            for y in inputs[(products == 0) & inputs.any(axis=1)]
        )
    else:
        np.testing.assert_array_equal(pattern_of_cone(cone, inputs), products > 0)


def test_every_cone_of_random_data_is_found_by_its_pattern() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 10, 40):
        inputs = rng.standard_normal((size, 2))
        walls, samples = arrange(inputs, np.zeros(size))
        assert walls.owners.size - 1 == 2 * size
        assert samples.points.shape == (size, 2)
        for angle in np.linspace(0, 2 * np.pi, 50, endpoint=False):
            w = np.array([np.cos(angle), np.sin(angle)])
            cone = first_cone(w[0], w[1], walls)
            np.testing.assert_array_equal(pattern_of_cone(cone, inputs), inputs @ w > 0)


def test_inputs_on_one_line_up_to_rounding_share_their_walls() -> None:
    direction = np.array([0.1, 0.3])
    inputs = np.stack([direction, 3.0 * direction, -7.0 * direction, [-1.0, 1e-17], [1.0, 0.0], [0.0, 0.0]])
    walls, samples = arrange(inputs, np.arange(6.0))
    assert walls.owners.size - 1 == 4
    wall = dict(zip(samples.targets.astype(int), samples.walls, strict=True))
    assert wall[0] == wall[1] == (wall[2] + 2) % 4
    assert wall[4] == (wall[3] + 2) % 4
    assert 5 not in wall
