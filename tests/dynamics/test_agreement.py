"""Every engine of the table beside a plain twin: a few random problems, and a thousand in the slow tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.anls import METHODS
from shallowflow.dynamics.choice import ENGINES
from tests.dynamics.agreement import CASES, PROBLEMS, agreement
from tests.dynamics.twins import TIED, Sample, Twin, descended

QUICK = 12
engines = pytest.mark.parametrize(("verb", "engine"), CASES, ids=" ".join)


def test_every_engine_is_compared() -> None:
    """All rows of the table; of ANLS all methods but the one that is known to misjudge losses."""
    least_squares = {("active_neuron_least_squares", name) for name in METHODS if name != "orthogonal"}
    listed = {(row.verb, row.name) for row in ENGINES} | least_squares
    assert listed == {case for case in CASES if case[1] != "auto"}


@engines
def test_a_few_random_problems(verb: str, engine: str) -> None:
    assert agreement(verb, engine, range(QUICK)).wrong == []


@pytest.mark.slow
@engines
def test_a_thousand_random_problems(verb: str, engine: str) -> None:
    found = agreement(verb, engine, range(PROBLEMS))
    assert found.wrong == []
    assert np.median([one.bound for one in found.compared]) < (1e-5 if verb == "gradient_flow" else 1e-10)


def test_a_step_that_is_wrong_in_the_tenth_digit_is_seen() -> None:
    network = sf.initialize.gaussian(5, 3, init_scale=1.0, seed=1)
    dataset = sf.data.GENERATORS["sphere"](6, 3)
    twin, sample = Twin(network, sf.SquareLoss()), Sample(dataset.inputs, dataset.targets)
    expected = descended(twin, [sample] * 20, twin.rates(0.1, 1.0))
    for step, seen in ((0.1, False), (0.1 * (1 + 1e-10), True)):
        run = sf.gradient_descent(network, dataset, step=step, steps=20, engine="lanes")
        assert (np.linalg.norm(twin.theta(run.final) - expected.theta) > expected.error) == seen


def test_a_tie_ends_the_comparison_before_it() -> None:
    network = sf.ReLUNetwork([[1.0, -1.0 + 1e-16], [1.0, 1.0]], [1.0, 1.0])
    twin, sample = Twin(network, sf.SquareLoss()), Sample(np.ones((1, 2)), np.ones(1))
    found = descended(twin, [sample] * 3, twin.rates(0.1, 1.0))
    assert (found.made, found.cut) == (0, TIED)
    assert descended(replace(twin, gates=np.ones((2, 1))), [], twin.rates(0.1, 1.0)).cut == ""
