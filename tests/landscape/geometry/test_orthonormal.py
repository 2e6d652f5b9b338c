from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.landscape.geometry.orthonormal import (
    first_of_kind,
    mask_failure_bound,
    mask_matrix,
    mask_report,
    orthogonal,
    orthonormality,
)
from shallowflow.landscape.incremental import jump_process


def test_orthonormality_is_the_largest_wrong_inner_product() -> None:
    inputs = sf.data.GENERATORS["orthonormal"](6, 9).inputs
    assert orthonormality(inputs) < 1e-14
    assert orthonormality(np.array([[1.0, 0.0], [0.25, 1.0]])) == pytest.approx(0.25)
    assert orthonormality(np.array([[1.5, 0.0]])) == pytest.approx(1.25)


def test_many_inputs_are_probed() -> None:
    inputs = np.eye(1500)
    assert orthonormality(inputs) == 0.0
    inputs[7, 900] = 1e-3
    assert orthonormality(inputs) >= 1e-3


@pytest.mark.parametrize("size", [20, 600])
def test_one_pair_of_inputs_decides_about_orthogonality(size: int) -> None:
    inputs = np.array(sf.data.GENERATORS["orthogonal"](size, size + 4, seed=1).inputs)
    inputs[3], inputs[5] = 0.0, 1e-6 * inputs[5]
    assert orthogonal(inputs)
    inputs[15] += 1e-9 * inputs[18]
    assert not orthogonal(inputs)
    assert not orthogonal(np.ones((3, 2)))
    assert orthogonal(np.zeros((2, 3)))


def test_the_mask_is_activity_times_sign() -> None:
    network = sf.initialize.log_scaled(5, 8, log_scale=-3000.0, seed=1)
    data = sf.data.GENERATORS["orthonormal"](6, 8, seed=2)
    mask = mask_matrix(network, data)
    for k in range(6):
        for j in range(5):
            agrees = network.outer[j] * data.targets[k] > 0
            assert mask[k, j] == (network.inner[j] @ data.inputs[k] > 0 and agrees)


def test_the_report_names_what_fails() -> None:
    mask = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 1]], dtype=bool)
    report = mask_report(mask, np.array([1.0, 1.0, -1.0]))
    assert report.lonely_points.tolist() == [1]
    assert report.idle_neurons.tolist() == [2]
    assert report.twins.tolist() == [[0, 1]]
    assert not report.holds
    assert mask_report(np.eye(3, dtype=bool), np.ones(3)).holds


def test_idle_neurons_are_no_twins() -> None:
    assert first_of_kind(np.zeros((3, 2), dtype=bool)).tolist() == [0, 1]


@pytest.mark.parametrize(("width", "positives", "negatives"), [(12, 6, 7), (20, 4, 9)])
def test_the_union_bound_holds_and_is_near_in_simulation(width: int, positives: int, negatives: int) -> None:
    rng = np.random.default_rng(0)
    targets = np.array([1.0] * positives + [-1.0] * negatives)
    failures = 0
    for _ in range(2000):
        signs = rng.choice([-1.0, 1.0], width)
        mask = (rng.random((len(targets), width)) < 0.5) & (signs * targets[:, None] > 0)
        failures += not mask_report(mask, targets).holds
    bound = mask_failure_bound(width, positives, negatives)
    # Three standard errors of the simulated frequency.
    assert failures / 2000 <= bound + 3 * np.sqrt(0.25 / 2000)
    assert failures / 2000 >= 0.3 * bound


def test_a_network_without_a_sign_is_refused() -> None:
    data = sf.Dataset(np.eye(2), [1.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match="outer weights must not be zero"):
        mask_matrix(sf.ReLUNetwork([[1.0, 0.0]], [0.0]), data)
    with pytest.raises(sf.InvalidInputError, match="must be a ReLUNetwork"):
        mask_matrix(sf.KnotNetwork([0.0], [1.0]), data)  # type: ignore[arg-type]


def test_labels_that_do_not_fit_the_mask_are_refused() -> None:
    mask = np.array([[True, True], [False, True]])
    for call in (mask_report, jump_process):
        with pytest.raises(sf.InvalidInputError, match=r"one entry per row .* got 3 for 2"):
            call(mask, np.ones(3))
        with pytest.raises(sf.InvalidInputError, match="targets: entries must be finite, got nan"):
            call(mask, np.array([1.0, np.nan]))
        with pytest.raises(sf.InvalidInputError, match="mask: must be a matrix of booleans"):
            call(mask[0], np.ones(2))


@pytest.mark.parametrize("wrong", ["a", None, [1.0, 2.0]])
def test_what_is_no_matrix_has_no_orthonormality(wrong: Any) -> None:
    with pytest.raises(sf.InvalidInputError, match="inputs: must"):
        orthonormality(wrong)
