"""The lemmas of the two-timescale paper on random positions: they hold, and their numbers are right."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.landscape import best_outer, population_gradient, separation, step_class, well_separated
from shallowflow.landscape.two_timescale.step_classes import (
    ProofStep,
    best_outer_slope,
    fast_time,
    limit_slope,
    proof_steps,
    sharp_slopes,
    weights,
)

TARGET = sf.PiecewiseConstant([0.3, 0.62], [1.0, -2.0, 0.5])


def apart(seed: int, width: int = 9, sharpness: float = 1e-4) -> sf.StepNetwork:
    """Return three unsorted positions on every piece of `TARGET`, in 𝒰, with random weights."""
    rng = np.random.default_rng(seed)
    pieces = (0.0, 0.3), (0.3, 0.62), (0.62, 1.0)
    places = np.concatenate([rng.uniform(low + 0.02, high - 0.02, width // 3) for low, high in pieces])
    network = sf.StepNetwork(rng.permutation(places), rng.normal(size=width), rng.normal(), sharpness)
    return network if well_separated(network) else apart(seed + 1000, width, sharpness)


@pytest.mark.parametrize("seed", range(40))
def test_the_lemmas_hold(seed: int) -> None:
    steps = proof_steps(apart(seed), TARGET)
    assert {step.name[:7] for step in steps} == {f"Lemma {k}" for k in (1, 2, 3, 4, 5, 6, 7, 8)}
    assert [step.name for step in steps if step.share > 1 + 1e-12] == []


def test_covered_jumps_leave_what_lemma_9_allows() -> None:
    network = sf.StepNetwork([0.1, 0.3, 0.45, 0.62, 0.9], np.zeros(5), 0.0, 1e-3)
    (ninth,) = (step for step in proof_steps(network, TARGET) if step.name.startswith("Lemma 9"))
    assert ninth.bound == pytest.approx(6 * 4 * 1e-3 * 3)
    assert ninth.observed == pytest.approx(1e-3 / 28 * (9 + 6.25), rel=0.05)


def test_the_slope_of_the_best_weights_is_a_difference_quotient() -> None:
    network, h = apart(3), 1e-7
    exact = best_outer_slope(network, TARGET)
    for k in range(network.width):
        moved = [
            weights(
                best_outer(network.moved({"positions": network.positions + side * h * np.eye(9)[k]}), TARGET)
            )
            for side in (1, -1)
        ]
        np.testing.assert_allclose(exact[:, k], (moved[0] - moved[1]) / (2 * h), rtol=1e-4, atol=1e-4)


def test_the_slopes_of_lemma_4_are_those_of_the_loss() -> None:
    network = apart(5)
    sharp = best_outer(sf.StepNetwork(network.positions, network.outer), TARGET)
    at = network.moved({"outer": sharp.outer, "offset": sharp.offset})
    expected = population_gradient(at, TARGET)["positions"]
    np.testing.assert_allclose(sharp_slopes(network, TARGET), expected, atol=1e-9)
    assert np.count_nonzero(sharp_slopes(network, TARGET)) == 4


def test_a_broken_lemma_would_be_seen() -> None:
    assert ProofStep("", 2.0, 1.0).share == 2.0
    assert ProofStep("", 1e-9, 0.0).share == 1.0
    assert ProofStep("", 0.0, 0.0).share == 0.0


def test_the_slope_of_the_limit_is_seen_between_two_positions() -> None:
    network = apart(7)
    field = []
    direction = np.random.default_rng(0).normal(size=9) * 1e-9
    for side in (1, -1):
        moved = network.moved({"positions": network.positions + side * direction})
        field.append(population_gradient(best_outer(moved, TARGET), TARGET)["positions"])
    quotient = np.linalg.norm(field[0] - field[1]) / np.linalg.norm(2 * direction)
    assert quotient <= limit_slope(network, TARGET) * (1 + 1e-3)


def test_the_fast_phase_by_hand() -> None:
    known = step_class(TARGET)
    # m = 9, δ = 0.1: D = 0.1/600, log(2¹⁶ · 4 · 10³/(0.1 · 6.25)).
    assert fast_time(9, known, 0.1) == pytest.approx(16 * 6000 * np.log(65536 * 4000 / 0.625))


def test_the_certificate_reads_a_run() -> None:
    start = apart(11, sharpness=1e-3)
    run = sf.two_timescale_limit(start, TARGET, until=0.05)
    found = sf.certify("two_timescale/appendix-a", start, TARGET, run)
    assert found.hypotheses[0].holds
    assert found.kept is not False
    shares = {one.statement: (one.observed or 0.0) / one.bound for one in found.promises if one.bound}
    alone = sf.certify("two_timescale/appendix-a", run.initial, TARGET)
    for one in alone.promises[:-1]:
        if one.bound:
            assert one.observed is not None
            assert one.observed / one.bound <= shares[one.statement] * (1 + 1e-9)
    assert separation(start) > 2e-3
