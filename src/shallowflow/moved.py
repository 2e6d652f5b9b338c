"""Modules of version 0.1 that are gone: importing one says where its contents are now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

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
