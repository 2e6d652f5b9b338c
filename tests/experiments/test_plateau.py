"""The experiments of [plateau] at small sizes: claims are judged by what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from shallowflow.experiments import EXPERIMENTS, Claim

SMALL: Mapping[str, Mapping[str, Any]] = {
    "plateau/fig1": {"steps": 200_000, "points": 150},
    "plateau/fig2": {"steps": 20_000, "points": 50},
    "plateau/fig4": {"steps": 1_000_000, "points": 60, "starts": 3},
    "plateau/fig7": {"steps": 1_000_000, "points": 60},
    "plateau/fig8": {"steps": 1_000_000, "points": 60},
    "plateau/fig9": {
        "starts": 5,
        "points": 40,
        "steps": {"GD": 20_000, "Adam": 5_000, "LS/GD": 1_000, "LS/Adam": 1_000},
    },
    "plateau/fig10": {
        "starts": 5,
        "points": 30,
        "steps": {"GD": 5_000, "Adam": 2_000, "LS/GD": 500, "LS/Adam": 500},
    },
}


def claims_of(name: str, **changes: Any) -> dict[str, Claim]:
    experiment = EXPERIMENTS[name]
    parameters = {**experiment.parameters["quick"], **SMALL.get(name, {}), **changes}
    findings = experiment.run(parameters, lambda fraction, doing: None)
    assert findings.figures
    return {claim.statement.split(" ")[0]: claim for claim in findings.claims}


def test_fig1_finds_the_levels_and_the_scaling_trap() -> None:
    claims = claims_of("plateau/fig1")
    assert claims["The"].holds  # L ≥ Q₀, the last claim that begins so
    assert not claims["Rate"].holds
    assert claims["Rate"].reason


def test_fig2_puts_anls_below_gradient_descent() -> None:
    assert all(claim.holds for claim in claims_of("plateau/fig2").values())


@pytest.mark.parametrize("name", ["plateau/fig3", "plateau/fig5", "plateau/fig6"])
def test_illustrations_hold(name: str) -> None:
    assert all(claim.holds for claim in claims_of(name).values())


def test_fig6_counts_depend_on_the_knots() -> None:
    moved = claims_of("plateau/fig6", knots=(1.5, 3.25, 4.25, 5.5, 8.5))
    assert moved["Five"].measured != "7"
    assert not moved["Five"].holds


def test_fig4_interpolates_and_leaves_dead_neurons() -> None:
    claims = claims_of("plateau/fig4")
    assert all(claim.holds for claim in claims.values())
    other = claims_of("plateau/fig4", seed=0)
    assert not other["The"].holds


def test_fig7_is_not_converged_when_cut_short() -> None:
    claims = claims_of("plateau/fig7")
    assert not claims["Convergence"].holds
    assert all(claim.reason for claim in claims.values() if not claim.holds)


def test_fig8_sees_moving_parameters() -> None:
    short = claims_of("plateau/fig8", steps=3_000)
    assert not all(claim.holds for claim in short.values())


def test_fig9_and_fig10_compare_all_methods() -> None:
    nine = claims_of("plateau/fig9")
    assert nine["All"].holds
    assert "LS/Adam" in nine["All"].measured
    ten = claims_of("plateau/fig10")
    assert ten["LSQ"].holds
    assert "quartiles" in ten["ANLS"].measured or "ANLS" in ten["ANLS"].measured
