"""Certificates of the two-timescale paper on runs: constants by hand, promises beside runs."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import CERTIFICATES, Question, certify
from shallowflow.certificates.two_timescale import verdict
from shallowflow.landscape import Goodness, goodness, step_class
from shallowflow.models.networks import StepNetwork

TARGET = sf.PiecewiseConstant([0.2, 0.35, 0.5, 0.65, 0.8], [1.0, 4.0, 1.0, 2.0, 1.0, 4.0])
ONE = sf.PiecewiseConstant([0.5], [0.0, 1.0])


def evenly(width: int, sharpness: float) -> StepNetwork:
    """Return positions that are far from each other and not symmetric about ½."""
    u = (np.arange(width) + 0.3) / width
    return StepNetwork(u, np.zeros(width), 0.0, sharpness)


def test_prop_3_and_theorem_2_are_kept_by_a_run_that_they_cover() -> None:
    network = evenly(20, 1e-9)
    certificate = certify("two_timescale/prop-3", network, ONE)
    assert certificate.holds
    assert certificate.promises[0].bound == 6.0
    # With so sharp steps the run itself is that of η = 0.
    limit = sf.two_timescale_limit(evenly(20, 0.0), ONE, until=6.0)
    observed = certify("two_timescale/prop-3", network, ONE, limit)
    assert observed.kept
    far = certify("two_timescale/theorem-2", network, ONE, limit, error=0.1)
    assert far.promises[1].kept
    assert [h.holds for h in far.hypotheses] == [False, False]


def test_theorem_1_needs_what_the_notes_say() -> None:
    """For the paper's example, m at its bound: η about 10⁻²², ε about 10⁻⁴⁰."""
    width = int(np.ceil(step_class(TARGET).neurons(0.1)))
    network = sf.initialize.uniform_positions(width, sharpness=4e-3)
    certificate = certify("two_timescale/theorem-1", network, TARGET, epsilon=2e-5, error=0.01)
    wide, silent, sharp, slow = certificate.hypotheses
    assert wide.holds
    assert silent.holds
    size = width + 1
    assert sharp.bound == pytest.approx(2**-21 / (16 * size) * min(0.01 / size**4, 0.01))
    assert slow.bound == pytest.approx(2**-36 * 0.01 / (256 * size**8.5) * min(0.1 / size, 0.01))
    assert sharp.bound is not None
    assert "missed by a factor of" in sharp.name
    assert sharp.holds is False
    assert slow.holds is False


def test_prop_4_bounds_the_distance_to_the_best_weights() -> None:
    network = evenly(8, 1e-3)
    epsilon = 1e-10
    flow = sf.population_flow(network, ONE, until=500.0, epsilon=epsilon)
    certificate = certify("two_timescale/prop-4", network, ONE, flow, epsilon=epsilon)
    assert certificate.holds, str(certificate)
    assert certificate.kept
    loud = network.moved({"outer": np.ones(8)})
    assert not certify("two_timescale/prop-4", loud, ONE, epsilon=epsilon).holds
    assert certify("two_timescale/prop-4", network, ONE).hypotheses[-1].holds is None


def test_from_the_start_alone_a_way_is_open_unless_it_has_failed() -> None:
    _, fewest, far, slow = certify("two_timescale/prop-4", evenly(8, 1e-3), ONE, epsilon=1e-10).hypotheses
    assert [fewest.holds, far.holds, slow.holds] == [None, None, None]
    crowded = StepNetwork([0.1, 0.101, 0.6], np.zeros(3), 0.0, 0.1)
    _, fewest, far, slow = certify("two_timescale/prop-4", crowded, ONE, epsilon=1.0).hypotheses
    assert [fewest.holds, far.holds, slow.holds] == [False, False, False]


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), "a", 0.0])
@pytest.mark.parametrize("theorem", ["prop-4", "theorem-1"])
def test_epsilon_is_checked_before_it_is_compared(theorem: str, epsilon: object) -> None:
    with pytest.raises(sf.InvalidInputError, match="epsilon: must be"):
        certify(f"two_timescale/{theorem}", evenly(8, 1e-3), ONE, epsilon=epsilon)


def test_prop_3_needs_a_sharpness() -> None:
    limit = sf.two_timescale_limit(evenly(20, 0.0), ONE, until=6.0)
    certificate = certify("two_timescale/prop-3", evenly(20, 0.0), ONE, limit)
    assert not certificate.holds
    assert [h.name[:5] for h in certificate.hypotheses if h.holds is False] == ["η > 0"]
    assert certificate.promises[1].kept is None


@pytest.mark.parametrize(("theorem", "epsilon"), [("prop-4", 1e-10), ("theorem-1", 0.1)])
def test_a_run_at_another_speed_is_the_same_in_the_clock_of_the_paper(theorem: str, epsilon: float) -> None:
    network, times = evenly(8, 1e-3), np.linspace(0.0, 512.0, 257)
    one, other = (
        certify(
            f"two_timescale/{theorem}",
            network,
            ONE,
            sf.population_flow(
                network,
                ONE,
                until=512.0 / speed,
                epsilon=epsilon,
                speed=speed,
                record=sf.Record.at(times / speed),
            ),
            epsilon=epsilon,
            speed=speed,
        )
        for speed in (1.0, 4.0)
    )
    for first, second in zip(one.promises, other.promises, strict=True):
        assert first.observed is not None
        assert second.bound == pytest.approx(first.bound, rel=1e-6)
        assert second.observed == pytest.approx(first.observed, rel=1e-3)
        assert second.kept == first.kept


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


def test_it_does_not_apply_to_samples_whatever_they_are() -> None:
    for data in (sf.Dataset([[0.1], [0.9]], [0.0, 1.0]), sf.Dataset(np.eye(3), np.zeros(3))):
        told = verdict(Question(data))
        assert (told.paper, told.applies) == ("two_timescale", None)
        assert not told.certificates
        assert not told.tables


def test_what_it_points_to_exists() -> None:
    (words,) = verdict(Question(sf.Dataset([[0.5]], [1.0]))).words
    assert "two_timescale/theorem-1" in words
    assert "two_timescale/theorem-1" in CERTIFICATES
    for name in ("PiecewiseConstant", "StepRegressor"):
        assert name in words
        assert hasattr(sf, name) or hasattr(sf.estimators, name)


def test_a_target_without_a_jump_is_refused() -> None:
    network = sf.initialize.uniform_positions(20, sharpness=4e-3, seed=0)
    for theorem in ("theorem-2", "definition-2", "prop-4"):
        with pytest.raises(sf.InvalidInputError, match="target: jumps must not be 0"):
            sf.certify(f"two_timescale/{theorem}", network, sf.PiecewiseConstant([0.5], [1.0, 1.0]))


def test_positions_outside_the_interval_have_a_distance_and_no_bound() -> None:
    network = sf.StepNetwork([-0.5, 0.5], [0.0, 0.0], 0.0, 0.01)
    assert sf.landscape.separation(network) == pytest.approx(0.495, abs=1e-15)
    found = sf.certify("two_timescale/prop-1", network, sf.PiecewiseConstant([0.5], [0.0, 1.0]))
    assert not found.holds
    assert found.promises[0].bound is None
    assert found.promises[0].kept is None
