"""The quantities of Lemmas 4 to 7 by hand and against flows; the local rate against a decay."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.early_alignment.ends import local_rate, phase_state
from shallowflow.models import ReLUNetwork

DATA = Dataset([[-0.95, 1.0], [0.0, 1.0], [0.95, 1.0]], [1.0, 0.05, 1.0])


def test_the_quantities_by_hand() -> None:
    start = ReLUNetwork([[0.0, 1.0], [0.0, 1.0], [0.0, -1.0]], [1.0, -1.0, 1.0])
    now = ReLUNetwork([[1.0, 2.0], [0.0, 0.5], [0.0, -1.5]], [2.0, -0.5, 1.25])
    found = phase_state(now, start, DATA)
    pull = np.array([0.0, 2.05 / 3])
    assert found.aligned == pytest.approx(float(pull @ [0.5, 1.0] / np.linalg.norm(pull)))
    assert (found.growth, found.shrinkage, found.moved) == (2.0, 0.5, 0.5)
    assert found.correlation == pytest.approx(1.0 - 0.475)
    assert found.size == 4.0
    assert found.spread == pytest.approx(0.0, abs=1e-12)
    line = sf.landscape.least_squares(DATA).coefficients
    assert found.distance == pytest.approx(float(np.linalg.norm(line - [2.0, 4.0]) / np.linalg.norm(line)))


def test_a_small_flow_goes_through_the_phases_and_ends_at_the_local_rate() -> None:
    data = Dataset([[-0.97, 1.02], [0.03, 0.98], [0.92, 1.01]], [1.02, 0.04, 1.04])
    start = sf.initialize.dominated(20, 2, init_scale=1e-5, seed=0)
    run = sf.gradient_flow(start, data, until=80.0, tolerance=1e-10)
    final = run.final
    assert isinstance(final, ReLUNetwork)
    found = phase_state(final, start, data)
    assert found.distance < 1e-6
    assert found.shrinkage <= 1 + 1e-9
    assert found.moved == 0
    assert found.spread < 1e-6
    line = sf.landscape.least_squares(data).loss
    times = np.array([30.0, 35.0])
    excess = [sf.SquareLoss().value(run(float(time))(data.inputs), data.targets) - line for time in times]
    rate = float(np.log(excess[0] / excess[1])) / 5.0
    assert rate == pytest.approx(local_rate(final, data), rel=0.02)


def test_a_rate_needs_neurons_that_are_active_everywhere() -> None:
    assert local_rate(ReLUNetwork([[1.0, -2.0]], [1.0]), DATA) == 0
    few = Dataset([[1.0, 0.0]], [1.0])
    assert local_rate(ReLUNetwork([[1.0, 0.0]], [1.0]), few) == 0


def test_start_and_network_must_match() -> None:
    one, two = ReLUNetwork([[1.0, 1.0]], [1.0]), ReLUNetwork([[1.0, 1.0]] * 2, [1.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match="start: must have width 1, got 2"):
        phase_state(one, two, DATA)
