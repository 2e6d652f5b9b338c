"""Against references without blocks: V from the ξ of Appendix A by least squares, rates from the Jacobian."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.floors import blocks
from shallowflow.landscape.plateau.levels import (
    exit_condition,
    extreme_rates,
    plateau_level,
    projected_residual,
    rate_bounds,
    rate_matrix,
)
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork
from tests.landscape.frozen_flow import Piece, flow_pieces, jacobian
from tests.landscape.geometry.test_blocks import problem

SUM = SquareLoss("sum")
ROUNDING = 1e-7  # Simpson's rule for ∫r in the reference; observed at most 4e-9


def gates_of(network: KnotNetwork, dataset: Dataset) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    return dataset.inputs[:, 0] > network.knots[:, None]


def full_jacobian(network: KnotNetwork, dataset: Dataset) -> Floats:
    theta = np.concatenate([network.knots, network.outer])
    return jacobian(theta, gates_of(network, dataset), dataset)


def spanning(network: KnotNetwork, dataset: Dataset) -> Floats:
    return full_jacobian(KnotNetwork(network.knots, np.ones(network.width)), dataset)


def project(span: Floats, vector: Floats) -> Floats:
    return np.asarray(span @ np.linalg.lstsq(span, vector, rcond=1e-12)[0])


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000))
def test_level_and_projection_by_least_squares(seed: int) -> None:
    network, dataset = problem(seed)
    residual = network.predict(dataset.inputs) - dataset.targets
    projection = project(spanning(network, dataset), residual)
    np.testing.assert_allclose(projected_residual(network, dataset), projection, atol=1e-11)
    level = 0.5 * np.sum((residual - projection) ** 2)
    assert plateau_level(network, dataset, SUM) == pytest.approx(level, abs=1e-11)
    mean = plateau_level(network, dataset)
    assert mean == pytest.approx(level / dataset.size, abs=1e-12)
    loss = SquareLoss("sum").value(network.predict(dataset.inputs), dataset.targets)
    assert level + 0.5 * np.sum(projected_residual(network, dataset) ** 2) == pytest.approx(loss, abs=1e-11)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000))
def test_rates_are_singular_values_of_the_jacobian(seed: int) -> None:
    network, dataset = problem(seed)
    bounds = rate_bounds(network, dataset, SUM)
    exact = np.linalg.svd(full_jacobian(network, dataset), compute_uv=False)
    by_matrix = np.linalg.svd(rate_matrix(network, dataset), compute_uv=False)
    if bounds.rank == 0:
        assert (bounds.r_min, bounds.r_max, by_matrix[0]) == (0, 0, 0)
        return
    scale = exact[0]
    assert np.sqrt(bounds.r_max) == pytest.approx(exact[0], rel=1e-12)
    assert np.sqrt(bounds.r_min) == pytest.approx(exact[bounds.rank - 1], abs=1e-13 * scale)
    np.testing.assert_allclose(by_matrix[: bounds.rank], exact[: bounds.rank], atol=1e-13 * scale)
    np.testing.assert_allclose(by_matrix[bounds.rank :], 0.0, atol=1e-13 * scale)
    mean = rate_bounds(network, dataset)
    assert mean.r_max == pytest.approx(bounds.r_max / dataset.size, rel=1e-14)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10_000))
def test_the_matrix_gives_the_rate_of_decrease(seed: int) -> None:
    network, dataset = problem(seed)
    residual = network.predict(dataset.inputs) - dataset.targets
    gradient = np.concatenate(list(network.pullback(dataset.inputs, residual).values()))
    coordinates = blocks(network, dataset).coordinates
    decrease = np.sum((rate_matrix(network, dataset).T @ coordinates) ** 2)
    assert decrease == pytest.approx(gradient @ gradient, rel=1e-9, abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 30.0]), st.sampled_from([0.0, -20.0]))
def test_lemma_a2_corrected(seed: int, size: float, shift: float) -> None:
    network, dataset = problem(seed)
    knots = network.knots.copy()
    knots[0] += shift
    bounds = rate_bounds(KnotNetwork(knots, size * network.outer), dataset, SUM)
    assert bounds.lower <= bounds.r_min * (1 + 1e-9)
    assert bounds.r_max <= bounds.upper * (1 + 1e-9)
    assert bounds.rank == 0 or bounds.lower > 0


def printed_lemma_a2(network: KnotNetwork, dataset: Dataset) -> tuple[float, float]:
    """The bounds of Lemma A.2 to the letter, for sorted knots and distinct sorted inputs."""
    found, n = blocks(network, dataset), network.width
    u, variance = found.counts[1:], found.sigmas[1:] ** 2
    kept = (u > 0) & (variance > 0)
    spread = float(found.inputs[-1] - found.inputs[0]) ** 2
    square = network.outer**2
    lower = np.min(u[kept] * np.minimum(1, variance[kept]))
    upper = np.max(u[kept] * np.maximum(1, variance[kept]))
    return (
        float(lower / (4 * (1 + 1 / square[kept].min() + 4 * spread * n**2))),
        float(upper * (1 + square[kept].max() + spread) * n**2),
    )


def test_lemma_a2_as_printed_fails_in_three_ways() -> None:
    x = np.append(0.01, np.linspace(60.0, 60.1, 100))
    small = KnotNetwork([0.0], [0.01]), Dataset(x[:, None], np.zeros(101))
    assert printed_lemma_a2(*small)[0] > 5 * rate_bounds(*small, SUM).r_min  # lost factor 1/c² in ‖N⁻¹‖²

    far = KnotNetwork([-50.0], [1.0]), Dataset([[0.0], [0.1], [0.2]], [0.0, 0.0, 0.0])
    assert printed_lemma_a2(*far)[1] < 0.1 * rate_bounds(*far, SUM).r_max  # a knot left of the data

    x = np.append(0.1, np.linspace(0.2, 1.1, 2000))
    lone = KnotNetwork([0.05, 0.15], [1.0, 1.0]), Dataset(x[:, None], np.zeros(2001))
    assert printed_lemma_a2(*lone)[0] > 3 * rate_bounds(*lone, SUM).r_min  # a block of one point left out
    for network, dataset in (small, far, lone):
        bounds = rate_bounds(network, dataset, SUM)
        assert 0 < bounds.lower <= bounds.r_min <= bounds.r_max <= bounds.upper


def random_problem(seed: int) -> tuple[KnotNetwork, Dataset]:
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(4, 13)), int(rng.integers(1, 5))
    x = np.sort(rng.uniform(-1, 1, size))
    outer = rng.choice([-1.0, 1.0], width) * rng.uniform(0.3, 1.5, width)
    network = KnotNetwork(rng.uniform(-1.3, 0.8, width), outer)
    return network, Dataset(x[:, None], np.sin(3 * x) + 0.3 * rng.standard_normal(size))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 10_000))
def test_theorem_3_1_holds_on_every_stage(seed: int) -> None:
    """Two-sided, with the exponents 2∫r of the proof, which are sharper than the printed upper bound."""
    network, dataset = random_problem(seed)
    for piece in flow_pieces(network, dataset, until=4.0, most=8):
        level = plateau_level(piece.middle, dataset, SUM)
        assert level == pytest.approx(piece.level(), abs=1e-9)
        assert piece.violation(level) <= ROUNDING
        bounds = rate_bounds(piece.middle, dataset, SUM)
        assert (bounds.r_min, bounds.r_max) == pytest.approx(piece.rates(0.5 * sum(piece.ends)), rel=1e-6)


def last_piece(seed: int) -> Piece:
    return flow_pieces(*random_problem(seed), until=10.0)[-1]


@pytest.mark.parametrize("seed", [11, 25, 60])
def test_theorem_3_1_fails_with_a_wrong_level(seed: int) -> None:
    piece = last_piece(seed)
    level = plateau_level(piece.middle, piece.dataset, SUM)
    assert piece.decays[0][-1] > 2, "the stage must be long enough to tell levels apart"
    assert piece.violation(level) <= ROUNDING
    for share in (0.9, 1.1):
        assert piece.violation(share * level) > 1e4 * ROUNDING
    steps = [moved_past(piece.middle, piece.dataset, 0, step) for step in (-1, 1)]
    others = [plateau_level(network, piece.dataset, SUM) for network in steps]
    other = max(others, key=lambda value: abs(value - level))
    assert abs(other - level) > 0.05 * level
    assert piece.violation(other) > 1e4 * ROUNDING


def test_the_printed_lower_bound_is_false() -> None:
    """One neuron, one point: r_min = r_max = r, and L decays exactly like exp(−2∫r)."""
    [piece] = flow_pieces(KnotNetwork([0.0], [1.0]), Dataset([[1.0]], [1.7]), until=1.0)
    least, most = piece.decays
    np.testing.assert_allclose(least, most, rtol=1e-12)
    ratio = piece.loss(piece.ends[1]) / piece.loss(0.0)
    assert ratio == pytest.approx(np.exp(-2 * most[-1]), rel=1e-6)
    assert ratio < 0.2 * np.exp(-most[-1])
    assert piece.violation(0.0, factor=1.0) > 1e-2


def moved_past(network: KnotNetwork, dataset: Dataset, neuron: int, step: int) -> KnotNetwork:
    """The neuron's knot moved across one data point (distinct inputs)."""
    x = np.sort(dataset.inputs[:, 0])
    place = int(np.searchsorted(x, network.knots[neuron], side="right")) + step
    edges = np.concatenate([[x[0] - 1], x, [x[-1] + 1]])
    knots = network.knots.copy()
    knots[neuron] = 0.5 * (edges[place] + edges[place + 1])
    return KnotNetwork(knots, network.outer)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000), st.integers(0, 3), st.sampled_from([-1, 1]))
def test_exit_condition_by_gram_schmidt(seed: int, neuron: int, step: int) -> None:
    network, dataset = random_problem(seed)
    neuron %= network.width
    place = int(np.sum(dataset.inputs[:, 0] <= network.knots[neuron])) + step
    if not 0 <= place <= dataset.size:
        return
    after = moved_past(network, dataset, neuron, step)
    condition = exit_condition(network, after, dataset, SUM)
    spans = [spanning(net, dataset) for net in (network, after)]
    assert condition.applies
    unit = np.eye(dataset.size)[condition.point]
    assert np.sum(gates_of(network, dataset) != gates_of(after, dataset)) == 1
    assert np.any(
        gates_of(network, dataset)[:, condition.point] != gates_of(after, dataset)[:, condition.point]
    )
    parts = [unit - project(span, unit) for span in spans]
    zeta, psi = (part / np.linalg.norm(part) if np.linalg.norm(part) > 1e-7 else 0 * part for part in parts)
    residual = network.predict(dataset.inputs) - dataset.targets
    component = abs(residual @ zeta)
    assert condition.component == pytest.approx(component, abs=1e-7)
    assert condition.overlap == pytest.approx(abs(zeta @ psi), abs=1e-7)
    removable = np.linalg.norm(project(spans[0], residual))
    assert condition.removable == pytest.approx(removable, abs=1e-10)
    if removable > 1e-9:
        threshold = (1 - abs(zeta @ psi)) * component / removable
        assert condition.threshold == pytest.approx(threshold, rel=1e-6, abs=1e-7)
    gain = 0.5 * (component**2 - (dataset.targets @ psi) ** 2)
    assert condition.level_before - condition.level_after == pytest.approx(gain, abs=1e-7)


def test_a_long_stage_ends_with_a_lower_level() -> None:
    """Thm 3.2: wherever the condition holds at the end of a simulated stage, the next level is lower."""
    holding = 0
    for seed in (1, 12, 59):
        network, dataset = random_problem(seed)
        pieces = flow_pieces(network, dataset, until=10.0)
        for piece, following in pairwise(pieces):
            condition = exit_condition(piece.network(piece.ends[0]), following.middle, dataset)
            if condition.applies and np.exp(-piece.decays[0][-1]) < condition.threshold:
                holding += 1
                assert condition.decay_needed <= piece.decays[0][-1]
                assert condition.level_after < condition.level_before
    assert holding >= 3


def test_leaving_a_block_of_two_points_cannot_lower_the_level() -> None:
    dataset = Dataset([[0.0], [1.0], [2.0], [3.0], [4.0]], [1.0, -1.0, 2.0, 0.5, 3.0])
    network = KnotNetwork([0.5, 2.5], [1.0, 1.0])
    condition = exit_condition(network, KnotNetwork([0.5, 1.5], [1.0, 1.0]), dataset)
    assert condition.applies
    assert condition.threshold == 0
    assert condition.decay_needed == np.inf
    assert condition.level_after >= condition.level_before


def test_exit_condition_does_not_apply_to_two_points_at_once() -> None:
    dataset = Dataset([[0.0], [1.0], [1.0], [2.0]], [1.0, -1.0, 2.0, 0.5])
    condition = exit_condition(KnotNetwork([0.5], [1.0]), KnotNetwork([1.5], [1.0]), dataset)
    assert not condition.applies
    assert condition.threshold == 0
    with pytest.raises(InvalidInputError, match="after: must have width 1, got 2"):
        exit_condition(KnotNetwork([0.5], [1.0]), KnotNetwork([0.5, 1.0], [1.0, 1.0]), dataset)


def test_a_held_knot_slows_the_decay_down() -> None:
    network, dataset = random_problem(0)
    found = blocks(network, dataset)
    matrix = full_jacobian(network, dataset)
    pinned = int(found.order[0])
    exact = np.linalg.svd(np.delete(matrix, pinned, axis=1), compute_uv=False)
    free, held = extreme_rates(found), extreme_rates(found, (pinned,))
    assert held[1] == pytest.approx(exact[0] ** 2, rel=1e-12)
    assert held[0] <= free[0]
    if matrix.shape[1] - 1 >= found.rank:
        assert held[0] == pytest.approx(exact[found.rank - 1] ** 2, abs=1e-12)
