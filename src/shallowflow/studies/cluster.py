"""`Cluster`: runs computed by Dask, on a scheduler somewhere or on one made here.

Workers may join, leave and die at any time. Nothing waits for one of them alone: results are fetched side by
side, so that one lost with its worker, for which Dask asks for half a minute, holds up no other.
"""

from __future__ import annotations

import time
import warnings
from asyncio import CancelledError
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shallowflow.arrays import count
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.studies.executors import RunOutcome, cores, execute_elsewhere, failed
from shallowflow.studies.study import Run

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

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
