"""Curves with known answers: stretches without gaps, thinned records, plateaus, falls, distances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.readings.curves import falls, largest_gap, mean_gap, plateaus, stretches


def logistic_steps(times: Floats, centres: list[float], levels: list[float], width: float) -> Floats:
    """ln L falls from level to level at each centre, over some `width`."""
    logs = np.full_like(times, levels[0])
    for centre, before, after in zip(centres, levels, levels[1:], strict=False):
        logs += (after - before) / (1.0 + np.exp(np.clip(-(times - centre) / width, -500, 500)))
    return np.exp(logs)


def test_a_staircase_has_its_jumps_where_they_are() -> None:
    times = np.linspace(0.0, 100.0, 2001)
    losses = logistic_steps(times, [20.0, 60.0], [0.0, -1.0, -3.0], 0.5)
    found = stretches(times, losses)
    assert [one.fast for one in found] == [False, True, False, True, False]
    for one, centre in zip(found[1::2], (20.0, 60.0), strict=True):
        # A logistic step runs at a tenth of its top speed at 2.6 % and 97.4 %: 3.6 widths to each side.
        assert one.start == pytest.approx(centre - 3.64 * 0.5, abs=0.1)
        assert one.end == pytest.approx(centre + 3.64 * 0.5, abs=0.1)


@pytest.mark.parametrize("every", [2, 3, 7, 33])
def test_thinned_records_give_the_same_spells(every: int) -> None:
    times = np.linspace(0.0, 100.0, 2001)
    losses = logistic_steps(times, [20.0, 60.0], [0.0, -1.0, -3.0], 0.5)
    kinds = [one.fast for one in stretches(times[::every], losses[::every])]
    assert kinds == [one.fast for one in stretches(times, losses)]


def test_a_constant_rate_is_one_fast_spell_and_a_constant_loss_a_slow_one() -> None:
    times = np.linspace(0.0, 10.0, 300)
    assert [one.fast for one in stretches(times, np.exp(-times))] == [True]
    assert [one.fast for one in stretches(times, np.ones(300))] == [False]
    assert [one.fast for one in stretches(times, np.zeros(300))] == [False]


def test_a_ripple_is_no_jump() -> None:
    times = np.linspace(0.0, 10.0, 1001)
    losses = logistic_steps(times, [5.0], [0.0, -0.05], 0.02)
    assert [one.fast for one in stretches(times, losses)] == [False]


def test_noise_is_smoothed_by_the_running_minimum() -> None:
    times = np.linspace(0.0, 100.0, 601)
    losses = logistic_steps(times, [50.0], [0.0, -3.0], 1.0)
    noisy = losses * np.exp(0.003 * np.random.default_rng(0).standard_normal(601))
    assert [one.fast for one in stretches(times, noisy)] == [False, True, False]


@given(
    st.lists(st.floats(1e-12, 1e6), min_size=2, max_size=60),
    st.lists(st.floats(1e-9, 1e3), min_size=60, max_size=60),
)
@settings(max_examples=150, deadline=None)
def test_spells_cover_a_run_without_gaps_and_alternate(losses: list[float], gaps: list[float]) -> None:
    times = np.concatenate([[0.0], np.cumsum(gaps[: len(losses) - 1])])
    found = stretches(times, np.array(losses))
    assert found[0].start == times[0]
    assert found[-1].end == times[-1]
    for one, other in pairwise(found):
        assert one.end == other.start
        assert one.fast != other.fast
    assert all(one.start < one.end for one in found)


def test_plateaus_are_intervals_that_end() -> None:
    """A staircase with two flat steps that are left, and a last one that is not."""
    k = np.geomspace(1, 1e6, 400)
    errors = np.where(k < 1e2, 1.0, np.where(k < 1e4, 0.1, 0.01)) * (1 - 1e-9 * k)
    found = plateaus(k, errors)
    assert len(found) == 2
    assert found[0][1] == pytest.approx(1e2, rel=0.1)
    assert found[1][1] == pytest.approx(1e4, rel=0.1)
    assert plateaus(k, 1 / k) == []


def test_lengths_must_be_equal() -> None:
    with pytest.raises(sf.InvalidInputError, match="times, losses: must have equal lengths, got 2 and 1"):
        plateaus([1.0, 2.0], [1.0])


def test_falls_are_counted() -> None:
    """A sum of two logistic steps falls twice, a straight line never faster than on the average."""
    t = np.linspace(0.0, 10.0, 2001)
    steps = sum(1 / (1 + np.exp((t - middle) / 0.1)) for middle in (3.0, 6.0))
    assert falls(t, np.asarray(steps)) == 2
    assert falls(t, 5.0 - 0.49 * t) == 0


def test_gaps_of_two_parabolas() -> None:
    """|t² − t(2 − t)| = 2t|t − 1| on [0, 2]: 4 at the end, ½ within the first half, mean 1."""
    t = np.linspace(0.0, 2.0, 20_001)
    assert largest_gap(t, t**2, t * (2 - t)) == pytest.approx(4.0)
    early = t <= 1
    assert largest_gap(t[early], t[early] ** 2, t[early] * (2 - t[early])) == pytest.approx(0.5)
    assert largest_gap(t, -t, np.zeros_like(t), since=0.5) == pytest.approx(2.0)
    assert mean_gap(t, t**2, t * (2 - t)) == pytest.approx(1.0, rel=1e-6)
