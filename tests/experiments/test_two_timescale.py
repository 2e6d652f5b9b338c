"""The experiments of the two-timescale paper on small runs: claims are judged by measurement."""

from __future__ import annotations

from typing import Any

import numpy as np

from shallowflow.experiments import EXPERIMENTS, Claim
from shallowflow.experiments.two_timescale import repeats, several_dimensions
from shallowflow.experiments.two_timescale.sweep import run_all


def claims(name: str, **changes: Any) -> dict[str, Claim]:
    experiment = EXPERIMENTS[f"two_timescale/{name}"]
    found = experiment.run({**experiment.parameters["quick"], **changes}, lambda *_: None)
    assert found.figures
    return {claim.statement: claim for claim in found.claims}


def test_fig3_covers_all_jumps_as_run_and_three_as_printed() -> None:
    found = claims("fig3")
    assert found["authors: SGD recovers the target"].holds
    assert found["authors: SGD follows the two-timescale limit"].holds
    assert found["authors: what remains is the smoothing of the steps"].holds
    printed = found["printed: SGD recovers the target"]
    assert not printed.holds
    assert printed.measured.startswith("3 of 5 jumps")
    assert "0.097" in printed.reason
    short = claims("fig3", steps={"printed": 1000, "authors": 1000})
    assert not short["authors: SGD recovers the target"].holds


def test_fig5_loses_a_jump_at_epsilon_one() -> None:
    assert all(claim.holds for claim in claims("fig5", starts=1).values())
    # As slow positions in a short run do not move, no jump can be lost by them: the claim has teeth.
    slow = claims("fig5", starts=1, epsilon=1e-9, width=400)
    assert not any(claim.holds for claim in slow.values())


def test_the_counterexample_is_one_only_with_equal_lengths() -> None:
    found = list(claims("counterexample").values())
    assert [claim.holds for claim in found] == [True, False, False]
    assert "2 of 2 jumps covered" in found[1].measured


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


def test_tasks_return_numbers_and_follow_their_seed() -> None:
    options = {
        **EXPERIMENTS["two_timescale/fig8"].parameters["quick"],
        "setting": "printed",
        "epsilon": 1.0,
        "repeat": 0,
    }
    runs = [{**options, "method": method} for method in ("SGD", "SGD", "exact flow")]
    first, second, flow = run_all(repeats.task, runs, root_seed=1)
    assert first["distance"] != second["distance"]
    assert flow["ok"] == 1
    again = run_all(repeats.task, runs, root_seed=1)
    assert [first, second, flow] == again
    plane = {
        **EXPERIMENTS["two_timescale/fig9"].parameters["quick"],
        "dimension": 2,
        "reading": "authors",
        "batch": 200,
        "epsilon": 0.01,
        "start": 0,
    }
    result = several_dimensions.task(plane, np.random.SeedSequence(0))
    assert 0 < result["distance"] < 2
