import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from shallowflow.cli import main
from shallowflow.commands import fit as command
from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.anls import LEFT, SELECTIONS
from shallowflow.estimators.constraints import DIRECTIONS, FLAT, SHAPES
from shallowflow.estimators.search import SEARCHES

X = np.linspace(0, 10, 101)
Y = np.interp(X, [0, 3, 10], [1, 4, 0.5])


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["fit", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Two pieces in a table, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{x!r},{y!r}\n" for x, y in zip(X.tolist(), Y.tolist(), strict=True))
    Path("my_data.csv").write_text("x,y\n" + rows)
    return "my_data.csv"


def test_the_options_are_those_of_the_estimator() -> None:
    assert tuple(SEARCHES) == command.SEARCHES
    assert command.LEFT == LEFT
    assert command.SELECTIONS == SELECTIONS
    assert tuple(word for word in DIRECTIONS if word) == command.MONOTONE
    assert tuple(word for word in SHAPES if word) == command.SHAPES
    assert tuple(word for word in FLAT if word) == command.FLAT


def test_help_examples_are_valid(data: str) -> None:
    lines = [line.split() for line in run("--help").stdout.splitlines()]
    examples = [words[2:] for words in lines if words[:2] == ["shallowflow", "fit"]]
    assert len(examples) == 5
    for words in examples:
        result = run(*words)
        assert (result.exit_code, result.stderr) == (0, "")
    assert Path("fit.png").is_file()
    assert Path("pieces.csv").is_file()


def test_the_pieces_are_printed(data: str) -> None:
    result = run(data)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    rows = [line.split() for line in lines]
    assert ["piece", "left", "right", "slope", "intercept"] in rows
    assert ["1", "-∞", "3", "1", "1"] in rows
    assert ["2", "3", "∞", "-0.5", "5.5"] in rows
    assert ["knots", "1"] in rows
    assert any(row[:1] == ["loss"] for row in rows)


def test_the_pieces_are_written_with_all_digits(data: str) -> None:
    model = ANLSRegressor(4).fit(X[:, None], Y)
    told = json.loads(run(data, "--knots", "4", "--out", "pieces.csv", "--json").stdout)
    with open("pieces.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [int(row["piece"]) for row in table] == list(range(1, model.n_knots_ + 2))
    for name, column in (("slope", model.slopes_), ("intercept", model.intercepts_)):
        assert [float(row[name]) for row in table] == column.tolist()
    assert [float(row["right"]) for row in table] == [*model.knots_, np.inf]
    assert float(table[0]["left"]) == -np.inf
    assert told["knots"] == model.n_knots_
    assert told["loss"] == pytest.approx(model.loss_history_[-1], abs=1e-20)
    assert told["data"] == {"name": "my_data", "size": 101}
    assert (told["out"], told["plot"]) == ("pieces.csv", None)
    run(data, "--knots", "4", "--out", "pieces.json")
    written = json.loads(Path("pieces.json").read_text())
    assert written == told["pieces"]
    assert written[0]["left"] is None
    assert written[-1]["right"] is None


def test_options_reach_the_estimator(data: str) -> None:
    options = ["--knots", "6", "--left", "zero", "--search", "anls", "--json"]
    told = json.loads(run(data, *options).stdout)
    model = ANLSRegressor(6, left="zero", search="anls").fit(X[:, None], Y)
    assert told["loss"] == pytest.approx(model.loss_history_[-1], rel=1e-9)
    assert told["pieces"][0]["slope"] == 0
    auto = json.loads(run(data, "--selection", "bic", "--json").stdout)
    assert auto["knots"] == 1


def test_a_plot_is_drawn(data: str) -> None:
    result = run(data, "--knots", "3", "--plot", "fit.svg")
    assert "plotted     fit.svg" in result.stdout
    assert b"<svg" in Path("fit.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.csv"], ["missing.csv", "No such file"]),
        (["three.csv"], ["three.csv", "3 columns", "--x"]),
        (["text.csv"], ["text.csv", "line 2", "'x'"]),
        (["my_data.csv", "--x", "dose"], ["no column 'dose'", "x, y"]),
        (["my_data.csv", "--interval", "2"], ["--interval", "(0, 1)"]),
        (["my_data.csv", "--steps", "--plot", "a.png"], ["--steps"]),
        (["my_data.csv", "--steps", "--monotone", "increasing"], ["--steps", "constraints"]),
        (["my_data.csv", "--through", "1;2"], ["--through", "numbers", "commas"]),
        (["my_data.csv", "--known-knots", "2,x"], ["--known-knots", "'x'"]),
        (["my_data.csv", "--known-knots", "12"], ["known_knots", "between the data"]),
        (["my_data.csv", "--shape", "convex", "--flat", "both"], ["contradict", "constant"]),
        (["my_data.csv", "--discontinuous", "--flat", "both"], ["continuous"]),
        (["my_data.csv", "--knots", "many"], ["--knots", "auto", "'many'"]),
        (["my_data.csv", "--knots", "-1"], ["--knots", ">= 0", "'-1'"]),
        (["my_data.csv", "--knots", "2.5"], ["--knots", "'2.5'"]),
        (["my_data.csv", "--left", "right"], ["--left", "'right'"]),
        (["my_data.csv", "--search", "best"], ["--search", "'best'"]),
        (["my_data.csv", "--out", "pieces.txt"], ["--out", "'.txt'"]),
        (["my_data.csv", "--out", "no/where.csv"], ["--out", "'no/where.csv'"]),
        (["my_data.csv", "--plot", "fit.pdf"], ["--plot", "'.pdf'"]),
        (["huge.csv"], ["X", "range"]),
        ([], ["DATA"]),
    ],
)
@pytest.mark.usefixtures("data")
def test_bad_requests_are_refused(arguments: list[str], words: list[str], tmp_path: Path) -> None:
    Path("three.csv").write_text("1,2,3\n2,3,4\n")
    Path("text.csv").write_text("x,y\n1,x\n")
    Path("huge.csv").write_text("-1e308,1\n1e308,2\n")
    before = sorted(tmp_path.iterdir())
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word in line
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("left", ["line", "zero"])
def test_fewer_knots_than_asked_for_are_explained(left: str, data: str) -> None:
    rng = np.random.default_rng(0)
    Path(data).write_text("".join(f"{i},{y}\n" for i, y in enumerate(rng.standard_normal(20).tolist())))
    told = json.loads(run(data, "--knots", "50", "--left", left, "--json").stdout)
    assert (told["knots_asked"], told["distinct_inputs"]) == (50, 20)
    assert told["knots"] == len(told["pieces"]) - 1 < 50
    words = f"{told['knots']} of 50 knots asked for: "
    assert words in run(data, "--knots", "50", "--left", left).stdout
    assert "asked for" not in run(data, "--knots", "2", "--left", left).stdout


def test_dates_names_and_holes_from_standard_input() -> None:
    days = [f"{np.datetime64('2024-01-01') + i};{abs(i - 40) + 0.1 * (i % 3):.1f}" for i in range(90)]
    days[7] = "2024-01-08;"
    table = "day;level\n" + "\n".join(days).replace(".", ",")
    result = CliRunner().invoke(
        main, ["fit", "-", "--missing", "drop", "--json", "--interval", "0.9"], input=table
    )
    told = json.loads(result.stdout)
    assert told["columns"] == {"x": "day", "y": "level", "dates": True}
    assert told["knot_places"][0].startswith("2024-02-")
    assert (told["dropped"], told["data"]["size"]) == (1, 89)
    assert told["schema"] == command.SCHEMA
    assert told["summary"]["level"] == 0.9
    knot = told["summary"]["knots"][0]
    assert knot["low"] < "2024-02-10" < knot["high"]


def test_the_path_and_steps_are_written(data: str) -> None:
    told = json.loads(run(data, "--path", "path.csv", "--json").stdout)
    with open("path.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["knots"]) for row in rows][:3] == [0, 1, 2]
    best = min(rows, key=lambda row: float(row["criterion"]))
    assert int(best["knots"]) == told["knots"] == 1
    Path("steps.csv").write_text("x,y\n" + "".join(f"{i},{1 + 2 * (i > 20)}\n" for i in range(50)))
    steps = json.loads(run("steps.csv", "--steps", "--out", "pieces.csv", "--json").stdout)
    assert steps["jumps"] == 1
    assert [piece["value"] for piece in steps["pieces"]] == [1.0, 3.0]
    assert "20.5" in Path("pieces.csv").read_text()
    assert "1 jumps" in run("steps.csv", "--steps").stdout


def test_constraints_and_jumps_reach_the_estimator(data: str) -> None:
    told = json.loads(
        run(data, "--known-knots", "5", "--through", "0,1", "--through", "10,0", "--json").stdout
    )
    assert 5.0 in told["knot_places"]
    first, last = told["pieces"][0], told["pieces"][-1]
    assert first["intercept"] == pytest.approx(1, abs=1e-9)
    assert last["intercept"] + 10 * last["slope"] == pytest.approx(0, abs=1e-9)
    rising = json.loads(run(data, "--monotone", "increasing", "--flat", "right", "--json").stdout)
    assert all(piece["slope"] >= 0 for piece in rising["pieces"])
    assert rising["pieces"][-1]["slope"] == 0
    Path("jump.csv").write_text("x,y\n" + "".join(f"{i},{0.1 * i + 2 * (i > 20)}\n" for i in range(50)))
    jump = json.loads(run("jump.csv", "--discontinuous", "--json", "--plot", "jump.png").stdout)
    assert jump["knot_places"] == [20.5]
    assert jump["jumps"] == pytest.approx([2.0])
    assert Path("jump.png").is_file()
    days = "".join(f"2024-01-{i:02d},{abs(i - 16)}\n" for i in range(1, 32))
    Path("days.csv").write_text("day,level\n" + days)
    dated = json.loads(
        run(
            "days.csv", "--known-knots", "2024-01-16", "--knots", "1", "--through", "2024-01-16,0", "--json"
        ).stdout
    )
    assert dated["knot_places"] == ["2024-01-16T00:00:00"]
    assert "no intervals" not in run("jump.csv", "--discontinuous", "--interval", "0.9").stderr
    assert "none are given" in run("jump.csv", "--discontinuous", "--interval", "0.9").stdout
