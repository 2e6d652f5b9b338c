"""How runs end, in words: every code makes one clear line, and fixed steps are judged by their losses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import shallowflow
from shallowflow.dynamics.clock.protocol import Stop
from shallowflow.dynamics.clock.trajectory import SENTENCES, STATUSES, end_of_steps, in_words

WORDS = {"points": "2 points are left: [0, 1]", "ties": ""}
SOURCES = sorted(Path(shallowflow.__file__).parent.joinpath("dynamics").rglob("*.py"))


def asked_for(sentence: str) -> list[str]:
    return re.findall(r"\{(\w+)", sentence)


@pytest.mark.parametrize("code", SENTENCES)
def test_every_code_makes_one_line(code: str) -> None:
    status, message, advice = SENTENCES[code]
    numbers = {name: WORDS.get(name, 12345678) for name in asked_for(message)}
    outcome = in_words(Stop(code, numbers))
    assert outcome.status == status in STATUSES
    assert "{" not in str(outcome)
    assert "\n" not in str(outcome)
    assert outcome.ok == (not advice) or code == "unfitted"
    assert advice.endswith(".") or not advice
    assert asked_for(advice) == []


def test_every_code_that_is_used_has_a_sentence_and_every_sentence_a_use() -> None:
    """Codes are the strings of `dynamics`, outside the table itself."""
    strings = {
        node.value
        for path in SOURCES
        if path.name != "outcomes.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    judged = {"steps done", "rose", "rose on the way", "overflow at the start", "overflow after steps"}
    below = {code for code in SENTENCES if code.startswith("loss below")}  # put together from two parts
    assert set(SENTENCES) - judged - below <= strings
    used = {
        node.args[0].value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Stop"
        and isinstance(node.args[0], ast.Constant)
    }
    assert used - {"overflow"} <= set(SENTENCES)
    assert judged <= used


@pytest.mark.parametrize(
    ("losses", "made", "code"),
    [
        ([1.0, 0.5], 10, "steps done"),
        ([1.0, 1.0 + 1e-10], 10, "steps done"),
        ([1.0, 1.0 + 1e-8], 10, "rose"),
        ([1.0, 99.0, 0.5], 10, "steps done"),
        ([1.0, 101.0, 0.5], 10, "rose on the way"),
        ([1.0, 0.5], 9, "overflow after steps"),
        ([1.0], 0, "overflow after steps"),
        ([np.inf], 0, "overflow at the start"),
        ([np.nan], 0, "overflow at the start"),
        ([0.0, 0.0], 10, "steps done"),
    ],
)
def test_fixed_steps_are_judged_by_where_the_loss_went(losses: list[float], made: int, code: str) -> None:
    stop = end_of_steps(np.array(losses), made, 10)
    assert stop.code == code
    assert in_words(stop)


def test_sentences_with_their_numbers() -> None:
    assert str(in_words(Stop("gates chatter", {"time": 1.5}))) == (
        "stalled: gates change repeatedly at t = 1.5. "
        "Try: a smaller tolerance; the solution may not be unique from here on."
    )
    assert str(in_words(Stop("loss overflow", {"time": 4.0}))) == (
        "diverged: the loss overflowed at t = 4. Try: rescale the data."
    )
    assert str(in_words(Stop("interpolates", {"jumps": 3, "ties": " Ties at jumps [1]."}))) == (
        "converged: interpolates after 3 jumps. Ties at jumps [1]."
    )
    with pytest.raises(KeyError):
        in_words(Stop("bored"))
