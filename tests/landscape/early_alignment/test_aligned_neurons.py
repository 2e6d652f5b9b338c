"""Neurons against the pull of the data, one by one, and merged against the function of the network."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow import landscape
from shallowflow.data.generators import GENERATORS, stewart, three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import extremal_vectors, merged_neurons, minimal_subgradient, neuron_alignment
from shallowflow.landscape.early_alignment.extremal import (
    KINDS,
    NOT_EXTREMAL,
    STILL,
    largest_misalignments,
    mean_turn,
)
from tests.rounding import EPSILON


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_every_neuron_is_compared_with_its_own_pull(slope: float) -> None:
    data = stewart(12, seed=1)
    network = sf.initialize.gaussian(50, 2, init_scale=1.0, slope=slope, seed=2)
    found = neuron_alignment(network, data)
    extremal = {tuple(v.pattern.tolist()): v.kind for v in extremal_vectors(data, slope=slope)}
    for j, (w, a) in enumerate(zip(network.inner, network.outer, strict=True)):
        pulled = minimal_subgradient(w, data, slope=slope)
        assert found.norms[j] == pytest.approx(np.linalg.norm(pulled), abs=10 * EPSILON)
        assert found.alignments[j] == pytest.approx(pulled @ w / a, rel=1e-12, abs=10 * EPSILON)
        if pulled.any():
            cosine = np.sign(a) * pulled @ w / np.linalg.norm(pulled) / np.linalg.norm(w)
            assert found.cosines[j] == pytest.approx(cosine, abs=1e-14)
        kind = extremal.get(tuple(np.sign(data.inputs @ w).astype(int).tolist()))
        expected = STILL if not pulled.any() else NOT_EXTREMAL if kind is None else KINDS.index(kind)
        assert found.states[j] == expected


def test_aligned_opposed_dead_and_zero_neurons() -> None:
    data = three_points()
    (only,) = extremal_vectors(data)
    w = only.direction
    network = sf.ReLUNetwork([w, w, -w, 0 * w, 0.5 * w], [1.0, -1.0, 1.0, 1.0, 1.0])
    found = neuron_alignment(network, data)
    np.testing.assert_allclose(found.misalignments[:3], [0.0, 2 * only.norm, 0.0], atol=1e-15)
    assert found.misalignments[4] == pytest.approx(only.norm / 2)
    assert found.opposed().tolist() == [False, True, False, False, False]
    assert found.of_kind("maximum").tolist() == [True, True, False, False, True]
    assert found.states.tolist()[2:4] == [STILL, STILL]


def test_misalignments_are_the_largest_of_the_neurons_that_may_align() -> None:
    """Two orthonormal points: D = (½, ½) if both are active, and its length is √½.

    The third neuron starts opposed to D and is not of Condition 1; the fourth is dead; the fifth is active on
    the second point only, where the pull (0, ½) is not extremal.
    """
    data = sf.Dataset(np.eye(2), [1.0, 1.0])
    inner = np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, 3.0]])
    last = neuron_alignment(sf.ReLUNetwork(inner, [2.0, 3.0, 2.0, 1.0, 4.0]), data)
    first = neuron_alignment(sf.ReLUNetwork(inner, [2.0, 3.0, -1.5, 1.0, 4.0]), data)
    (error, absent), elsewhere = largest_misalignments(first, last, np.array([np.sqrt(0.5), 3.0]), 0.5)
    assert error == pytest.approx(np.sqrt(0.5) - 0.5)
    assert np.isnan(absent)
    assert elsewhere == 1


def test_the_turn_is_the_angle_of_the_mean_directions() -> None:
    before = sf.ReLUNetwork([[1.0, 0.0], [0.0, 5.0]], [2.0, -1.0])
    after = sf.ReLUNetwork([[1.0, 2.0], [1.0, 0.0]], [1.0, 1.0])
    assert mean_turn(before, after) == pytest.approx(np.pi / 4)
    assert mean_turn(before, before) == 0.0


def test_the_exponent_is_epsilon_at_the_longest_pull_and_in_proportion_elsewhere() -> None:
    found = sf.landscape.alignment_threshold(three_points(), epsilon=0.2)
    assert found.exponent(found.d_max) == pytest.approx(0.2)
    assert found.exponent(0.5 * found.d_max) == pytest.approx(0.1)


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


def test_the_time_of_alignment_is_that_of_its_equation() -> None:
    from scipy.integrate import solve_ivp

    norm, start, end = 1.7, -1.6, 1.5
    time = landscape.alignment_time(norm, start, end)
    run = solve_ivp(lambda _, f: norm**2 - f**2, (0.0, time), [start], rtol=1e-10, atol=1e-12)
    assert run.y[0, -1] == pytest.approx(end, rel=1e-7)


def test_vectors_with_negative_value_are_opposed() -> None:
    found = landscape.extremal_vectors(GENERATORS["sphere"](3, 2, seed=5))
    assert {vector.opposed for vector in found} == {True, False}
    for vector in found:
        np.testing.assert_allclose(
            vector.vector, (-1 if vector.opposed else 1) * vector.norm * vector.direction
        )
