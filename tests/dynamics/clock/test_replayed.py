"""Paths that are read by making steps again: beside the flow itself, stopped where they are read."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.clock.paths import Replayed
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.logs import LogFlow
from tests.kernels.orthogonal.log_problems import random_problem
from tests.rounding import assert_rounded

UNTIL = 400.0


@pytest.fixture(scope="module")
def path() -> Replayed:
    network, data = random_problem(8, 6, 0, log_scale=-40.0)
    trajectory = sf.gradient_flow(network, data, until=UNTIL, tolerance=1e-9)
    assert isinstance(trajectory.path, Replayed)
    return trajectory.path


def test_states_at_knots_are_those_that_are_kept(path: Replayed) -> None:
    for time, values in zip(path.times, path.values, strict=True):
        np.testing.assert_array_equal(path.state(float(time)), values)
    assert path(0.0) == path.template
    assert path(UNTIL) == path.network(path.values[-1])


def test_between_knots_it_is_the_flow_that_ends_there(path: Replayed) -> None:
    """The flow takes other steps when it is to end somewhere: equal to the tolerance."""
    data = sf.Dataset(path.inputs, path.targets)
    for time in np.random.default_rng(0).uniform(1.0, UNTIL, 12):
        shorter = sf.gradient_flow(path.template, data, until=float(time), tolerance=1e-9).final
        assert isinstance(shorter, sf.LogScaledNetwork)
        found = path(float(time))
        assert isinstance(found, sf.LogScaledNetwork)
        np.testing.assert_allclose(found.log_scales, shorter.log_scales, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.inner, shorter.inner, rtol=0, atol=1e-6)


def test_it_is_continuous(path: Replayed) -> None:
    for time in path.times[1:-1]:
        before, after = (path.state(float(time) * (1 + shift)) for shift in (-1e-12, 1e-12))
        np.testing.assert_allclose(before, after, rtol=0, atol=1e-7)


def test_predictions_are_those_of_the_networks(path: Replayed) -> None:
    expected = [path(float(time)).predict(path.inputs) for time in path.times]
    assert_rounded(path.predictions(), np.array(expected), 1_000)


def test_what_never_moves_stays() -> None:
    """The part of the weights that is orthogonal to the data, and coordinates of inactive points."""
    network, data = random_problem(5, 4, 1, log_scale=-20.0)
    trajectory = sf.gradient_flow(network, data, until=300.0)
    basis = data.inputs
    frozen = network.inner @ basis.T <= 0
    for time in (10.0, 150.0, 300.0):
        found = trajectory(time)
        assert isinstance(found, sf.LogScaledNetwork)
        grown = np.exp(found.log_scales - network.log_scales)[:, None]
        rest, start = (net.inner - net.inner @ basis.T @ basis for net in (found, network))
        size = float(grown.max())  # what grows hides the rest behind its rounding
        assert_rounded(grown * rest, start, 100, size=size)
        coordinates, first = grown * (found.inner @ basis.T), network.inner @ basis.T
        assert_rounded(coordinates[frozen], first[frozen], 100, size=size)


def test_pieces_read_alone_are_the_path(path: Replayed) -> None:
    """A piece knows its own steps without those before."""
    data = sf.Dataset(path.inputs, path.targets)
    engine = LogFlow(Task(path.template, data, sf.SquareLoss(), tolerance=1e-9))
    pieces = [engine.advance(100.0, rows=True), engine.advance(UNTIL, rows=True)]
    later = engine.path(pieces[1].times, pieces[1].rows)
    for time in (100.0, 123.4, 399.0):
        np.testing.assert_allclose(later.state(time), path.state(time), rtol=0, atol=1e-6)


def test_it_is_a_read_only_value(path: Replayed) -> None:
    for twin in (copy.deepcopy(path), pickle.loads(pickle.dumps(path))):
        assert twin == path
        with pytest.raises(ValueError, match="read-only"):
            twin.values[0] = 0.0
    with pytest.raises(sf.InvalidInputError, match=r"^t: must lie in \[0, 400\], got 401$"):
        path(401)
