"""What [incremental] says about a data set: the jumps of Algorithm 1, or why there are none to tell."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import Question
from shallowflow.certificates.incremental import verdict
from shallowflow.data.generators import orthonormal


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
