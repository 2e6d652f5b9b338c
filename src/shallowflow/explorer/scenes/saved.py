"""Scene "saved": a run from a file, as `Trajectory.save` and the page's own export write it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import Scene, Show, State, Watch
from shallowflow.explorer.scenes.free import FREE, shown


def opened(content: bytes, name: str) -> Show:
    """Return the run that a file holds; damaged and foreign files are refused by `Trajectory.load`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.trajectory"
        file.write_bytes(content)
        trajectory = Trajectory.load(file)
    code = f"import shallowflow as sf\n\nrun = sf.Trajectory.load({name!r})\nprint(run.losses[-1])\n"
    return replace(shown(trajectory), code=code)


def run(state: State, watch: Watch) -> Show:
    """Say that a file is needed."""
    raise InvalidInputError("saved: open a trajectory file first")


SAVED = Scene(
    "saved",
    "Saved run",
    "A run from a file. Play it, scrub it, read its story; to change something, open a scene.",
    (),
    (),
    run,
    FREE.letters,
)
