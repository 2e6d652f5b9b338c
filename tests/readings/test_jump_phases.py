"""Phases of a jump: the logistic of a lone neuron, and two neurons of which one turns."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.jump_phases import jump_course, jump_phases, predicted_phases


def test_a_lone_neuron_passes_the_levels_of_its_logistic() -> None:
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    run = sf.gradient_flow(network, data, until=100.0, tolerance=1e-10)
    limit = sf.saddle_to_saddle(network, data)
    middle, reach = (np.log(5.0) + 80.0) / 5.0, np.log(99.0) / 5.0  # 2γ = 5
    found = jump_phases(run, limit)
    assert found.grown[0] == pytest.approx(middle - reach, abs=1e-6)
    assert found.fitted[0] == pytest.approx(middle + reach, abs=1e-6)
    assert np.isnan(found.aligned[0])
    predicted = predicted_phases(limit, 40.0)
    assert predicted.grown[0] == pytest.approx(middle - reach)
    assert predicted.fitted[0] == pytest.approx(middle + reach)
    course = jump_course(run, limit, 0, np.array([0.0, middle, 100.0]))
    np.testing.assert_allclose(course.growth, [np.exp(-80.0) / 5.0, 0.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(course.residual, [1.0, 0.5, 0.0], atol=1e-6)
    assert np.all(course.misdirection == 0)


def test_a_neuron_that_loses_a_point_turns_after_the_jump() -> None:
    """Neuron 0 fits points 0 and 1; neuron 1, on 1 and 2, turns to 2. Twice ln(1/α): the same durations."""
    data = sf.Dataset(np.eye(3), [3.0, 2.0, 1.0])
    inner = np.array([[0.8, 0.6, -0.1], [-0.1, 0.8, 0.6]])
    inner /= np.linalg.norm(inner, axis=1, keepdims=True)
    spans = []
    for scale in (200.0, 400.0):
        network = sf.LogScaledNetwork(inner, np.ones(2), np.full(2, -scale))
        limit = sf.saddle_to_saddle(network, data)
        run = sf.gradient_flow(network, data, until=1.2 * scale * limit.jump_times[-1], tolerance=1e-10)
        found = jump_phases(run, limit)
        assert found.grown[0] < found.fitted[0] < found.aligned[0] < found.grown[1]
        assert np.isnan(found.aligned[1])
        np.testing.assert_allclose(found.fitted, predicted_phases(limit, scale).fitted, rtol=1e-6)
        spans.append([found.fitted[0] - found.grown[0], found.aligned[0] - found.fitted[0]])
    np.testing.assert_allclose(spans[1], spans[0], rtol=1e-4)


def test_a_run_that_ends_before_a_jump_has_not_seen_it() -> None:
    network = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-40.0])
    data = sf.Dataset(np.eye(2), [3.0, 4.0])
    run = sf.gradient_flow(network, data, until=5.0)
    found = jump_phases(run, sf.saddle_to_saddle(network, data))
    assert np.isnan(np.concatenate(found)).all()
    with pytest.raises(sf.InvalidInputError, match="jump"):
        jump_course(run, sf.saddle_to_saddle(network, data), 1, np.zeros(1))
