from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow.errors import FileFormatError, StoreError
from shallowflow.studies import Serial, Store, Study, Tally, run, run_all
from tests.studies.tasks import ROOT, draw, many, note, stumble

STUDY = Study("small", draw, {"size": [2, 5]}, repeats=2, root_seed=1)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def script(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.studies.tasks", *arguments]


def lines(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def test_the_store_gives_back_what_was_computed(tmp_path: Path) -> None:
    in_memory = run(STUDY)
    with Store(tmp_path / "new" / "store") as store:
        kept = run(STUDY, store=store)
    with Store(tmp_path / "new" / "store", writable=False) as store:
        read = store.results("small")
    for memory, one, two in zip(in_memory, kept, read, strict=True):
        assert memory.metrics == one.metrics == two.metrics
        assert memory.parameters == one.parameters
        np.testing.assert_array_equal(memory.arrays["diagonal"], two.arrays["diagonal"])
        assert list(two.arrays) == ["diagonal"]
        assert len(two.arrays) == 1
        assert "trace" not in two.arrays
        assert two.versions["numpy"] == np.__version__
        assert two.attempts == 1


def test_parameters_come_back_as_the_task_saw_them(tmp_path: Path) -> None:
    study = Study("s", draw, [{"size": 2, "times": (0.0, [1, np.inf]), "more": {"a": (1,)}}])
    with Store(tmp_path) as store:
        (result,) = run(study, store=store)
    assert (
        result.parameters == study.points[0] == {"size": 2, "times": (0.0, (1, np.inf)), "more": {"a": (1,)}}
    )


def test_numbers_that_sql_does_not_know_survive(tmp_path: Path) -> None:
    study = Study("odd", odd, {})
    with Store(tmp_path) as store:
        (result,) = run(study, store=store)
    assert np.isnan(result.metrics["nan"])
    assert result.metrics["infinite"] == -np.inf
    assert result.metrics["tiny"] == 5e-324
    assert result.metrics["whole"] == 2**53 - 1
    assert result.arrays["empty array, with a name"].shape == (0, 3)
    assert result.arrays["complex"].dtype == np.complex128


def odd(parameters: object, seed: object) -> dict[str, Any]:
    return {
        "nan": np.nan,
        "infinite": -np.inf,
        "tiny": 5e-324,
        "whole": np.int64(2**53 - 1),
        "empty array, with a name": np.zeros((0, 3)),
        "complex": np.ones(2) * 1j,
    }


def test_only_what_is_missing_is_computed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tallies: list[Tally] = []
    with Store(tmp_path / "store") as store:
        run(many(str(log), 3, 0.0), store=store)
        run(many(str(log), 5, 0.0), store=store, progress=tallies.append)
        assert lines(log) == [0, 1, 2, 3, 4]
        assert (tallies[0].total, tallies[0].kept, tallies[-1].done, tallies[-1].failed) == (5, 3, 2, 0)
        # A smaller plan shows less and forgets nothing.
        assert len(run(many(str(log), 2, 0.0), store=store)) == 2
        assert len(run(many(str(log), 5, 0.0), store=store)) == 5
    assert lines(log) == [0, 1, 2, 3, 4]


def test_a_failed_run_is_recorded_and_tried_again(tmp_path: Path) -> None:
    study = Study("s", stumble, [{"how": "raise"}, {"how": "fine"}])
    with Store(tmp_path) as store:
        first = run(study, store=store)
        assert [r.status for r in first] == ["failed", "done"]
        assert "this run cannot be" in first[0].error
        second = run(study, store=store)
    assert [r.attempts for r in second] == [2, 1]


def test_studies_side_by_side_share_runs_and_are_removed_apart(tmp_path: Path) -> None:
    one = Study("one", draw, {"size": [2, 3]})
    two = Study("two", draw, {"size": [3, 4]})
    with Store(tmp_path) as store:
        tallies: list[Tally] = []
        results = run_all([one, two], store=store, progress=tallies.append)
        assert tallies[-1].total == 3
        assert results[0][1].identity == results[1][0].identity
        listed = {row["name"]: row for row in store.studies()}
        assert (listed["two"]["runs"], listed["two"]["done"], listed["two"]["failed"]) == (2, 2, 0)
        assert store.remove("one") == 1
        assert [r.done for r in store.results("two")] == [True, True]
        assert len(list((tmp_path / "arrays").glob("*.npz"))) == 2
        with pytest.raises(StoreError, match=r"has no study 'one'; there are two"):
            store.results("one")
        assert store.remove("two") == 2
        assert list((tmp_path / "arrays").iterdir()) == []
        assert store.studies() == []


def test_killed_half_way_a_study_keeps_what_was_finished_and_computes_the_rest(tmp_path: Path) -> None:
    log, directory = tmp_path / "log", tmp_path / "store"
    held = {**environment(), "HELD_FROM": "150"}
    victim = subprocess.Popen(script(str(directory), str(log)), env=held, start_new_session=True)
    while len(lines(log)) < 100:
        assert victim.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    with Store(directory, writable=False) as store:
        finished = {r.parameters["index"]: r for r in store.results("many") if r.done}
    assert 90 <= len(finished) < 200
    executed = lines(log)
    again = subprocess.run(
        script(str(directory), str(log)), env=environment(), capture_output=True, text=True, check=True
    )
    assert again.stdout == "200\n"
    assert set(lines(log)[len(executed) :]).isdisjoint(finished)
    with Store(directory, writable=False) as store:
        results = store.results("many")
    assert [r.parameters["index"] for r in results] == list(range(200))
    assert all(r.done and r.attempts == 1 for r in results)
    kept = {r.parameters["index"]: r for r in results}
    assert all(kept[index].started == r.started for index, r in finished.items())
    assert all(kept[index].metrics == r.metrics for index, r in finished.items())
    np.testing.assert_array_equal(kept[0].arrays["array"], [0, 1, 2])


def test_arrays_of_a_run_that_was_cut_off_are_swept_away(tmp_path: Path) -> None:
    Store(tmp_path).close()
    (tmp_path / "arrays" / ".abc.npz.x.part").write_bytes(b"half")
    Store(tmp_path).close()
    assert list((tmp_path / "arrays").iterdir()) == []


def test_the_second_writer_gets_a_clear_message_and_a_reader_none(tmp_path: Path) -> None:
    log, directory = tmp_path / "log", tmp_path / "store"
    with Store(directory) as store:
        run(STUDY, store=store)
        second = subprocess.run(
            script(str(directory), str(log)), env=environment(), capture_output=True, text=True, check=False
        )
        assert second.returncode != 0
        last = second.stderr.splitlines()[-1]
        assert f"another process writes to it (process {os.getpid()} on " in last
        assert last.endswith("wait until it has finished, or use another directory")
        assert not log.exists()
        with pytest.raises(StoreError, match="another process writes to it"):
            Store(directory)
        with Store(directory, writable=False) as reader:
            assert all(r.done for r in reader.results("small"))
        run(Study("more", draw, {"size": [9]}), store=store)
    with Store(directory) as store:
        assert [row["name"] for row in store.studies()] == ["more", "small"]
        assert store._rows("PRAGMA integrity_check")[0][0] == "ok"


def test_a_full_disk_stops_the_study_and_keeps_what_was_finished(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with Store(tmp_path / "store") as store:
        store.plan(many(log, 200, 0.0))
        pages = store._rows("PRAGMA page_count")[0][0]
        store._database.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match=r"cannot be written \(database or disk is full\); the finished"):
            run(many(log, 200, 0.0), Serial(), store)
        # SQLite counts what was written before it met the end of the disk.
        computed = len(lines(Path(log)))
    with Store(tmp_path / "store") as store:
        finished = sum(r.done for r in store.results("many"))
        assert 0 < finished == computed - 1
        assert all(r.done for r in run(many(log, 200, 0.0), store=store))
    assert Counter(lines(Path(log))).most_common(2)[0][1] == 2
    assert len(lines(Path(log))) == 201


def test_arrays_that_do_not_fit_stop_the_study(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run(Study("large", draw, [{"size": 5}]), store=store)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        grown = max(path.stat().st_size for path in tmp_path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (grown + 500_000, limits[1]))
        try:
            with pytest.raises(
                StoreError, match=r"cannot be written .*too large.*; the finished runs are kept"
            ):
                run(Study("large", wide, [{}]), store=store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not list((tmp_path / "arrays").glob(".*.part"))


def wide(parameters: object, seed: object) -> dict[str, Any]:
    return {"wide": np.zeros(1_000_000)}


@pytest.mark.parametrize("place", ["file/store", "file"])
def test_a_place_that_takes_no_files_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"store .*file.*: cannot be opened \(.+\)$"):
        Store(tmp_path / place)


def test_a_directory_of_the_system_is_refused() -> None:
    # The kernel takes no directories here, whoever asks: the superuser of a container too.
    with pytest.raises(StoreError, match=r"store .proc.store: cannot be opened \(.+\)$"):
        Store("/proc/store")


def test_a_directory_without_permission_is_refused_but_can_be_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to the superuser")
    with Store(tmp_path / "store") as store:
        run(STUDY, store=store)
    (tmp_path / "store").chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"cannot be opened \(.+\)$"):
            Store(tmp_path / "store")
        with Store(tmp_path / "store", writable=False) as store:
            assert all(r.done for r in store.results("small"))
    finally:
        (tmp_path / "store").chmod(0o700)


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is none"):
        Store(tmp_path, writable=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs.sqlite").write_text("nonsense, but long enough to look like a database at first sight")
    for writable in (True, False):
        with pytest.raises(StoreError, match="cannot be opened"):
            Store(tmp_path, writable=writable)


def test_a_store_of_another_format_is_not_touched(tmp_path: Path) -> None:
    Store(tmp_path).close()
    database = sqlite3.connect(tmp_path / "runs.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="is of format 99, this program reads 1"):
        Store(tmp_path)


def test_damaged_arrays_are_told(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        (result,) = run(Study("s", note, [{"index": 0, "log": os.devnull, "seconds": 0}]), store=store)
        (file,) = (tmp_path / "arrays").glob("*.npz")
        file.write_bytes(file.read_bytes()[:-30])
        with pytest.raises(FileFormatError, match="is not a sound file of arrays"):
            result.arrays["array"]


ONE = Study("s", note, [{"index": 0, "log": os.devnull, "seconds": 0}])


@pytest.mark.parametrize("harm", ["lost", "cut", "empty"])
def test_a_run_whose_arrays_are_gone_is_damaged_and_is_computed_again(tmp_path: Path, harm: str) -> None:
    with Store(tmp_path) as store:
        run(ONE, store=store)
        (file,) = (tmp_path / "arrays").glob("*.npz")
        if harm == "lost":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-30] if harm == "cut" else b"")
        (result,) = store.results("s")
        assert (result.status, result.done, dict(result.metrics)) == ("damaged", False, {})
        assert len(store.missing(ONE.runs)) == 1
        run(ONE, store=store)
        (again,) = store.results("s")
        assert again.done
        assert len(again.arrays) == 1


def foreign(directory: Path, identity: str) -> None:
    """Write another identity into a store, as a stranger could."""
    with Store(directory) as store:
        run(ONE, store=store)
    with sqlite3.connect(directory / "runs.sqlite") as database:
        for table in ("runs", "members", "metrics"):
            database.execute(f"UPDATE {table} SET identity = ?", (identity,))
    database.close()


@pytest.mark.parametrize("identity", ["../../victim", "/etc/passwd", "a" * 31, "A" * 32, "0" * 32 + "\n", ""])
def test_nothing_outside_the_store_is_read_or_deleted(tmp_path: Path, identity: str) -> None:
    victim = tmp_path / "victim.npz"
    victim.write_bytes(b"precious")
    foreign(tmp_path / "a" / "store", identity)
    with Store(tmp_path / "a" / "store") as store:
        for attempt in (store.results, store.remove):
            with pytest.raises(StoreError, match="32 hexadecimal digits"):
                attempt("s")
        assert [study["name"] for study in store.studies()] == ["s"]
    assert victim.read_bytes() == b"precious"


def test_a_store_of_the_first_version_is_read(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run(ONE, store=store)
    with sqlite3.connect(tmp_path / "runs.sqlite") as database:
        database.execute("ALTER TABLE runs DROP COLUMN arrays")
    database.close()
    for writable in (False, True):
        with Store(tmp_path, writable=writable) as store:
            assert store.results("s")[0].done


def rewritten(path: Path, change: Any) -> None:
    """Write the members of an archive anew, each changed by `change(name, content)`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, *change(content))


def test_sizes_are_believed_only_if_the_file_allows_them(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        (result,) = run(ONE, store=store)
    (file,) = (tmp_path / "arrays").glob("*.npz")
    huge = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }"
    header = b"\x93NUMPY\x01\x00" + (len(huge) + 1).to_bytes(2, "little") + huge + b"\n"
    rewritten(file, lambda content: (header,))
    with pytest.raises(FileFormatError, match="bytes instead of shape"):
        result.arrays["array"]
    rewritten(file, lambda content: (content + bytes(10**7), zipfile.ZIP_DEFLATED))
    with pytest.raises(FileFormatError, match="compressed"):
        result.arrays["array"]


def test_a_damaged_row_is_one_clear_error(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run(ONE, store=store)
    for text in ("{", "[1]", "nul", '"x"'):
        with sqlite3.connect(tmp_path / "runs.sqlite") as database:
            database.execute("UPDATE runs SET parameters = ?", (text,))
        database.close()
        with Store(tmp_path) as store, pytest.raises(StoreError, match="store"):
            store.results("s")


def test_a_run_says_what_it_cost_and_one_never_made_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run(STUDY, store=store)
        assert all(result.seconds > 0 for result in store.results("small"))
        for column in ("seconds", "cpu_seconds"):
            store._database.execute(f"UPDATE runs SET {column} = 7.5")
        assert {(r.seconds, r.cpu_seconds) for r in store.results("small")} == {(7.5, 7.5)}
        store._database.execute("UPDATE runs SET seconds = NULL, cpu_seconds = NULL")
        assert {(r.seconds, r.cpu_seconds) for r in store.results("small")} == {(0.0, 0.0)}


def test_a_study_whose_arrays_are_gone_can_be_removed(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run(STUDY, store=store)
        for file in (tmp_path / "arrays").glob("*.npz"):
            file.unlink()
        assert store.remove("small") == 4


def test_a_writer_that_has_not_said_its_name_is_told_too(tmp_path: Path) -> None:
    lock = sqlite3.connect(tmp_path / "writer.lock", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"another process writes to it \(it has only just begun\)"):
        Store(tmp_path)
    lock.close()


def test_a_lock_that_fails_for_another_reason_is_not_blamed_on_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(sqlite3.Connection):
        """A connection whose disk is broken."""

        def execute(self, *words: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("disk I/O error")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=Failing))
    with pytest.raises(StoreError, match=r"cannot be opened \(disk I/O error\)"):
        Store(tmp_path / "store")
