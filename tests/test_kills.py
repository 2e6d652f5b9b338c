"""Kills at random moments of computing and writing: nothing lost, repeated, half written or left locked.

Moments are seeded shares of the measured time of an undisturbed child. A child that ended before its kill
does not count. The slow tests make 200 kills in all; the others are a sample.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow import Trajectory
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.errors import StoreError
from shallowflow.explorer.server import COOKIE, TOKEN
from shallowflow.studies import Cluster, Result, Store, run
from tests.studies.tasks import ROOT, many

ALL = {"study": 70, "save": 50, "fit": 40, "reproduce": 20, "explorer": 6, "dask": 14}
SAMPLE = {"study": 2, "save": 2, "fit": 2}
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def test_the_kills_are_two_hundred() -> None:
    assert sum(ALL.values()) == 200


def kills(kind: str) -> pytest.MarkDecorator:
    """All the kills of a kind, slow; before them its sample, if it has one."""
    every = pytest.param(ALL[kind], marks=pytest.mark.slow)
    return pytest.mark.parametrize("number", [*([SAMPLE[kind]] if kind in SAMPLE else []), every])


class Victims:
    """A process that makes children (`victims`), and kills of them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.victims"], env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def _end(self, *words: Any) -> int:
        """Return how a job ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def load(self, *words: Any) -> None:
        """Do a job in the process that makes the children: they find everything loaded."""
        assert self._end("here", *words) == 0

    def timed(self, *words: Any) -> float:
        """Return the seconds of a child that nobody disturbs."""
        start = time.monotonic()
        assert self._end(None, *words) == 0
        return time.monotonic() - start

    def killed(self, within: float, *words: Any) -> bool:
        """Whether a child was killed before it ended; if not, it did what it should."""
        end = self._end(self.random.uniform(0.0, within), *words)
        assert end in (0, -signal.SIGKILL)
        return end != 0


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    made = Victims(seed=30)
    with made.process:  # closes its input, at which it ends
        yield made


def outputs(results: list[Result]) -> list[Any]:
    return [(r.identity, r.metrics, {k: v.tobytes() for k, v in r.arrays.items()}) for r in results]


def finished(directory: Path) -> dict[str, Result]:
    """The runs that a store has, by identity; none if the store was only just being made."""
    try:
        with Store(directory, writable=False) as store:
            names = [row["name"] for row in store.studies()]
            return {r.identity: r for name in names for r in store.results(name) if r.done}
    except StoreError:
        return {}


@kills("study")
def test_a_study_goes_on(victims: Victims, tmp_path: Path, number: int) -> None:
    victims.load("study", str(tmp_path / "s"), str(tmp_path / "l"))
    within = victims.timed("study", str(tmp_path / "s2"), str(tmp_path / "l2"))
    made = between = 0
    for turn in count():
        directory, log = tmp_path / f"store{turn}", tmp_path / f"log{turn}"
        log.touch()
        while True:
            before, executed = finished(directory), len(log.read_text().split())
            ended = not victims.killed(within, "study", str(directory), str(log))
            made += not ended
            after = finished(directory)
            assert all(after[key].started == one.started for key, one in before.items())
            again = set(log.read_text().split()[executed:])
            assert again.isdisjoint(str(one.parameters["index"]) for one in before.values())
            between += not ended and 0 < len(after) < 40
            if ended:
                break
        with Store(directory) as store:  # nobody holds it
            results = store.results("many")
        assert all(r.done and r.attempts == 1 for r in results)
        assert outputs(results) == outputs(run(many(str(log), 40, 0.005)))
        assert not list((directory / "arrays").glob(".*"))
        if made >= number:
            break
    assert between or number < 10, "no kill fell between two runs"


@kills("save")
def test_a_trajectory_is_the_old_or_the_new_one(victims: Victims, tmp_path: Path, number: int) -> None:
    path = tmp_path / "t"
    victims.load("save", str(path), 0)
    within = victims.timed("save", str(path), 0)
    made = scraps = held = 0
    while made < number:
        made += victims.killed(within, "save", str(path), held + 1)
        loaded = Trajectory.load(path)
        assert loaded.statistics["number"] in (held, held + 1)
        held = int(loaded.statistics["number"])
        assert isinstance(loaded.path, Snapshots)
        assert loaded.path.values.shape == (20, 64_000)
        assert np.all(loaded.path.values == held)
        for scrap in set(tmp_path.iterdir()) - {path}:
            assert scrap.name.endswith(".part")
            scrap.unlink()
            scraps += 1
    assert scraps or number < 10, "no kill fell into a save"


@kills("fit")
def test_what_a_fit_writes_and_prints_is_whole(victims: Victims, tmp_path: Path, number: int) -> None:
    draw, printed = np.random.default_rng(1), tmp_path / "printed"
    allowed: dict[str, set[bytes]] = {"pieces.json": set(), "fit.png": set()}

    def words(data: str) -> list[str]:
        files = ["--out", str(tmp_path / "pieces.json"), "--plot", str(tmp_path / "fit.png"), "--json"]
        return ["command", str(printed), "fit", str(tmp_path / f"{data}.csv"), "--knots", "3", *files]

    told: dict[str, dict[str, Any]] = {}
    for data in ("one", "two"):
        x = np.linspace(0.0, 1.0, 300)
        y = np.abs(x - draw.uniform()) + 0.05 * draw.normal(size=300)
        np.savetxt(
            tmp_path / f"{data}.csv", np.column_stack([x, y]), delimiter=",", header="x,y", comments=""
        )
        victims.load(*words(data))
        told[data] = {**json.loads(printed.read_text()), "seconds": 0}
        for name, contents in allowed.items():
            contents.add((tmp_path / name).read_bytes())
    assert [len(contents) for contents in allowed.values()] == [2, 2]
    within = victims.timed(*words("one"))
    made, turn = 0, count()
    while made < number:
        if next(turn) % 3 == 0:
            for name in allowed:
                (tmp_path / name).unlink(missing_ok=True)
        data = ("one", "two")[made % 2]
        printed.write_text("")
        ended = not victims.killed(within, *words(data))
        made += not ended
        for name, contents in allowed.items():
            assert not (tmp_path / name).exists() or (tmp_path / name).read_bytes() in contents
        text = printed.read_text()
        assert {**json.loads(text), "seconds": 0} == told[data] if text else not ended
        left = {path.name for path in tmp_path.iterdir()} - {*allowed, "printed", "one.csv", "two.csv"}
        assert all(name.endswith(".part") for name in left)


@kills("reproduce")
def test_reproductions_go_on(victims: Victims, tmp_path: Path, number: int) -> None:
    words = ("command", os.devnull, "reproduce", "plateau/fig3", "plateau/fig6", "--jobs", "1", "--out")
    victims.load(*words, str(tmp_path / "whole"))
    within = victims.timed(*words, str(tmp_path / "timed"))
    made = 0
    for turn in count():
        out = tmp_path / f"report{turn}"
        while True:
            before = finished(out / "store")
            ended = not victims.killed(within, *words, str(out))
            made += not ended
            after = finished(out / "store")
            assert all(after[key].started == one.started for key, one in before.items())
            check_report(out, tmp_path / "whole", whole=ended)
            if ended:
                break
        assert len(after) == 2
        assert all(one.attempts == 1 for one in after.values())
        Store(out / "store").close()  # nobody holds it
        if made >= number:
            break


def check_report(out: Path, reference: Path, whole: bool) -> None:
    """Every file is missing, unless the report is whole, or as the reference has it."""
    for path in (reference / "figures").iterdir():
        made = out / "figures" / path.name
        assert made.read_bytes() == path.read_bytes() if made.exists() else not whole
    numbers = out / "reproductions.json"
    assert told(numbers) == told(reference / numbers.name) if numbers.exists() else not whole
    page = out / "report.html"
    assert page.read_text().endswith("</html>\n") if page.exists() else not whole


def told(path: Path) -> list[dict[str, Any]]:
    """What was reproduced, but for the time it took."""
    return [{**one, "seconds": 0} for one in json.loads(path.read_text())["reproductions"]]


@kills("explorer")
def test_a_server_leaves_no_process_and_a_free_port(tmp_path: Path, number: int) -> None:
    random, made = np.random.default_rng(5), 0
    state = {"n": 1, "scene": "alignment", "state": {"width": 1_000}}
    while made < number:
        command = [sys.executable, "-m", "shallowflow", "explore", "--no-browser"]
        server = subprocess.Popen(
            command, env={**ENVIRONMENT, TOKEN: "token"}, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert server.stdout is not None
        port = int(server.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
        asking = threading.Thread(target=export, args=(port, state, tmp_path / f"run{made}"))
        asking.start()
        time.sleep(random.uniform(0.0, 0.5))
        server.kill()
        server.wait()
        server.stdout.close()
        asking.join(60)
        made += 1
        for path in tmp_path.iterdir():
            assert Trajectory.load(path).final.width == 1_000
        end = time.monotonic() + 60
        while alive(server.pid):
            assert time.monotonic() < end, "a process was left"
            time.sleep(0.05)
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", port))


def export(port: int, state: dict[str, Any], path: Path) -> None:
    """Keep the trajectory of a state, if the server lives to send it."""
    line = HTTPConnection("127.0.0.1", port)
    home = f"http://127.0.0.1:{port}"
    try:
        line.request(
            "POST", "/export/trajectory", json.dumps(state), {"Origin": home, "Cookie": f"{COOKIE}=token"}
        )
        answer = line.getresponse()
        content = answer.read()
        assert answer.status == 200
    except (HTTPException, OSError):
        return
    finally:
        line.close()
    path.write_bytes(content)


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.filterwarnings("ignore:local has no Dask worker")
@kills("dask")
def test_two_workers_are_killed_again_and_again(tmp_path: Path, number: int) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    random, made, due = np.random.default_rng(6), 0, 0.0
    study = many(str(tmp_path / "log"), 40 * number, 0.02)

    def strike(tally: object) -> None:
        nonlocal made, due
        if made == number or time.monotonic() < due:
            return
        children = multiprocessing.active_children()
        pids = [one.pid for one in children if one.pid and one.name.startswith("Dask")]
        if pids:
            os.kill(pids[random.integers(len(pids))], signal.SIGKILL)
            made += 1
            due = time.monotonic() + random.uniform(0.2, 1.0)

    # A run may be hit by more random kills than the three after which Dask takes it for their cause.
    with dask.config.set({"distributed.scheduler.allowed-failures": number}), Store(tmp_path / "s") as store:
        results = run(study, Cluster("local", jobs=2), store, strike)
    assert made == number
    assert all(r.done and r.attempts == 1 for r in results)
    drawn = [np.random.default_rng(one.seed).random() for one in study.runs]
    assert [r.metrics["drawn"] for r in results] == drawn
