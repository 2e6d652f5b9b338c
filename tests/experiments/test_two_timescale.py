"""The experiments of the two-timescale paper, small: each claim is made to hold, to fail, to be open."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import Certificate, Hypothesis, Promise
from shallowflow.experiments import EXPERIMENTS, Claim
from shallowflow.experiments.experiment import Interval
from shallowflow.experiments.two_timescale import (
    batch_training,
    beside_limit,
    one_dimension,
    theory,
    training,
)
from shallowflow.experiments.two_timescale.training import AUTHORS, PRINTED, PUBLISHED
from shallowflow.readings.phases import Arrival
from shallowflow.studies import Study, run

PAPER = EXPERIMENTS["two_timescale/fig3"].parameters["paper"]


def reproduced(name: str, **changes: Any) -> list[Claim]:
    experiment = EXPERIMENTS[f"two_timescale/{name}"]
    changed = {"quick": {**experiment.parameters["quick"], **changes}}
    found = replace(experiment, parameters=changed).reproduce("quick")
    assert found.figures
    assert all(claim.fails_if for claim in found.claims)
    return list(found.claims)


def words(claims: list[Claim], setting: str, statement: str) -> Claim:
    (found,) = (one for one in claims if one.setting == setting and one.statement.startswith(statement))
    return found


def test_the_published_start_is_the_authors() -> None:
    network = training.start_of(PAPER, PUBLISHED)
    # The first draws of NumPy's RandomState(42), as everyone knows them.
    np.testing.assert_allclose(network.positions[[-1, 0]], [0.9699098521619943, 0.020584494295802447])
    np.testing.assert_allclose(
        sf.hitting_times(network, AUTHORS.target) / 2, [0.0016, 0.0025, 0.0087, 0.0281, 0.0032], atol=6e-5
    )


def test_fig3_covers_all_jumps_as_run_and_three_as_printed() -> None:
    found = reproduced("fig3", step=3e-4, steps={"printed": 6_000_000, "authors": 5_833_333}, starts=6)
    for statement in ("SGD recovers", "SGD matches", "SGD follows", "The exact flow tends", "What remains"):
        assert words(found, "authors", statement).holds, statement
    printed = words(found, "printed", "SGD recovers")
    assert printed.holds is False
    assert printed.measured.startswith("3 of 5 jumps")
    assert "0.5 (τ = 0.070), 0.65 (τ = 0.225)" in printed.reason


def test_fig3_fails_where_it_should() -> None:
    chosen = {**training.case(PAPER, AUTHORS, PUBLISHED), "steps": 3_000_000}
    short = beside_limit.compare(AUTHORS, chosen, lambda *_: None)
    assert beside_limit.recovery_claims(beside_limit.ending(short), PAPER)[0].holds is False
    # So short a run is the fast phase of the weights: SGD is with the flow, and both are far from the limit.
    limit, flow, _ = beside_limit.gap_claims(short, PAPER["epsilon"])
    assert limit.holds is False
    assert flow.holds
    rough = beside_limit.compare(AUTHORS, {**chosen, "step": 0.03, "steps": 1000}, lambda *_: None)
    assert beside_limit.gap_claims(rough, PAPER["epsilon"])[1].holds is False


def judged(*claims: Claim) -> list[bool | None]:
    return [claim.holds for claim in claims]


def test_claims_of_fig3_can_fail_and_be_open() -> None:
    end = beside_limit.Ending("authors", 0.07, 5, 5, (), 0.0081, 0.008)
    assert judged(*beside_limit.recovery_claims(end, PAPER)) == [True, True]
    worse = end._replace(reached=4, late=((0.5, 0.1),), error=0.02)
    assert judged(*beside_limit.recovery_claims(worse, PAPER)) == [False, False]
    assert judged(beside_limit.match_claim("", 0.3, 0.05), beside_limit.match_claim("", 0.3, 0.2)) == [
        True,
        False,
    ]
    tends = [beside_limit.limit_claim("", gaps, "") for gaps in ([0.3, 0.03], [0.3, 0.2, 0.02])]
    assert judged(*tends) == [True, False]
    similar = [(True, 0.2, 1.5), (False, 0.2, 1.5), (True, 2.0, 1.5), (True, 0.2, 3.0)]
    assert judged(*(beside_limit.similar_claim("", *one) for one in similar)) == [True, False, False, False]
    shares = [beside_limit.share_claim("", *one) for one in ((36, 40), (8, 40), (22, 40))]
    assert judged(*shares) == [True, False, None]
    crowded = [beside_limit.crowded_claim(*one, 3, 4) for one in ((90, 100), (30, 100), (5, 10))]
    assert judged(*crowded) == [True, False, None]
    assert judged(beside_limit.steps_claim(1.4e8), beside_limit.steps_claim(1e7)) == [True, False]
    remarks = [beside_limit.remark_claim(one) for one in ([0.1, 0.2], [0.1, 1.2])]
    assert judged(*remarks) == [True, False]
    foresight = [beside_limit.foresight_claim("", *one, (1, 1, 1)) for one in ((99, 100), (50, 100), (9, 10))]
    assert judged(*foresight) == [True, False, None]


def test_fig4_and_fig5_judge_who_moves() -> None:
    calm = one_dimension.Movement(0.05, 0.001, 8, 5, 5, 0, 20)
    assert judged(*one_dimension.fig4_claims("", calm)) == [True, True]
    wild = calm._replace(others=0.02, active=12)
    assert judged(*one_dimension.fig4_claims("", wild)) == [False, False]
    fast = one_dimension.Movement(0.2, 0.2, 20, 17, 5, 2, 20)
    assert judged(*one_dimension.fig5_claims("", fast, [1] * 10)) == [True] * 4
    assert judged(*one_dimension.fig5_claims("", calm, [0] * 10)) == [False] * 4
    assert one_dimension.fig5_claims("", fast, [1, 0])[1].holds is None


def test_fig5_loses_a_jump_at_epsilon_one() -> None:
    found = reproduced("fig5", starts=1)
    assert words(found, "printed", "At ε = 1 a discontinuity").holds
    assert words(found, "authors", "At ε = 1 a discontinuity").holds
    # As slow positions in a short run do not move, no jump can be lost by them.
    still = reproduced("fig5", starts=1, epsilon=1e-9, width=400)
    assert words(still, "authors", "At ε = 1 a discontinuity").holds is False


def test_the_counterexample_is_one_unless_the_first_piece_is_longer() -> None:
    found = reproduced("counterexample", targets=6)
    for lengths, still, fails, jumps in (
        ("equal lengths", True, True, 0),
        ("first piece longer", False, False, 2),
        ("second piece longer", False, True, 1),
    ):
        moves = words(found, lengths, "Neurons on the third piece")
        recovery = words(found, lengths, "The target is not recovered")
        assert (moves.holds, recovery.holds) == (still, fails), lengths
        assert ("by 0.000" in moves.measured) == still
        assert f"{jumps} of 2 jumps covered" in recovery.measured
    assert words(found, "", "It is recovered if and only if").holds


def test_often_is_a_share() -> None:
    fates = ["recovers", "stuck"]
    assert judged(*theory.random_claims(fates * 1, fates)) == [None, True]
    assert judged(*theory.random_claims(["stuck"] * 30, ["stuck"] * 30)) == [True, True]
    assert judged(*theory.random_claims(["stuck"] * 30, ["recovers"] * 30)) == [False, False]
    middles = [theory.middle_claim(*one) for one in ((30, 30), (1, 30), (1, 2))]
    assert judged(*middles) == [True, False, None]


def test_theorems_state_the_factors() -> None:
    experiment = EXPERIMENTS["two_timescale/theorems"]
    small = {**experiment.parameters["quick"], "samples": 60, "draws": 20, "starts": 50}
    found = experiment.run(small, lambda *_: None)
    assert "missed by 1.2e+19" in found.figures[0].notes[0]
    assert all(claim.holds is not False for claim in found.claims)
    assert words(
        list(found.claims), "", "Proposition 4: the weights follow a*(u) within its bound, after"
    ).holds


def test_theorems_can_fail_and_be_open() -> None:
    tens = [theory.lemma_10_claim(*one, 0.1, 324) for one in ((295, 300), (200, 300), (9, 10))]
    assert judged(*tens) == [True, False, None]
    assert judged(theory.prop_1_claim([1.5, 2.0]), theory.prop_1_claim([0.9, 2.0])) == [True, False]
    assert judged(theory.lemmas_claim({"a": 1.0}), theory.lemmas_claim({"a": 0.1, "b": 1.1})) == [True, False]
    last = [theory.recovery_claim(one, 0.01, 324) for one in ([0.1] * 50, [1.5] * 50, [0.1])]
    assert judged(*last) == [True, False, None]
    fine = Hypothesis("it holds", True)
    kept = Certificate(
        "x", (fine,), (Promise("‖a − a*‖ ≤", 2.0, 1.0), Promise("after, ‖a − a*‖ ≤", 2.0, 3.0))
    )
    assert judged(*theory.tracking_claims(kept, 1e-3)) == [True, False]
    unmet = replace(kept, hypotheses=(Hypothesis("it holds", False),))
    assert judged(*theory.tracking_claims(unmet, 1e-3)) == [None, None]
    unseen = replace(kept, promises=(Promise("after, ‖a − a*‖ ≤", 2.0),))
    assert judged(*theory.tracking_claims(unseen, 1e-3)) == [None]


def test_hypotheses_are_found_in_any_order() -> None:
    wide = sf.initialize.uniform_positions(width=30, sharpness=4e-3, seed=0)
    asked = sf.certify("two_timescale/theorem-1", wide, PRINTED.target, epsilon=2e-5)
    backwards = replace(asked, hypotheses=asked.hypotheses[::-1])
    assert theory._small_enough(backwards, "η").value == 4e-3
    assert theory._small_enough(backwards, "ε").value == 2e-5


def test_the_drawings_hold_and_can_fail() -> None:
    for name in ("fig1", "fig2", "fig7"):
        assert all(claim.holds for claim in reproduced(name)), name
    assert judged(training.minimiser_claim(-1e-9), training.still_claim(0.01)) == [False, False]
    assert judged(training.event_claim(0.01), training.rest_claim(0.1, 0.05)) == [False, False]
    assert judged(*training.phase_claims(Arrival(0.3, -1, inf, nan))) == [False, False]
    assert judged(*training.phase_claims(Arrival(0.3, 2, 0.1, 1.5))) == [True, False]


def test_orders_are_slopes_with_intervals() -> None:
    h = np.geomspace(1e-4, 1e-2, 5)
    assert theory.slope(h, 3 * h**0.5).value == pytest.approx(0.5)
    claims = [
        theory.order_claim("h", Interval(0.5, low, high))
        for low, high in ((0.45, 0.6), (0.9, 1.1), (0.1, 0.9))
    ]
    assert judged(*claims) == [True, False, None]
    assert theory.slope(h[:2], h[:2]).within(0, 2) is None


def test_fig6_printed_blows_up_and_a_smaller_step_works() -> None:
    found = reproduced(
        "fig6",
        steps={1.0: 100, 0.01: 400},
        batches={"authors": 300, "printed": 100, "smaller step": 20},
        most_steps=400,
    )
    printed = [claim for claim in found if claim.setting == "printed"]
    assert judged(*printed) == [False, False]
    parameters = {**EXPERIMENTS["two_timescale/fig6"].parameters["quick"], "batch": 50}
    for epsilon in (batch_training.FAST, batch_training.SLOW):
        chosen = {**batch_training.plan(parameters, "smaller step", epsilon, 0), "steps": 4000}
        calm = batch_training.train(chosen, np.random.SeedSequence(6))
        assert batch_training._blow_up(calm, epsilon).holds


@pytest.mark.parametrize(
    ("epsilon", "lost", "holds"), [(1.0, 1, True), (1.0, 0, False), (0.01, 0, True), (0.01, 1, False)]
)
def test_fig6_asks_for_both_halves(epsilon: float, lost: int, holds: bool) -> None:
    assert batch_training.lost_claim("authors", epsilon, lost, 0.01).holds == holds


def ends(missed: list[int], distance: float, **others: float) -> list[dict[str, float]]:
    fixed = {"distance": distance, "emptied": 0.0, "unstable": 0.0, **others}
    return [{**fixed, "missed": float(one)} for one in missed]


@pytest.mark.parametrize(
    ("slow", "fast", "holds"),
    [
        (ends([0] * 10, 0.01), ends([1] * 10, 0.2), [True, True, True]),
        (ends([1] * 10, 0.15), ends([0] * 10, 0.2), [False, False, False]),
        (ends([0, 1], 0.01), ends([0, 1], 0.2), [None, None, None]),
        (ends([0] * 10, 0.01), ends([1] * 10, inf), [True, True, True]),
        (ends([1] * 10, inf), ends([1] * 10, inf), [False, False, True]),
    ],
)
def test_fig9_asks_for_recovery_at_small_epsilon(
    slow: list[dict[str, float]], fast: list[dict[str, float]], holds: list[bool | None]
) -> None:
    case = {**EXPERIMENTS["two_timescale/fig9"].parameters["paper"], "reading": "authors"}
    of: batch_training.Repeats = {0.01: [*slow], 1.0: [*fast]}
    assert judged(*batch_training.fig9_claims("2-D", "authors", of, case)) == holds
    small = {**case, "unlike": "another experiment"}
    assert judged(*batch_training.fig9_claims("2-D", "authors", of, small)) == [None] * 3


def test_medians_are_compared_with_the_published_ones() -> None:
    # √(∫(f − f*)²/n) = 0.0038 and 0.0145 for n = 1000.
    of: batch_training.Repeats = {
        0.01: [*ends([0] * 8, 1000 * 0.0038**2)],
        1.0: [*ends([0] * 8, 1000 * 0.02**2)],
    }
    found = batch_training.median_claims("authors", of, 1000, (0.0038, 0.0145))
    assert judged(*found) == [True, False]
    few: batch_training.Repeats = {e: of[e][:2] for e in of}
    assert judged(*batch_training.median_claims("authors", few, 1000, (0.0038, 0.0145))) == [None, None]
    assert batch_training.median_claims("printed", of, 1000, None) == []


def test_fig9_gives_reasons_that_fit_reading_and_cap() -> None:
    of: batch_training.Repeats = {0.01: [*ends([1], 1.0, emptied=1.0)], 1.0: [*ends([0], 1.0)]}
    for scale, reading, expected in (
        ("paper", "authors", "step 1 leaves 1 runs at ε = 0.01 without a neuron in [0, 1]"),
        ("paper", "smaller step", "step 0.1 leaves 1 runs at ε = 0.01 without a neuron in [0, 1]"),
        (
            "quick",
            "printed",
            "step 1 leaves 1 runs at ε = 0.01 without a neuron in [0, 1]; "
            "runs at ε = 0.01 are cut at 500 of 5000 steps",
        ),
    ):
        case = {**EXPERIMENTS["two_timescale/fig9"].parameters[scale], "reading": reading}
        assert batch_training.fig9_claims("2-D", reading, of, case)[0].reason == expected


def test_an_overflow_misses_all_jumps() -> None:
    parameters = {**EXPERIMENTS["two_timescale/fig9"].parameters["quick"], "batch": 50, "width": 200}
    # So slow that every position stays where it starts, and some are near every jump.
    chosen = {**batch_training.plan(parameters, "printed", 0.01, 0), "step": 50.0, "epsilon": 1e-300}
    run = batch_training.train(chosen, np.random.SeedSequence(0))
    assert run.outcome.status == "diverged"
    jumps = np.array(batch_training.JUMPS)[:, None, None]
    assert np.all(np.abs(batch_training.positions(run) - jumps).min(axis=1) < 0.01)
    assert batch_training.task(chosen, np.random.SeedSequence(0))["missed"] == 6


def test_fig8_is_judged_by_its_repeats() -> None:
    found = reproduced("fig8", repeats=1, epsilons=(0.1, 1.0), slow_time=1.0)
    assert len(found) == 8
    assert words(found, "authors", "The transition").holds is None


def test_fig8_can_fail_and_be_open() -> None:
    ratio = (0.01, 1.0)
    growth = [
        one_dimension.growth_claim("", one, ratio) for one in ([50.0] * 4, [1.1] * 4, [50.0], [1.0, 90.0])
    ]
    assert judged(*growth) == [True, False, None, None]
    most, few, unknown = Interval.of_share(10, 10), Interval.of_share(0, 10), Interval.of_share(1, 2)
    cases = ({0.01: most, 1.0: few}, {0.01: few, 1.0: few}, {0.01: most, 1.0: unknown}, {0.1: most, 1.0: few})
    assert judged(*(one_dimension.transition_claim("", one) for one in cases)) == [True, False, None, None]
    ended = [one_dimension.convergence_claim("", 0.5, longer) for longer in (0.4, 0.1)]
    assert judged(*ended) == [True, False]
    remaining = [
        one_dimension.remaining_claim("", [(15, 20), (12, 20)], (0, 20)),
        one_dimension.remaining_claim("", [(15, 20), (0, 20)], (0, 20)),
        one_dimension.remaining_claim("", [(2, 2), (1, 2)], (0, 2)),
    ]
    assert judged(*remaining) == [True, False, None]


@pytest.mark.parametrize(
    ("slow", "fast", "holds"),
    [
        (ends([0] * 10, 0.01), ends([1] * 10, 0.2), [True, True]),
        (ends([1] * 10, 0.01), ends([0] * 10, 0.2), [False, False]),
        (ends([0, 1], 0.01), ends([1, 0], 0.2), [None, None]),
    ],
)
def test_fig10_is_judged_by_its_repeats(
    slow: list[dict[str, float]], fast: list[dict[str, float]], holds: list[bool | None]
) -> None:
    of: batch_training.Repeats = {0.01: [*slow], 1.0: [*fast]}
    assert judged(*batch_training.fig10_claims("authors", of, {0.01: [*slow]})) == holds


def test_fig9_and_fig10_run_as_studies() -> None:
    small = {"repeats": 1, "steps": {1.0: 30, 0.01: 60}}
    cases = ({"dimension": 2, "reading": "authors", "batch": 200},)
    assert len(reproduced("fig9", cases=cases, **small)) == 5
    assert len(reproduced("fig10", batch=50, longer_repeats=1, **small)) == 6


def test_trainings_do_not_depend_on_their_order() -> None:
    parameters = EXPERIMENTS["two_timescale/fig5"].parameters["quick"]
    fast = {"step": 1e-3, "steps": 3000}
    points = [training.case(parameters, AUTHORS, start, **fast) for start in (0, 1)]
    points.append({**points[0], "method": training.FLOW})
    backwards = run(Study("two_timescale/backwards", training.task, points[::-1]))
    there = {one.identity: one.metrics for one in backwards}
    here = run(Study("two_timescale/same", training.task, points))
    assert all(one.metrics == there[one.identity] for one in here)
    assert len({one.metrics["distance"] for one in here}) == 3
    plan = batch_training.plan(
        {**EXPERIMENTS["two_timescale/fig9"].parameters["quick"], "batch": 200}, "authors", 0.01, 0
    )
    assert 0 < batch_training.task(plan, np.random.SeedSequence(0))["distance"] < 2
