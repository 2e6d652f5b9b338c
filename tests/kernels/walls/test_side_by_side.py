"""Neurons that go through a step side by side end where those end that are traced one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.kernels.walls import field
from shallowflow.kernels.walls.desk import Neurons
from shallowflow.kernels.walls.step import NODES, Reader, WallStepper

SLOPES = (0.0, 0.2)


def drawn(seed: int) -> tuple[field.Problem, Floats, Floats]:
    """A problem, and neurons: some at zero, some on walls, some with one of their weights zero."""
    rng = np.random.default_rng(seed)
    d, n, m = (int(rng.integers(*span)) for span in ((1, 9), (1, 13), (16, 140)))
    inputs, targets = rng.normal(size=(n, d)), rng.normal(size=n)
    normals, samples, _, _, aligned = field.span_of(inputs, targets)
    slope = float(rng.choice(SLOPES))
    problem = field.Problem(normals, samples, int(aligned), 1.0, slope, 1.0 / n, field.SQUARE, 0.0)
    inner, outer = rng.normal(size=(m, normals.shape[1])), rng.normal(size=m)
    inner[:2], outer[1:3] = 0.0, 0.0
    inner[4] -= (inner[4] @ normals[0]) * normals[0]
    return problem, inner, outer


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 100_000))
def test_side_by_side_is_one_by_one(seed: int) -> None:
    """Up to rounding: series of at most 20 terms, each a sum over six forces and r coordinates."""
    problem, inner, outer = drawn(seed)
    rng = np.random.default_rng([seed, 1])
    stepper = WallStepper(inner, outer, problem, 1e-8)
    start = Neurons(stepper.now.inner.copy(), stepper.now.outer.copy(), stepper.now.signs.copy())
    pulls = stepper.pulls * (1.0 + 0.3 * rng.normal(size=(NODES, 1)))
    length = float(rng.choice([0.02, 0.2])) / max(stepper._fastest(stepper.pulls), 1e-300)
    shares, found = np.array([0.1, 0.6, 1.0]), []
    for busy in (0, 10**12):  # events of the last sweep: with none neurons go side by side
        reader = Reader(len(shares), problem)
        reader._log.used[0] = busy
        then, sums = reader(length, stepper.rest, start, pulls, shares)
        found.append((*then, sums.predictions.copy(), sums.losses.copy(), reader._log.used[0]))
    side, one = found
    np.testing.assert_array_equal(side[2], one[2])
    assert side[5] == one[5]
    rounding = 20 * 6 * (len(inner[0]) + 1) * np.finfo(float).eps
    size = np.sqrt((one[0] ** 2).sum(axis=1) + one[1] ** 2)
    assert np.all(np.abs(side[0] - one[0]).max(axis=1) <= rounding * size)
    assert np.all(np.abs(side[1] - one[1]) <= rounding * size)
    heights = np.abs(one[0]).sum() * np.abs(one[1]).max() * problem.samples.lengths.max()
    np.testing.assert_allclose(side[3], one[3], rtol=0, atol=len(inner) * rounding * max(heights, 1.0))


def test_some_neurons_go_side_by_side_and_some_do_not() -> None:
    """The examples above have both: else they would show nothing."""
    quiet = close = 0
    for seed in range(20):
        problem, inner, outer = drawn(seed)
        stepper = WallStepper(inner, outer, problem, 1e-8)
        step = 0.2 / stepper._fastest(stepper.pulls)
        reader = Reader(1, problem)
        reader._log.used[0] = 0
        reader(step, stepper.rest, stepper.now, np.tile(stepper.pulls, (NODES, 1)), np.ones(1))
        if not problem.aligned:
            lanes = reader._tools[0].lanes.close[: min(len(inner), 64)]
            quiet, close = quiet + int((lanes == 0).sum()), close + int((lanes != 0).sum())
    assert quiet > 100
    assert close > 100


@pytest.mark.parametrize("width", [8, 20])
def test_the_beginning_of_a_step_can_be_read(width: int) -> None:
    """A moment that rounding puts at the beginning of a step had a loss that was no number."""
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(rng.normal(size=(8, 3)), rng.normal(size=8))
    inner = 0.3 * rng.normal(size=(width, 3))
    network = sf.ReLUNetwork(inner, np.linalg.norm(inner, axis=1) * rng.choice([-1.0, 1.0], width))
    whole = sf.gradient_flow(network, dataset, until=5.0, engine="walls")
    for time in whole.times[1:-1]:
        moments = np.array([0.0, np.nextafter(time, 9.0), 5.0])
        run = sf.gradient_flow(network, dataset, until=5.0, engine="walls", record=sf.Record.at(moments))
        assert abs(run.losses[1] - sf.SquareLoss().value(whole(time)(dataset.inputs), dataset.targets)) < 1e-9


def test_a_reader_takes_arrays_of_any_order_and_kind() -> None:
    """Machine code does not look at types."""
    problem, inner, outer = drawn(1)
    stepper = WallStepper(inner, outer, problem, 1e-8)
    plain = Reader(1, problem)(0.01, 0.0, stepper.now, stepper.trial.pulls, np.ones(1))[0]
    now = stepper.now
    strange = Neurons(np.asfortranarray(now.inner), now.outer[::-1].copy()[::-1], now.signs.astype(np.int64))
    other = Reader(1, problem)(0.01, 0, strange, stepper.trial.pulls, np.ones(1))[0]
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_array_equal(one, two)
