from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from shallowflow.studies import Store, Study
from shallowflow.studies import run as run_study
from tests.studies.tasks import draw, stumble
from tests.test_cli import refused, run


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with a study that went well and one that did not."""
    with Store(tmp_path / "store") as made:
        run_study(Study("traces", draw, {"size": [2, 3], "how": [[1, 2]]}, repeats=2), store=made)
        run_study(Study("stumbles", stumble, {"how": ["fine", "raise"]}), store=made)
    return str(tmp_path / "store")


def test_list_tells_what_there_is(store: str) -> None:
    listed = json.loads(run("studies", "list", store, "--json").stdout)["studies"]
    assert [(row["name"], row["runs"], row["done"], row["failed"]) for row in listed] == [
        ("stumbles", 2, 1, 1),
        ("traces", 4, 4, 0),
    ]
    told = run("studies", "list", store).stdout
    assert "traces" in told
    assert "Failed" in told


def test_show_tells_parameters_metrics_and_errors(store: str) -> None:
    told = run("studies", "show", store, "traces").stdout
    for word in ("size", "trace", "norm", "done"):
        assert word in told
    told = run("studies", "show", store, "stumbles").stdout
    assert "ValueError: this run cannot be" in told
    rows = json.loads(run("studies", "show", store, "stumbles", "--json").stdout)["runs"]
    assert [(row["parameters.how"], row["status"], row["metrics.fine"]) for row in rows] == [
        ("fine", "done", 1.0),
        ("raise", "failed", None),
    ]


def test_an_exported_table_has_the_same_numbers_to_the_last_bit(store: str, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    assert run("studies", "export", store, "traces", "--out", str(out)).stdout == f"4 runs in {out}\n"
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with Store(store, writable=False) as opened:
        results = opened.results("traces")
    for row, result in zip(rows, results, strict=True):
        assert row["identity"] == result.identity
        assert int(row["parameters.size"]) == result.parameters["size"]
        assert row["parameters.how"] == "[1, 2]"
        assert {f"metrics.{k}": v for k, v in result.metrics.items()} == {
            k: float(v) for k, v in row.items() if k.startswith("metrics.")
        }


def test_parquet_without_pyarrow_says_what_to_install(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = str(tmp_path / "table.parquet")
    refused(run("studies", "export", store, "traces", "--out", out), "Parquet needs pyarrow", "[parquet]")


def test_parquet_reads_back(store: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = str(tmp_path / "table.parquet")
    assert run("studies", "export", store, "traces", "--out", out).exit_code == 0
    with Store(store, writable=False) as opened:
        expected = [result.metrics["trace"] for result in opened.results("traces")]
    assert parquet.read_table(out).to_pydict()["metrics.trace"] == expected


def test_remove_takes_one_study_and_leaves_the_other(store: str) -> None:
    assert run("studies", "remove", store, "traces").stdout == "removed traces: 4 runs\n"
    listed = json.loads(run("studies", "list", store, "--json").stdout)["studies"]
    assert [row["name"] for row in listed] == ["stumbles"]


def test_bad_requests_are_refused(store: str, tmp_path: Path) -> None:
    refused(run("studies", "show", store, "nope"), "has no study 'nope'", "stumbles, traces")
    refused(run("studies", "list", str(tmp_path)), "there is none")
    refused(run("studies", "remove", str(tmp_path / "new"), "x"), "there is none")
    assert not (tmp_path / "new").exists()
    refused(
        run("studies", "export", store, "traces", "--out", "x.txt"), "--out", ".csv", ".parquet", "'.txt'"
    )
    with Store(store):
        refused(run("studies", "remove", store, "traces"), "another process writes to it")
        assert run("studies", "list", store).exit_code == 0
