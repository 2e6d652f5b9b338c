"""Packages whose public names are imported on first use, PEP 562."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from shallowflow.errors import did_you_mean


def attach(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its public names on first use.

    names: {public name: module that defines it}; modules: {public name: the module itself}. Each is kept in
    the package once it was asked for. No name may be that of a module of the package, which would hide it.
    """
    namespace = sys.modules[package].__dict__
    places = {**names, **(modules or {})}

    def find(name: str) -> Any:
        if name not in places:
            # With its own name the error is not completed, and not given a second hint, by Python.
            hint = "" if name.startswith("_") else did_you_mean(name, places)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        module = import_module(places[name])
        namespace[name] = getattr(module, name) if name in names else module
        return namespace[name]

    def listed() -> list[str]:
        return sorted({*namespace, *places})

    return find, listed
