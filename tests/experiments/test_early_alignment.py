"""The experiments of the early-alignment paper come out as published, and their claims can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.data.generators import sphere, three_points
from shallowflow.experiments import EXPERIMENTS, Findings
from shallowflow.experiments.early_alignment.theorem1 import sweep


def nothing(fraction: float, doing: str) -> None:
    assert 0 <= fraction <= 1
    assert doing


def run(name: str, **changes: Any) -> Findings:
    experiment = EXPERIMENTS[f"early_alignment/{name}"]
    return experiment.run({**experiment.parameters["quick"], **changes}, nothing)


def held(findings: Findings) -> dict[str, bool]:
    return {claim.statement: claim.holds is True for claim in findings.claims}


def test_fig1_claims_hold_and_notice_other_data() -> None:
    assert all(held(run("fig1")).values())
    far = run("fig1", assumed=((-0.7, 1.0), (0.0, 0.05), (0.7, 1.0)))
    assert not far.claims[0].holds


def test_fig2_claims_hold_on_a_small_run_and_have_teeth() -> None:
    """Claims are judged by measurement: a run cut short before convergence must not hold."""
    whole = run("fig2", width=200, frames=5)
    assert all(held(whole).values()), whole.claims
    assert len(whole.figures[0].panels) == 8
    (moving,) = whole.animations
    assert len(moving.frames) == len(moving.labels) >= 8
    assert moving.labels[-1] == "t = 200"
    short = run("fig2", width=200, frames=2, steps=500, times=(0.0, 1.0, 2.0, 5.0))
    assert [claim.holds for claim in short.claims[:3]] == [False, False, False]
    assert not short.claims[5].holds


def test_fig3_counts_what_was_learnt() -> None:
    whole = run("fig3", data_seeds=(1,), frames=2)
    assert all(held(whole).values()), whole.claims
    assert len(whole.figures[0].panels) == 10
    early = run("fig3", data_seeds=(0,), until=30.0, times=(0.0, 1.0, 2.0, 3.0, 30.0), frames=2)
    assert not early.claims[1].holds
    assert "1 neurons" in early.claims[4].measured
    assert not early.claims[5].holds


def parameters(**changes: Any) -> Mapping[str, Any]:
    return {**EXPERIMENTS["early_alignment/theorem1"].parameters["quick"], **changes}


@pytest.mark.parametrize("data", [three_points(), sphere(3, 2, seed=5)], ids=["three", "several"])
def test_theorem_1_below_its_threshold(data: sf.Dataset) -> None:
    """(i) and (ii) for λ < λ*; by the closed form tanh the exponent is twice the predicted one."""
    found = sweep(data, parameters(width=24, scales=6), lambda fraction: None)
    assert np.all(found.scales < found.threshold.scale)
    for certificate in found.certificates:
        assert certificate.holds
        assert all(promise.kept is not False for promise in certificate.promises)
    assert found.elsewhere[-1] == 0
    usable = np.isfinite(found.measured)
    assert usable.sum() >= (1 if len(data.targets) == 3 and found.dataset.name == "three points" else 3)
    assert np.all(found.measured[usable] >= found.predicted[usable])
    np.testing.assert_allclose(found.measured[usable], 2 * found.predicted[usable], rtol=0.05)


def test_theorem_1_claims_hold_and_notice_a_start_above_the_threshold() -> None:
    small = run("theorem1", width=16, scales=4)
    assert all(held(small).values()), small.claims
    above = run("theorem1", width=16, scales=3, smallest=20.0)
    assert not above.claims[0].holds


def test_nature_is_told_as_measured() -> None:
    findings = run("nature", width=100, seeds=(0, 1), until=200.0)
    holds = [claim.holds for claim in findings.claims]
    assert holds == [True, True, False, True, True]
    assert "0 zero neurons" in findings.claims[2].measured


def test_width_claims_hold_and_need_convergence() -> None:
    assert all(held(run("width", widths=(50, 500))).values())
    assert not run("width", widths=(50,), steps=500).claims[0].holds


def test_reproduce_names_unknown_experiments() -> None:
    with pytest.raises(sf.InvalidInputError, match=r"name: must be an experiment, got 'nope'"):
        sf.reproduce("nope")
    with pytest.raises(sf.InvalidInputError, match="did you mean early_alignment/fig2"):
        sf.reproduce("early_alignment/fig22")
    with pytest.raises(sf.InvalidInputError, match=r"name: must be an experiment, got \['plateau/fig1'\]"):
        sf.reproduce(["plateau/fig1"])  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidInputError, match="scale: must be one of quick, paper; got 'huge'"):
        sf.reproduce("early_alignment/fig2", scale="huge")
