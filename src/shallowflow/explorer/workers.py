"""Runs in processes of their own, so that the page never blocks; what is outdated gives up by itself.

A session has a slot in an array that all processes share. It holds the number of the session's latest
request: a run that finds a larger number there than its own, or its time used up, stops at its next sign of
progress. Previews and first parts of a run come through a queue, the whole as the result of its job.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shallowflow.errors import ShallowflowError

if TYPE_CHECKING:
    from shallowflow.dynamics.clock.trajectory import Trajectory
    from shallowflow.explorer.scene import Show

PROCESSES = 2
SLOTS = 8
"""Sessions at a time."""
SECONDS = 60.0
"""A run that takes longer is stopped."""

PATIENCE = 1.0
"""Seconds between two looks whether the server is still there."""

_latest: Any = None
_parts: Any = None
_meeting: Any = None
_is_warm = False


class Outdated(Exception):  # noqa: N818
    """A newer request has come, or time is up."""


@dataclass(frozen=True)
class Job:
    """A request: which session (its slot) asked, its number, the scene, what is set, and what is wanted.

    wanted: "show", "preview" (of a state that is about to change again), "trajectory", "neuron" (its exact
    weights: `at` is the time and the neuron's number), or "open" (a file: `content`, and its name as scene).
    """

    slot: int
    number: int
    scene: str
    state: dict[str, Any]
    wanted: str = "show"
    at: tuple[float, int] = (0.0, 0)
    content: bytes = b""


def _begin(latest: Any, parts: Any, meeting: Any) -> None:
    """Make a process ready: no Ctrl-C of its own, one thread, kernels loaded."""
    global _latest, _parts, _meeting
    _latest, _parts, _meeting = latest, parts, meeting
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when the server has ended, however it did."""
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(0)


def _warm(together: bool) -> None:
    """Run every scene once, so that its kernels are compiled and loaded; wait for the other processes."""
    global _is_warm
    if not _is_warm:
        _run_all()
        _is_warm = True
    if together:
        _meeting.wait(SECONDS * PROCESSES)


def _run_all() -> None:
    from shallowflow.explorer.scene import Watch
    from shallowflow.explorer.scenes import SCENES

    for scene in SCENES.values():
        scene.run(scene.state({}), Watch())
    alignment = SCENES["alignment"]
    alignment.preview(alignment.state({"width": 1_000}))


def _work(job: Job) -> bytes:
    """Return the message that answers a job."""
    from shallowflow.explorer.scene import Watch, packed
    from shallowflow.explorer.scenes import SCENES
    from shallowflow.explorer.scenes.free import opened

    end = time.monotonic() + SECONDS

    def progress(share: float) -> None:
        if _latest[job.slot] > job.number:
            raise Outdated
        if time.monotonic() > end:
            raise ShallowflowError(f"this run takes more than {SECONDS:.0f} seconds: make it smaller")

    progress(0.0)
    if job.wanted == "open":
        return packed(opened(job.content, job.scene), {"n": job.number, "scene": "saved", "state": {}})
    scene = SCENES[job.scene]
    state = scene.state(job.state)
    header = {"n": job.number, "scene": job.scene, "state": state.plain()}

    def send(show: Show) -> None:
        progress(0.0)
        _parts.put((job.slot, job.number, packed(show, header)))

    coarse = scene.preview(state) if job.wanted in ("show", "preview") else None
    if coarse is not None:
        if job.wanted == "preview":
            return packed(coarse, header)
        send(coarse)
    show = scene.run(state, Watch(progress, send if job.wanted == "show" and coarse is None else None))
    if job.wanted == "trajectory":
        return _saved(show.trajectory)
    if job.wanted == "neuron":
        return _neuron(show.trajectory, job.at[0] * show.clock, job.at[1])
    return packed(show, header)


def _saved(trajectory: Trajectory | None) -> bytes:
    if trajectory is None:
        raise ShallowflowError("this scene is computed by a closed form: there is no trajectory to keep")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.trajectory"
        trajectory.save(file)
        return file.read_bytes()


def _neuron(trajectory: Trajectory | None, moment: float, number: int) -> bytes:
    """Return the weights of a neuron at a time, all their digits, as JSON."""
    if trajectory is None:
        raise ShallowflowError("neuron: this scene is computed by a closed form, without a network")
    first, last = trajectory.path.times[0], trajectory.path.times[-1]
    network = trajectory(float(min(max(moment, first), last)))
    if not 0 <= number < network.width:
        raise ShallowflowError(f"neuron: must be one of {network.width}, got {number + 1}")
    parts = {name: values[number] for name, values in network.parameters.items() if values.ndim}
    return json.dumps({name: values.tolist() for name, values in parts.items()}).encode()


class Workers:
    """The processes, and which of the sessions is where."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._latest = context.Array("q", SLOTS, lock=False)
        self._parts: Any = context.SimpleQueue()
        self._free = list(range(SLOTS))
        self._context = context
        self._pool = self._made()
        self._listeners: dict[int, Callable[[int, bytes], None]] = {}
        threading.Thread(target=self._hand_down, daemon=True).start()

    def _made(self) -> ProcessPoolExecutor:
        shared = (self._latest, self._parts, self._context.Barrier(PROCESSES))
        return ProcessPoolExecutor(PROCESSES, mp_context=self._context, initializer=_begin, initargs=shared)

    def _hand_down(self) -> None:
        """Give parts of runs to the sessions that wait for them, until the queue is closed."""
        while (part := self._parts.get()) is not None:
            slot, number, message = part
            if (listener := self._listeners.get(slot)) is not None:
                listener(number, message)

    def listen(self, slot: int, listener: Callable[[int, bytes], None]) -> None:
        """Call a function, from another thread, with the parts that a session's runs send."""
        self._listeners[slot] = listener

    def warm(self) -> None:
        """Wait until kernels are compiled, by one process, and every process has them."""
        list(self._pool.map(_warm, [False]))
        list(self._pool.map(_warm, [True] * PROCESSES))

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
        self._listeners.pop(slot, None)
        self._free.append(slot)

    def announce(self, slot: int, number: int) -> None:
        """Outdate what a session asked before."""
        self._latest[slot] = number

    def is_latest(self, slot: int, number: int) -> bool:
        """Whether a session waits for the answer to this request."""
        return bool(self._latest[slot] == number)

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
        self._parts.put(None)
