"""The experiments of the two-timescale paper on small runs: claims are judged by measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import shallowflow as sf
from shallowflow.experiments import EXPERIMENTS, Claim
from shallowflow.experiments.two_timescale import batch_training, starts, training
from shallowflow.experiments.two_timescale.beside_limit import compare, gap_claims, recovery_claims
from shallowflow.experiments.two_timescale.settings import AUTHORS, PRINTED
from shallowflow.landscape.step_class import fewest_per_piece
from shallowflow.studies import Study, run


def claims(name: str, **changes: Any) -> dict[str, Claim]:
    experiment = EXPERIMENTS[f"two_timescale/{name}"]
    changed = {"quick": {**experiment.parameters["quick"], **changes}}
    found = replace(experiment, parameters=changed).reproduce("quick")
    assert found.figures
    return {claim.statement: claim for claim in found.claims}


def test_fig3_covers_all_jumps_as_run_and_three_as_printed() -> None:
    found = claims("fig3", step=3e-4, steps={"printed": 6_000_000, "authors": 5_833_333}, starts=8)
    for words in (
        "SGD recovers the target",
        "SGD follows the two-timescale limit",
        "SGD follows the exact flow (1) with the same ε, from the first step on",
        "the exact flow tends to the limit as ε → 0",
        "what remains is the smoothing of the steps",
        "the hitting times of the limit say which jumps SGD reaches, from any start",
    ):
        assert found[f"authors: {words}"].holds, words
    printed = found["printed: SGD recovers the target"]
    assert not printed.holds
    assert printed.measured.startswith("3 of 5 jumps")
    assert "0.068" in printed.reason


def test_fig3_fails_where_it_should() -> None:
    parameters = EXPERIMENTS["two_timescale/fig3"].parameters["paper"]
    chosen = {**starts.case(parameters, AUTHORS, 6), "steps": 3_000_000}
    short = compare(AUTHORS, chosen, lambda *_: None)
    assert not recovery_claims(short, parameters)[0].holds
    # So short a run is the fast phase of the weights: SGD is with the flow, and both are far from the limit.
    limit, flow, _ = gap_claims(short, parameters["epsilon"])
    assert not limit.holds
    assert flow.holds
    rough = compare(AUTHORS, {**chosen, "step": 0.03, "steps": 1000}, lambda *_: None)
    assert not gap_claims(rough, parameters["epsilon"])[1].holds


def test_the_start_shown_follows_its_rule() -> None:
    parameters = EXPERIMENTS["two_timescale/fig3"].parameters["paper"]
    shown = starts.shown_start(parameters)
    times = {
        setting.name: sf.hitting_times(training.start_of(parameters, shown), setting.target)
        for setting in (AUTHORS, PRINTED)
    }
    assert times["authors"].max() < 0.07
    np.testing.assert_array_equal(times["printed"] > 0.036, [False, False, True, True, False])
    assert fewest_per_piece(training.start_of(parameters, shown).positions, PRINTED.target) == 2
    assert not any(starts.telling(parameters, start) for start in range(shown))


def test_fig5_loses_a_jump_at_epsilon_one() -> None:
    assert all(claim.holds for claim in claims("fig5", starts=1).values())
    # As slow positions in a short run do not move, no jump can be lost by them: the claim has teeth.
    slow = claims("fig5", starts=1, epsilon=1e-9, width=400)
    assert not any(claim.holds for claim in slow.values())


def test_the_counterexample_is_one_unless_the_first_piece_is_longer() -> None:
    found = list(claims("counterexample", targets=8).values())
    assert [claim.holds for claim in found] == [True, False, True, True, True]
    assert "move by 0.000" in found[0].measured
    assert "2 of 2 jumps covered" in found[1].measured
    assert "1 of 2 jumps covered" in found[2].measured


def test_theorems_state_the_factors() -> None:
    found = claims("theorems", samples=30, until=10.0)
    assert not found["Theorem 1 covers the paper's own example"].holds
    assert "missed by 4.9e+19" in found["Theorem 1 covers the paper's own example"].measured
    assert found["What Theorem 2 promises comes true, in the limit η → 0"].holds


def test_fig6_printed_blows_up_and_a_smaller_step_works() -> None:
    found = claims(
        "fig6",
        steps={1.0: 100, 0.01: 400},
        batches={"authors": 300, "printed": 100},
        most_steps=400,
    )
    printed = [claim for name, claim in found.items() if name.startswith("printed")]
    assert len(printed) == 2
    assert not any(claim.holds for claim in printed)


def test_fig8_is_judged_by_its_repeats() -> None:
    found = claims("fig8", repeats=1, epsilons=(0.1, 1.0), slow_time=1.0)
    assert found["authors: SGD recovers the target for ε ≪ 1 and fails at ε = 1"].measured.count("1/1") > 0
    assert len(found) == 4


def test_fig9_and_fig10_run_as_studies() -> None:
    small = {"repeats": 1, "steps": {1.0: 30, 0.01: 60}}
    cases = ({"dimension": 2, "reading": "authors", "batch": 200},)
    assert list(claims("fig9", cases=cases, **small)) == [
        "2-D, authors: small ε recovers the target, ε = 1 does not"
    ]
    assert len(claims("fig10", batch=50, **small)) == 4


def test_trainings_do_not_depend_on_their_order() -> None:
    parameters = EXPERIMENTS["two_timescale/fig5"].parameters["quick"]
    fast = {"step": 1e-3, "steps": 3000}
    points = [starts.case(parameters, AUTHORS, start, **fast) for start in (0, 1)]
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
