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


def test_help_examples_are_valid(data: str) -> None:
    lines = [line.split() for line in run("--help").stdout.splitlines()]
    examples = [words[2:] for words in lines if words[:2] == ["shallowflow", "fit"]]
    assert len(examples) == 3
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
        (["three.csv"], ["DATA", "two columns", "3"]),
        (["text.csv"], ["text.csv", "line 2", "'x'"]),
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
    words = f"{told['knots']} of 50 knots asked for: no more fit 20 distinct points"
    assert words in run(data, "--knots", "50", "--left", left).stdout
    assert "asked for" not in run(data, "--knots", "2", "--left", left).stdout
