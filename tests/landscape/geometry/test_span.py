"""Few data in many dimensions: what is found in their span is what is found without it."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.landscape import extremal_vectors, neuron_alignment
from shallowflow.landscape.early_alignment.balances import balance
from shallowflow.landscape.early_alignment.extremal import extremal_vectors_of
from shallowflow.landscape.early_alignment.pulls import alignment_constants, pull
from shallowflow.landscape.geometry.cones import cones, span_of


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
