"""The program ends on a signal with one line and the right code, whatever it is doing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = """
import sys
from shallowflow.__main__ import main
print("go", flush=True)
sys.argv = sys.argv[1:]
main()
"""
"""Run the program, after saying that its handlers are about to be set."""


def interrupted(command: list[str], number: signal.Signals, delay: float, folder: Path) -> tuple[int, str]:
    """Return exit code and errors of the program, sent a signal so long after its start."""
    arguments = [sys.executable, "-c", START, "shallowflow", *command]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "go\n"
        time.sleep(delay)
        program.send_signal(number)
        _, errors = program.communicate(timeout=120)
    return program.returncode, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("delay", [0.03, 0.1, 0.25, 0.6])
def test_a_signal_while_the_program_is_imported_or_works(
    number: signal.Signals, code: int, delay: float, tmp_path: Path
) -> None:
    command = ["simulate", "sphere:size=200,dimension=20", "--width", "300", "--until", "1000", "--seed", "1"]
    found, errors = interrupted(command, number, delay, tmp_path)
    said = [line for line in errors.splitlines() if "compiling" not in line and line.strip()]
    assert found == code, errors
    assert said == ["interrupted" if code == 130 else "terminated"]
    assert not any("Traceback" in line for line in said)
    assert list(tmp_path.iterdir()) == []
