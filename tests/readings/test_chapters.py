"""Chapters: constructed curves with known answers, no gaps, thinned records."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.readings.chapters import stretches


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
