"""The experiments of [weak_interaction]: their single runs, and the claims of small sweeps."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import sphere
from shallowflow.experiments import EXPERIMENTS
from shallowflow.experiments.experiment import Reproduction
from shallowflow.experiments.weak_interaction import runs, thresholds
from shallowflow.experiments.weak_interaction.thresholds import Law
from shallowflow.readings.many_runs import Threshold

SMALL: dict[str, dict[str, Any]] = {
    "fig1": {"sizes": (1e2, 1e20, 1e100), "checked": 8},
    "fig2": {"dimension": 10, "sizes": (10, 20, 30, 40, 60), "wider_sizes": (30, 60), "repeats": 6},
    "fig3": {"dimensions": (8, 14), "around": (0.3, 0.8, 1.0, 1.3, 2.0), "repeats": 6},
    "fig4": {
        "dimension": 10,
        "widths": (20, 40),
        "guess": 10.0,
        "around": (0.5, 1.0, 1.5, 3.0),
        "repeats": 6,
    },
    "fig5": {"dimension": 60, "sizes": (30, 60), "repeats": 4},
    "prop3": {"ratios": (0.3, 1.0), "labels": (100.0,), "repeats": 4, "epochs": 8000},
    "lemma5": {"draws": 1000},
}


def run(name: str, **changes: Any) -> Reproduction:
    experiment = EXPERIMENTS[f"weak_interaction/{name}"]
    parameters = {**experiment.parameters["quick"], **SMALL[name], **changes}
    small = replace(experiment, parameters={"quick": parameters, "paper": parameters})
    seen: list[float] = []
    findings = small.reproduce("quick", lambda done, doing: seen.append(done))
    assert seen
    for figure in findings.figures:
        for panel in figure.panels:
            assert panel.series
            assert panel.x_label
            assert panel.y_label
    return findings


def claims(findings: Reproduction) -> list[bool]:
    return [claim.holds is True for claim in findings.claims]


def test_fig1_shows_two_transitions_and_refutes_the_printed_window() -> None:
    assert claims(run("fig1")) == [True, True, False, True]


def test_fig1_at_a_small_size_is_far_from_its_limit() -> None:
    assert claims(run("fig1", sizes=(50.0, 100.0)))[:2] == [False, False]


def test_fig2_finds_a_transition_far_below_thirty_per_dimension() -> None:
    findings = run("fig2")
    assert claims(findings)[:3] == [True, False, False]
    assert "N = " in findings.claims[0].measured
    # The fitted range of 90 % to 10 % against the shares themselves.
    (spread,) = numbers(findings.claims[1].measured, r"within (\d+)%")
    assert 14 < spread < 200


def test_fig2_without_a_transition_says_so() -> None:
    findings = run("fig2", sizes=(200, 220), repeats=2)
    assert claims(findings)[0] is False
    assert "below the smallest n" in findings.claims[0].measured
    assert "no transition" in findings.claims[1].measured


def numbers(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def test_fig3_measures_a_power_above_one() -> None:
    (claim,) = run("fig3").claims
    assert not claim.holds
    small, large = numbers(claim.measured, r"N\(\d+\) = (\d+)")
    assert 8 < small < large
    power, low, high = numbers(claim.measured.split("power of d:")[1].split(";")[0], r"\d+\.\d+")
    assert power == pytest.approx(np.log(large / small) / np.log(14 / 8), abs=0.1)
    assert 1 < low < power < high < 2.5


def test_fig4_measures_widths_and_budgets() -> None:
    findings = run("fig4")
    assert len(findings.figures) == 2
    assert claims(findings) == [True, False]
    small, large = numbers(findings.claims[0].measured, r"N\(\d+\) = (\d+)")
    (power,) = numbers(findings.claims[0].measured, r"power of m: (\S+)")
    assert power == pytest.approx(np.log(large / small) / np.log(2), abs=0.1)
    assert 0 < power < 1
    short, long = numbers(findings.claims[1].measured, r"N\(20\) = (\d+)")
    assert short == small
    assert long > short


def test_budgets_are_compared_at_a_width_that_has_all_thresholds() -> None:
    """With many epochs the narrower networks may converge on all sizes: no threshold."""
    few, more, many = (Threshold(n, n - 1.0, n + 1.0, 2.0) for n in (100.0, 150.0, 450.0))
    table = {1.5: Law(np.array([20.0, 40.0]), [few, more], None), 6.0: Law(np.array([40.0]), [many], None)}
    claim = thresholds._budget_claim(table)
    assert claim.measured == "1.5 t_n: N(40) = 150 [149, 151]; 6 t_n: N(40) = 450 [449, 451]"
    assert "factor 3.00" in claim.reason
    assert not claim.holds
    none = thresholds._budget_claim({**table, 6.0: Law(np.zeros(0), [], None)})
    assert not none.holds
    assert "no number of neurons" in none.measured


def test_fig5_fits_four_measures_in_three_variants() -> None:
    findings = run("fig5")
    assert len(findings.figures[0].panels) == 3
    # As printed the curvature falls far faster than 1/√n; with four times the neurons as published.
    assert claims(findings) == [False, False, True, False, False, False, True, False, True, True, True, False]
    for claim in findings.claims:
        slope, low, high = numbers(claim.measured, r"-?\d+\.\d+")
        assert low < slope < high < 0
        assert claim.holds == (low <= -0.5 <= high), claim
    assert numbers(findings.claims[0].measured, r"slope (\S+)")[0] < -1


def test_prop3_and_lemma5_come_out() -> None:
    assert claims(run("prop3"))[2]
    assert claims(run("lemma5")) == [True, True, True, True]


def test_lemma5_fails_for_an_epsilon_it_does_not_reach() -> None:
    assert claims(run("lemma5", most=5)) == [False, False, True, True]


def test_lemma5_takes_no_chance_for_a_gain() -> None:
    """In dimension 500 forty inputs are nearly orthogonal: what differs is chance."""
    *_, claim = run("lemma5", dimension=500).claims
    assert "more likely" in claim.statement
    assert not claim.holds


@pytest.mark.parametrize("name", SMALL)
def test_both_scales_name_the_same_parameters(name: str) -> None:
    scales = EXPERIMENTS[f"weak_interaction/{name}"].parameters
    assert set(SMALL[name]) <= set(scales["quick"])
    assert set(scales["quick"]) == set(scales["paper"])
    assert np.isfinite(scales["paper"].get("seed", 0))


def test_widths_and_epochs_are_those_of_the_appendix() -> None:
    """m = 39 for n = 3000; int(1.5 √(nm) ln(nm)/4 + 1) epochs."""
    assert runs.stated_width(3000) == 39
    assert runs.stated_width(3000, 4.0) == 156
    assert runs.epochs(3000, 39) == 1497
    assert runs.epochs(3000, 39, 3.0) == 2994


@pytest.mark.parametrize("setting", ["printed", "authors"])
def test_both_starts_satisfy_assumption_1(setting: str) -> None:
    network = runs.start(setting, 200, 50, np.random.default_rng(0))
    excess = np.abs(network.outer) - np.linalg.norm(network.inner, axis=1)
    assert excess.min() > 0
    assert excess.mean() == pytest.approx(1.0, abs=0.25)
    spread = np.abs(network.inner).max() * np.sqrt(50)
    assert (spread <= 1.0) == (setting == "authors")


def test_convergence_is_that_of_plain_training() -> None:
    """The task's network and data, drawn again and trained by the dense engine in double precision."""
    parameters = {
        "size": 25,
        "dimension": 10,
        "width": 30,
        "setting": "printed",
        "budget": 1.5,
        "precision": "double",
    }
    for k in range(4):
        seed = np.random.SeedSequence(k)
        found = runs.convergence(parameters, seed)
        rng = np.random.default_rng(seed)
        dataset = sphere(25, 10, seed=rng)
        network = sf.initialize.asymmetric(30, 10, seed=rng)
        allowed = runs.epochs(25, 30)
        trajectory = sf.gradient_descent(
            network, dataset, step=30.0, steps=allowed, engine="dense", record=sf.Record.every(10)
        )
        below = np.flatnonzero(trajectory.losses < 0.5 / 25)
        last = below[0] if len(below) else -1
        assert found["converged"] == bool(len(below))
        assert found["epoch"] == trajectory.times[last] / 30
        assert found["epochs"] == allowed


def test_curvatures_are_the_measures_of_the_appendix() -> None:
    parameters = {"size": 20, "dimension": 30, "width": 22, "setting": "printed", "precision": "double"}
    seed = np.random.SeedSequence(3)
    found = runs.curvature(parameters, seed)
    rng = np.random.default_rng(seed)
    dataset = runs.axes(20, 30, rng)
    network = sf.initialize.asymmetric(22, 30, seed=rng)
    allowed = runs.epochs(20, 22)
    trajectory = sf.gradient_descent(
        network, dataset, step=22.0, steps=allowed, engine="dense", record=sf.Record.every(1)
    )
    losses, final = trajectory.losses, trajectory.final
    assert isinstance(final, sf.ReLUNetwork)
    active = final.inner @ dataset.inputs.T > 0
    shares = (final.outer**2 @ active) / 22
    assert found["last"] == pytest.approx(np.log(losses[-2] / losses[-1]), rel=1e-6)
    assert found["mean"] == pytest.approx(np.log(losses[0] / losses[-1]) / allowed, rel=1e-9)
    assert found["low"] == pytest.approx(2 / 20 * shares.min(), rel=1e-9)
    assert found["high"] == pytest.approx(16 / 20 * shares.max(), rel=1e-9)


def test_the_authors_runs_start_well_and_stop_deep() -> None:
    parameters = {"size": 20, "dimension": 30, "width": 14, "setting": "authors", "precision": "double"}
    for k in range(3):
        found = runs.curvature(parameters, np.random.SeedSequence(k))
        assert found["loss"] < 1e-6


def test_dominated_neurons_do_not_collapse_and_small_ones_do() -> None:
    parameters = {
        "ratio": 0.4,
        "label": 50.0,
        "bound": 0.01,
        "lowest": 0.5,
        "highest": 0.6,
        "rate": 1e-3,
        "epochs": 8000,
    }
    small = runs.collapse({**parameters, "dominated": False}, np.random.SeedSequence(1))
    assert small == {"lost": 1.0, "loss": pytest.approx(20.0**2 / 4, rel=1e-6), "allowed": 1.0}
    large = runs.collapse({**parameters, "dominated": True}, np.random.SeedSequence(1))
    assert large["lost"] == 0.0
    assert large["loss"] < 1e-6
