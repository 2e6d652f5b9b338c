"""`Store`: a directory that keeps the results of studies; `run`: compute what a study lacks, and keep it.

    DIR/runs.sqlite            tables studies, members, runs, metrics (SQLite in WAL mode, one commit per run)
    DIR/arrays/IDENTITY.npz    the arrays of one run: plain NumPy arrays, no pickle
    DIR/writer.lock            held, as an SQLite lock, by the one process that writes

A store survives being killed. A run's arrays are on the disk before its row says "done", and the row names
them: a run whose arrays are lost or damaged is "damaged" and counts as missing. The lock ends with its
process, however that ends. What a store says is believed no further than needed: identities are 32
hexadecimal digits before they touch a path.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from shallowflow.arrays import flag, shown
from shallowflow.errors import FileFormatError, InvalidInputError, StoreError
from shallowflow.files import as_path, write_atomically
from shallowflow.studies.executors import Executor, RunOutcome, Serial
from shallowflow.studies.study import Result, Run, StoredArrays, Study, plain_parameters

FORMAT = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS studies (name TEXT PRIMARY KEY, task TEXT, root_seed TEXT, planned TEXT);
CREATE TABLE IF NOT EXISTS runs (
    identity TEXT PRIMARY KEY, task TEXT, parameters TEXT, repeat INTEGER, root_seed TEXT, code TEXT,
    status TEXT, error TEXT, attempts INTEGER DEFAULT 0,
    started TEXT, seconds REAL, cpu_seconds REAL, worker TEXT, versions TEXT, arrays TEXT);
CREATE TABLE IF NOT EXISTS members (
    study TEXT, identity TEXT, position INTEGER, PRIMARY KEY (study, identity)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS metrics (
    identity TEXT, name TEXT, value REAL, PRIMARY KEY (identity, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS writer (id INTEGER PRIMARY KEY CHECK (id = 1), process TEXT);
"""
IDENTITY = re.compile(r"[0-9a-f]{32}")
KEPT = "the finished runs are kept: run the study again when this is mended"


class Store:
    """The results of studies in a directory; use it in a `with` statement.

    `Store(directory)` opens it for writing, which one process can do at a time, and makes it if it is not
    there. `Store(directory, writable=False)` reads it, also while another process writes.
    """

    def __init__(self, directory: str | Path, *, writable: bool = True) -> None:
        self.directory = as_path(directory, "directory")
        self.writable = flag(writable, "writable")
        self._lock: sqlite3.Connection | None = None
        with self._clear_errors("opened"):
            self._database = self._open_to_write() if self.writable else self._open_to_read()
        with self._clear_errors("opened"):
            self._check_format()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store free."""
        self._database.close()
        if self._lock is not None:
            self._lock.close()

    def plan(self, study: Study) -> None:
        """Write down the runs of a study; runs of an earlier plan stay, outside the present one."""
        with self._clear_errors("written"), self._database as database:
            database.execute(
                "INSERT OR REPLACE INTO studies VALUES (?, ?, ?, datetime('now'))",
                (study.name, study.runs[0].task_name, str(study.root_seed)),
            )
            database.execute("UPDATE members SET position = NULL WHERE study = ?", (study.name,))
            database.executemany(
                "INSERT OR IGNORE INTO runs (identity, task, parameters, repeat, root_seed, code, status) "
                "VALUES (?, ?, ?, ?, ?, ?, 'planned')",
                (
                    (r.identity, r.task_name, json.dumps(r.parameters), r.repeat, str(r.root_seed), r.code)
                    for r in study.runs
                ),
            )
            database.executemany(
                "INSERT OR REPLACE INTO members VALUES (?, ?, ?)",
                ((study.name, run.identity, position) for position, run in enumerate(study.runs)),
            )

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that have no result: not computed yet, or failed."""
        done = {row["identity"]: row for row in self._rows("SELECT * FROM runs WHERE status = 'done'")}
        return [run for run in runs if run.identity not in done or self._damaged(done[run.identity])]

    def find(self, run: Run) -> Result | None:
        """Return what is known of one run, whatever study it belongs to; None if it is not known."""
        found = self._rows("SELECT * FROM runs WHERE identity = ?", run.identity)
        values = self._rows("SELECT name, value FROM metrics WHERE identity = ?", run.identity)
        with self._sound_rows():
            return self._result(found[0], _metrics(values)) if found else None

    def forget(self, runs: Iterable[Run]) -> None:
        """Take back the results of runs, so that they count as missing."""
        with self._clear_errors("written"), self._database as database:
            database.executemany(
                "UPDATE runs SET status = 'planned' WHERE identity = ?", ((run.identity,) for run in runs)
            )

    def record(self, outcome: RunOutcome) -> None:
        """Write an outcome; when this returns it is on the disk."""
        with self._clear_errors("written"):
            if outcome.arrays:
                arrays = dict(outcome.arrays)
                # Unlike np.savez, which takes names as keyword arguments, this takes every name.
                write_atomically(self._arrays(outcome.identity), lambda file: _write_arrays(file, arrays))
            with self._database as database:
                database.execute(
                    "UPDATE runs SET status = ?, error = ?, attempts = attempts + 1, started = ?, "
                    "seconds = ?, cpu_seconds = ?, worker = ?, versions = ?, arrays = ? WHERE identity = ?",
                    (
                        *(outcome.status, outcome.error, outcome.started, outcome.seconds),
                        *(outcome.cpu_seconds, outcome.worker, json.dumps(dict(outcome.versions))),
                        json.dumps(list(outcome.arrays)),
                        outcome.identity,
                    ),
                )
                database.execute("DELETE FROM metrics WHERE identity = ?", (outcome.identity,))
                database.executemany(
                    "INSERT INTO metrics VALUES (?, ?, ?)",
                    ((outcome.identity, name, value) for name, value in outcome.metrics.items()),
                )

    def studies(self) -> list[dict[str, Any]]:
        """Return every study: name, task, root seed, numbers of runs by status, CPU time, last start."""
        query = (
            "SELECT s.name, s.task, s.root_seed, count(r.identity) AS runs, "
            "coalesce(sum(r.status = 'done'), 0) AS done, coalesce(sum(r.status = 'failed'), 0) AS failed, "
            "coalesce(sum(r.cpu_seconds), 0.0) AS cpu_seconds, max(r.started) AS last_start "
            "FROM studies s LEFT JOIN members m ON m.study = s.name AND m.position IS NOT NULL "
            "LEFT JOIN runs r ON r.identity = m.identity GROUP BY s.name ORDER BY s.name"
        )
        return [dict(row) for row in self._rows(query)]

    def results(self, study: str) -> list[Result]:
        """Return the runs of a study's present plan, in order, with what is known of each."""
        self._check_study(study)
        query = (
            "SELECT r.* FROM members m JOIN runs r ON r.identity = m.identity "
            "WHERE m.study = ? AND m.position IS NOT NULL ORDER BY m.position"
        )
        measured = (
            "SELECT x.identity, x.name, x.value FROM members m JOIN metrics x ON x.identity = m.identity "
            "WHERE m.study = ? AND m.position IS NOT NULL ORDER BY x.name"
        )
        values: dict[str, list[tuple[str, float | None]]] = {}
        for identity, name, value in self._rows(measured, study):
            values.setdefault(identity, []).append((name, value))
        rows = self._rows(query, study)
        with self._sound_rows():
            return [self._result(row, _metrics(values.get(row["identity"], ()))) for row in rows]

    def remove(self, study: str) -> int:
        """Remove a study and the runs that belong to no other one; return how many runs went."""
        self._check_study(study)
        with self._clear_errors("written"):
            with self._database as database:
                database.execute("DELETE FROM members WHERE study = ?", (study,))
                database.execute("DELETE FROM studies WHERE name = ?", (study,))
                left = "SELECT identity FROM runs WHERE identity NOT IN (SELECT identity FROM members)"
                orphans = [row[0] for row in database.execute(left)]
                files = [self._arrays(identity) for identity in orphans]
                for table in ("metrics", "runs"):
                    database.executemany(f"DELETE FROM {table} WHERE identity = ?", ((o,) for o in orphans))
            # Rows first: arrays without a row are waste, a row without its arrays would be a lie.
            for file in files:
                file.unlink(missing_ok=True)
        return len(orphans)

    def _result(self, row: sqlite3.Row, metrics: dict[str, float]) -> Result:
        path = self._arrays(row["identity"])
        status = "damaged" if row["status"] == "done" and self._damaged(row) else row["status"]
        done, texts = status == "done", {name: row[name] or "" for name in ("error", "started", "worker")}
        return Result(
            row["identity"],
            plain_parameters(_object(row["parameters"]), "parameters"),
            row["repeat"],
            status,
            metrics if done else {},
            StoredArrays(path) if done and path.exists() else {},
            seconds=row["seconds"] or 0.0,
            cpu_seconds=row["cpu_seconds"] or 0.0,
            versions=json.loads(row["versions"] or "{}"),
            attempts=row["attempts"],
            **texts,
        )

    def _damaged(self, row: sqlite3.Row) -> bool:
        """Whether a finished run had arrays that are not there any more, or not whole."""
        named = json.loads(row["arrays"] or "[]") if "arrays" in row.keys() else []  # noqa: SIM118
        return bool(named) and not zipfile.is_zipfile(self._arrays(row["identity"]))

    def _arrays(self, identity: str) -> Path:
        if not isinstance(identity, str) or not IDENTITY.fullmatch(identity):
            raise StoreError(
                f"store {self.directory}: the identity of a run must be 32 hexadecimal digits, "
                f"got {str(identity)[:60]!r}; the store was not written by this program"
            )
        return self.directory / "arrays" / f"{identity}.npz"

    def _rows(self, query: str, *values: Any) -> Sequence[sqlite3.Row]:
        with self._clear_errors("read"):
            return self._database.execute(query, values).fetchall()

    def _check_study(self, study: str) -> None:
        names = [row["name"] for row in self._rows("SELECT name FROM studies ORDER BY name")]
        if study not in names:
            known = f"there are {', '.join(names)}" if names else "it holds none"
            raise StoreError(f"store {self.directory}: has no study {study!r}; {known}")

    def _open_to_write(self) -> sqlite3.Connection:
        (self.directory / "arrays").mkdir(parents=True, exist_ok=True)
        self._take_lock()
        for scrap in (self.directory / "arrays").glob(".*.part"):
            scrap.unlink()
        database = self._connect(f"file:{_quoted(self.directory)}/runs.sqlite")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        with database:
            database.executescript(SCHEMA)
            if "arrays" not in {row["name"] for row in database.execute("PRAGMA table_info(runs)")}:
                database.execute("ALTER TABLE runs ADD COLUMN arrays TEXT")
            process = f"process {os.getpid()} on {platform.node()}"
            database.execute("INSERT OR REPLACE INTO writer VALUES (1, ?)", (process,))
        return database

    def _open_to_read(self) -> sqlite3.Connection:
        if not (self.directory / "runs.sqlite").is_file():
            raise StoreError(f"store {self.directory}: there is none; a study that runs there makes it")
        # A directory that takes no files cannot hold the files that readers and a writer share.
        still = "" if os.access(self.directory, os.W_OK) else "&immutable=1"
        return self._connect(f"file:{_quoted(self.directory)}/runs.sqlite?mode=ro{still}")

    def _connect(self, uri: str) -> sqlite3.Connection:
        database = sqlite3.connect(uri, uri=True, timeout=10.0)
        database.row_factory = sqlite3.Row
        return database

    def _take_lock(self) -> None:
        lock = sqlite3.connect(self.directory / "writer.lock", timeout=0.0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if "locked" not in str(error):
                raise
            raise StoreError(
                f"store {self.directory}: another process writes to it ({self._writer()}); "
                "wait until it has finished, or use another directory"
            ) from error
        self._lock = lock

    def _writer(self) -> str:
        try:
            with Store(self.directory, writable=False) as store:
                return str(store._rows("SELECT process FROM writer")[0]["process"])
        except (StoreError, IndexError):
            return "it has only just begun"

    def _check_format(self) -> None:
        found = self._database.execute("PRAGMA user_version").fetchone()[0]
        if found == 0 and self.writable:
            self._database.execute(f"PRAGMA user_version = {FORMAT}")
        elif found != FORMAT:
            self.close()
            raise StoreError(f"store {self.directory}: is of format {found}, this program reads {FORMAT}")

    @contextmanager
    def _sound_rows(self) -> Iterator[None]:
        """Turn what a damaged row causes into one clear message."""
        try:
            yield
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(f"store {self.directory}: is damaged ({error})") from error

    @contextmanager
    def _clear_errors(self, done: str) -> Iterator[None]:
        """Turn trouble with files and SQLite into one clear message."""
        try:
            yield
        except (sqlite3.Error, OSError, FileFormatError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            kept = f"; {KEPT}" if done == "written" else ""
            if done == "opened" and self._lock is not None:
                self._lock.close()
            raise StoreError(f"store {self.directory}: cannot be {done} ({why}){kept}") from error


def _write_arrays(file: Any, arrays: dict[str, Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"parameters are {text[:40]!r} instead of an object")
    return found


def _metrics(pairs: Iterable[Any]) -> dict[str, float]:
    # SQLite has no NaN; it keeps NULL instead.
    return {name: float("nan") if value is None else value for name, value in pairs}


def _quoted(directory: Path) -> str:
    """Return an absolute path as SQLite reads it in a URI."""
    return quote(str(directory.absolute()))


@dataclass(frozen=True)
class Tally:
    """How far a study is: runs in all, kept from before, computed now, failed now; the last outcome."""

    total: int
    kept: int
    done: int = 0
    failed: int = 0
    last: RunOutcome | None = None

    @property
    def fraction(self) -> float:
        """How much is over, from 0 to 1."""
        return (self.kept + self.done + self.failed) / self.total


Progress = Callable[[Tally], None]


def run(
    study: Study,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a study and return the result of every run, in the order of `study.runs`.

    By default the runs are computed in this process and kept in memory. With a store, runs that have a result
    there are not computed again, and every run that is finished is written down at once; a run that failed is
    tried again. `progress` is called with a `Tally` at the start and after each run.
    """
    (results,) = run_all([study], executor, store, progress)
    return results


def run_all(
    studies: Sequence[Study],
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> list[list[Result]]:
    """Run several studies side by side, as `run` does one."""
    for study in studies:
        if not isinstance(study, Study):
            raise InvalidInputError(f"study: must be a Study, got {shown(study)}")
    if store is not None and not isinstance(store, Store):
        raise InvalidInputError(f"store: must be a Store, got {shown(store)}")
    runs = {one.identity: one for study in studies for one in study.runs}
    if store is not None:
        for study in studies:
            store.plan(study)
    missing = list(runs.values()) if store is None else store.missing(runs.values())
    outcomes = _computed(
        missing, executor or Serial(), store, progress, Tally(len(runs), len(runs) - len(missing))
    )
    if store is not None:
        return [store.results(study.name) for study in studies]
    return [[_in_memory(one, outcomes[one.identity]) for one in study.runs] for study in studies]


def _in_memory(run: Run, outcome: RunOutcome) -> Result:
    return Result(parameters=run.parameters, repeat=run.repeat, attempts=1, **vars(outcome))


def _computed(
    missing: list[Run], executor: Executor, store: Store | None, progress: Progress | None, tally: Tally
) -> dict[str, RunOutcome]:
    """Compute runs, write each down as it is finished, and return the outcomes that no store keeps."""
    show = progress or (lambda tally: None)
    show(tally)
    outcomes: dict[str, RunOutcome] = {}
    if not missing:
        return outcomes
    # Closed at once if writing fails: nothing computes on for a store that takes no more.
    with closing(executor.outcomes(missing)) as finished:
        for outcome in finished:
            if store is None:
                outcomes[outcome.identity] = outcome
            else:
                store.record(outcome)
            done, failed = tally.done + outcome.done, tally.failed + (not outcome.done)
            tally = Tally(tally.total, tally.kept, done, failed, outcome)
            show(tally)
    return outcomes
