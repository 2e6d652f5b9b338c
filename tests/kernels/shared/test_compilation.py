"""The line that is said while kernels compile: on a terminal, once, not when they come from the disk."""

from __future__ import annotations

import gc
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shallowflow.cli import Program, main
from shallowflow.kernels.shared.compilation import ANNOUNCED, MESSAGE, CompilationListener

USE = """
from shallowflow.kernels.shared import compilation
compilation.PATIENCE = 0.0
import numpy as np
from shallowflow.kernels.cones import exits
print(exits.melded(-1, 3, exits.new_heaps(5)))
print(exits.pushed(-1, 3, 1.0, exits.new_heaps(5)))
"""


def on_a_terminal(cache: Path) -> tuple[str, str]:
    """Standard output and what the terminal shows of standard error of a new process."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=True,
        text=True,
    )
    os.close(theirs)
    try:
        shown = os.read(ours, 10_000).decode()
    except OSError:  # nothing was written
        shown = ""
    os.close(ours)
    return done.stdout, shown


def test_the_first_process_says_it_and_the_next_one_has_no_need(tmp_path: Path) -> None:
    first, second = on_a_terminal(tmp_path), on_a_terminal(tmp_path)
    assert first[0] == second[0] == "3\n3\n"
    assert first[1].count(MESSAGE) == 1
    assert MESSAGE not in second[1]


@pytest.mark.parametrize(
    ("module", "said"), [("shallowflow.kernels.fitting.chain", 1), ("numba.np.linalg", 0), (None, 0)]
)
def test_once_and_only_for_our_kernels(
    module: str | None, said: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([0.0, 0.1, 1.0, 2.0])
    monkeypatch.setattr("shallowflow.kernels.shared.compilation.time.monotonic", lambda: next(times))
    function = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    listener = CompilationListener()
    with caplog.at_level("INFO", logger="shallowflow"):
        for _ in range(4):
            listener.on_start(SimpleNamespace(data={"dispatcher": function}))
        for _ in range(4):
            listener.on_end(SimpleNamespace(data={"dispatcher": function}))
    assert [record.message for record in caplog.records] == [MESSAGE] * said


@pytest.mark.parametrize("module", ["shallowflow.kernels.fitting.chain", "numba.np.linalg"])
def test_garbage_is_collected_as_before_when_all_is_compiled(module: str) -> None:
    event = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})
    before, listener = gc.get_threshold(), CompilationListener()
    listener.on_start(event)
    listener.on_start(event)
    listener.on_end(event)
    assert (gc.get_threshold() != before) == module.startswith("shallowflow")
    listener.on_end(event)
    assert gc.get_threshold() == before


@pytest.mark.parametrize("announced", [False, True])
def test_the_command_line_has_it_in_a_file_too(
    announced: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(ANNOUNCED, raising=False)
    if announced:
        monkeypatch.setattr(Program, "main", lambda program: None)
        monkeypatch.setattr("os.environ", {**os.environ})
        main()
    times = iter([0.0, 1.0])
    monkeypatch.setattr("shallowflow.kernels.shared.compilation.time.monotonic", lambda: next(times))
    function = SimpleNamespace(py_func=SimpleNamespace(__module__="shallowflow.kernels.fitting.chain"))
    listener = CompilationListener()
    for _ in range(2):
        listener.on_start(SimpleNamespace(data={"dispatcher": function}))
    for _ in range(2):
        listener.on_end(SimpleNamespace(data={"dispatcher": function}))
    assert capsys.readouterr().err == (MESSAGE + "\n" if announced else "")
