"""Plateaus and falls of curves whose steps are known."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.readings.plateaus import falls, plateaus


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
