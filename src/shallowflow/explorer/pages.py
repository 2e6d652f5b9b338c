"""The page as the server gives it out, and as one file that plays without a server.

Its modules import each other by bare names ("explorer/state"). An import map says where they are: beside the
page, or, in the file, in the file itself.
"""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

from shallowflow.explorer.scenes import SCENES

FOLDER = files("shallowflow.explorer") / "page"
MODULES = tuple(sorted(file.name for file in FOLDER.iterdir() if file.name.endswith(".js")))
TYPES = {".js": "text/javascript", ".css": "text/css"}


def text_of(name: str) -> str:
    """Return a file of the page."""
    return (FOLDER / name).read_text(encoding="utf-8")


def _assembled(style: str, imports: dict[str, str], data: dict[str, Any], nonce: str) -> str:
    """Return the document with its style, its import map and its data."""
    # "</" would end the script early, whatever the data are.
    said = json.dumps(data).replace("</", "<\\/")
    return (
        text_of("index.html")
        .replace("<!--style-->", style)
        .replace("<!--imports-->", json.dumps({"imports": imports}))
        .replace("<!--data-->", said)
        .replace("NONCE", nonce)
    )


def served(nonce: str, scene: str, state: dict[str, Any]) -> str:
    """Return the page of the server."""
    imports = {f"explorer/{name.removesuffix('.js')}": f"/page/{name}" for name in MODULES}
    data = {"scenes": [one.described() for one in SCENES.values()], "scene": scene, "state": state}
    return _assembled('<link rel="stylesheet" href="/page/style.css">', imports, data, nonce)


def standalone(message: bytes, scene: str) -> str:
    """Return one file that shows a run, plays and scrubs; nothing is loaded from anywhere."""

    def inline(name: str) -> str:
        encoded = base64.b64encode(text_of(name).encode()).decode()
        return f"data:text/javascript;base64,{encoded}"

    imports = {f"explorer/{name.removesuffix('.js')}": inline(name) for name in MODULES}
    run = base64.b64encode(message).decode()
    data = {"scenes": [SCENES[scene].described()], "scene": scene, "state": {}, "run": run}
    return _assembled(f"<style>{text_of('style.css')}</style>", imports, data, "")
