"""The page's own modules: pure parts tested by Node, types checked by TypeScript, sizes."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from shallowflow.explorer.scenes import SCENES
from shallowflow.explorer.server import FOLDER, MODULES, text_of

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "page"
TSC = ROOT / ".venv" / "node" / "node_modules" / ".bin" / "tsc"
MOST_LINES, MOST_IN_A_FILE = 2_500, 400


def test_pure_parts() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node on this machine (Debian: apt-get install nodejs)")
    made = subprocess.run([node, "--test", str(HERE / "pure.test.mjs")], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr


def test_types() -> None:
    checker = str(TSC) if TSC.exists() else shutil.which("tsc")
    if checker is None:
        pytest.skip("no TypeScript on this machine (`make test-browser` installs it where npm is there)")
    made = subprocess.run([checker, "--project", str(HERE)], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout


def test_the_front_end_is_small() -> None:
    files = [file for file in Path(str(FOLDER)).iterdir() if file.is_file()]
    lines = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert sum(lines.values()) < MOST_LINES, lines
    assert max(lines.values()) <= MOST_IN_A_FILE, lines
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "eval(" not in text
        assert "innerHTML" not in text
        assert max(map(len, text.splitlines())) <= 150, file.name


@pytest.mark.parametrize("scene", SCENES)
def test_recorded_runs_have_the_page_of_today(scene: str) -> None:
    page = (ROOT / "docs" / "standalone" / "explorer" / f"{scene}.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="importmap" nonce="">(.*?)</script>', page)
    assert found is not None
    imports = json.loads(found[1])["imports"]
    for name in MODULES:
        kept = base64.b64decode(imports[f"explorer/{name.removesuffix('.js')}"].partition(",")[2]).decode()
        assert kept == text_of(name), f"{name}: run docs/explorer.py again"
    assert text_of("style.css") in page
