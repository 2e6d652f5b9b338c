"""The experiments of the early-alignment paper: every claim holds, fails and stays open as measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import sphere, stewart, three_points
from shallowflow.dynamics.critical_scale import CriticalScale
from shallowflow.experiments import EXPERIMENTS, Findings
from shallowflow.experiments.early_alignment import examples, stages, theorems
from shallowflow.experiments.early_alignment.theorems import sweep, sweep_claims
from shallowflow.landscape import Nature
from shallowflow.landscape.early_alignment.ends import PhaseState, smallest_eta


def nothing(fraction: float, doing: str) -> None:
    assert 0 <= fraction <= 1
    assert doing


def run(name: str, **changes: Any) -> Findings:
    experiment = EXPERIMENTS[f"early_alignment/{name}"]
    found: Findings = experiment.run({**experiment.parameters["quick"], **changes}, nothing)
    return found


def answers(claims: tuple[Any, ...]) -> list[bool | None]:
    return [claim.holds for claim in claims]


SMALL: Mapping[str, Mapping[str, Any]] = {
    "fig1": {"random": 5},
    "fig2": {"width": 200, "frames": 3},
    "fig3": {"data_seeds": (0,), "frames": 3, "width": 200, "other_width": 200},
    "theorem1": {"width": 16, "scales": 4},
    "nature": {"width": 60, "seeds": (0, 1), "until": 100.0},
    "width": {"widths": (50,)},
    "phases": {"datasets": 1, "width": 10, "corners": 1},
    "limits": {"samples": 2, "width": 60, "until": 300.0},
    "critical_scale": {"etas": (0.05,), "widths": (10, 20), "samples": 1, "halvings": 2, "until": 100.0},
}


@pytest.mark.parametrize("name", SMALL)
def test_every_experiment_runs_small_and_its_claims_say_what_would_make_them_fail(name: str) -> None:
    found = run(name, **SMALL[name])
    assert found.figures
    assert all(claim.fails_if for claim in found.claims)
    assert {name.split("/")[1] for name in EXPERIMENTS if name.startswith("early_alignment/")} == set(SMALL)


def test_fig1_claims() -> None:
    assumed, used = examples.assumed_points(), three_points()
    assert answers(examples.fig1_claims(assumed, used, [True] * 5)) == [None, True, True, True, True]
    far = examples.assumed_points(((-0.7, 1.0), (0.0, 0.05), (0.7, 1.0)))
    assert answers(examples.fig1_claims(far, assumed, [True, False]))[:3] == [False, False, False]
    several = sphere(3, 2, seed=5)
    assert examples.fig1_claims(assumed, several, [True])[3].holds is False
    assert examples.fig1_claims(assumed, used, [True], np.array([1.0, 1.0, 2.0]))[4].holds is False


def test_random_data_of_assumption_3_satisfy_it() -> None:
    for seed in range(50):
        assert smallest_eta(examples.random_assumed(seed, 0.05)) <= 0.05


def test_fig2_claims_hold_on_a_small_run_and_have_teeth() -> None:
    whole = run("fig2", width=200, frames=5)
    assert answers(whole.claims) == [True] * 6
    assert len(whole.figures[0].panels) == 8
    (moving,) = whole.animations
    assert len(moving.frames) == len(moving.labels) >= 8
    assert moving.labels[-1] == "t = 200"
    short = run("fig2", width=200, frames=2, steps=500, times=(0.0, 1.0, 2.0, 5.0))
    assert [short.claims[i].holds for i in (0, 1, 4)] == [False, False, False]
    bad = stages.NeuronsSeen(0.5, 0.9, 0.5, 3, 0.0)
    assert answers(stages.neuron_claims(bad)) == [False] * 5


def test_fig3_claims() -> None:
    seen = stages.StagesSeen(0.95, 0.5, 1, 0.1, (3.0, 2.0, 2.0, 1.5, 0.2))
    assert answers(stages.stage_claims(seen)) == [True] * 4
    other = stages.StagesSeen(0.5, 0.6, 2, 0.5, (3.0, 2.0, 2.0, 1.5, 1.2))
    assert answers(stages.stage_claims(other)) == [False] * 4


def parameters(**changes: Any) -> Mapping[str, Any]:
    return {**EXPERIMENTS["early_alignment/theorem1"].parameters["quick"], **changes}


@pytest.mark.parametrize("dataset", [three_points(), sphere(3, 2, seed=5)], ids=["three", "several"])
def test_theorem_1_below_its_threshold(dataset: sf.Dataset) -> None:
    """(i) and (ii) for λ < λ*; by the closed form tanh the exponent is twice the predicted one."""
    found = sweep(dataset, parameters(width=24, scales=6), lambda fraction: None)
    assert np.all(found.scales < found.threshold.scale)
    for certificate in found.certificates:
        assert certificate.holds
        assert all(promise.kept is not False for promise in certificate.promises)
    assert found.elsewhere[-1] == 0
    usable = np.isfinite(found.measured)
    np.testing.assert_allclose(found.measured[usable], 2 * found.predicted[usable], rtol=0.05)
    assert answers(sweep_claims(found)) == [True, None, None, True]
    # With λ so small that τ passes t₂, and a bound with content, (ii) can be judged: and fail.
    tiny = 1e-300 * np.geomspace(1.0, 0.1, len(found.scales))
    late = replace(found, scales=tiny, threshold=replace(found.threshold, log_constant=0.0))
    assert late.threshold.time(1e-300) >= late.threshold.arrival()
    clean = replace(late, elsewhere=0 * found.elsewhere, errors=np.full_like(found.errors, 1e-200))
    assert answers(sweep_claims(clean))[1:3] == [True, True]
    broken = replace(late, elsewhere=found.elsewhere + 1, errors=np.ones_like(found.errors))
    assert answers(sweep_claims(broken))[1:3] == [False, False]
    slow = replace(found, errors=np.ones_like(found.errors))
    assert sweep_claims(slow)[3].holds is False


def test_theorem_1_claims_notice_a_start_above_the_threshold() -> None:
    assert run("theorem1", width=16, scales=3, smallest=20.0).claims[0].holds is False


def ending(loss: float, kind: str, zeros: int = 0) -> examples.Ending:
    return examples.Ending(loss, Nature(kind, 0.0, zeros, -1, np.zeros(2), 0.0), 0.1)


def test_nature_claims() -> None:
    names = ("three points", "Assumption 3")

    def found(
        balanced: examples.Ending,
        dominated: examples.Ending,
        gaussian: examples.Ending,
        coarse: tuple[examples.Ending, examples.Ending],
        runs: int,
    ) -> examples.Endings:
        rows = {}
        for name in names:
            for init, fine in (("balanced", balanced), ("dominated", dominated), ("gaussian", gaussian)):
                rows[name, init, "step"] = [fine] * runs
                rows[name, init, "coarse_step"] = [coarse[init == "dominated"]] * runs
        return rows

    line, fit = ending(1.0, "local minimum"), ending(0.0, "local minimum")
    good = found(ending(1.0, "saddle", 2), line, fit, (fit, line), 6)
    assert answers(examples.nature_claims(good, names)) == [True] * 5
    bad = found(fit, fit, line, (line, fit), 40)
    assert answers(examples.nature_claims(bad, names)) == [False] * 5
    few = found(line, line, fit, (fit, line), 1)
    assert answers(examples.nature_claims(few, names)) == [None] * 5


def test_width_claims() -> None:
    assert answers(examples.width_claims({10: 1e-9}, 1e-6)) == [True]
    assert answers(examples.width_claims({10: 1e-9, 20: 0.1}, 1e-6)) == [False]
    assert run("width", widths=(50,), steps=500).claims[0].holds is False


STATE = PhaseState(1.0, 2.0, 0.9, 0.0, 0.0, 0.5, 1.0, 0.0)
OFF = PhaseState(0.1, 1e9, 1.5, 1.0, 0.5, -0.5, 1.0, 0.5)


def test_phase_claims() -> None:
    good = theorems.Course(1e-6, 3, (STATE,) * 4, 0.5, 1.3, 1.0)
    assert answers(theorems.phase_claims([good] * 48, 0.25)) == [True] * 10
    bad = theorems.Course(1e-6, 3, (OFF,) * 4, 0.1, 0.5, 2.0)
    assert answers(theorems.phase_claims([bad] * 48, 0.25)) == [True, *[False] * 9]
    stuck = theorems.Course(1e-6, 1, (STATE,) * 2, 0.5, 0.0, 0.0)
    assert answers(theorems.phase_claims([stuck] * 48, 0.25)) == [False, *[None] * 8]
    assert set(answers(theorems.phase_claims([good, bad], 0.25))) == {None}


def test_theorem_4_claims() -> None:
    assert answers(theorems.theorem_4_claims([(True, 1.0), (False, 1.0)] * 36)) == [True, True]
    assert answers(theorems.theorem_4_claims([(True, 0.0), (False, 0.0)] * 36)) == [False, False]
    assert answers(theorems.theorem_4_claims([(True, 1.0)])) == [None, None]


@pytest.mark.parametrize("inside", [2, 3])
def test_corners_satisfy_the_assumptions_of_theorem_4_in_the_plane(inside: int) -> None:
    for seed in range(3):
        found = sf.landscape.spurious_conditions(examples.random_corners(2, inside, seed))
        assert found.assumption_4
        assert found.assumption_5
        assert found.assumption_6


def test_limit_claims() -> None:
    good, bad = stages.Limit(5, 4, 1e-2, 1e-2), stages.Limit(8, 8, 1e-9, 1e-12)
    assert answers(stages.limit_claims([good] * 40)) == [True] * 4
    assert answers(stages.limit_claims([bad] * 40)) == [False] * 4
    assert answers(stages.limit_claims([good, bad])) == [None] * 4


def test_the_best_fit_is_not_above_the_limit() -> None:
    found = stages.limit_on(0, {"size": 40, "width": 100, "init_scale": 1e-3, "until": 500.0})
    assert found.kinks <= found.neurons
    assert found.best <= found.loss * (1 + 1e-9)
    line = stewart(40, seed=0)
    assert stages.best_with(0, line) == pytest.approx(sf.landscape.least_squares(line).loss)


def test_scale_claims() -> None:
    def rows(power: float, low: float, star: float) -> list[examples.Scale]:
        return [
            examples.Scale(
                0.05, width, sample, CriticalScale(low * width**power, 2 * low * width**power), star
            )
            for width in (10, 100)
            for sample in range(20)
        ]

    assert answers(examples.scale_claims(rows(0.0, 1e-3, 1e-6))) == [True] * 3
    assert answers(examples.scale_claims(rows(-0.5, 0.0, 1.0)))[::2] == [False, False]
    assert examples.scale_claims(rows(-0.5, 1e-3, 1e-6))[1].holds is False
    assert answers(examples.scale_claims(rows(0.0, 1e-3, 1e-6)[:1])) == [None] * 3


def test_reproduce_names_unknown_experiments() -> None:
    with pytest.raises(sf.InvalidInputError, match=r"name: must be an experiment, got 'nope'"):
        sf.reproduce("nope")
    with pytest.raises(sf.InvalidInputError, match="did you mean early_alignment/fig2"):
        sf.reproduce("early_alignment/fig22")
    with pytest.raises(sf.InvalidInputError, match=r"name: must be an experiment, got \['plateau/fig1'\]"):
        sf.reproduce(["plateau/fig1"])  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="scale: must be one of quick, paper; got 'huge'"):
        sf.reproduce("early_alignment/fig2", scale="huge")
