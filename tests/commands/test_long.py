"""Commands that will take longer than a minute say so first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from shallowflow.cli import main
from shallowflow.commands import diagnose, simulate
from shallowflow.commands.arguments import say_if_long
from shallowflow.dynamics.descent import gradient_descent

DATA = "sphere:size=50,dimension=5"


def test_a_minute_is_not_long_and_hours_are_said_as_hours(capsys: pytest.CaptureFixture[str]) -> None:
    say_if_long(60.0, "x")
    assert capsys.readouterr() == ("", "")
    for seconds in (61.0, 600.0, 1e5):
        say_if_long(seconds, "fewer --steps")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        "about 2 minutes",
        "about 10 minutes",
        "about 28 hours",
    ]
    assert err.splitlines()[0].endswith("; Ctrl-C to stop, fewer --steps make it shorter")


@pytest.mark.parametrize(("command", "module"), [("simulate", simulate), ("diagnose", diagnose)])
@pytest.mark.parametrize("steps", [10**9, 50])
def test_many_steps_are_announced(
    command: str, module: Any, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*arguments: Any, steps: int, **options: Any) -> Any:
        return gradient_descent(*arguments, steps=50, **options)

    monkeypatch.setattr(f"{module.__name__}.gradient_descent", short)
    made = CliRunner().invoke(main, [command, DATA, "--steps", str(steps), "--json"])
    assert json.loads(made.stdout)
    announced = [line for line in made.stderr.splitlines() if "Ctrl-C to stop" in line]
    assert len(announced) == (steps > 50)
    assert all(line.startswith("about ") for line in announced)


def test_reproductions_are_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("shallowflow.commands.reproduce.estimate", lambda *_: 300.0)
    words = ["reproduce", "plateau/fig6", "--jobs", "1", "--json", "--out", str(tmp_path)]
    for times in (1, 0):
        made = CliRunner().invoke(main, words)
        assert json.loads(made.stdout)
        assert made.stderr.count("about 5 minutes; Ctrl-C to stop, fewer NAMEs or --demo make") == times
