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
from shallowflow.experiments.weak_interaction import runs
from shallowflow.landscape import activation_probability, lemma_5_widths, sampled_probability

SMALL: dict[str, dict[str, Any]] = {
    "fig1": {"sizes": (1e2, 1e20, 1e100)},
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
    "converges": {"networks": 12, "stopped": 2, "watched": 3},
    "rates": {"grouped": (256, 1024)},
    "prop3": {"ratios": (0.3, 1.0), "labels": (100.0,), "repeats": 4, "epochs": 8000},
    "lemma3": {"sizes": (5, 10), "draws": 8},
    "lemma4": {"sizes": (8,), "widths": (25, 100), "starts": 40, "wide": 5000},
    "lemma5": {"draws": 1000},
}
ENDS: dict[str, list[bool | None]] = {
    "fig1": [True, True, False],
    "rates": [True, True, True, True],
    "lemma5": [True, False, True],
}
"""How claims that do not hang on a sample end."""


def run(name: str, **changes: Any) -> Reproduction:
    experiment = EXPERIMENTS[f"weak_interaction/{name}"]
    parameters = {**experiment.parameters["quick"], **SMALL[name], **changes}
    small = replace(experiment, parameters={"quick": parameters, "paper": parameters})
    seen: list[float] = []
    findings = small.reproduce("quick", lambda done, doing: seen.append(done))
    assert seen or name == "fig1"
    for figure in findings.figures:
        for panel in figure.panels:
            assert panel.series
            assert panel.x_label
            assert panel.y_label
    for claim in findings.claims:
        assert claim.fails_if
        assert claim.holds is not False or claim.reason, claim
    return findings


def claims(findings: Reproduction) -> list[bool | None]:
    return [claim.holds for claim in findings.claims]


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_gives_figures_and_claims(name: str) -> None:
    findings = run(name)
    assert findings.claims
    if name in ENDS:
        assert claims(findings) == ENDS[name], findings.claims


def test_fig1_at_a_small_size_is_far_from_its_limit() -> None:
    assert claims(run("fig1", sizes=(50.0, 100.0)))[:2] == [False, False]


def test_fig2_finds_a_transition_and_leaves_its_place_open_in_another_dimension() -> None:
    findings = run("fig2")
    assert claims(findings)[1:4] == [None, None, None]
    assert "N = " in findings.claims[0].measured
    # The fitted range of 90 % to 10 % against the shares themselves.
    (spread,) = numbers(findings.claims[1].measured, r"within (\d+)%")
    assert 14 < spread < 200


def test_fig2_without_a_transition_says_so() -> None:
    findings = run("fig2", sizes=(200, 220), repeats=2)
    assert "below the smallest n" in findings.claims[0].measured
    assert "no transition" in findings.claims[1].measured


def numbers(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def test_fig3_and_fig4_measure_powers() -> None:
    (claim,) = run("fig3").claims
    assert claim.holds is False
    small, large = numbers(claim.measured, r"N\(\d+\) = (\d+)")
    assert 8 < small < large
    (power,) = numbers(claim.measured, r"power of d (\S+)")
    assert power == pytest.approx(np.log(large / small) / np.log(14 / 8), abs=0.1)
    sublinear, alike, able, exists = run("fig4").claims
    assert sublinear.holds
    assert alike.holds is None  # two thresholds cannot tell
    assert able.holds is False
    assert exists.holds


def test_lemma5_takes_no_chance_for_a_gain() -> None:
    """In dimension 500 forty inputs are nearly orthogonal: what differs is chance."""
    *_, claim = run("lemma5", dimension=500, draws=250).claims
    assert "more likely" in claim.statement
    assert claim.holds is False


def test_lemma5_knows_the_cases_of_its_second_rule() -> None:
    """n = 1000 labels of one sign, ε = 0.6: 20 ≤ 3 ln(n/ε) − 2 neurons have P = 0.404 > 0.4."""
    few = lemma_5_widths(1000, 0.6)[0]
    assert int(few) == 20
    assert activation_probability(20, 1000, 0) == pytest.approx(0.404, abs=5e-4)
    equal = sf.Dataset(np.ones((1000, 1)), np.ones(1000))
    found, error = sampled_probability(equal, 11, draws=4000)
    assert lemma_5_widths(1000, 0.05)[0] > 11
    assert found == pytest.approx(1 - 0.75**11, abs=4 * error)
    assert found > 0.95 - 4 * error


def test_the_iff_of_orthogonal_inputs_holds_for_every_network() -> None:
    (event, *_, lower, upper) = run("converges", networks=30).claims
    assert "share of networks in which this is so for every sample 1 " in event.measured
    assert lower.holds
    assert upper.holds


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
