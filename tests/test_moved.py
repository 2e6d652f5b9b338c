"""Modules of version 0.1 that are gone say where their contents are."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from shallowflow.lazy import TABLE

MOVED: dict[str, str] = json.loads(TABLE.read_text(encoding="utf-8"))


def test_the_table_names_modules_that_exist() -> None:
    assert len(MOVED) > 100
    for place in set(MOVED.values()):
        if "(" not in place:
            import_module(place)


@pytest.mark.parametrize("old", ["dynamics.driver", "kernels.cone_descent", "landscape.balance"])
def test_importing_an_old_module_names_the_new_one(old: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=MOVED[old].replace(".", r"\.")) as raised:
        import_module(f"shallowflow.{old}")
    assert raised.value.name == f"shallowflow.{old}"


def test_no_module_of_today_is_called_gone() -> None:
    root = TABLE.parent
    places = {old: root.joinpath(*old.split(".")) for old in MOVED}
    found = [old for old, place in places.items() if place.with_suffix(".py").exists() or place.is_dir()]
    assert [old for old in found if not root.joinpath(*old.split("."), "__init__.py").exists()] == []


def test_modules_that_never_were_are_not_found_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'shallowflow.nonsense'"):
        import_module("shallowflow.nonsense")
