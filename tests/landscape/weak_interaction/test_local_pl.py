"""μ against a difference quotient, Lemma 6's bounds along trajectories, averages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.data.generators import orthogonal, sphere
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import activity, average_pl, energies, interaction, local_pl, pl_bounds


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
    for time, loss in zip(trajectory.times, trajectory.losses, strict=True):
        now = trajectory(time)
        assert isinstance(now, sf.ReLUNetwork)
        if loss == 0:  # the curvature is 0/0
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
