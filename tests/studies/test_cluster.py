"""A real scheduler and two real workers, each a process of its own on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.studies import Cluster, Processes, Result, Store, Study, Tally, run
from tests.studies.tasks import ROOT, draw, many, stumble

distributed = pytest.importorskip("distributed")

STUDY = Study("bits", draw, {"size": [2, 40, 90]}, repeats=3, root_seed=5)


@dataclass
class Dask:
    """The processes of a cluster."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(directory: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with open(directory / f"{words[0]}-{free_port()}.txt", "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words], env=environment, stdout=log, stderr=log, cwd=directory
        )


def start_worker(directory: Path, address: str) -> subprocess.Popen[bytes]:
    """Start a worker of one thread; without a nanny, so that one that is killed stays dead."""
    return start(directory, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    """A scheduler and two workers."""
    tmp_path = tmp_path_factory.mktemp("dask")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = start(tmp_path, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    cluster = Dask(address, scheduler, [start_worker(tmp_path, address) for _ in range(2)])
    try:
        with distributed.Client(address, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
        yield cluster
    finally:
        for process in (*cluster.workers, scheduler):
            process.kill()
            process.wait()


def numbers(results: list[Result]) -> list[object]:
    return [
        (r.identity, {name: value.hex() for name, value in r.metrics.items()}, r.arrays["diagonal"].tobytes())
        for r in results
    ]


def test_two_workers_give_the_bits_of_one_process_and_failures_are_told(dask: Dask) -> None:
    assert numbers(run(STUDY, Cluster(dask.address))) == numbers(run(STUDY, Processes(1)))
    results = run(Study("s", stumble, {"how": ["raise", "fine"]}), Cluster(dask.address))
    assert [result.status for result in results] == ["failed", "done"]
    assert results[0].error.startswith("ValueError: this run cannot be\n")


@pytest.mark.slow
def test_coordinator_killed_half_way_on_a_cluster(dask: Dask, tmp_path: Path) -> None:
    log, directory = tmp_path / "log", tmp_path / "store"
    command = [sys.executable, "-m", "tests.studies.tasks", str(directory), str(log), dask.address]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    victim = subprocess.Popen(command, env=environment, start_new_session=True)
    while not log.exists() or len(log.read_text().split()) < 100:
        assert victim.poll() is None
        time.sleep(0.01)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    with Store(directory, writable=False) as store:
        finished = {r.identity: r.started for r in store.results("many") if r.done}
    assert finished
    with Store(directory) as store:
        results = run(many(str(log)), Cluster(dask.address), store)
    assert len(results) == 200
    assert all(r.done and r.attempts == 1 for r in results)
    assert all(finished.get(r.identity, r.started) == r.started for r in results)


def test_a_worker_killed_half_way_loses_nothing(dask: Dask, tmp_path: Path) -> None:
    # One of these workers does not come back: the tests above need two.
    log = tmp_path / "log"
    study = many(str(log))
    victim = dask.workers[0]
    recorded: dict[str, int] = {}

    def watch(tally: object) -> None:
        text = log.read_text().splitlines() if log.exists() else []
        if len(text) >= 100 and victim.poll() is None:
            os.kill(victim.pid, signal.SIGKILL)
            recorded.update({r.identity: 1 for r in store.results("many") if r.done})

    with Store(tmp_path / "store") as store:
        results = run(study, Cluster(dask.address), store, watch)
        assert victim.wait() == -signal.SIGKILL
        assert 0 < len(recorded) < 200
        assert [r.parameters["index"] for r in results] == list(range(200))
        assert all(r.done and r.attempts == 1 for r in results)
        executed = log.read_text().split()
        again = {index for index in executed if executed.count(index) > 1}
        assert again.isdisjoint(str(r.parameters["index"]) for r in results if r.identity in recorded)
        assert len({r.worker for r in results}) == 2
        # A second time there is nothing to do.
        run(study, Cluster(dask.address), store)
    assert log.read_text().split() == executed


def test_a_study_says_that_all_workers_died_and_goes_on_with_the_next(dask: Dask, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def strike(tally: Tally) -> None:
        if tally.done == 10:
            for worker in dask.workers:
                worker.kill()
                worker.wait()

    def join(message: Warning | str, *where: object, **how: object) -> None:
        said.append(str(message))
        dask.workers.append(start_worker(tmp_path, dask.address))

    said = list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.showwarning", join)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            results = run(many(str(log), 60), Cluster(dask.address), progress=strike)
    assert said == [f"{dask.address} has no Dask worker; waiting for one to join"]
    assert all(r.done for r in results)
    assert len({r.worker for r in results}) > 1


def test_a_scheduler_that_dies_ends_the_study_and_leaves_what_is_finished(dask: Dask, tmp_path: Path) -> None:
    # The last test with this scheduler.
    log = tmp_path / "log"

    def strike(tally: Tally) -> None:
        if tally.done == 10:
            dask.scheduler.kill()

    with Store(tmp_path / "store") as store:
        with pytest.raises(
            ShallowflowError, match=r"lost the scheduler at tcp:.*; the finished runs are kept"
        ):
            run(many(str(log), 200), Cluster(dask.address), store, strike)
        assert sum(r.done for r in store.results("many")) >= 10


@pytest.mark.slow
def test_a_local_cluster_is_made_and_ended() -> None:
    study = Study("bits", draw, {"size": [40]}, repeats=2, root_seed=5)
    assert numbers(run(study, Cluster("local", jobs=2))) == numbers(run(study))


def test_an_address_where_nobody_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shallowflow.studies.executors.CONNECT_SECONDS", 1)
    for address in (f"tcp://127.0.0.1:{free_port()}", "nonsense://x"):
        with pytest.raises(
            InvalidInputError, match="address: must be the address of a Dask scheduler, or local"
        ):
            run(STUDY, Cluster(address))


def test_without_dask_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInputError, match=r"address: needs Dask; pip install 'shallowflow\[dask\]'"):
        run(STUDY, Cluster())
