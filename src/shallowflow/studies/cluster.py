"""`Cluster`: runs computed by the workers of a Dask scheduler, on this machine or on many."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shallowflow.arrays import count
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.studies.executors import RunOutcome, cores, execute_elsewhere, failed
from shallowflow.studies.study import Run

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
CONNECT_SECONDS = 10


class Cluster:
    """A Dask scheduler at `address` ("tcp://host:8786"), or "local": a cluster of this machine's cores.

    A worker that dies is Dask's affair: its runs go to other workers; after `allowed-failures` deaths (a
    setting of the scheduler, 3) a run has failed. Workers may join and leave at any time.
    """

    def __init__(self, address: str = LOCAL, jobs: int | None = None) -> None:
        self.address = address
        self.jobs = cores() if jobs is None else count(jobs, "jobs", at_most=10_000)

    def outcomes(self, runs: Sequence[Run]) -> Generator[RunOutcome, None, None]:
        """Yield the outcome of every run, as they are finished."""
        with self._client() as client:
            from cloudpickle import dumps
            from distributed import as_completed

            if not client.scheduler_info()["workers"]:
                warnings.warn(f"no Dask worker has joined {self.address} yet; waiting for one", stacklevel=2)
            futures: dict[Any, str] = {}
            for run in runs:
                key = f"run-{run.identity}"
                futures[client.submit(execute_elsewhere, run.identity, dumps(run), key=key)] = run.identity
            try:
                completed = as_completed(list(futures))
                for future in completed:
                    outcome = self._outcome(future, futures[future])
                    if outcome is None:
                        completed.add(future)
                        continue
                    del futures[future]
                    # Without it the workers keep every result until the end.
                    future.release()
                    yield outcome
            finally:
                client.cancel(list(futures), force=True)

    def _outcome(self, future: Any, identity: str) -> RunOutcome | None:
        """Return the outcome; None if it was lost with its worker, so that it is being computed again."""
        status = future.status
        if status in ("lost", "pending"):
            return None
        if status == "finished":
            outcome: RunOutcome = future.result()
            return outcome
        if status == "error":
            error = future.exception()
            return failed(identity, f"{type(error).__name__}: {error}")
        raise ShallowflowError(f"address: lost the scheduler at {self.address}; the finished runs are kept")

    @contextmanager
    def _client(self) -> Iterator[Client]:
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
                yield client
            return
        try:
            client = Client(self.address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"address: must be the address of a Dask scheduler, or local; got {self.address!r} ({error})"
            ) from error
        with client:
            yield client
