"""`Record`: which steps and times are kept, and that no run can fill the memory by accident."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.dynamics.clock.problem import (
    DEFAULT_BYTES,
    DEFAULT_POINTS,
    Record,
    checked_square_loss,
    default_record,
)
from shallowflow.errors import InvalidInputError
from shallowflow.models import LogisticLoss, SquareLoss


@settings(deadline=None, derandomize=True, max_examples=60)
@given(k=st.integers(1, 50), steps=st.integers(1, 200))
def test_every(k: int, steps: int) -> None:
    indices = Record.every(k).indices(steps, 0.1)
    assert indices.tolist() == sorted({*range(0, steps + 1, k), steps})
    assert indices.dtype == np.int64
    assert Record.every(k).moments(1.0, 0.1) is None


@settings(deadline=None, derandomize=True, max_examples=60)
@given(points=st.integers(2, 300), steps=st.integers(1, 10**7))
def test_geometric_steps(points: int, steps: int) -> None:
    indices = Record.geometric(points).indices(steps, 0.1)
    exact = np.array([steps ** (i / (points - 1)) for i in range(points)])
    assert {int(i) for i in indices} >= {0, 1, steps}
    assert len(indices) <= points + 1
    assert np.all(np.diff(indices) > 0)
    gaps = np.abs(indices[1:, None] - exact)
    assert gaps.min(axis=0).max() <= 0.5 + 1e-6
    assert gaps.min(axis=1).max() <= 0.5 + 1e-6


@settings(deadline=None, derandomize=True, max_examples=60)
@given(steps=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
def test_steps_nearest_to_given_times(steps: int, seed: int) -> None:
    step = 0.037
    times = np.sort(np.random.default_rng(seed).uniform(0, steps * step, 5))
    indices = Record.at(times).indices(steps, step)
    nearest = {min(range(steps + 1), key=lambda i: abs(i * step - t)) for t in times}
    assert set(indices.tolist()) == nearest | {0, steps}
    assert np.all(np.diff(indices) > 0)


def test_the_last_step_may_be_asked_for_in_floating_point() -> None:
    # 3 × 0.1 exceeds 0.3 by rounding, and 0.30000000000000004 exceeds 0.3.
    assert Record.at([0.3]).indices(3, 0.1).tolist() == [0, 3]
    assert Record.at([3 * 0.1]).indices(3, 0.1).tolist() == [0, 3]
    moments = Record.at([3 * 0.1]).moments(0.3, 0.01)
    assert moments is not None
    assert moments.tolist() == [0.0, 0.3]


def test_moments_of_given_times() -> None:
    for times in ([0.5, 2.0], [0.0, 0.5, 2.0, 3.0]):
        moments = Record.at(times).moments(3.0, 0.1)
        assert moments is not None
        assert moments.tolist() == [0.0, 0.5, 2.0, 3.0]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(points=st.integers(2, 50), until=st.floats(1e-3, 1e6), first=st.floats(1e-9, 1e3))
def test_moments_grow_geometrically(points: int, until: float, first: float) -> None:
    moments = Record.geometric(points).moments(until, first)
    assert moments is not None
    assert (moments[0], moments[-1]) == (0.0, until)
    assert np.all(np.diff(moments) > 0)
    if first < 0.99 * until:
        assert len(moments) == points + 1
        assert moments[1] == pytest.approx(first)
        ratio = (until / first) ** (1 / (points - 1))
        np.testing.assert_allclose(moments[2:] / moments[1:-1], np.full(points - 1, ratio), rtol=1e-9)
    elif first >= until:
        assert moments[1] == pytest.approx(until, rel=1e-12)


def test_a_record_that_would_fill_the_memory_is_refused() -> None:
    # 200,000 neurons in two dimensions for two million steps: 600,000 numbers each time.
    record = Record.every(1)
    networks = len(record.indices(2_000_000, 1e-3))
    with pytest.raises(
        InvalidInputError,
        match=r"^record: keeping 2000001 networks of 600000 numbers needs 9\.6e\+03 GB, "
        r"the limit is 1\.07 GB; record fewer, pass networks=False, or raise max_bytes$",
    ):
        record.check_memory(networks, 600_000)
    Record.every(1, networks=False).check_memory(networks, 600_000)
    Record.every(20_000).check_memory(101, 600_000)


def test_the_limit_is_exact() -> None:
    record = Record.geometric(10, max_bytes=800)
    record.check_memory(10, 10)
    with pytest.raises(InvalidInputError, match="keeping 10 networks of 11 numbers"):
        record.check_memory(10, 11)


def test_the_default_never_exceeds_the_limit() -> None:
    border = DEFAULT_BYTES // (8 * (DEFAULT_POINTS + 2))
    for numbers in (1, 1000, border, border + 1, 10**6, 10**9):
        record = default_record(numbers)
        record.check_memory(DEFAULT_POINTS + 2, numbers)
        assert record.networks == (8 * numbers * (DEFAULT_POINTS + 2) <= DEFAULT_BYTES)
        assert record.points == DEFAULT_POINTS


def test_records_are_values() -> None:
    records = [Record.every(3), Record.geometric(9), Record.at([0, 1]), Record.at([0, 2]), Record()]
    for i, record in enumerate(records):
        assert [record == other for other in records].index(True) == i
        assert [record == other for other in records].count(True) == 1
        assert copy.deepcopy(record) == record
        assert pickle.loads(pickle.dumps(record)) == record
    assert Record.every(3) != Record.every(3, networks=False)


def test_times_are_copied_and_read_only() -> None:
    times = np.array([0.0, 1.0])
    record = Record.at(times)
    times[1] = 5.0
    assert record.times is not None
    assert record.times.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        record.times[0] = 3.0


TEXT: Any = "1 GB"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Record.every(0), r"^every: must be >= 1, got 0$"),
        (lambda: Record.geometric(1), r"^points: must be >= 2, got 1$"),
        (lambda: Record.geometric(10**9), r"^points: must be <= 1e\+07, got 1000000000$"),
        (lambda: Record(times=np.array([3.0, 1.0])), r"^times: must be strictly increasing"),
        (lambda: Record(times=np.array([np.nan])), r"^times: entries must be finite, got nan"),
        (lambda: Record(times=np.array([-1.0])), r"^times: must be >= 0, got -1$"),
        (
            lambda: Record(interval=1, points=3),
            r"^record: takes one of interval, points, times; got interval, p",
        ),
        (lambda: checked_square_loss(LogisticLoss(), SquareLoss()), r"^loss: must be a SquareLoss, got Logi"),
        (lambda: Record.at([]), r"^times: must not be empty, got shape \(0,\)$"),
        (lambda: Record.at([1, 0]), r"^times: must be strictly increasing, got 1\.0 before 0\.0 at index 0$"),
        (lambda: Record.at([-1, 0]), r"^times: must be >= 0, got -1$"),
        (lambda: Record.at([0, np.nan]), r"^times: entries must be finite, got nan at index \(1,\)$"),
        (lambda: Record.at([0, 5]).indices(3, 1.0), r"^times: must be <= the final time 3, got 5$"),
        (lambda: Record.at([0, 5]).moments(3.0, 0.1), r"^times: must be <= the final time 3, got 5$"),
        (lambda: Record.every(1, max_events=-1), r"^max_events: must be >= 0, got -1$"),
        (lambda: Record.geometric(max_bytes=-1), r"^max_bytes: must be >= 0, got -1$"),
        (lambda: Record.at([1], max_bytes=TEXT), r"^max_bytes: must be an integer, got '1 GB'$"),
    ],
)
def test_borders(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
