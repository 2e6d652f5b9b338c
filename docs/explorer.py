"""Write the recorded runs of the explorer for the documentation: `.venv/bin/python docs/explorer.py`."""

from pathlib import Path

from shallowflow.explorer.scene import Watch, packed
from shallowflow.explorer.scenes import SCENES
from shallowflow.explorer.server import standalone

FOLDER = Path(__file__).parent / "standalone" / "explorer"
SMALLER = {"alignment": {"width": 60}, "free": {"width": 20}}
"""Fewer neurons, smaller files."""

FOLDER.mkdir(parents=True, exist_ok=True)
for name, scene in SCENES.items():
    state = scene.state(SMALLER.get(name, {}))
    header = {"n": 1, "scene": name, "state": state.plain()}
    message = packed(scene.run(state, Watch()), header)
    (FOLDER / f"{name}.html").write_text(standalone(message), encoding="utf-8")
