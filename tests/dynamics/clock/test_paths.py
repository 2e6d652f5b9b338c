"""Paths read at any time: against np.interp, against polynomials, against `tr(t)` at the recorded times."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.dynamics.clock.paths import Polynomials, Snapshots
from shallowflow.dynamics.clock.protocol import flatten, unflatten
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import KnotNetwork, ReLUNetwork
from tests.dynamics.examples import EXAMPLE_NETWORKS, PATHS, example_path

SEEDS = st.integers(0, 2**32 - 1)
KNOTS = KnotNetwork([0.1, 0.7], [1.0, -2.0])

every_network = pytest.mark.parametrize("name", EXAMPLE_NETWORKS)
every_path = pytest.mark.parametrize("kind", PATHS)


@every_network
def test_flatten_and_unflatten_are_inverse(name: str) -> None:
    network = EXAMPLE_NETWORKS[name]
    theta = flatten(network)
    assert theta.ndim == 1
    assert unflatten(network, theta) == network
    np.testing.assert_array_equal(flatten(unflatten(network, theta + 1)), theta + 1)


def test_the_order_of_the_numbers_is_that_of_the_parameters() -> None:
    assert flatten(ReLUNetwork([[1, 2], [3, 4]], [5, 6])).tolist() == [1, 2, 3, 4, 5, 6]
    assert flatten(EXAMPLE_NETWORKS["step"]).tolist() == [0.2, 0.5, 1.0, 3.0, 0.25]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(size=st.integers(1, 8), seed=SEEDS)
def test_snapshots_are_linear_between_records(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.1, 1.0, size))
    values = rng.standard_normal((size, 4))
    path = Snapshots(KNOTS, times, values)
    for t in rng.uniform(times[0], times[-1], 10):
        expected = [np.interp(t, times, column) for column in values.T]
        np.testing.assert_allclose(flatten(path(t)), expected, rtol=0, atol=1e-14)
    for t, theta in zip(times, values, strict=True):
        np.testing.assert_array_equal(flatten(path(float(t))), theta)
    np.testing.assert_array_equal(path.recorded(), values)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(nodes=st.integers(2, 9), steps=st.integers(1, 5), seed=SEEDS)
def test_polynomials_reproduce_polynomials(nodes: int, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.1, 0.5, steps + 1)) - 1.0
    coefficients = rng.standard_normal((nodes, 4))
    shares = [(1 - np.cos(np.pi * k / (nodes - 1))) / 2 for k in range(nodes)]
    values = np.array(
        [[np.polyval(coefficients, a + s * (b - a)) for s in shares] for a, b in pairwise(times)]
    )
    path = Polynomials(KNOTS, times, values)
    for t in [*rng.uniform(times[0], times[-1], 10), *times]:
        np.testing.assert_allclose(flatten(path(t)), np.polyval(coefficients, t), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        path.recorded(), [np.polyval(coefficients, t) for t in times], rtol=0, atol=1e-12
    )


def test_polynomials_may_break_between_steps() -> None:
    values = np.array([[[0.0] * 4, [1.0] * 4], [[1.0] * 4, [-3.0] * 4]])
    path = Polynomials(KNOTS, np.array([0.0, 1.0, 3.0]), values)
    for t, expected in [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0), (2.0, -1.0), (3.0, -3.0)]:
        np.testing.assert_allclose(flatten(path(t)), [expected] * 4, rtol=0, atol=1e-15)
    assert path.recorded()[:, 0].tolist() == [0.0, 1.0, -3.0]


@every_network
@every_path
def test_the_ends_are_the_recorded_networks(name: str, kind: str) -> None:
    path = example_path(EXAMPLE_NETWORKS[name], kind)
    recorded = path.recorded()
    assert recorded.shape == (5, flatten(EXAMPLE_NETWORKS[name]).size)
    for t, theta in zip(path.times, recorded, strict=True):
        network = path(float(t))
        assert type(network) is type(EXAMPLE_NETWORKS[name])
        np.testing.assert_array_equal(flatten(network), theta)
        assert all(not values.flags.writeable for values in network.parameters.values())


@every_path
def test_times_out_of_range_are_refused(kind: str) -> None:
    path = example_path(KNOTS, kind)
    first, last = path.times[0], path.times[-1]
    for t in (first - 1e-6, last + 1e-6, -5, 1e9):
        with pytest.raises(InvalidInputError, match=rf"^t: must lie in \[{first:g}, {last:g}\], got "):
            path(t)
    with pytest.raises(InvalidInputError, match=r"^t: must be finite, got nan$"):
        path(np.nan)
    with pytest.raises(InvalidInputError, match=r"^t: must be a number, got '0'$"):
        path("0")  # type: ignore[arg-type]
    assert path(float(last) * (1 + 1e-14)) == path(float(last))


def test_sparse_paths_are_not_interpolated() -> None:
    path = example_path(KNOTS, "sparse")
    between = float(path.times[1] + path.times[2]) / 2
    with pytest.raises(
        InvalidInputError,
        match=rf"^t: networks were recorded at 5 times only, none at {between:g}; run again with networks",
    ):
        path(between)


def test_one_snapshot_is_a_path() -> None:
    path = Snapshots(KNOTS, np.array([2.0]), np.ones((1, 4)))
    assert flatten(path(2.0)).tolist() == [1.0] * 4
    with pytest.raises(InvalidInputError, match=r"^t: must lie in \[2, 2\], got 3$"):
        path(3)


@every_path
def test_paths_are_read_only_values(kind: str) -> None:
    path = example_path(KNOTS, kind)
    for twin in (path, copy.deepcopy(path), pickle.loads(pickle.dumps(path))):
        assert twin == path
        for array in (twin.times, twin.__dict__["values"]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0
    assert path != example_path(KNOTS, kind, seed=1)
    with pytest.raises(AttributeError, match="cannot assign"):
        path.times = path.times  # type: ignore[misc]
    assert len(repr(path)) < 400
