"""Where runs are computed: in this process (`Serial`), in local processes (`Processes`), by Dask (`Cluster`).

An executor has one method: `outcomes(runs)` yields a `RunOutcome` per run, as they are finished. Closing that
iterator early stops everything that is under way. `execute` turns one run into its outcome, whatever happens
inside the task.

**Dask** computes on a scheduler somewhere or on one made here. Workers may join, leave and die at any time.
Nothing waits for one of them alone: results are fetched side by side, so that one lost with its worker, for
which Dask asks for half a minute, holds up no other.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import platform
import signal
import sys
import threading
import time
import traceback
import warnings
from asyncio import CancelledError
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing.connection import Connection
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import count, shown
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.studies.study import MAIN, Run, code_version, versions

if TYPE_CHECKING:
    from distributed import Client, LocalCluster


THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
NUMERIC = "biufc"


@dataclass(frozen=True)
class RunOutcome:
    """What came of a run: "done" with metrics and arrays, or "failed" with an error.

    `seconds` is wall time, `cpu_seconds` the CPU time of the thread that ran it.
    """

    identity: str
    status: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    error: str = ""
    started: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    worker: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the run has a result."""
        return self.status == "done"


def failed(identity: str, error: str) -> RunOutcome:
    """Return the outcome of a run that no worker could finish."""
    return RunOutcome(identity, "failed", error=error, started=_now(), versions=versions())


def execute(run: Run, **extra: Any) -> RunOutcome:
    """Run the task and return its outcome; an exception inside it is an outcome too."""
    started, wall, cpu = _now(), time.perf_counter(), time.thread_time()
    metrics: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    error = ""
    try:
        _check_code(run)
        metrics, arrays = _sorted_out(run.task(copy.deepcopy(run.parameters), run.seed, **extra))
    except ShallowflowError as trouble:
        error = f"{type(trouble).__name__}: {trouble}"
    except (Exception, SystemExit) as trouble:
        where = "".join(traceback.format_tb(trouble.__traceback__)[1:])
        error = f"{type(trouble).__name__}: {trouble}\n{where}".strip()
    return RunOutcome(
        identity=run.identity,
        status="failed" if error else "done",
        metrics=metrics,
        arrays=arrays,
        error=error,
        started=started,
        seconds=time.perf_counter() - wall,
        cpu_seconds=time.thread_time() - cpu,
        worker=f"{platform.node()}:{os.getpid()}",
        versions=versions(),
    )


def execute_elsewhere(identity: str, pickled: bytes) -> RunOutcome:
    """Run in a worker process, with one thread; a task that cannot be imported there is a failed run."""
    pin_threads()
    try:
        run: Run = pickle.loads(pickled)
    except Exception as trouble:
        return failed(identity, f"the worker cannot load the task: {type(trouble).__name__}: {trouble}")
    return execute(run)


@lru_cache(maxsize=1)
def pin_threads() -> None:
    """Hold this process to one thread in BLAS, OpenMP and Numba, for good."""
    from threadpoolctl import threadpool_limits

    os.environ.update(dict.fromkeys(THREADS, "1"))
    threadpool_limits(limits=1)


def _check_code(run: Run) -> None:
    """Refuse to compute under the name of other code: a cluster may have another version installed."""
    if run.subject.__module__ not in MAIN and code_version(run.subject) != run.code:
        raise InvalidInputError(
            f"task: this worker has other code ({code_version(run.subject)}) than the study ({run.code}); "
            "install the same version everywhere, and don't edit the code while a study runs"
        )


def _sorted_out(outputs: Any) -> tuple[dict[str, float], dict[str, NDArray[Any]]]:
    """Return numbers and arrays apart; refuse everything else."""
    if not isinstance(outputs, Mapping):
        raise InvalidInputError(f"task: must return {{name: number or array}}, got {shown(outputs)}")
    metrics: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in outputs.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise InvalidInputError(f"task: names of outputs must be texts without /, got {shown(name)}")
        if isinstance(value, Real | np.generic) and np.asarray(value).dtype.kind in "biuf":
            metrics[name] = float(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind in NUMERIC:
            arrays[name] = value
        else:
            raise InvalidInputError(
                f"task: {name} must be a number or an array of numbers, got {shown(value)}"
            )
    return metrics, arrays


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


TRIALS = 2
DIED = f"the worker process died (killed, or out of memory) {TRIALS} times while it computed this run alone"


class Executor(Protocol):
    """Something that computes runs."""

    def outcomes(self, runs: Sequence[Run]) -> Generator[RunOutcome, None, None]:
        """Yield the outcome of every run, as they are finished."""
        ...


class Serial:
    """One run after the other, in this process.

    Only here can a task be given more than what identifies its run: `extra` are keyword arguments for it,
    such as a function that shows progress.
    """

    def __init__(self, **extra: Any) -> None:
        self.extra = extra

    def outcomes(self, runs: Sequence[Run]) -> Generator[RunOutcome, None, None]:
        """Yield the outcome of every run, in order."""
        from threadpoolctl import threadpool_limits

        for run in runs:
            # The last bits of a matrix product depend on the number of threads: one, as in a worker.
            with threadpool_limits(limits=1):
                outcome = execute(run, **self.extra)
            yield outcome


class Processes:
    """Local processes, one thread each; by default as many as there are cores.

    If a worker dies, the pool is made anew and the runs that were under way are tried again, each alone: one
    whose worker dies then too, twice, has failed; the others have not.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = cores() if jobs is None else count(jobs, "jobs", at_most=10_000)

    def outcomes(self, runs: Sequence[Run]) -> Generator[RunOutcome, None, None]:
        """Yield the outcome of every run, as they are finished."""
        waiting = deque((run.identity, _pickled(run)) for run in runs)
        while waiting:
            for suspect in (yield from self._pool(waiting, self.jobs)):
                for _ in range(TRIALS):
                    if not (yield from self._pool(deque([suspect]), 1)):
                        break
                else:
                    yield failed(suspect[0], DIED)

    def _pool(
        self, waiting: deque[tuple[str, bytes]], jobs: int
    ) -> Generator[RunOutcome, None, list[tuple[str, bytes]]]:
        """Compute what is waiting in one pool; return what was under way if a worker died."""
        context = multiprocessing.get_context("spawn")
        others = set(multiprocessing.active_children())
        leash, hold = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(min(jobs, len(waiting)), context, _become_worker, (leash,))
        flying: dict[Future[RunOutcome], tuple[str, bytes]] = {}
        ended = False
        try:
            _check_start(pool)
            while waiting or flying:
                try:
                    while waiting and len(flying) < 2 * jobs:
                        flying[pool.submit(execute_elsewhere, *waiting[0])] = waiting[0]
                        waiting.popleft()
                except BrokenProcessPool:
                    if not flying:
                        return []
                ready = wait(flying, return_when=FIRST_COMPLETED).done
                dead = [flying.pop(f) for f in ready if isinstance(f.exception(), BrokenProcessPool)]
                for future in ready & flying.keys():
                    yield _outcome(future, flying.pop(future)[0])
                if dead:
                    wait(flying)
                    dead += [one for f, one in flying.items() if isinstance(f.exception(), BrokenProcessPool)]
                    yield from (_outcome(f, one[0]) for f, one in flying.items() if one not in dead)
                    return dead
            ended = True
            return []
        finally:
            if not ended:
                for child in set(multiprocessing.active_children()) - others:
                    child.kill()
            pool.shutdown(wait=True, cancel_futures=True)
            hold.close()
            leash.close()


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pickled(run: Run) -> bytes:
    try:
        if run.task.__module__ in MAIN and not hasattr(sys.modules["__main__"], "__file__"):
            raise TypeError("it was typed in, not read from a file")
        return pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"task: must be in a file that other processes can import, got {run.task_name} ({error})"
        ) from error


def _check_start(pool: ProcessPoolExecutor) -> None:
    """Refuse to go on if workers die before they have anything to do."""
    try:
        pool.submit(os.getpid).result()
    except BrokenProcessPool as error:
        raise ShallowflowError(
            "worker processes die as they start; a script that runs a study must do so below "
            "if __name__ == '__main__': because its workers import it"
        ) from error


def _outcome(future: Future[RunOutcome], identity: str) -> RunOutcome:
    error = future.exception()
    return future.result() if error is None else failed(identity, f"{type(error).__name__}: {error}")


def _become_worker(leash: Connection) -> None:
    """Leave Ctrl-C to the coordinator, use one thread, and end when the coordinator is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pin_threads()
    threading.Thread(target=_end_with_coordinator, args=(leash,), daemon=True).start()


def _end_with_coordinator(leash: Connection) -> None:
    """Wait until the other end of the pipe is closed, which the death of its process does too."""
    try:
        leash.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)


LOCAL = "local"
CONNECT_SECONDS = 10
FETCHES = 5
"""Results on their way at once: as many as a Dask client asks for."""
POLL_SECONDS, LOOK_SECONDS = 0.01, 2.0
"""Pauses before looking for results, and for workers."""


class Cluster:
    """A Dask scheduler at `address` ("tcp://host:8786"), or "local": a cluster of this machine's cores.

    A worker that dies is Dask's affair: its runs go to other workers; after `allowed-failures` deaths (a
    setting of the scheduler, 3) a run has failed. Workers may join and leave at any time: while there are
    none, the study says so and waits; those of "local" are started again.
    """

    def __init__(self, address: str = LOCAL, jobs: int | None = None) -> None:
        self.address = address
        self.jobs = cores() if jobs is None else count(jobs, "jobs", at_most=10_000)

    def outcomes(self, runs: Sequence[Run]) -> Generator[RunOutcome, None, None]:
        """Yield the outcome of every run, as they are finished."""
        with self._crew() as crew:
            from cloudpickle import dumps

            submit, futures = crew.client.submit, dict[Any, str]()
            for run in runs:
                key = f"run-{run.identity}"
                futures[submit(execute_elsewhere, run.identity, dumps(run), key=key)] = run.identity
            try:
                yield from self._fetched(futures, crew)
            finally:
                crew.client.cancel(list(futures), force=True)

    def _fetched(self, futures: dict[Any, str], crew: _Crew) -> Iterator[RunOutcome]:
        """Fetch a few results at a time and yield them; take what has come out of `futures`."""
        from distributed import as_completed

        finished, fetching = as_completed(list(futures)), dict[Any, Any]()
        threads = ThreadPoolExecutor(FETCHES)
        try:
            while futures:
                while finished.has_ready() and len(fetching) < FETCHES:
                    future = next(finished)
                    fetching[threads.submit(self._outcome, future, futures[future])] = future
                for thread in wait(fetching, POLL_SECONDS, FIRST_COMPLETED).done:
                    future, outcome = fetching.pop(thread), thread.result()
                    if outcome is None:
                        finished.add(future)
                        continue
                    del futures[future]
                    # Without it the workers keep every result until the end.
                    future.release()
                    yield outcome
                if not fetching and not finished.has_ready():
                    time.sleep(POLL_SECONDS)
                crew.look()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, future: Any, identity: str) -> RunOutcome | None:
        """Return the outcome; None if it was lost with its worker, so that it is being computed again."""
        if future.status in ("lost", "pending"):
            return None
        try:
            outcome: RunOutcome = future.result()
        except (Exception, CancelledError) as error:
            if future.status == "error":
                return failed(identity, f"{type(error).__name__}: {error}")
            raise ShallowflowError(
                f"address: lost the scheduler at {self.address}; the finished runs are kept"
            ) from error
        return outcome

    @contextmanager
    def _crew(self) -> Iterator[_Crew]:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise InvalidInputError("address: needs Dask; pip install 'shallowflow[dask]'") from error
        if self.address == LOCAL:
            # Any free port for Dask's own pages: the usual one may belong to another cluster.
            pages = "127.0.0.1:0"
            with (
                LocalCluster(n_workers=self.jobs, threads_per_worker=1, dashboard_address=pages) as cluster,
                Client(cluster) as client,
            ):
                yield _Crew(client, self.address, cluster, self.jobs)
            return
        try:
            client = Client(self.address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"address: must be the address of a Dask scheduler, or local; got {self.address!r} ({error})"
            ) from error
        with client:
            yield _Crew(client, self.address)


class _Crew:
    """The workers of a scheduler: says once when there are none, and keeps those of a local cluster many.

    Dask's local cluster gives a worker up if it is away when looked for 15 seconds after a death, which one
    that dies twice, or starts slowly, may be; `scale` opens it again.
    """

    def __init__(
        self, client: Client, address: str, local: LocalCluster | None = None, jobs: int = 0
    ) -> None:
        self.client, self.address, self.local, self.jobs = client, address, local, jobs
        self._warned, self._due = False, 0.0

    def look(self) -> None:
        """Look for workers, at most every two seconds."""
        if time.monotonic() < self._due:
            return
        if self.local is not None and len(self.local.workers) < self.jobs:
            self.local.scale(self.jobs)
        if self.client.scheduler_info()["workers"]:
            self._warned = False
        elif not self._warned:
            self._warned = True
            warnings.warn(f"{self.address} has no Dask worker; waiting for one to join", stacklevel=2)
        self._due = time.monotonic() + LOOK_SECONDS
