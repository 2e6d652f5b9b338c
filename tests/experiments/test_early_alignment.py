"""The three-point experiment comes out as published."""

from __future__ import annotations

import pytest

import shallowflow as sf
from shallowflow.experiments import EXPERIMENTS


def test_fig2_claims_hold_on_a_small_run_and_have_teeth() -> None:
    """Claims are judged by measurement: a run cut short before convergence must not hold."""
    experiment = EXPERIMENTS["early_alignment/fig2"]
    parameters = {**experiment.parameters["quick"], "width": 200}

    def nothing(fraction: float, doing: str) -> None:
        assert 0 <= fraction <= 1
        assert doing

    whole = experiment.run(parameters, nothing)
    assert all(claim.holds for claim in whole.claims), whole.claims
    assert len(whole.figures[0].panels) == 8
    short = experiment.run({**parameters, "steps": 500, "times": (0.0, 1.0, 2.0, 5.0)}, nothing)
    assert not any(claim.holds for claim in short.claims)


def test_reproduce_names_unknown_experiments() -> None:
    with pytest.raises(sf.InvalidInputError, match=r"name: must be one of early_alignment/fig2.*got 'nope'"):
        sf.reproduce("nope")
    with pytest.raises(sf.InvalidInputError, match="scale: must be one of quick, paper; got 'huge'"):
        sf.reproduce("early_alignment/fig2", scale="huge")
