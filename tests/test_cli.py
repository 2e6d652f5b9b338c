import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from shallowflow.cli import main
from shallowflow.data import GENERATORS
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments import EXPERIMENTS
from shallowflow.kernels.shared.compilation import MESSAGE

COMMAND = [sys.executable, "-m", "shallowflow.cli"]
QUICK = ["--width", "5", "--descent", "--steps", "20"]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(result: Result, *words: str) -> None:
    """Check that a command failed with one line on stderr that contains these words."""
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert "Traceback" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    "command",
    [[], ["list"], ["reproduce"], ["simulate"], ["fit"], ["certify"], ["studies"], ["studies", "show"]],
)
def test_help_teaches_by_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Examples:\n" in result.stdout
    assert f"shallowflow {' '.join(command)}".strip() in result.stdout
    assert run().stdout == run("--help").stdout


def test_help_examples_of_simulate_are_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_data.csv").write_text("x,label\n-1,1\n0,-1\n1,1\n")
    lines = [line.split() for line in run("simulate", "--help").stdout.splitlines()]
    examples = [words[2:] for words in lines if words[:2] == ["shallowflow", "simulate"]]
    assert len(examples) == 5
    for words in examples:
        short = ["--steps", "3"] if "--descent" in words else ["--until", "0.01"]
        result = run("simulate", *words, *short, "--width", "4")
        assert (result.exit_code, result.stderr) == (0, "")


def test_list_names_experiments_and_data() -> None:
    result = run("list")
    assert result.exit_code == 0
    for name in (*EXPERIMENTS, *GENERATORS):
        assert name in result.stdout
    listed = json.loads(run("list", "--json").stdout)
    assert [e["name"] for e in listed["experiments"]] == list(EXPERIMENTS)
    assert {"name", "paper", "title", "source", "demo"} == set(listed["experiments"][0])
    assert [g["name"] for g in listed["generators"]] == list(GENERATORS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["missing.csv"], ["missing.csv", "No such file"]),
        (["empty.csv"], ["empty.csv", "no data"]),
        (["text.csv"], ["text.csv", "line 2", "'x'"]),
        (["folder"], ["folder", "directory"]),
        (["nope"], ["DATA", "three_points", "'nope'"]),
        (["tree_points"], ["DATA", "'tree_points'", "did you mean three_points?"]),
        (["spere:size=5"], ["DATA", "'spere:size=5'", "did you mean sphere?"]),
        (["sphere"], ["DATA", "size", "'sphere'"]),
        (["stewart:sise=3"], ["DATA", "sise", "'stewart:sise=3'"]),
        (["stewart:many"], ["size", "'many'"]),
        (["curve:sin_9"], ["name", "sin_5pi", "'sin_9'"]),
        (["three_points", "--step", "-1"], ["step", "-1"]),
        (["three_points", "--step", "nan"], ["step", "nan"]),
        (["three_points", "--steps", "0"], ["steps", "0"]),
        (["three_points", "--until", "0"], ["until", "0"]),
        (["three_points", "--width", "0"], ["width", "0"]),
        (["three_points", "--width", "many"], ["--width", "'many'"]),
        (["three_points", "--width", "1000000000000"], ["memory"]),
        (["three_points", "--seed", "-1"], ["seed", "-1"]),
        (["three_points", "--epsilon", "-0.5"], ["epsilon", "-0.5"]),
        (["three_points", "--loss", "cubic"], ["--loss", "'cubic'"]),
        (["three_points", "--loss", "logistic"], ["targets", "1.1"]),
        (["three_points", "--init", "balancd"], ["init", "'balancd'", "did you mean balanced?"]),
        (["three_points", "--init", "zero"], ["init", "balanced", "'zero'"]),
        (["three_points", "--init", "he_knots"], ["init", "'he_knots'"]),
        (["three_points", "--init", "grouped", "--width", "2"], ["width", "2"]),
        (["three_points", "--init", "asymmetric", "--init-scale", "3"], ["init_scale", "asymmetric", "3"]),
        (["three_points", "--network", "knots"], ["dimension", "2"]),
        (["three_points", "--until", "5", "--steps", "3"], ["until", "--flow", "5"]),
        (["three_points", "--flow", "--step", "0.5"], ["step", "--descent", "0.5"]),
        (["three_points", "--save", "no/where"], ["--save", "'no/where'"]),
        (["three_points", "--save", "folder"], ["--save", "'folder'"]),
        (["three_points", "--plot", "empty.csv/x.png"], ["--plot", "'empty.csv/x.png'"]),
        (["three_points", "--plot", "x.pdf"], ["--plot", "'.pdf'"]),
        (["three_points", "--animate", "x.mp4"], ["--animate", "'.mp4'"]),
        (["three_points", "--stepp", "1"], ["--stepp"]),
        ([], ["DATA"]),
    ],
)
def test_bad_requests_to_simulate_are_refused(
    options: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").touch()
    Path("text.csv").write_text("a,b\n1,x\n")
    Path("folder").mkdir()
    before = sorted(tmp_path.iterdir())
    refused(run("simulate", *options), *words)
    assert sorted(tmp_path.iterdir()) == before


def test_simulate_tells_outcome_loss_events_and_time() -> None:
    result = run("simulate", "three_points", *QUICK)
    assert result.exit_code == 0
    heads = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert heads == ["outcome", "final loss", "events", "time"]


def test_simulate_saves_what_it_ran_and_plots_it(tmp_path: Path) -> None:
    saved, plot = tmp_path / "run.trajectory", tmp_path / "run.svg"
    result = run("simulate", "three_points", *QUICK, "--save", str(saved), "--plot", str(plot), "--json")
    assert result.stderr == ""
    told = json.loads(result.stdout)
    trajectory = Trajectory.load(saved)
    assert told["final_loss"] == trajectory.losses[-1]
    assert told["network"] == {"type": "ReLUNetwork", "width": 5}
    assert told["data"] == {"name": "three points", "size": 3, "dimension": 2}
    assert (told["save"], told["plot"]) == (str(saved), str(plot))
    assert b"<svg" in plot.read_bytes()


def test_simulate_descends_as_by_hand(tmp_path: Path) -> None:
    """One ReLU neuron, full-batch steps computed here without the library."""
    table = tmp_path / "data.csv"
    table.write_text("x,y\n-1,2\n0.5,1\n2,-1\n")
    saved = tmp_path / "run.trajectory"
    options = ["--width", "1", "--init-scale", "0.7", "--seed", "3", "--step", "0.05", "--steps", "40"]
    options += ["--loss", "sum", "--epsilon", "0.5", "--save", str(saved)]
    assert run("simulate", str(table), *options).exit_code == 0
    trajectory = Trajectory.load(saved)
    start, end = trajectory.initial.parameters, trajectory.final.parameters
    x, y = np.array([[-1, 1], [0.5, 1], [2, 1]]), np.array([2, 1, -1])  # the bias is appended by default
    w, a = start["inner"][0].copy(), float(start["outer"][0])
    for _ in range(40):
        z = x @ w
        r = a * np.maximum(z, 0) - y
        w, a = w - 0.05 * 0.5 * a * ((z > 0) * r) @ x, a - 0.05 * float(r @ np.maximum(z, 0))
    np.testing.assert_allclose(end["inner"][0], w, rtol=1e-12)
    np.testing.assert_allclose(end["outer"][0], a, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "dimension"),
    [
        (["data.csv"], 2),
        (["data.csv", "--no-bias"], 1),
        (["data.csv", "--network", "knots"], 1),
        (["curve:sin_pi,size=4"], 1),
        (["curve:sin_pi,size=4", "--bias"], 2),
        (["three_points"], 2),
        (["sphere:7,3"], 3),
    ],
)
def test_the_bias_is_appended_where_it_is_expected(
    options: list[str], dimension: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("-1,2\n0.5,1\n2,-1\n")
    told = json.loads(run("simulate", *options, *QUICK, "--json").stdout)
    assert told["data"]["dimension"] == dimension


@pytest.mark.parametrize("init", ["balanced", "dominated", "gaussian", "asymmetric", "grouped"])
def test_every_initialisation_can_be_chosen(init: str) -> None:
    assert run("simulate", "orthonormal:5", "--init", init, *QUICK).exit_code == 0


def test_the_seed_chooses_data_and_network() -> None:
    def loss(*options: str) -> float:
        return float(json.loads(run("simulate", "stewart", *QUICK, *options, "--json").stdout)["final_loss"])

    assert loss("--seed", "1") == loss("--seed", "1")
    assert loss("--seed", "1") != loss("--seed", "2")


def test_a_run_that_fails_says_so_with_exit_code_1() -> None:
    options = ["--network", "knots", "--width", "20", "--step", "50", "--steps", "50"]
    result = run("simulate", "curve:sin_pi", *options)
    assert result.exit_code == 1
    assert "try         a" in result.stdout
    assert result.stderr == ""


def test_the_flow_is_the_default() -> None:
    told = json.loads(run("simulate", "three_points", "--width", "3", "--until", "0.5", "--json").stdout)
    assert told["time"] == 0.5


# The real program in a process of its own.


def test_an_error_of_the_real_program_is_one_line() -> None:
    done = subprocess.run([*COMMAND, "simulate", "missing.csv"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: missing.csv: cannot be read: No such file or directory\n"


def test_the_program_starts_without_loading_what_only_some_commands_need() -> None:
    heavy = ("matplotlib", "rich", "sklearn", "xarray")
    code = f"import sys, shallowflow.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


INTERRUPTIBLE = """
import signal, sys
from pathlib import Path
from shallowflow.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have it ignored
command = sys.modules["shallowflow.commands.networks"]
descend = command.gradient_descent

def announced(*arguments, **options):
    Path("begun").touch()
    return descend(*arguments, **options)

command.gradient_descent = announced
main()
"""


def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    options = ["simulate", "stewart", "--descent", "--steps", "100000000", "--save", "run.trajectory"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    # On a slow machine with nothing compiled yet, half a second is long enough for the line about that.
    said = [line for line in err.splitlines() if line != MESSAGE]
    # A run this long says so first.
    assert (out, said[-1], len(said), "Ctrl-C to stop" in said[0]) == ("", "interrupted", 2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_progress_is_shown_on_a_terminal_and_json_stays_alone_on_stdout() -> None:
    ours, theirs = pty.openpty()
    options = ["simulate", "stewart", "--descent", "--steps", "20000", "--width", "20", "--json"]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert json.loads(out)["outcome"]["status"] == "completed"
    assert b"training on Stewart" in shown
    assert b"%" in shown


def test_simulate_animates_what_it_ran(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    result = run("simulate", "three_points", *QUICK, "--animate", str(page), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["animate"] == str(page)
    assert "const frames = [" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["certify", "three_points"]])
def test_a_full_disk_is_one_line(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *command], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: standard output: cannot be written: No space left on device\n"


@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["certify", "three_points", "--json"]])
def test_a_reader_that_leaves_is_no_error(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, *command], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_generator_without_its_arguments_shows_how_to_give_them() -> None:
    refused(run("simulate", "orthonormal"), "needs size, as in orthonormal:size=8")
    refused(run("simulate", "sphere:8"), "needs dimension, as in sphere:dimension=3")
