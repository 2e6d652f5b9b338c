"""Active, inactive, resting; and functions of a network and data refuse what they are not about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow import landscape
from shallowflow.landscape.geometry.orthonormal import mask_matrix
from shallowflow.landscape.weak_interaction.group_flow import group_flow

CALLS: list[Callable[..., Any]] = [
    landscape.local_pl,
    landscape.pl_bounds,
    landscape.energies,
    landscape.correctly_activated,
    landscape.extinction_time,
    landscape.merged_neurons,
    mask_matrix,
    group_flow,
]
DATA = sf.Dataset(np.eye(2), [1.0, 2.0])


@pytest.mark.parametrize("call", CALLS)
def test_other_networks_and_data_are_refused(call: Callable[..., Any]) -> None:
    line = sf.Dataset([[1.0], [2.0]], [1.0, 2.0])
    network = sf.ReLUNetwork([[1.0, 0.0]], [2.0])
    with pytest.raises(sf.InvalidInputError, match="network: must be a ReLUNetwork"):
        call(sf.KnotNetwork([0.5], [1.0]), line)
    with pytest.raises(sf.InvalidInputError, match=r"network: must be a ReLUNetwork.*got 'a'"):
        call("a", DATA)
    with pytest.raises(sf.InvalidInputError, match="network's dimension 2, got 1"):
        call(network, line)
    for wrong in ("a", None):
        with pytest.raises(sf.InvalidInputError, match="dataset: must be a Dataset"):
            call(network, wrong)


@pytest.mark.parametrize("wrong", ["a", None, 3])
def test_what_is_about_data_alone_refuses_the_rest(wrong: Any) -> None:
    for call in (landscape.interaction, landscape.min_norm_interpolator):
        with pytest.raises(sf.InvalidInputError, match="dataset: must be a Dataset"):
            call(wrong)
    with pytest.raises(sf.InvalidInputError, match="dataset: must be a Dataset"):
        landscape.sampled_probability(wrong, 3)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8])
def test_what_is_within_rounding_of_zero_rests(scale: float) -> None:
    inputs = np.array([[0.6, 0.8], [-0.8, 0.6], [0.0, 0.0]])
    inner = scale * np.array([[0.8, -0.6], [0.8, -0.6 + 1e-9], [0.8, -0.6 - 1e-14]])
    expected = [[0, -1, 0], [1, -1, 0], [0, -1, 0]]
    for network in (sf.ReLUNetwork(inner, np.ones(3)), sf.LogScaledNetwork(inner, np.ones(3), np.zeros(3))):
        np.testing.assert_array_equal(landscape.activity(network, inputs), expected)


def test_a_knot_rests_on_an_input_and_its_block_leaves_the_point_out() -> None:
    inputs = np.array([-2.0, 0.0, 3.0])
    knots = np.array([3.0 * (1 - 1e-15), -2.0 * (1 + 1e-15), 1e-9, 0.0])
    network = sf.KnotNetwork(knots, np.ones(4))
    found = landscape.activity(network, inputs)
    np.testing.assert_array_equal(found, [[-1, -1, 0], [0, 1, 1], [-1, -1, 1], [-1, 0, 1]])
    seen = landscape.blocks(network, sf.Dataset(inputs[:, None], np.ones(3)))
    np.testing.assert_array_equal(seen.counts, np.bincount(np.sum(found > 0, axis=0), minlength=5))


def test_pairs_handed_down_rest() -> None:
    network = sf.ReLUNetwork(np.ones((2, 2)), np.ones(2))
    found = landscape.activity(network, np.eye(2), resting=(np.array([0, 1]), np.array([1, 1])))
    np.testing.assert_array_equal(found, [[1, 0], [1, 0]])
    assert landscape.local_pl(network, DATA) > landscape.local_pl(
        network, DATA, resting=(np.array([0]), np.array([0]))
    )
    for wrong in ((np.array([0, 2]), np.array([1, 1])), (np.array([0]), np.array([0, 1])), ([0.5], [0.5])):
        with pytest.raises(sf.InvalidInputError, match="resting: "):
            landscape.activity(network, np.eye(2), resting=wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="network: must be a ReLUNetwork, Log"):
        landscape.activity(sf.StepNetwork([0.5], [1.0]), [0.5])
