"""Certificates of the two-timescale paper on runs: constants by hand, promises beside runs."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import certify
from shallowflow.landscape import step_class
from shallowflow.models.networks import StepNetwork
from tests.certificates.step_cases import ONE, TARGET, evenly


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
    flow = sf.population_flow(network, ONE, until=200.0, epsilon=epsilon)
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
    network, times = evenly(8, 1e-3), np.linspace(0.0, 64.0, 33)
    one, other = (
        certify(
            f"two_timescale/{theorem}",
            network,
            ONE,
            sf.population_flow(
                network,
                ONE,
                until=64.0 / speed,
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
