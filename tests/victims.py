"""Processes to be killed: one that has loaded everything makes the others, so that a kill falls into work.

Each line of standard input is a JSON list: when the job is killed (seconds; null: not at all; "here": it runs
in this process, to load what it needs), its name, its arguments. The answer is how it ended: an exit code, or
minus the signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback

import numpy as np

JOBS = "study", "save", "command"


def study(directory: str, log: str) -> None:
    """Run forty short runs into a store."""
    from shallowflow.studies import Store, run
    from tests.studies.tasks import many

    with Store(directory) as store:
        run(many(log, 40, 0.005), store=store)


def save(path: str, number: int) -> None:
    """Save a trajectory of 10 MB that is full of one number."""
    from shallowflow.dynamics.clock.paths import Snapshots
    from shallowflow.dynamics.clock.trajectory import Outcome, Trajectory
    from shallowflow.models.networks import KnotNetwork

    network = KnotNetwork(np.zeros(32_000), np.zeros(32_000))
    path_of = Snapshots(network, np.arange(20.0), np.full((20, 64_000), float(number)))
    ends, losses = np.array([0.0, 1.0]), np.full(2, float(number))
    Trajectory(ends, losses, path_of, (), Outcome("completed", "done."), {"number": number}).save(path)


def command(output: str, *words: str) -> None:
    """Run `shallowflow` with these words, its standard output in a file."""
    from shallowflow.cli import main

    file, kept = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.dup(1)
    os.dup2(file, 1)
    try:
        main(list(words), standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(file)


def main() -> None:
    """Do what standard input asks for, until it ends."""
    for line in sys.stdin:
        when, name, *arguments = json.loads(line)
        assert name in JOBS
        if when == "here":
            globals()[name](*arguments)
            print(0, flush=True)
            continue
        child = os.fork()
        if child == 0:
            try:
                globals()[name](*arguments)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if when is not None:
            time.sleep(when)
            # Nobody has waited for it yet: the number is still its own, even if it has ended.
            os.kill(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
