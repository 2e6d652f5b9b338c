"""What is about a ReLU network and data refuses other networks, other data and other dimensions."""

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
