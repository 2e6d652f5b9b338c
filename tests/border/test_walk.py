"""The border is complete: a sample of the walk in every run of the tests, all of it among the slow ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from tests.border.calls import KNOTS, NOT_WALKED, PLANE, RELU, call_of, public
from tests.border.walk import make, silent, variations

NAMES = [name for name in public() if name not in NOT_WALKED]
SAMPLE = 0.01
"""Share of the calls that a run of the tests makes."""
UNTIMED = 600.0
"""Seconds after which a test gives up: any call may have to compile."""


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_wrong_and_extreme_values(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = call_of(name, public()[name])
    for changed, arguments in variations(call, seed=len(name), share=SAMPLE):
        assert make(call, changed, arguments, UNTIMED)[1] == []


def test_every_public_callable_is_walked_or_says_why_not() -> None:
    assert {*NAMES, *NOT_WALKED} == set(public())
    assert len(NAMES) > 230


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(ZeroDivisionError("x"), "raw"), (KeyboardInterrupt(), "raw"), (None, "warning"), (2.5, "silent")],
)
def test_the_walk_sees_what_is_wrong(raised: object, kind: str) -> None:
    import warnings

    from tests.border.calls import Call

    def spoilt() -> object:
        if isinstance(raised, BaseException):
            raise raised
        if raised is None:
            warnings.warn("careful", RuntimeWarning, stacklevel=1)
        return float("nan") if kind == "silent" else None

    assert [one.kind for one in make(Call("spoilt", spoilt, {}, ()), "nothing", {})[1]] == [kind]
    assert silent(1.0) == ""


@pytest.mark.slow
def test_the_whole_walk(tmp_path: Path) -> None:
    out = tmp_path / "walk.json"
    subprocess.run([sys.executable, "-m", "tests.border.walk", "--out", str(out)], check=True)
    found = json.loads(out.read_text())
    assert sum(found["counts"].values()) >= 50_000
    assert found["wrong"] == []


HUGE = sf.Dataset([[1e160, 1.0], [1.0, -1e160]], [1e160, -1e160])
LINE = sf.Dataset([[0.0], [1.0]], [1e308, -1e308])
TABLES = [np.ones((2, 3)), np.ma.array([1.0, 2.0], mask=[False, True])]


@pytest.mark.parametrize("value", TABLES, ids=["matrix", "masked"])
def test_arrays_in_place_of_flags_words_and_functions_are_refused(value: Any, tmp_path: Path) -> None:
    run = sf.gradient_flow(KNOTS, sf.data.GENERATORS["curve"](size=8), until=0.1)
    with pytest.raises(sf.InvalidInputError, match="method: must be one of"):
        sf.active_neuron_least_squares(KNOTS, sf.data.GENERATORS["curve"](size=8), method=value)
    with pytest.raises(sf.InvalidInputError, match="rates: must be a single value"):
        sf.stages(run, sf.data.GENERATORS["curve"](size=8), rates=value)
    with pytest.raises(sf.InvalidInputError, match="data: must be a Dataset or None"):
        sf.story(run, value)
    with pytest.raises(sf.InvalidInputError, match="replacement: must be True or False"):
        sf.stochastic_descent(RELU, PLANE, step=0.1, steps=2, replacement=value)
    with pytest.raises(sf.InvalidInputError, match="writable: must be True or False"):
        sf.studies.Store(tmp_path, writable=value)
    with pytest.raises(sf.InvalidInputError, match="subject: must be a function"):
        sf.studies.Study("s", dict, {}, subject=value)


def test_numbers_near_the_largest_are_refused_or_end_in_an_outcome() -> None:
    with pytest.raises(sf.InvalidInputError, match="strictly increasing"):
        sf.PiecewiseConstant([1e308, -1e308], [0.0, 1.0, 2.0])
    with pytest.raises(sf.InvalidInputError, match="x: the target there"):
        sf.PiecewiseAffine([0.0, 1.0], [0.0, 5.0])(1e308)
    with pytest.raises(sf.InvalidInputError, match="squares; rescale them, got one of 1e\\+308"):
        sf.active_neuron_least_squares(KNOTS, LINE)
    with pytest.raises(sf.InvalidInputError, match="step, steps: the time step × steps must be finite"):
        sf.gradient_descent(RELU, PLANE, step=1e308, steps=10)
    with pytest.raises(sf.InvalidInputError, match="sizes: must be an array of numbers"):
        sf.initialize.grouped(np.eye(3), [1.0, 1.0, 1.0], 2, sizes=[[1], [2, 3]])
    for verb in (sf.gradient_descent, sf.alternating_least_squares):
        run = verb(RELU, HUGE, step=0.1, steps=20)
        assert run.outcome.status not in ("completed", "converged")


@pytest.mark.parametrize("name", sf.data.CURVES)
def test_curves_are_periodic_to_the_last_bit(name: str) -> None:
    near = np.linspace(-0.75, 0.75, 25)  # so short that x + 2¹⁰ is exact
    curve = sf.data.CURVES[name]
    if name == "jump":
        assert np.isfinite(curve([1e308, -1e308])).all()
        near = near[near < 0]
        assert np.array_equal(curve(near - 1024.0), curve(near))
    else:
        assert np.array_equal(curve(near - 1024.0 * np.sign(near)), curve(near - 2.0 * np.sign(near)))
