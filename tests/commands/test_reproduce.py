from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from shallowflow.cli import main
from shallowflow.errors import StoreError
from shallowflow.experiments import EXPERIMENTS, Claim, Experiment, Figure, Findings, Panel, Progress, Series
from shallowflow.experiments.experiment import Sweep
from shallowflow.studies import Store, Study
from tests.studies.tasks import draw, stumble
from tests.test_cli import COMMAND, refused, run


def run_sample(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    progress(0.5, "half")
    curve = Figure("sample", "A sample", (Panel((Series([1, 2], [1, 2]),)),))
    claims = (Claim("it grows", "> 0", f"{parameters['size']}", True), Claim("it ends", "yes", "no", False))
    return Findings((curve,), claims)


def run_until_interrupted(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    raise KeyboardInterrupt


def sample(name: str, run: Any = run_sample) -> Experiment:
    parameters = {"quick": {"size": 1}, "paper": {"size": 100}}
    return Experiment(name, f"Title of {name}", "Figure 1", parameters, run)


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three small experiments instead of the real ones, in an empty working directory."""
    for name in list(EXPERIMENTS):
        monkeypatch.delitem(EXPERIMENTS, name)
    for name in ("plateau/one", "plateau/two", "incremental/three"):
        monkeypatch.setitem(EXPERIMENTS, name, sample(name))
    monkeypatch.setattr("shallowflow.commands.reproduce.DEMO", ("plateau/two",))
    # Drawing has tests of its own.
    monkeypatch.setattr("shallowflow.reporting.report.render_all", lambda *_: [b"<svg/>", b"png"])
    monkeypatch.chdir(tmp_path)


def here(*arguments: str) -> Result:
    """Reproduce in this process: others don't know the samples."""
    return run("reproduce", "--jobs", "1", *arguments)


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["plateau/one"], ["plateau/one"]),
        (["plateau"], ["plateau/one", "plateau/two"]),
        (["incremental", "plateau/one", "incremental/three"], ["incremental/three", "plateau/one"]),
        ([], ["plateau/one", "plateau/two", "incremental/three"]),
        (["--demo"], ["plateau/two"]),
    ],
)
def test_reproduce_runs_what_is_asked(arguments: list[str], expected: list[str]) -> None:
    result = here(*arguments, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    told = json.loads(result.stdout)
    assert [r["name"] for r in told["reproductions"]] == expected
    assert told["claims"] == {
        "total": 2 * len(expected),
        "hold": len(expected),
        "fail": len(expected),
        "open": 0,
    }
    assert told["report"] == os.path.join("report", "report.html")
    assert Path(told["report"]).is_file()


@pytest.mark.usefixtures("samples")
def test_reproduce_prints_claims_and_ends_with_the_report() -> None:
    result = here("plateau/one", "--scale", "paper", "--out", "here/there", "--yes")
    assert result.exit_code == 0  # although one claim does not hold
    for expected in ("plateau/one", "it grows", "> 0", "100", "✓ holds", "✗ fails", "1 of 2 claims hold"):
        assert expected in result.stdout
    assert result.stdout.splitlines()[-1] == os.path.join("here/there", "report.html")
    assert Path("here/there/report.html").is_file()


@pytest.mark.usefixtures("samples")
def test_an_interrupted_reproduction_keeps_what_was_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "plateau/two", sample("plateau/two", run_until_interrupted))
    result = here("--out", "out")
    assert result.exit_code == 130
    (line,) = result.stderr.splitlines()
    assert line == "interrupted: 1 of 3 experiments finished; out/report.html has what was finished"
    told = json.loads(Path("out/reproductions.json").read_text())
    assert [r["name"] for r in told["reproductions"]] == ["plateau/one"]


@pytest.mark.usefixtures("samples")
def test_an_early_interruption_writes_no_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", sample("plateau/one", run_until_interrupted))
    result = here("--out", "out")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: 0 of 3 experiments finished\n"
    assert [path.name for path in Path("out").iterdir()] == ["store"]


@pytest.mark.usefixtures("samples")
def test_bad_requests_to_reproduce_are_refused() -> None:
    Path("file").touch()
    refused(here("nope"), "NAME", "'nope'", "shallowflow list")
    refused(here("plateau/ones"), "NAME", "'plateau/ones'", "did you mean plateau/one?")
    refused(here("plateau", "--demo"), "NAME", "--demo", "'plateau'")
    refused(here("--scale", "huge"), "--scale", "'huge'")
    refused(here("--out", "file/x"), "--out", "'file/x'", "writable")
    refused(here("--out", "file"), "--out", "'file'", "writable")


def run_and_fail(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    raise RuntimeError("this figure cannot be")


def run_and_count(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    with open("count", "a", encoding="utf-8") as file:
        file.write("x")
    return run_sample(parameters, progress)


def run_sweep(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    results = sweep(Study("traces", draw, {"size": [2, 3]}, repeats=2))
    total = sum(result.metrics["trace"] for result in results)
    return Findings((), (Claim("it is finite", "yes", f"{total!r}", bool(np.isfinite(total))),))


def run_stumbling_sweep(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    sweep(Study("stumbles", stumble, {"how": ["fine", "raise"]}))
    return Findings((), ())


@pytest.mark.usefixtures("samples")
def test_an_experiment_that_raises_is_in_the_report_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", sample("plateau/one", run_and_fail))
    result = here("--out", "out")
    assert result.exit_code == 1
    assert result.stderr == "plateau/one: RuntimeError: this figure cannot be\n"
    assert "2 of 4 claims hold, 2 fail" in result.stdout
    page = Path("out/report.html").read_text()
    assert "not run to its end</span>: RuntimeError: this figure cannot be</p>" in page
    told = json.loads(Path("out/reproductions.json").read_text())["reproductions"]
    assert [bool(one["error"]) for one in told] == [True, False, False]
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", sample("plateau/one"))
    again = here("--out", "out")
    assert again.exit_code == 0
    assert "2 of 3 experiments were finished before; --fresh runs them again" in again.stdout


@pytest.mark.usefixtures("samples")
def test_what_is_finished_is_not_run_again_and_comes_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", sample("plateau/one", run_and_count))
    first = here("plateau", "--out", "out", "--json").stdout
    page = Path("out/report.html").read_text().split("<main>")[1]
    assert here("plateau", "--out", "out", "--json").stdout == first
    assert Path("out/report.html").read_text().split("<main>")[1] == page
    assert Path("count").read_text() == "x"
    here("plateau", "--out", "out", "--scale", "paper", "--yes")
    assert Path("count").read_text() == "xx"
    here("plateau", "--out", "out", "--fresh")
    assert Path("count").read_text() == "xxx"
    here("plateau", "--out", "elsewhere")
    assert Path("count").read_text() == "xxxx"


@pytest.mark.usefixtures("samples")
def test_the_cost_is_told_beforehand_and_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shallowflow.commands.reproduce.speed_test", lambda: 0.5)
    monkeypatch.setattr("shallowflow.commands.reproduce.REFERENCE", 0.25)
    known = sample("plateau/one")
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", Experiment(**{**vars(known), "cost": {"paper": 60.0}}))
    result = here("plateau", "--scale", "paper")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "plateau/one  about 2 min 0 s",
        "plateau/two  not measured",
        "together about 2 min 0 s of CPU time and what was not measured, about 2 min 0 s with 1 at a time",
        "error: --yes: must be given for --scale paper if stdin is not a terminal",
    ]
    assert not Path("report/report.html").exists()
    monkeypatch.setattr("shallowflow.commands.reproduce._is_interactive", lambda: True)
    for answer, code in (("n\n", 1), ("", 130)):
        asked = CliRunner().invoke(
            main, ["reproduce", "plateau", "--jobs", "1", "--scale", "paper"], input=answer
        )
        assert asked.exit_code == code
        assert "Go on? [y/N]" in asked.stderr
        assert not Path("report/report.html").exists()
    assert here("plateau", "--scale", "paper", "--yes").exit_code == 0
    # Nothing is left to do, so there is nothing to ask.
    assert here("plateau", "--scale", "paper").exit_code == 0


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize("options", [["--jobs", "1"], ["--jobs", "2"]])
def test_the_sweep_of_an_experiment_goes_to_the_executor_and_into_the_store(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Experiment("plateau/one", "Title", "Figure 1", {"quick": {}, "paper": {}}, run_sweep, sweeps=True)
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", one)
    result = run("reproduce", "plateau/one", *options, "--json")
    expected = one.reproduce("quick").claims[0].measured
    assert json.loads(result.stdout)["reproductions"][0]["claims"][0]["measured"] == expected
    shown = json.loads(run("studies", "show", "report/store", "traces", "--json").stdout)["runs"]
    assert [row["status"] for row in shown] == ["done"] * 4
    workers = {row["worker"].rsplit(":")[-1] for row in shown}
    assert (str(os.getpid()) in workers) == (options == ["--jobs", "1"])


@pytest.mark.usefixtures("samples")
def test_a_sweep_with_a_failed_run_is_an_error_of_its_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Experiment(
        "plateau/one", "Title", "Figure 1", {"quick": {}, "paper": {}}, run_stumbling_sweep, sweeps=True
    )
    monkeypatch.setitem(EXPERIMENTS, "plateau/one", one)
    result = here("plateau/one")
    assert result.exit_code == 1
    assert "1 of 2 runs of stumbles failed; the first: ValueError: this run cannot be" in result.stderr


@pytest.mark.usefixtures("samples")
def test_jobs_with_a_cluster_elsewhere_are_refused() -> None:
    refused(here("--dask", "tcp://127.0.0.1:1"), "--jobs", "1")
    refused(run("reproduce", "--jobs", "0"), "--jobs", "0")


# The real program in a process of its own.


def test_real_experiments_side_by_side_are_those_of_one_process(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "reproduce", "plateau/fig3", "plateau/fig6", "--json"]
    alone = subprocess.run([*command, "--jobs", "1"], cwd=tmp_path, capture_output=True, check=True)
    assert alone.stderr == b""
    with subprocess.Popen(
        [*command, "--jobs", "2", "--out", "two"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = read_all(ours)
        together, _ = process.communicate(timeout=60)
    assert b"of 2 runs done" in shown
    assert b"report: figure plateau-fig" in shown
    assert [one["name"] for one in told(together)] == ["plateau/fig3", "plateau/fig6"]
    assert told(together) == told(alone.stdout)
    one, two = (tmp_path / name / "figures" for name in ("report", "two"))
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {p.name: p.read_bytes() for p in two.iterdir()}


def told(output: bytes) -> list[dict[str, Any]]:
    """What was reproduced, but for the time it took."""
    return [{**one, "seconds": 0} for one in json.loads(output)["reproductions"]]


def read_all(terminal: int) -> bytes:
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    return shown


def test_ctrl_c_ends_the_workers_and_keeps_the_store(tmp_path: Path) -> None:
    words = ["reproduce", "plateau/fig9", "plateau/fig10", "--scale", "paper", "--yes", "--jobs", "2"]
    with subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=heed_interrupts,
    ) as process:  # fmt: skip
        while planned(tmp_path / "report" / "store") < 2:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted: 0 of 2 experiments finished"
    # Python's own tracker of shared resources takes a moment longer.
    deadline = time.monotonic() + 30
    while alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def heed_interrupts() -> None:
    """Undo what a shell does to its background jobs: they ignore interrupts, and so would the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def planned(directory: Path) -> int:
    """How many studies a store has, which another process may be about to make."""
    try:
        with Store(directory, writable=False) as store:
            return len(store.studies())
    except StoreError:
        return 0


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
