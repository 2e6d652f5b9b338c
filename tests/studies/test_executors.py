from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow.errors import InvalidInputError
from shallowflow.studies import Executor, Processes, Result, Serial, Study, run
from shallowflow.studies.executors import THREADS, execute_elsewhere
from tests.studies.tasks import ROOT, draw, many, stumble

STUDY = Study("bits", draw, {"size": [2, 40, 90]}, repeats=3, root_seed=5)


def bits(results: list[Result]) -> list[Any]:
    """Every output of every run, bit by bit."""
    return [
        (r.identity, {name: value.hex() for name, value in r.metrics.items()}, r.arrays["diagonal"].tobytes())
        for r in results
    ]


def test_one_and_two_processes_give_the_bits_of_this_one() -> None:
    here = run(STUDY, Serial())
    matrix = np.random.default_rng(STUDY.runs[-1].seed).normal(size=(90, 90))
    assert here[-1].metrics["trace"] == pytest.approx(np.trace(matrix @ matrix.T @ matrix), rel=1e-12)
    assert bits(run(STUDY, Processes(2))) == bits(here)
    assert bits(run(STUDY, Processes(1))) == bits(here)


@pytest.mark.parametrize("executor", [Serial(), Processes(2)], ids=["serial", "processes"])
def test_a_run_that_fails_is_told_and_stops_nothing(executor: Executor) -> None:
    results = run(Study("s", stumble, {"how": ["raise", "fine", "exit", "text"]}), executor)
    assert [result.status for result in results] == ["failed", "done", "failed", "failed"]
    assert results[0].error.startswith("ValueError: this run cannot be\n")
    assert 'raise ValueError("this run cannot be")' in results[0].error
    assert results[2].error.startswith("SystemExit: 3")
    assert (
        results[3].error
        == "InvalidInputError: task: text must be a number or an array of numbers, got 'no number'"
    )
    assert results[1].metrics == {"fine": 1.0}


def test_a_run_that_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    points = [{"how": "die"}, {"how": "die once", "mark": str(tmp_path / "mark")}]
    results = run(Study("s", stumble, points), Processes(2))
    assert [result.done for result in results] == [False, True]
    assert results[0].error.startswith("the worker process died")


def test_stopping_early_leaves_no_process_behind(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    outcomes = Processes(2).outcomes(many(str(tmp_path / "log"), runs=4, seconds=0.01).runs[:1])
    assert next(outcomes).done
    outcomes.close()
    endless = Processes(2).outcomes(
        [*many(str(tmp_path / "log"), 1, 0.0).runs, *many(str(tmp_path / "log"), 1, 600.0).runs]
    )
    assert next(endless).done
    start = time.monotonic()
    endless.close()
    assert time.monotonic() - start < 60
    assert set(multiprocessing.active_children()) == before


def test_workers_end_when_the_program_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tests.studies.tasks", str(tmp_path / "store"), str(log)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(command, env=environment, start_new_session=True) as victim:
        while not log.exists():
            assert victim.poll() is None
            time.sleep(0.05)
        victim.kill()
    deadline = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):
        kill_until_gone(victim.pid, deadline)


def kill_until_gone(group: int, deadline: float) -> None:
    """Ask for the group, with no signal, until nobody is left in it."""
    while time.monotonic() < deadline:
        os.killpg(group, 0)
        time.sleep(0.05)


def test_a_task_cannot_spoil_a_second_run_of_itself() -> None:
    study = Study("s", careless, {"list": [(1, 2)]})
    assert run(study)[0].metrics == run(study)[0].metrics
    assert study.points == ({"list": (1, 2)},)


def careless(parameters: dict[str, Any], seed: np.random.SeedSequence) -> dict[str, float]:
    """Change what was given, and spawn from the seed, which counts its children."""
    del parameters["list"]
    return {"drawn": np.random.default_rng(seed.spawn(1)[0]).random()}


def test_workers_use_one_thread(tmp_path: Path) -> None:
    code = (
        "import os\nfrom shallowflow.studies.executors import pin_threads\n"
        "import numpy\npin_threads()\nfrom threadpoolctl import threadpool_info\n"
        f"print({{i['num_threads'] for i in threadpool_info()}}, {{os.environ[n] for n in {THREADS!r}}})"
    )
    environment = {k: v for k, v in os.environ.items() if k not in THREADS}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "{1} {'1'}"


def test_a_task_that_was_typed_in_is_refused(tmp_path: Path) -> None:
    code = (
        "import shallowflow.studies as s\ndef task(p, seed): return {'x': 1.0}\n"
        "study = s.Study('typed', task, {'a': [1]})\nprint(s.run(study)[0].metrics)\n"
        "try: s.run(study, s.Processes(1))\nexcept ValueError as e: print(e)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = result.stdout.splitlines()
    assert first == "{'x': 1.0}"
    assert second.startswith("task: must be in a file that other processes can import, got __main__:task")


def test_a_script_runs_its_own_task_in_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import shallowflow.studies as s\ndef task(p, seed): return {'x': p['a'] + 1.0}\n"
        "if __name__ == '__main__':\n"
        "    print([r.metrics['x'] for r in s.run(s.Study('mine', task, {'a': [1, 2]}), s.Processes(2))])\n"
    )
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[2.0, 3.0]\n"


def test_a_script_without_a_guard_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import shallowflow.studies as s\ndef task(p, seed): return {'x': 1.0}\n"
        "s.run(s.Study('mine', task, {'a': [1, 2]}), s.Processes(2))\n"
    )
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "worker processes die as they start; a script" in result.stderr.splitlines()[-1]


def test_a_worker_that_cannot_load_the_task_or_has_other_code_says_so() -> None:
    outcome = execute_elsewhere("name", b"no pickle")
    assert (outcome.identity, outcome.status) == ("name", "failed")
    assert outcome.error.startswith("the worker cannot load the task: ")
    (one,) = Study("s", draw, [{"size": 2}]).runs
    assert execute_elsewhere(one.identity, pickle.dumps(one)).done
    older = type(one)(one.task, one.parameters, one.repeat, one.root_seed, "0.0+0", one.subject)
    assert "task: this worker has other code" in execute_elsewhere(older.identity, pickle.dumps(older)).error


def test_the_number_of_jobs_is_checked() -> None:
    assert Processes().jobs >= 1
    with pytest.raises(InvalidInputError, match="jobs: must be >= 1, got 0"):
        Processes(0)


def test_the_example_of_the_documentation_runs_and_goes_on(tmp_path: Path) -> None:
    example = ROOT / "docs" / "examples" / "widths.py"
    (tmp_path / "widths.py").write_bytes(example.read_bytes())

    def printed() -> list[str]:
        done = subprocess.run(
            [sys.executable, "widths.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    first = printed()
    assert [line.split()[:3] for line in first] == [
        [str(width), str(repeat), "done"] for width in (5, 10, 20) for repeat in range(4)
    ]
    assert printed() == first
