"""ν against eigenvalues and sampling; μ against difference quotients; Lemma 6 along trajectories; means."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import (
    activity,
    average_pl,
    energies,
    gaussian_dimension,
    interaction,
    local_pl,
    pl_bounds,
)


@pytest.mark.parametrize(("size", "dimension"), [(1, 3), (30, 7), (900, 40)])
def test_the_norm_is_that_of_the_gram_matrix_off_its_diagonal(size: int, dimension: int) -> None:
    """Below and above the size from which Lanczos is used."""
    dataset = sphere(size, dimension, seed=2)
    gram = dataset.inputs @ dataset.inputs.T
    np.fill_diagonal(gram, 0.0)
    found = interaction(dataset)
    assert found.norm == pytest.approx(np.linalg.norm(gram, 2), rel=1e-7)
    lengths, labels = np.linalg.norm(dataset.inputs, axis=1), np.abs(dataset.targets)
    expected = lengths.min() ** 2 * labels.min() / np.sqrt(size) / labels.max()
    assert found.bound == pytest.approx(expected)
    assert found.margin == pytest.approx(expected - found.norm)
    assert found.holds == (found.norm < expected)


def test_antipodal_inputs_do_not_interact() -> None:
    """2d points in dimension d: a basis and its antipodes, of other lengths."""
    rows = np.array(orthogonal(6, 6, seed=1).inputs)
    dataset = sf.Dataset(np.concatenate([rows, -1.3 * rows]), np.linspace(1.0, 2.0, 12))
    assert not interaction(dataset).holds
    found = interaction(dataset, antipodal=True)
    assert found.pairs == 6
    assert found.norm < 1e-12
    assert found.holds


def test_antipodal_pairs_are_left_out_of_large_problems_too() -> None:
    small = sphere(430, 30, seed=3)
    dataset = sf.Dataset(np.concatenate([small.inputs, -small.inputs]), np.tile(small.targets, 2))
    gram = dataset.inputs @ dataset.inputs.T
    np.fill_diagonal(gram, 0.0)
    for i in range(430):
        gram[i, i + 430] = gram[i + 430, i] = 0.0
    found = interaction(dataset, antipodal=True)
    assert found.pairs == 430
    assert found.norm == pytest.approx(np.linalg.norm(gram, 2), rel=1e-7)


def test_a_zero_label_leaves_no_room() -> None:
    found = interaction(sf.Dataset(np.eye(3), [1.0, 0.0, 2.0]))
    assert not found.holds
    assert found.share == np.inf


def test_gaussian_data_of_the_stated_dimension_satisfy_the_assumption() -> None:
    """The bound is for 95 %; with d a hundredth of it the assumption fails."""
    size, ratio = 12, 1.5
    dimension = gaussian_dimension(size, ratio, 0.05)
    labels = np.linspace(1.0, ratio, size)
    rng = np.random.default_rng(0)

    def share(d: int) -> float:
        draws = [sf.Dataset(rng.standard_normal((size, d)) / np.sqrt(d), labels) for _ in range(20)]
        return float(np.mean([interaction(draw).holds for draw in draws]))

    assert share(dimension) >= 0.95
    assert share(dimension // 100) <= 0.05
    assert 3.8 < gaussian_dimension(4000) / gaussian_dimension(2000) < 4.0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidInputError, match="label_ratio"):
        gaussian_dimension(5, 0.5)
    with pytest.raises(InvalidInputError, match="epsilon"):
        gaussian_dimension(5, 1.0, 1.5)


@pytest.mark.parametrize("ratio", [1e3, 1e8, 1e16, 1e40, 1e300])
def test_labels_of_any_size_have_a_dimension(ratio: float) -> None:
    """√(1 + u) − 1 is u/2 to first order: the dimension is that with 50 digits, however small u is."""
    with localcontext() as context:
        context.prec = 700
        allowed = 1 / (1 + 2 * Decimal(10).sqrt() * Decimal(ratio))
        reach = Decimal(10).sqrt() + (2 * (2 / Decimal("0.05")).ln()).sqrt()
        expected = (reach / ((1 + allowed).sqrt() - 1)) ** 2
    assert float(gaussian_dimension(10, ratio) / int(expected)) == pytest.approx(1.0, rel=1e-9)


def test_labels_that_differ_beyond_a_float_have_no_ratio() -> None:
    assert interaction(sf.Dataset(np.eye(2), [1e-310, 1.0])).label_ratio == np.inf
    assert interaction(sf.Dataset(np.eye(2), [0.0, 0.0])).label_ratio == np.inf
    assert interaction(sf.Dataset(np.eye(2), [-0.5, 2.0])).label_ratio == 4.0


def test_inputs_at_a_tiny_angle_are_not_antipodal() -> None:
    """An angle of 10⁻⁷ is far above rounding, though its cosine differs from −1 by 5·10⁻¹⁵ only."""
    for angle, pairs in ((1e-3, 0), (1e-6, 0), (1e-7, 0), (1e-12, 0), (0.0, 1)):
        turned = [-np.cos(angle), -np.sin(angle)]
        found = interaction(sf.Dataset([[1.0, 0.0], turned], [1.0, 1.0]), antipodal=True)
        assert found.pairs == pairs
        assert found.norm == pytest.approx(0.0 if pairs else 1.0, abs=1e-5)


def test_antipodes_of_any_length_are_found() -> None:
    rows = np.random.default_rng(4).standard_normal((40, 300))
    lengths = np.linspace(0.01, 37.0, 40)[:, None]
    dataset = sf.Dataset(np.concatenate([rows, -lengths * rows]), np.ones(80))
    assert interaction(dataset, antipodal=True).pairs == 40


def test_the_curvature_is_the_rate_of_decay_of_the_flow() -> None:
    dataset, network = sphere(6, 9, seed=1), sf.initialize.asymmetric(7, 9, seed=2)
    trajectory = sf.gradient_flow(network, dataset, until=0.3, speed=7.0, tolerance=1e-11)
    assert not any(event.kind == "slide" for event in trajectory.events)

    def loss(time: float) -> float:
        return sf.SquareLoss().value(trajectory(time)(dataset.inputs), dataset.targets)

    for time in (0.06, 0.18, 0.28):
        now = trajectory(time)
        assert isinstance(now, sf.ReLUNetwork)
        quotient = (np.log(loss(time - 1e-4)) - np.log(loss(time + 1e-4))) / 2e-4
        assert local_pl(now, dataset) == pytest.approx(quotient, rel=1e-4)
        assert local_pl(now, dataset, speed=1.0) == pytest.approx(quotient / 7, rel=1e-4)


def test_neurons_that_rest_on_a_hyperplane_do_not_count() -> None:
    """A flow holds neurons at ⟨w, x⟩ = 0; its rounded networks show ±1e-17 there."""
    dataset, network = orthogonal(8, 12, seed=2), sf.initialize.asymmetric(24, 12, seed=2)
    trajectory = sf.gradient_flow(network, dataset, until=9.0, speed=24.0)

    def loss(time: float) -> float:
        return sf.SquareLoss().value(trajectory(time)(dataset.inputs), dataset.targets)

    for time in (1.0, 3.0, 8.0):
        now = trajectory(time)
        assert isinstance(now, sf.ReLUNetwork)
        resting = activity(now, dataset.inputs) == 0
        rounded = now.preactivations(dataset.inputs)[resting]
        pairs = (np.nonzero(resting)[0], np.nonzero(resting)[1])
        assert np.any(rounded > 0), "nothing rests on the wrong side: the case tells nothing"
        quotient = (np.log(loss(time - 1e-3)) - np.log(loss(time + 1e-3))) / 2e-3
        assert local_pl(now, dataset) == pytest.approx(quotient, rel=1e-5)
        bounds = pl_bounds(now, dataset)
        assert bounds.lower <= quotient <= bounds.upper
        # The same with the zeros handed down, and with what lies on the inactive side.
        assert local_pl(now, dataset, resting=pairs) == local_pl(now, dataset)
        shares = now.outer**2 @ np.where(resting, 0, now.preactivations(dataset.inputs) > 0) / 24
        np.testing.assert_allclose(energies(now, dataset), shares)


def data(seed: int, size: int, dimension: int, correlation: float) -> sf.Dataset:
    """Random inputs pulled towards one direction, with labels of either sign."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((size, dimension)) + correlation * rng.standard_normal(dimension)
    return sf.Dataset(inputs / np.sqrt(dimension), rng.standard_normal(size))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 8),
    dimension=st.integers(1, 10),
    width=st.integers(1, 8),
    correlation=st.sampled_from([0.0, 0.5, 3.0]),
    antipodes=st.booleans(),
)
def test_lemma_6_holds_along_trajectories(
    seed: int, size: int, dimension: int, width: int, correlation: float, antipodes: bool
) -> None:
    """Random and correlated data, also with antipodal inputs left out of the interaction."""
    dataset = data(seed, size, dimension, correlation)
    if antipodes:
        inputs = np.concatenate([dataset.inputs, -0.7 * dataset.inputs])
        dataset = sf.Dataset(inputs, np.concatenate([dataset.targets, dataset.targets[::-1]]))
    known = interaction(dataset, antipodal=antipodes)
    network = sf.initialize.asymmetric(width, dimension, seed=seed)
    trajectory = sf.gradient_descent(network, dataset, step=0.3, steps=60, record=sf.Record.every(6))
    assume(trajectory.losses[-1] <= trajectory.losses[0])  # else the step was too large
    for time in trajectory.times:
        now = trajectory(time)
        assert isinstance(now, sf.ReLUNetwork)
        if np.array_equal(now(dataset.inputs), dataset.targets):  # the curvature is 0/0
            break
        bounds, curvature = pl_bounds(now, dataset, known=known), local_pl(now, dataset)
        assert bounds.lower <= curvature * (1 + 1e-9) + 1e-12
        assert curvature <= bounds.upper * (1 + 1e-9) + 1e-12


def test_without_the_squares_of_the_norms_the_printed_bound_fails() -> None:
    """(15) as printed: C_x^+ for its square; one input of norm 3 and one neuron on it."""
    dataset = sf.Dataset([[3.0]], [4.0])
    network = sf.ReLUNetwork([[0.1]], [1.0])
    curvature, bounds = local_pl(network, dataset), pl_bounds(network, dataset)
    assert bounds.lower <= curvature <= bounds.upper * (1 + 1e-12)
    assert curvature > bounds.upper * 3.0 / 9.0


def test_energies_are_sums_over_active_neurons() -> None:
    network = sf.ReLUNetwork([[1.0, 0.0], [1.0, 1.0]], [2.0, -3.0], scale=0.5)
    dataset = sf.Dataset([[1.0, 0.0], [-1.0, 2.0]], [1.0, 1.0])
    np.testing.assert_allclose(energies(network, dataset), [6.5, 4.5])


def test_the_average_undoes_the_exponential() -> None:
    times = np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(average_pl(times, 3 * np.exp(-0.2 * times)), [0.2, 0.2])
    with pytest.raises(InvalidInputError, match="begin with 0"):
        average_pl([1.0, 2.0], [1.0, 0.5])
    with pytest.raises(InvalidInputError, match="losses"):
        average_pl([0.0, 2.0], [1.0, 0.0])


def test_what_has_no_curvature_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="0/0"):
        local_pl(sf.ReLUNetwork([[1.0]], [1.0]), sf.Dataset([[1.0]], [1.0]))
    with pytest.raises(InvalidInputError, match="slope"):
        pl_bounds(sf.ReLUNetwork([[1.0]], [1.0], slope=0.1), sf.Dataset([[1.0]], [2.0]))
