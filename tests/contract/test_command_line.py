"""The commands of version 0.1 and their options: more may come, none may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract import described

THEN: dict[str, Any] = described.read("commands.json")
NEW_DEFAULTS = {("shallowflow fit", "selection"): "'bic'"}
"""Defaults that differ from those of version 0.1, as those of `ANLSRegressor` do."""
OPTIONS = [(command, name) for command, options in THEN["commands"].items() for name in options]


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return described.commands()


@pytest.mark.parametrize("command", THEN["commands"])
def test_every_command_is_still_there(command: str, now: dict[str, Any]) -> None:
    assert command in now
    for name, option in now[command].items():
        assert name in THEN["commands"][command] or not option["required"], name


@pytest.mark.parametrize(("command", "name"), OPTIONS)
def test_every_option_means_what_it_meant(command: str, name: str, now: dict[str, Any]) -> None:
    present, past = now[command][name], THEN["commands"][command][name]
    if past["kind"] == "option":  # an argument's name is only shown
        assert set(past["written"]) <= set(present["written"])
    assert set(past["choices"] or ()) <= set(present["choices"] or past["choices"] or ())
    for key in ("kind", "type", "default", "several"):
        expected = NEW_DEFAULTS.get((command, name), past[key]) if key == "default" else past[key]
        assert present[key] == expected, key
    assert past["required"] or not present["required"]


def test_arguments_keep_their_order(now: dict[str, Any]) -> None:
    for command, options in THEN["commands"].items():
        past = [name for name, option in options.items() if option["kind"] == "argument"]
        present = [name for name, option in now[command].items() if option["kind"] == "argument"]
        assert present[: len(past)] == past


def test_answers_in_json_have_their_keys(tmp_path: Path) -> None:
    present = described.answers(tmp_path)
    for line, keys in THEN["answers"].items():
        assert set(keys) <= set(present[line]), line
