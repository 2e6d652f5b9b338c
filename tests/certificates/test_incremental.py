"""What [incremental] says about a data set: the jumps of Algorithm 1, or why there are none to tell."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import Question
from shallowflow.certificates.incremental import acceleration, distance_off_jumps, fall, verdict
from shallowflow.data.generators import orthonormal
from shallowflow.landscape.geometry.orthonormal import mask_matrix, mask_report


def problem(digits: float, seed: int = 0, width: int = 12) -> tuple[sf.LogScaledNetwork, sf.Dataset]:
    data = sf.data.GENERATORS["orthonormal"](12, seed=seed)
    return sf.initialize.log_scaled(width, 12, log_scale=-digits * np.log(10.0), seed=seed), data


def flow(digits: float, until: float = 1.3) -> tuple[sf.Trajectory, sf.SaddleToSaddle]:
    network, data = problem(digits, SEED)
    limit = sf.saddle_to_saddle(network, data)
    end = until * float(limit.jump_times[-1]) * network.acceleration
    return sf.gradient_flow(network, data, until=end), limit


SEED = next(
    seed
    for seed in range(100)
    if mask_report(mask_matrix(*problem(10, seed)), problem(10, seed)[1].targets).holds
    and sf.saddle_to_saddle(*problem(10, seed)).process.gaps.min() > 0.02
)


def test_the_flow_tends_to_the_limit_off_the_jumps() -> None:
    network, data = problem(30, SEED)
    runs, limit = [flow(digits)[0] for digits in (1000, 100, 3000)], flow(30)[1]
    certificate = sf.certify("incremental/theorem-2", network, data, runs, limit=limit, margin=0.3)
    assert certificate.holds
    assert certificate.promises[-1].kept is True
    assert [promise.bound for promise in certificate.promises[:-1]] == [0.0] * 3
    observed = [promise.observed for promise in certificate.promises[:-1]]
    assert observed == sorted(observed, reverse=True)  # type: ignore[type-var]
    assert observed[-1] is not None
    assert observed[-1] < 1e-6


def test_the_distance_is_that_of_all_parameters() -> None:
    """Before the first jump the limit rests at 0: the distance is the norm of the network, which grows."""
    network, data = problem(5, SEED)
    limit = sf.saddle_to_saddle(network, data)
    end = 0.9 * float(limit.jump_times[0]) * network.acceleration
    trajectory = sf.gradient_flow(network, data, until=end)
    final = trajectory.final
    assert isinstance(final, sf.LogScaledNetwork)
    norm = np.sqrt(np.sum(final.to_relu().inner ** 2) + np.sum(final.to_relu().outer ** 2))
    assert distance_off_jumps(trajectory, limit, 0.1) == pytest.approx(norm, rel=1e-9)


def test_a_process_that_is_not_the_limit_breaks_the_promise() -> None:
    """The process of another start on the same data: the flow keeps its distance, however small α is."""
    network, data = problem(30, SEED)
    wrong = sf.saddle_to_saddle(problem(30, SEED + 1)[0], data)
    runs = [flow(digits)[0] for digits in (300, 3000)]
    certificate = sf.certify("incremental/theorem-2", network, data, runs, limit=wrong, margin=0.1)
    assert [promise.kept for promise in certificate.promises] == [None, None, False]
    assert certificate.kept is False
    assert certificate.promises[-1].observed is not None
    assert certificate.promises[-1].observed > 0.1


@pytest.mark.parametrize(
    ("distances", "kept"),
    [
        ([2.0, 1.99, 1.98], None),
        ([2.0, 2.0, 1e-4], False),
        ([2.0, 0.1, 1e-4], True),
        ([2.0], None),
        ([1e-4], None),
        ([1.0, 1e-8, 2e-8], True),
        ([1.0, 1.0 - 1e-9], False),
    ],
)
def test_distances_must_fall_to_the_accuracy(distances: list[float], kept: bool | None) -> None:
    assert fall(distances, 1e-3) is kept


def test_what_is_not_a_run_or_a_limit_of_these_data_is_refused() -> None:
    network, data = problem(30, SEED)
    limit = sf.saddle_to_saddle(network, data)
    other = sf.Dataset(data.inputs, 2.0 * data.targets)
    with pytest.raises(sf.InvalidInputError, match="limit: must be a process of the data set given"):
        sf.certify("incremental/theorem-2", network, other, limit=limit)
    with pytest.raises(sf.InvalidInputError, match="limit: must be a SaddleToSaddle or None, got 'x'"):
        sf.certify("incremental/theorem-3", network, data, limit="x")
    with pytest.raises(sf.InvalidInputError, match="trajectories: must be a Trajectory"):
        sf.certify("incremental/theorem-2", network, data, "abc", limit=limit)
    with pytest.raises(sf.InvalidInputError, match="trajectory"):
        sf.certify("incremental/theorem-2", network, data, [1, 2], limit=limit)


@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_a_start_that_is_not_small_has_no_accelerated_time(scale: float) -> None:
    with pytest.raises(sf.InvalidInputError, match=r"0 < α = max\|a_j\| < 1"):
        acceleration(sf.ReLUNetwork([[1.0, 0.0]], [scale]))
    assert acceleration(sf.ReLUNetwork([[1.0, 0.0]], [0.1])) == pytest.approx(np.log(10.0))


def test_hypotheses_that_fail_are_named() -> None:
    network = sf.ReLUNetwork([[1.0, -1.0], [0.5, -0.5], [0.0, -1.0]], [1.0, 0.6, 1.0], slope=0.1)
    data = sf.Dataset([[1.0, 0.0], [0.1, 1.0]], [1.0, 0.0])
    certificate = sf.certify("incremental/theorem-2", network, data)
    failing = {hypothesis.name[:30] for hypothesis in certificate.hypotheses if hypothesis.holds is False}
    assert len(failing) >= 5
    assert not certificate.holds
    assert certificate.hypotheses[-1].holds is None
    assert certificate.kept is None


def test_one_trajectory_only_measures() -> None:
    network, data = problem(30, SEED)
    trajectory, limit = flow(30)
    certificate = sf.certify("incremental/theorem-2", network, data, trajectory, limit=limit)
    assert certificate.kept is None
    assert certificate.promises[0].observed is not None


def test_theorem_3_measures_constant_and_ratio() -> None:
    network, data = problem(3000, SEED)
    trajectory, limit = flow(3000)
    by_limit = sf.certify("incremental/theorem-3", network, data, limit=limit)
    by_flow = sf.certify("incremental/theorem-3", network, data, trajectory)
    plain = limit.final
    norm = float(np.sum(plain.inner**2) + np.sum(plain.outer**2))
    constant = norm / (np.abs(data.targets).max() * np.sqrt(12))
    assert by_limit.promises[0].observed == pytest.approx(constant, rel=1e-12)
    assert by_flow.promises[0].observed == pytest.approx(constant, rel=1e-6)
    y = data.targets
    least = 2 * (np.sqrt(np.sum(y[y > 0] ** 2)) + np.sqrt(np.sum(y[y < 0] ** 2)))
    assert by_limit.promises[1].observed == pytest.approx(norm / least, rel=1e-12)
    assert by_limit.holds
    assert by_limit.kept
    assert by_flow.promises[2].kept is None
    assert sf.certify("incremental/theorem-3", network, data).kept is None
    assert sf.certify("incremental/theorem-3", network, sf.Dataset(data.inputs, 0 * y)).kept is None


def test_theorem_3_can_be_broken() -> None:
    """One neuron per point: no random start does that, and its norm grows like n, not √n."""
    size = 64
    inner = np.where(np.eye(size) > 0, 1.0, -1e-3)
    norms = np.linalg.norm(inner, axis=1)
    network, data = sf.ReLUNetwork(1e-3 * inner, 1e-3 * norms), basis([1.0] * size)
    certificate = sf.certify("incremental/theorem-3", network, data, limit=sf.saddle_to_saddle(network, data))
    assert certificate.holds
    assert [promise.kept for promise in certificate.promises] == [False, False, False]
    assert certificate.promises[0].observed == pytest.approx(2 * size / 8.0)


def basis(labels: list[float], dimension: int | None = None) -> sf.Dataset:
    return sf.Dataset(np.eye(len(labels), dimension or len(labels)), labels)


def test_every_jump_is_told_until_all_points_are_fitted() -> None:
    data = orthonormal(6, 9, labels="bounded", seed=2)
    told = verdict(Question(data, width=60, seed=1))
    network = sf.initialize.balanced(60, 9, init_scale=1e-3, seed=1)
    limit = sf.saddle_to_saddle(network, data)
    (table,) = told.tables
    assert f"fits all 6 points in {len(table.rows)} jumps" in told.words[0]
    assert [row[0] for row in table.rows] == pytest.approx(limit.jump_times)
    assert [row[1] for row in table.rows] == list(limit.neurons)
    assert sum(int(row[2]) for row in table.rows) == 6
    losses = [float(row[3]) for row in table.rows]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(0.0, abs=1e-12)


def test_theorem_2_asks_for_neurons_of_different_masks() -> None:
    data = orthonormal(6, 9, labels="bounded", seed=2)
    told = verdict(Question(data, width=60, seed=1))
    start = sf.initialize.balanced(60, 9, init_scale=1e-3, seed=1)
    masks = (start.preactivations(data.inputs) > 0) & (start.outer[:, None] * data.targets > 0)
    idle = int(np.sum(~masks.any(axis=1)))
    assert told.applies is False
    assert f"neurons that can fit no point fails (found {idle}, needed 0" in told.words[1]


def test_an_interpolator_is_never_shorter_than_the_shortest() -> None:
    labels = [1.0, -0.5, 0.8, -1.2]
    numbers = verdict(Question(basis(labels), width=80)).numbers
    positive, negative = (np.linalg.norm(np.maximum(sign * np.array(labels), 0)) for sign in (1, -1))
    # One neuron per sign, balanced: ‖θ‖² = 2(‖y⁺‖ + ‖y⁻‖).
    assert numbers["minimal ‖θ‖² of an interpolator"] == pytest.approx(2 * (positive + negative))
    end = numbers["‖θ‖² at the end"]
    assert end is not None
    assert end >= 2 * (positive + negative) * (1 - 1e-12)


def test_points_that_no_neuron_is_active_on_are_never_fitted() -> None:
    """One neuron fits labels of one sign at most; of two opposite labels one is left."""
    data = basis([1.0, -1.0])
    told = verdict(Question(data, width=1, seed=0))
    start = sf.initialize.balanced(1, 2, init_scale=1e-3, seed=0)
    can = (start.inner[0] > 0) & (data.targets * start.outer[0] > 0)
    left = np.flatnonzero(~can)
    assert f"never fits {len(left)} of 2 points, the first at index {left[0]}" in told.words[0]
    assert f"the loss ends at {np.sum(data.targets[left] ** 2) / 4:.4g}" in told.words[0]
    assert told.applies is False
    assert "Theorem 2 does not apply to this start" in told.words[1]


def test_a_zero_label_is_named() -> None:
    told = verdict(Question(basis([1.0, 0.0, 0.0])))
    assert told.applies is None
    assert told.words == ("Does not apply: the label of point 1 is zero, nothing fits it.",)


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ([[1.0, 0.0], [0.1, 1.0]], "0.1"),
        ([[2.0, 0.0], [0.0, 1.0]], "3"),
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], "1"),
    ],
)
def test_inputs_that_are_not_orthonormal_are_refused_with_their_error(
    inputs: list[list[float]], error: str
) -> None:
    told = verdict(Question(sf.Dataset(inputs, np.ones(len(inputs)))))
    assert told.applies is None
    assert told.words[0].endswith(f"inner products of these inputs are off by {error}.")
    assert not told.certificates
