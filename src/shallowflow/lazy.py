"""What is imported on first use: public names of packages, PEP 562, and functions by their place.

Modules of earlier versions that are gone say on import where their contents are now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
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


def function(place: str) -> Callable[..., Any]:
    """Return the function "package.module:name", imported now.

    By this a folder may offer what only a folder further down can do (`Trajectory.plot`): it works without
    that folder, and the import contracts, which see no such import, stay as they are.
    """
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


TABLE = Path(__file__).with_name("moved.json")
"""Old module → where its contents are, or what to use instead."""


class _Moved(MetaPathFinder):
    """Is asked last, for modules that no other finder knows."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise an error that names the replacement of a module that is gone."""
        if fullname.startswith("shallowflow."):
            import json

            place = json.loads(TABLE.read_text(encoding="utf-8")).get(fullname.removeprefix("shallowflow."))
            if place is not None:
                raise ModuleNotFoundError(f"{fullname} is gone; see {place}", name=fullname)
        return None


def install() -> None:
    """Answer imports of old modules from now on."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
