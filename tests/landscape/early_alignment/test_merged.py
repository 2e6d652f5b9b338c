"""Merged neurons against the function of the network itself."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import merged_neurons


def test_groups_make_up_the_function_and_small_or_dead_neurons_are_left_out() -> None:
    rng = np.random.default_rng(0)
    directions = np.array([[1.0, 2.0], [-2.0, 1.0], [0.5, -3.0]])
    which = np.repeat([0, 1], 20)
    lengths, outer = rng.uniform(0.5, 2.0, 40), rng.standard_normal(40)
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    inner = lengths[:, None] * units[which]
    dead, tiny = [[0.0, -5.0]], [[1e-4, 1e-4]]
    network = sf.ReLUNetwork(np.vstack([inner, dead, tiny]), np.append(outer, [3.0, 1e-3]))
    found = merged_neurons(network, three_points())
    assert len(found) == 2
    assert sorted(found.counts.tolist()) == [20, 20]
    sums = {k: float(np.sum(outer[which == k] * lengths[which == k])) for k in (0, 1)}
    np.testing.assert_allclose(sorted(found.weights), sorted(sums.values()), rtol=1e-12)
    assert abs(found.weights[0]) >= abs(found.weights[1])
    rebuilt = sf.ReLUNetwork(found.directions, found.weights)
    x = three_points().inputs
    np.testing.assert_allclose(rebuilt(x), network(x), atol=1e-6)


def test_directions_farther_apart_than_the_tolerance_stay_apart() -> None:
    angles = np.array([1.0, 1.005, 1.05])
    network = sf.ReLUNetwork(np.column_stack([np.cos(angles), np.sin(angles)]), [1.0, 1.1, 1.2])
    assert len(merged_neurons(network, three_points())) == 2
    assert len(merged_neurons(network, three_points(), tolerance=0.1)) == 1
    assert len(merged_neurons(network, three_points(), tolerance=1e-3)) == 3


def test_cancelling_neurons_and_other_networks() -> None:
    cancelling = sf.ReLUNetwork([[1.0, 1.0], [1.0, 1.0]], [1.0, -1.0])
    assert len(merged_neurons(cancelling, three_points())) == 0
    with pytest.raises(InvalidInputError, match="ReLUNetwork"):
        merged_neurons(sf.KnotNetwork([0.0], [1.0]), three_points())  # type: ignore[arg-type]
