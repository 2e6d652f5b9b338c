"""Certificates of the two-timescale paper on positions: constants by hand, draws."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import certify
from shallowflow.landscape import Goodness, goodness, step_class
from shallowflow.models.networks import StepNetwork
from tests.certificates.step_cases import ONE, TARGET, evenly


def test_class_constants_of_the_papers_example() -> None:
    known = step_class(TARGET)
    assert (known.pieces, known.jump, known.bound) == (6, 1.0, 4.0)
    assert known.length == pytest.approx(0.15)
    assert known.slow_time == 6.0
    assert known.neurons(0.1) == pytest.approx(40 * (4 + np.log(6) + np.log(10)))
    with pytest.raises(sf.InvalidInputError, match="jumps, all inside"):
        step_class(sf.PiecewiseConstant([], [1.0]))


def test_goodness_measures_the_three_conditions() -> None:
    network = StepNetwork([0.1, 0.3, 0.6, 0.9], np.zeros(4), 0.0, 0.02)
    found = goodness(network, ONE)
    assert found.fewest == 2
    assert found.separation == pytest.approx(0.11)
    assert found.asymmetry == pytest.approx(0.1)
    assert not found.good(1e-9)
    assert goodness(evenly(20, 0.0), ONE).good(0.01)
    assert goodness(StepNetwork([0.6], [0.0]), ONE).asymmetry == 0


def test_definition_2_follows_its_distance() -> None:
    network = evenly(20, 1e-3)
    assert certify("two_timescale/definition-2", network, ONE, distance=0.01).holds
    assert not certify("two_timescale/definition-2", network, ONE, distance=0.03).holds


def test_lemma_10_is_kept_where_it_applies() -> None:
    width = int(np.ceil(step_class(ONE).neurons(0.5)))
    certificate = certify("two_timescale/lemma-10", evenly(width, 0.0), ONE, delta=0.5, samples=300)
    assert certificate.holds
    assert certificate.kept
    narrow = certify("two_timescale/lemma-10", evenly(10, 0.0), ONE, delta=0.5, samples=300)
    assert not narrow.holds
    assert narrow.promises[0].kept is False


def test_prop_1_bounds_the_least_eigenvalue() -> None:
    certificate = certify("two_timescale/prop-1", evenly(12, 0.01), ONE)
    assert certificate.holds
    assert certificate.kept
    assert certificate.promises[0].bound == pytest.approx((1 / 12 * 0.3 + 0.005) / 8)
    assert not certify("two_timescale/prop-1", evenly(12, 0.05), ONE).holds


def test_bad_probabilities_are_refused() -> None:
    with pytest.raises(sf.InvalidInputError, match="delta: must be at most 1"):
        certify("two_timescale/lemma-10", evenly(5, 0.0), ONE, delta=2.0)


def test_lemma_10_is_broken_by_more_than_chance_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws that are good nearly half of the time, at δ = ½ and 100 draws: 3 standard errors are 0.15."""
    for hits, kept in ((50, True), (49, None), (36, None), (34, False)):
        draws = iter([True] * hits + [False] * (100 - hits))
        monkeypatch.setattr(Goodness, "good", lambda *_, draws=draws: next(draws))
        found = certify("two_timescale/lemma-10", evenly(10, 0.0), ONE, delta=0.5, samples=100)
        assert found.promises[0].observed == hits / 100
        assert found.promises[0].kept is kept
