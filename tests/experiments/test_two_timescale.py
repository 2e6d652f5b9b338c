"""The experiments of the two-timescale paper on small runs: claims are judged by measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.experiments import EXPERIMENTS, Claim
from shallowflow.experiments.two_timescale import (
    batch_training,
    one_dimension,
    several_dimensions,
    theory,
    training,
)
from shallowflow.experiments.two_timescale.beside_limit import compare, gap_claims, recovery_claims
from shallowflow.experiments.two_timescale.training import AUTHORS, PRINTED
from shallowflow.landscape.two_timescale.step_classes import fewest_per_piece
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
    chosen = {**training.case(parameters, AUTHORS, 6), "steps": 3_000_000}
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
    shown = training.shown_start(parameters)
    times = {
        setting.name: sf.hitting_times(training.start_of(parameters, shown), setting.target)
        for setting in (AUTHORS, PRINTED)
    }
    assert times["authors"].max() < 0.07
    np.testing.assert_array_equal(times["printed"] > 0.036, [False, False, True, True, False])
    assert fewest_per_piece(training.start_of(parameters, shown).positions, PRINTED.target) == 2
    assert not any(training.telling(parameters, start) for start in range(shown))


def test_the_search_for_a_start_ends() -> None:
    parameters = EXPERIMENTS["two_timescale/fig3"].parameters["paper"]
    # Eleven neurons cannot be two on each of six pieces.
    with pytest.raises(sf.ShallowflowError, match="none of the starts 0 to 1999 has two neurons"):
        training.shown_start({**parameters, "width": 11})


def test_fig4_counts_the_jumps_that_no_neuron_reached() -> None:
    parameters = EXPERIMENTS["two_timescale/fig4"].parameters["quick"]
    for start, steps in ((6, 100), (0, 100_000)):
        run = training.train(training.case(parameters, AUTHORS, start, steps=steps), 0)
        assert isinstance(run.final, sf.StepNetwork)
        gaps = np.abs(AUTHORS.target.breakpoints[:, None] - run.final.positions).min(axis=1)
        left = int(np.sum(gaps >= parameters["sharpness"]))
        assert left != 2
        assert one_dimension._fig4_claims(AUTHORS, run)[1].reason.startswith(f"{left} jumps have no neuron")


def test_fig5_loses_a_jump_at_epsilon_one() -> None:
    assert all(claim.holds for claim in claims("fig5", starts=1).values())
    # As slow positions in a short run do not move, no jump can be lost by them: the claim has teeth.
    slow = claims("fig5", starts=1, epsilon=1e-9, width=400)
    assert not any(claim.holds for claim in slow.values())


def test_the_counterexample_is_one_unless_the_first_piece_is_longer() -> None:
    found = claims("counterexample", targets=8)
    for lengths, still, fails, jumps in (
        ("equal lengths", True, True, 0),
        ("first piece longer", False, False, 2),
        ("second piece longer", False, True, 1),
    ):
        moves = found[f"{lengths}: neurons on the third piece do not move (App. D.1)"]
        recovery = found[f"{lengths}: the target is not recovered (App. D.1)"]
        assert (moves.holds, recovery.holds) == (still, fails), lengths
        assert ("by 0.000" in moves.measured) == still
        assert f"{jumps} of 2 jumps covered" in recovery.measured
    assert [claim.holds for claim in list(found.values())[6:]] == [True, True]


def test_theorems_state_the_factors() -> None:
    found = claims("theorems", samples=30, until=10.0)
    assert not found["Theorem 1 covers the paper's own example"].holds
    assert "missed by 4.9e+19" in found["Theorem 1 covers the paper's own example"].measured
    assert found["What Theorem 2 promises comes true, in the limit η → 0"].holds


def test_hypotheses_are_found_in_any_order() -> None:
    wide = sf.initialize.uniform_positions(width=30, sharpness=4e-3, seed=0)
    asked = sf.certify("two_timescale/theorem-1", wide, PRINTED.target, epsilon=2e-5)
    backwards = replace(asked, hypotheses=asked.hypotheses[::-1])
    assert theory._small_enough(backwards, "η").value == 4e-3
    assert theory._small_enough(backwards, "ε").value == 2e-5


def test_fig6_printed_blows_up_and_a_smaller_step_works() -> None:
    found = claims(
        "fig6",
        steps={1.0: 100, 0.01: 400},
        batches={"authors": 300, "printed": 100, "smaller step": 20},
        most_steps=400,
    )
    assert "smaller step: a discontinuity is missed at ε = 1, none at ε = 0.01" in found
    printed = [claim for name, claim in found.items() if name.startswith("printed")]
    assert len(printed) == 2
    assert not any(claim.holds for claim in printed)
    parameters = {**EXPERIMENTS["two_timescale/fig6"].parameters["quick"], "batch": 50}
    for epsilon in (batch_training.FAST, batch_training.SLOW):
        chosen = {**batch_training.plan(parameters, "smaller step", epsilon, 0), "steps": 4000}
        calm = batch_training.train(chosen, np.random.SeedSequence(6))
        assert several_dimensions._blow_up(calm, epsilon).holds


@pytest.mark.parametrize(("fast", "slow", "holds"), [(1, 0, True), (0, 0, False), (2, 1, False)])
def test_fig6_asks_for_both_halves(fast: int, slow: int, holds: bool) -> None:
    assert several_dimensions._lost_claim("authors", fast, slow, 0.01).holds == holds


def ends(missed: list[int], distance: float, **others: float) -> list[dict[str, float]]:
    fixed = {"distance": distance, "emptied": 0.0, "unstable": 0.0, **others}
    return [{**fixed, "missed": float(one)} for one in missed]


@pytest.mark.parametrize(
    ("slow", "fast", "holds"),
    [
        (ends([0, 0, 1], 0.01), ends([1, 2, 0], 0.2), True),
        # No recovery at small ε, recovery at ε = 1, or no smaller a distance.
        (ends([1, 1, 0], 0.01), ends([1, 2, 0], 0.2), False),
        (ends([0, 0, 1], 0.01), ends([0, 0, 1], 0.2), False),
        (ends([0, 0, 1], 0.15), ends([1, 2, 0], 0.2), False),
    ],
)
def test_fig9_asks_for_recovery_at_small_epsilon(
    slow: list[dict[str, float]], fast: list[dict[str, float]], holds: bool
) -> None:
    case = {**EXPERIMENTS["two_timescale/fig9"].parameters["paper"], "reading": "authors"}
    of: batch_training.Repeats = {0.01: [*slow], 1.0: [*fast]}
    assert several_dimensions._fig9_claim(of, "made up", case).holds == holds


def test_fig9_gives_reasons_that_fit_reading_and_cap() -> None:
    of: batch_training.Repeats = {0.01: [*ends([1], 1.0, emptied=1.0)], 1.0: [*ends([0], 1.0)]}
    both = "1 of 1 runs miss a jump at ε = 0.01, too; 1 of 1 runs at ε = 1 miss none; "
    for scale, reading, rest in (
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
        assert several_dimensions._fig9_claim(of, "made up", case).reason == both + rest


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
    found = claims("fig8", repeats=1, epsilons=(0.1, 1.0), slow_time=1.0)
    assert found["authors: SGD recovers the target for ε ≪ 1 and fails at ε = 1"].measured.count("1/1") > 0
    assert len(found) == 4


@pytest.mark.parametrize(
    ("finer", "longer", "fast", "holds"),
    [
        ([1, 0], [2, 1], 0.5, (True, True)),
        # With smaller steps, or with more time, nothing is missed at ε = 1.
        ([0, 0], [2, 1], 0.5, (True, False)),
        ([1, 1], [0, 0], 0.5, (True, False)),
        ([1, 0], [2, 1], 0.02, (False, True)),
    ],
)
def test_fig8_asks_for_missed_jumps(
    finer: list[int], longer: list[int], fast: float, holds: tuple[bool, bool]
) -> None:
    results = {
        ("authors", training.SGD, 0.01): ends([0, 0], 0.01),
        ("authors", training.SGD, 1.0): ends([1, 1], fast),
        ("authors", one_dimension.FINER, 1.0): ends(finer, 0.5),
        ("authors", training.FLOW, 0.01): ends([0, 0], 0.01),
        ("authors", training.FLOW, 1.0): ends([1, 1], 0.5),
        ("authors", one_dimension.LONGER, 1.0): ends(longer, 0.2),
    }
    found = one_dimension._claims("authors", results, (0.01, 1.0))
    assert tuple(claim.holds for claim in found) == holds


@pytest.mark.parametrize(
    ("slow", "fast", "holds"),
    [
        (ends([0, 0], 0.01), ends([1, 2], 0.2), [True, True]),
        (ends([1, 0], 0.01), ends([2, 3], 0.2), [True, False]),
        (ends([0, 0], 0.3), ends([1, 2], 0.2), [False, True]),
        (ends([1, 1], 0.01), ends([1, 1], 0.2), [False, False]),
    ],
)
def test_fig10_is_judged_by_its_repeats(
    slow: list[dict[str, float]], fast: list[dict[str, float]], holds: list[bool]
) -> None:
    parameters = EXPERIMENTS["two_timescale/fig10"].parameters["quick"]
    of: batch_training.Repeats = {0.01: [*slow], 1.0: [*fast]}
    found = batch_training._fig10_claims(parameters, "authors", of, {0.01: [*slow]})
    assert [claim.holds for claim in found] == holds


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
