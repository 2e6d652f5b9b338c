"""The border is complete: a sample of the walk in every run of the tests, all of it among the slow ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.border.calls import NOT_WALKED, call_of, public
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
