from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.floors import blocks
from shallowflow.models.networks import KnotNetwork, ReLUNetwork
from tests.rounding import assert_rounded, least_squares_size


def problem(seed: int) -> tuple[KnotNetwork, Dataset]:
    """Unsorted data with repeated x; equal knots, knots on data, dead knots, knots left of all data."""
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(1, 25)), int(rng.integers(1, 9))
    x = rng.choice(np.linspace(-1, 1, 9), size) if seed % 2 else rng.uniform(-1, 1, size)
    knots = rng.uniform(-1.5, 1.5, width)
    if width > 2:
        knots[1] = knots[0]
        knots[2] = x[0]
    return KnotNetwork(knots, rng.standard_normal(width)), Dataset(x[:, None], rng.standard_normal(size))


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000))
def test_blocks_are_the_points_that_activate_l_neurons(seed: int) -> None:
    network, dataset = problem(seed)
    found = blocks(network, dataset)
    x, y = dataset.inputs[:, 0], dataset.targets
    active = np.sum(x[:, None] > network.knots, axis=1)
    assert list(found.counts) == [int(np.sum(active == level)) for level in range(network.width + 1)]
    for level in range(network.width + 1):
        members = np.flatnonzero(active == level)
        assert sorted(found.members(level)) == list(members)
        if not len(members):
            assert np.isnan(found.means[level])
            assert np.isnan(found.slopes[level])
            assert found.residual_squares[level] == 0
            continue
        xs, ys = x[members], y[members]
        assert found.means[level] == pytest.approx(xs.mean(), abs=1e-14)
        assert found.target_means[level] == pytest.approx(ys.mean(), abs=1e-14)
        assert found.sigmas[level] == pytest.approx(xs.std(), abs=1e-14)
        assert found.s_xy[level] == pytest.approx(np.sum((xs - xs.mean()) * (ys - ys.mean())), abs=1e-13)
        assert found.s_yy[level] == pytest.approx(np.sum((ys - ys.mean()) ** 2), abs=1e-13)
        columns = np.stack([xs, np.ones_like(xs)], axis=1)
        least, *_ = np.linalg.lstsq(columns, ys, rcond=1e-13)  # of least norm where xs are all equal
        size = least_squares_size(columns, least, ys, 1e-13)  # large: a block may be very narrow
        assert_rounded([found.slopes[level], found.intercepts[level]], least, len(xs) + 10, size=size)
        assert found.residual_squares[level] == pytest.approx(np.sum((ys - columns @ least) ** 2), abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10_000))
def test_residuals_rank_and_dead_neurons(seed: int) -> None:
    network, dataset = problem(seed)
    found = blocks(network, dataset)
    x = dataset.inputs[:, 0]
    expected = network.predict(dataset.inputs) - dataset.targets
    np.testing.assert_allclose(found.residuals, expected[found.data_order], atol=1e-13)
    gates = x[:, None] > network.knots
    span = np.hstack([gates, gates * (x[:, None] - network.knots)])
    assert found.rank == np.linalg.matrix_rank(span, tol=1e-10)
    assert list(found.dead) == [bool(knot >= x.max()) for knot in network.knots]
    np.testing.assert_array_equal(network.knots[found.order], np.sort(network.knots))


def test_statistics_keep_their_digits_far_from_the_origin() -> None:
    rng = np.random.default_rng(3)
    x, y = 1e7 + 1e-3 * rng.random(40), -1e6 + 1e-2 * rng.random(40)
    found = blocks(KnotNetwork([1e7 + 4e-4], [1.0]), Dataset(x[:, None], y))
    for level in range(2):
        members = found.members(level)
        xs, ys = [Fraction(v) for v in x[members]], [Fraction(v) for v in y[members]]
        mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
        s_xx = sum((v - mx) ** 2 for v in xs)
        s_xy = sum((v - mx) * (w - my) for v, w in zip(xs, ys, strict=True))
        s_yy = sum((w - my) ** 2 for w in ys)
        assert found.s_xx[level] == pytest.approx(float(s_xx), rel=1e-13)
        assert found.s_xy[level] == pytest.approx(float(s_xy), rel=1e-11)
        assert found.residual_squares[level] == pytest.approx(float(s_yy - s_xy**2 / s_xx), rel=1e-11)


def test_equal_inputs_have_no_spread_at_all() -> None:
    x = np.array([0.1, 0.1, 0.1, 0.3])
    found = blocks(KnotNetwork([0.0, 0.2], [1.0, 1.0]), Dataset(x[:, None], [1.0, 2.0, 6.0, 0.0]))
    assert found.s_xx[1] == 0
    assert found.residual_squares[1] == pytest.approx(14.0)
    assert found.rank == 2


def test_a_point_on_a_knot_belongs_to_the_block_left_of_it() -> None:
    dataset = Dataset([[0.0], [1.0], [2.0]], [0.0, 0.0, 0.0])
    assert list(blocks(KnotNetwork([1.0], [1.0]), dataset).counts) == [2, 1]
    assert list(blocks(KnotNetwork([2.0], [1.0]), dataset).dead) == [True]


def test_moved_keeps_the_pattern_and_takes_the_parameters() -> None:
    network, dataset = problem(4)
    found = blocks(network, dataset)
    nudged = KnotNetwork(network.knots, 2 * network.outer)
    again = found.moved(nudged)
    np.testing.assert_array_equal(again.borders, found.borders)
    np.testing.assert_allclose(again.residuals, blocks(nudged, dataset).residuals, atol=1e-13)


def test_arrays_are_read_only() -> None:
    found = blocks(*problem(5))
    for array in (found.counts, found.means, found.slopes, found.inputs, found.coordinates):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="dataset: inputs must have the network's dimension 1, got 2"):
        blocks(KnotNetwork([0.0], [1.0]), Dataset([[0.0, 1.0]], [1.0]))
    with pytest.raises(InvalidInputError, match="network: must be a KnotNetwork"):
        blocks(ReLUNetwork([[1.0]], [1.0]), Dataset([[0.0]], [1.0]))  # type: ignore[arg-type]
