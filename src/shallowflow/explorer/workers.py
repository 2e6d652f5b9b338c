"""Runs in processes of their own, so that the page never blocks; what is outdated gives up by itself.

A session has a slot in an array that all processes share. It holds the number of the session's latest
request: a run that finds a larger number there than its own, or its time used up, stops at its next sign of
progress.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shallowflow.errors import ShallowflowError

PROCESSES = 2
SLOTS = 8
"""Sessions at a time."""
SECONDS = 60.0
"""A run that takes longer is stopped."""

PATIENCE = 1.0
"""Seconds between two looks whether the server is still there."""

_latest: Any = None


class Outdated(Exception):  # noqa: N818
    """A newer request has come, or time is up."""


@dataclass(frozen=True)
class Job:
    """A request: which session (its slot) asked, its number, the scene, what is set, and what is wanted."""

    slot: int
    number: int
    scene: str
    state: dict[str, Any]
    wanted: str = "show"


def _begin(latest: Any) -> None:
    """Make a process ready: no Ctrl-C of its own, one thread, kernels loaded."""
    global _latest
    _latest = latest
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when the server has ended, however it did."""
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(0)


def _warm(_: int) -> None:
    """Run every scene once, so that its kernels are compiled and loaded."""
    from shallowflow.explorer.scenes import SCENES

    for scene in SCENES.values():
        scene.run(scene.state({}), lambda share: None)


def _work(job: Job) -> bytes:
    """Return the message that answers a job."""
    from shallowflow.explorer.scene import packed
    from shallowflow.explorer.scenes import SCENES

    end = time.monotonic() + SECONDS

    def progress(share: float) -> None:
        if _latest[job.slot] > job.number:
            raise Outdated
        if time.monotonic() > end:
            raise ShallowflowError(f"this run takes more than {SECONDS:.0f} seconds: make it smaller")

    progress(0.0)
    scene = SCENES[job.scene]
    state = scene.state(job.state)
    show = scene.run(state, progress)
    if job.wanted == "trajectory":
        return _saved(show.trajectory)
    header = {"n": job.number, "scene": job.scene, "state": {**state.values, "points": state.points}}
    return packed(show, header)


def _saved(trajectory: Any) -> bytes:
    if trajectory is None:
        raise ShallowflowError("this scene is computed by a closed form: there is no trajectory to keep")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.trajectory"
        trajectory.save(file)
        return file.read_bytes()


class Workers:
    """The processes, and which of the sessions is where."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._latest = context.Array("q", SLOTS, lock=False)
        self._free = list(range(SLOTS))
        self._context = context
        self._pool = self._made()

    def _made(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            PROCESSES, mp_context=self._context, initializer=_begin, initargs=(self._latest,)
        )

    def warm(self) -> None:
        """Wait until kernels are compiled and every process has them."""
        list(self._pool.map(_warm, range(1)))
        list(self._pool.map(_warm, range(PROCESSES)))

    def enter(self) -> int | None:
        """Return a slot for a session, None if all are taken."""
        if not self._free:
            return None
        slot = self._free.pop(0)
        self._latest[slot] = 0
        return slot

    def leave(self, slot: int) -> None:
        """Give a slot back, and up whatever runs for it."""
        self._latest[slot] = 2**62
        self._free.append(slot)

    def announce(self, slot: int, number: int) -> None:
        """Outdate what a session asked before."""
        self._latest[slot] = number

    async def run(self, job: Job) -> bytes | None:
        """Return the answer to a job, None if it is outdated by then."""
        try:
            return await asyncio.wrap_future(self._pool.submit(_work, job))
        except Outdated:
            return None
        except BrokenProcessPool as error:
            self._pool = self._made()
            raise ShallowflowError("the process of this run ended; the next one starts afresh") from error

    def close(self) -> None:
        """End the processes."""
        for slot in range(SLOTS):
            self._latest[slot] = 2**62
        self._pool.shutdown(wait=False, cancel_futures=True)
