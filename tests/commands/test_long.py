"""Commands that will take longer than a minute say so first."""

from __future__ import annotations

import json
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from shallowflow.certificates import VERDICTS, Verdict
from shallowflow.cli import main
from shallowflow.commands import fit, networks
from shallowflow.commands.arguments import say_if_long, say_if_slow
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow

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


@pytest.mark.parametrize("command", ["simulate", "diagnose"])
@pytest.mark.parametrize("steps", [10**9, 50])
def test_many_steps_are_announced(command: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*arguments: Any, steps: int, **options: Any) -> Any:
        return gradient_descent(*arguments, steps=50, **options)

    monkeypatch.setattr(networks, "gradient_descent", short)
    made = CliRunner().invoke(main, [command, DATA, "--steps", str(steps), "--json"])
    assert json.loads(made.stdout)
    announced = [line for line in made.stderr.splitlines() if "Ctrl-C to stop" in line]
    assert len(announced) == (steps > 50)
    assert all(line.startswith("about ") for line in announced)


def lines(command: list[str]) -> list[str]:
    """What a command that ends well says on standard error about the time it will take."""
    made = CliRunner().invoke(main, [*command, "--json"])
    assert json.loads(made.stdout)
    return [line for line in made.stderr.splitlines() if "Ctrl-C to stop" in line]


@pytest.mark.parametrize(
    ("pace", "said"), [(1.0, []), (3.0, []), (1000.0, ["about 33 minutes"]), (1e9, ["about 555,556 hours"])]
)
def test_a_flow_is_announced_by_its_pace_once(
    pace: float, said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # On a made-up clock, in steps of half a second, the rest takes 2 · pace seconds after the first share.
    now, shares = 0.0, list[float]()
    monkeypatch.setattr("shallowflow.commands.arguments.time", SimpleNamespace(monotonic=lambda: now))
    watch = say_if_slow(shares.append, "an earlier --until")
    for step in range(100):
        now = 30.0 + 0.5 * step
        watch(0.1 + 0.9 * min(step * 0.25 / pace, 1.0))
    assert len(shares) == 100
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(";")[0] for line in err.splitlines()] == said


@pytest.mark.parametrize(("seconds", "said"), [(3.0, ["about 50 minutes"]), (0.01, [])])
def test_a_flow_says_that_it_is_slow(
    seconds: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any, progress: Any, **options: Any) -> Any:
        for share in (0.001, 0.002):
            progress(share)
        return gradient_flow(*arguments, **options)

    clock = SimpleNamespace(monotonic=count(0.0, seconds).__next__)
    monkeypatch.setattr("shallowflow.commands.arguments.time", clock)
    monkeypatch.setattr(f"{networks.__name__}.gradient_flow", slow)
    found = lines(["simulate", "three_points", "--until", "10"])
    ending = "; Ctrl-C to stop, coming to rest, an earlier --until or a smaller --width make it shorter"
    assert found == [text + ending for text in said]


@pytest.mark.parametrize(("seconds", "said"), [(3.0, ["about 50 minutes"]), (0.01, [])])
def test_measuring_the_critical_scale_says_that_it_is_slow(
    seconds: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any, progress: Any, **options: Any) -> Any:
        for done in (0.008, 0.016):  # of eight flows
            progress(done)
        return lambda scale: scale < 0.1

    clock = SimpleNamespace(monotonic=count(0.0, seconds).__next__)
    monkeypatch.setattr("shallowflow.commands.arguments.time", clock)
    monkeypatch.setattr("shallowflow.dynamics.critical_scale.line_test", slow)
    found = lines(["certify", "three_points", "--paper", "early_alignment", "--critical-scale"])
    ending = "; Ctrl-C to stop, a smaller --width or --no-critical-scale make it shorter"
    assert found == [text + ending for text in said]


@pytest.mark.parametrize(
    ("words", "knots", "said"),
    [
        ([], 60, 0),
        (["--flat", "both"], 60, 1),
        (["--flat", "both"], 20, 0),
        (["--interval", "0.9"], 60, 1),
        (["--interval", "0.9"], 20, 0),
    ],
)
def test_fits_of_many_knots_are_announced(
    words: list[str], knots: int, said: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    class Fitted:
        """A fit that was made in no time."""

        knots_ = range(knots)

        def summary(self, level: float) -> Any:
            return self

        def to_dict(self) -> dict[str, float]:
            return {}

    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(200)))
    monkeypatch.setattr(fit, "_fitted", lambda *_: (Fitted(), 0.0))
    monkeypatch.setattr(fit, "_result", lambda *_: {"made": True})
    found = lines(["fit", str(path), "--knots", str(knots), *words])
    assert len(found) == said
    assert all(line.endswith("fewer --knots make it shorter") for line in found)


def nothing(word: str, question: object) -> Verdict:
    return Verdict(word, None, ("Nothing.",))


@pytest.mark.parametrize(
    ("size", "paper", "said"), [(30_000, None, 1), (30_000, "plateau", 0), (50, None, 0)]
)
def test_certificates_of_many_samples_are_announced(
    size: int, paper: str | None, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in VERDICTS:
        monkeypatch.setitem(VERDICTS, word, partial(nothing, word))
    words = ["certify", f"sphere:size={size},dimension=2", *(["--paper", paper] if paper else [])]
    found = lines(words)
    assert len(found) == said
    assert all(line.endswith("fewer samples or a smaller --width make it shorter") for line in found)


def test_reproductions_are_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("shallowflow.commands.reproduce.estimate", lambda *_: 300.0)
    words = ["reproduce", "plateau/fig6", "--jobs", "1", "--json", "--out", str(tmp_path)]
    for times in (1, 0):
        made = CliRunner().invoke(main, words)
        assert json.loads(made.stdout)
        assert made.stderr.count("about 5 minutes; Ctrl-C to stop, fewer NAMEs or --demo make") == times
