import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.plateau.stationary import fully_trained, regression_lines, stationarity, trap
from shallowflow.models.networks import KnotNetwork
from tests.landscape.frozen_flow import flow_pieces
from tests.landscape.geometry.test_blocks import problem
from tests.landscape.plateau.test_levels import random_problem


def gradient(network: KnotNetwork, dataset: Dataset) -> Floats:
    residual = network.predict(dataset.inputs) - dataset.targets
    return np.concatenate(list(network.pullback(dataset.inputs, residual).values()))


def system_34(network: KnotNetwork, dataset: Dataset) -> list[float]:
    """The equations of (3.4) one by one, for c ≠ 0, by the formulas as printed."""
    x, y = dataset.inputs[:, 0], dataset.targets
    order = np.argsort(network.knots, kind="stable")
    sums = np.cumsum(network.outer[order])
    active = np.sum(x[:, None] > network.knots, axis=1)
    means, slopes = [], []
    for level in range(1, network.width + 1):
        xs, ys = x[active == level], y[active == level]
        if len(xs):
            means.append(float(network([xs.mean()])[0] - ys.mean()))
        if len(np.unique(xs)) > 1:
            slope = (np.mean(xs * ys) - xs.mean() * ys.mean()) / np.mean((xs - xs.mean()) ** 2)
            slopes.append(float(sums[level - 1] - slope))
    return means + slopes


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000))
def test_defects_are_those_of_34(seed: int) -> None:
    network, dataset = problem(seed)
    found = stationarity(network, dataset)
    expected = np.array(system_34(network, dataset))
    np.testing.assert_allclose(found.defects, expected, rtol=1e-8, atol=1e-9)
    assert found.value == pytest.approx(np.mean(expected**2) if expected.size else 0.0, rel=1e-8)
    assert found.largest == pytest.approx(np.max(np.abs(expected), initial=0.0), rel=1e-8)
    assert found.gradient == pytest.approx(np.linalg.norm(gradient(network, dataset)), rel=1e-10, abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10_000), st.floats(-1.5, 1.5))
def test_zero_exactly_at_stationary_points(seed: int, knot: float) -> None:
    """A stationary point stays one beside an idle neuron (c = 0) iff that neuron is at rest, too."""
    network, dataset = problem(seed)
    trained = fully_trained(network.knots, dataset)
    idle = KnotNetwork(np.append(trained.knots, knot), np.append(trained.outer, 0.0))
    scale = 1e-12 * np.sum(np.abs(trained.outer)) * dataset.size
    assert stationarity(trained, dataset).largest <= 1e-10 + scale
    pull = abs(gradient(idle, dataset)[-1])
    seen = int(np.sum(dataset.inputs > knot))
    found = stationarity(idle, dataset)
    assert len(found.idle) == min(seen, 1)
    assert found.largest == pytest.approx(pull / max(seen, 1), abs=1e-10 + scale)


def test_a_zero_coefficient_breaks_the_printed_lemma_both_ways() -> None:
    at_rest = KnotNetwork([0.0], [0.0]), Dataset([[1.0], [2.0]], [2.0, -1.0])
    assert np.all(gradient(*at_rest) == 0)
    assert stationarity(*at_rest).value == 0
    assert max(map(abs, system_34(*at_rest))) > 1  # (3.4) as printed wants the regression slope −3

    dataset = Dataset([[1.0], [2.0]], [1.0, 1.0])
    moving = KnotNetwork([0.0], [0.0])  # the slope is right, the mean is exempt as c = 0
    assert system_34(moving, dataset)[1] == 0
    assert np.linalg.norm(gradient(moving, dataset)) > 1
    assert stationarity(moving, dataset).largest > 1


def test_fig_4_the_five_points() -> None:
    """[plateau] §3.2: the fully trained network of Fig. 4 interpolates; its coefficients are in the text."""
    x = np.array([(k - 3) / 2 for k in range(1, 6)])
    dataset = Dataset(x[:, None], [(1 - (-1) ** k) / 2 for k in range(1, 6)])
    # c_1 relu(x − b_1) with b_1 < −1 meets (−1, 1); then slopes −2, +2, −2, +2 between the points.
    network = KnotNetwork([-1.5, -1.0, -0.5, 0.0, 0.5, 1.2, 1.4], [2.0, -4.0, 4.0, -4.0, 4.0, 0.3, -0.2])
    np.testing.assert_allclose(network(x), dataset.targets, atol=1e-15)
    assert stationarity(network, dataset).value < 1e-30


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10_000))
def test_regression_lines_of_the_modified_data(seed: int) -> None:
    network, dataset = problem(seed)
    lines = regression_lines(network, dataset)
    order = np.argsort(network.knots, kind="stable")
    knots, outer = network.knots[order], network.outer[order]
    x, y = dataset.inputs[:, 0], dataset.targets
    active = np.sum(x[:, None] > network.knots, axis=1)
    for i in range(network.width):
        xs, ys = x[active == i + 1], y[active == i + 1]
        if not len(xs):
            assert np.isnan(lines.slopes[i])
            assert lines.defects[i] == 0
            continue
        left = ys - np.maximum(xs[:, None] - knots[:i], 0) @ outer[:i]
        columns = np.stack([xs, np.ones_like(xs)], axis=1)
        fitted, *_ = np.linalg.lstsq(columns, left, rcond=1e-13)
        assert (lines.slopes[i], lines.intercepts[i]) == pytest.approx(tuple(fitted), rel=1e-8, abs=1e-8)
        own = np.array([outer[i], -outer[i] * knots[i]])
        assert (lines.neuron_slopes[i], lines.neuron_intercepts[i]) == pytest.approx(tuple(own))
        differences = columns @ (own - fitted)
        if len(np.unique(xs)) > 1:
            assert np.isnan(lines.shifts[i])
        else:
            alpha = lines.shifts[i]  # the formulas of Thm 3.5, up to the miss ŷ − c (x − b)
            point, value = xs[0], left.mean()
            assert outer[i] == pytest.approx(alpha + point * value / (1 + point**2), abs=1e-9)
            assert outer[i] * knots[i] == pytest.approx(
                alpha * point - value / (1 + point**2) - differences[0], abs=1e-9
            )
        assert lines.defects[i] == pytest.approx(np.max(np.abs(differences)), rel=1e-7, abs=1e-9)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 10_000))
def test_theorem_3_5_at_stationary_points(seed: int) -> None:
    network, dataset = problem(seed)
    trained = fully_trained(network.knots, dataset)
    if np.any(trained.outer == 0):
        return
    lines = regression_lines(trained, dataset)
    assert np.max(lines.defects) <= 1e-11 * (1 + np.sum(np.abs(trained.outer)))


def near_rest(seed: int) -> tuple[KnotNetwork, Dataset]:
    """A network that the reference flow has nearly brought to rest in a long stage."""
    piece = flow_pieces(*random_problem(seed), until=10.0)[-1]
    start, end = piece.ends
    return piece.network(start + 0.6 * (end - start)), piece.dataset


@pytest.mark.parametrize("seed", [11, 60])
def test_a_trapped_network_stays_within_its_radius(seed: int) -> None:
    network, dataset = near_rest(seed)
    found = trap(network, dataset)
    assert found.holds
    [piece] = flow_pieces(network, dataset, until=200.0)  # a single stage: no knot met a data point
    start = piece.theta(0.0)
    moved = max(float(np.linalg.norm(piece.theta(float(t)) - start)) for t in piece.steps)
    assert moved <= found.radius * (1 + 1e-6)
    assert moved > 0.01 * found.radius  # the bound is not empty words
    assert stationarity(piece.network(200.0), dataset).largest < 1e-6


def test_a_network_that_will_pass_a_point_is_not_trapped() -> None:
    for seed in range(12):
        network, dataset = random_problem(seed)
        if len(flow_pieces(network, dataset, until=4.0, most=2)) > 1:
            assert not trap(network, dataset).holds


def test_gap_is_the_distance_of_live_knots_to_data() -> None:
    dataset = Dataset([[0.0], [1.0], [2.0]], [1.0, 0.0, 2.0])
    assert trap(KnotNetwork([0.3, 1.9, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0]), dataset).gap == pytest.approx(0.1)
    assert trap(KnotNetwork([-0.25], [1.0]), dataset).gap == pytest.approx(0.25)
    assert trap(KnotNetwork([1.0], [1.0]), dataset).gap == 0
    dead = trap(KnotNetwork([3.0], [1.0]), dataset)
    assert (dead.radius, dead.gap, dead.holds) == (0.0, np.inf, True)
