"""The page as the server gives it out, and as one file that plays without a server.

Its modules import each other by bare names ("explorer/state"). An import map says where they are: beside the
page, or, in the file, in the file itself.
"""

from __future__ import annotations

import base64
import json
import struct
from importlib.resources import files
from typing import Any

from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import Scene
from shallowflow.explorer.scenes import SAVED, SCENES

FOLDER = files("shallowflow.explorer") / "page"
MODULES = tuple(sorted(file.name for file in FOLDER.iterdir() if file.name.endswith(".js")))
TYPES = {".js": "text/javascript", ".css": "text/css"}


def text_of(name: str) -> str:
    """Return a file of the page."""
    return (FOLDER / name).read_text(encoding="utf-8")


POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline' "
    "data:; style-src 'unsafe-inline'; img-src data: blob:\">"
)
"""Of a page in a file: it loads nothing from anywhere."""


def _assembled(head: tuple[str, str], imports: dict[str, str], data: dict[str, Any], nonce: str) -> str:
    """Return the document with its policy and style, its import map and its data."""
    # "</" would end the script early, whatever the data are.
    said = json.dumps(data).replace("</", "<\\/")
    return (
        text_of("index.html")
        .replace("<!--policy-->", head[0])
        .replace("<!--style-->", head[1])
        .replace("<!--imports-->", json.dumps({"imports": imports}))
        .replace("<!--data-->", said)
        .replace("NONCE", nonce)
    )


def served(nonce: str, scene: str, state: dict[str, Any]) -> str:
    """Return the page of the server."""
    imports = {f"explorer/{name.removesuffix('.js')}": f"/page/{name}" for name in MODULES}
    scenes = [one.described() for one in (*SCENES.values(), SAVED)]
    data = {"scenes": scenes, "scene": scene, "state": state}
    return _assembled(("", '<link rel="stylesheet" href="/page/style.css">'), imports, data, nonce)


def standalone(message: bytes) -> str:
    """Return one file that shows a run (`scene.packed`), plays and scrubs; nothing is loaded."""
    scene = _scene_of(message)

    def inline(name: str) -> str:
        encoded = base64.b64encode(text_of(name).encode()).decode()
        return f"data:text/javascript;base64,{encoded}"

    imports = {f"explorer/{name.removesuffix('.js')}": inline(name) for name in MODULES}
    run = base64.b64encode(message).decode()
    data = {"scenes": [scene.described()], "scene": scene.name, "state": {}, "run": run}
    return _assembled((POLICY, f"<style>{text_of('style.css')}</style>"), imports, data, "")


def _scene_of(message: bytes) -> Scene:
    """Return the scene that a message names."""
    try:
        (length,) = struct.unpack_from("<I", message)
        name = json.loads(message[4 : 4 + length])["scene"]
        return {**SCENES, SAVED.name: SAVED}[name]
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InvalidInputError("request: must be a run as the page received it") from error
