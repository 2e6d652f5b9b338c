from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress, Task
from rich.table import Table

from shallowflow.data import Dataset
from shallowflow.estimators import Pieces
from shallowflow.experiments.experiment import Claim, Interval
from shallowflow.reporting.summary import fit_summary, write_pieces
from shallowflow.reporting.terminal import (
    LONGEST,
    TimeLeft,
    claims_table,
    costs_text,
    experiments_table,
    fit_text,
    generators_table,
    output,
    papers_table,
    pieces_table,
    progress_bar,
    run_text,
    runs_bar,
    runs_table,
    studies_table,
    tally_text,
)
from shallowflow.studies import Result, Tally
from shallowflow.studies.study import table
from tests.reporting.samples import claim, reproduction


def printed(table: Table) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_claims_show_what_was_published_and_what_came_out() -> None:
    text = printed(claims_table(reproduction(claims=(claim(), claim(False, "too few neurons")))))
    for expected in ("plateau/fig1", "loss > 0", "loss 0.0875", "✓ holds", "✗ fails", "(too few neurons)"):
        assert expected in text


def test_an_open_claim_says_why_and_what_would_make_it_fail() -> None:
    share = Claim.that("most starts", "0.9", Interval.of_share(8, 10), least=0.9, setting="printed")
    ours = Claim("one more", "", "1", True, ours=True)
    lines = printed(claims_table(reproduction(claims=(ours, share)))).splitlines()
    for expected in ("printed: most starts", "0.8 [0.444, 0.975]", "fails below 0.9", "? open"):
        assert any(expected in line for line in lines), expected
    # Ours come last.
    assert "ours: one more" in next(line for line in reversed(lines) if line.strip())


def test_papers_are_counted() -> None:
    done = [reproduction("plateau/a", claims=(claim(), claim(None), claim(False)))]
    done.append(reproduction("incremental/b", claims=(Claim("", "", "", True, ours=True),)))
    rows = [" ".join(line.split()) for line in printed(papers_table(done)).splitlines()]
    assert "incremental 0 0 0 0 1 1 0 0" in rows
    assert "plateau 3 1 1 1 0 0 0 0" in rows


def test_markup_in_texts_is_shown_as_it_stands() -> None:
    odd = Claim("[bold]x[/bold]", "[red]", "[/]", True, "[link=x]")
    text = printed(claims_table(reproduction(title="[italic]", claims=(odd,))))
    for expected in ("[bold]x[/bold]", "[red]", "[/]", "[link=x]", "[italic]"):
        assert expected in text
    row = {"name": "[bold]", "title": "[red]", "source": "[/]", "description": "[plateau] §5", "call": "[x]"}
    assert "[bold]" in printed(experiments_table([row]))
    assert "[plateau] §5" in printed(generators_table([row]))


def test_a_progress_bar_is_silent_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar("run") as show:
        show(0.5, "half way")
        show(None, "who knows")
        show(1.0, "")
    assert capfd.readouterr() == ("", "")


def test_a_progress_bar_shows_what_is_done_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar("run") as show:
        show(0.5, "half [way]")
    with progress_bar("run") as show:
        show(None, "who knows")
    text = stream.getvalue()
    assert "run: half [way]" in text
    assert "50%" in text
    assert "run: who knows" in text


def test_output_in_a_pipe_has_a_fixed_width() -> None:
    assert output().width == 100


def test_the_result_of_a_run_is_told_in_lines() -> None:
    result = {
        "outcome": {"status": "unstable", "message": "It shook.", "advice": "a smaller step."},
        "initial_loss": 0.5,
        "final_loss": None,
        "events": 12345,
        "time": 2.0,
        "seconds": 0.5,
        "save": "run.trajectory",
        "plot": None,
    }
    assert run_text(result).splitlines() == [
        "outcome     unstable: It shook.",
        "try         a smaller step.",
        "final loss  not finite (at the start 0.5)",
        "events      12,345",
        "time        2, computed in 0.50 s",
        "saved       run.trajectory",
    ]


@pytest.mark.parametrize(("left", "shown"), [(90_000.0, "> 1 day"), (3_700.0, "1:01:40")])
def test_the_time_left_is_capped(left: float, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "time_remaining", property(lambda task: left))
    progress = Progress(disable=True)
    progress.add_task("run", total=1.0)
    assert TimeLeft().render(progress.tasks[0]).plain == shown


def test_studies_are_listed_with_counts_and_time() -> None:
    row = {"name": "[bold]", "runs": 1200, "done": 3, "failed": 1, "cpu_seconds": 200.0, "last_start": None}
    text = printed(studies_table([row]))
    for expected in ("[bold]", "1,200", "3 min 20 s"):
        assert expected in text


def test_long_tables_of_runs_say_how_many_there_are() -> None:
    runs = [Result(f"{k:032d}", {"width": k}, 0, "done", {"loss": k / 3}) for k in range(LONGEST + 1)]
    text = printed(runs_table(table(runs)))
    for expected in ("width", "loss", f"{LONGEST} of {LONGEST + 1} runs", "0.333333"):
        assert expected in text
    assert "caption" not in printed(runs_table(table(runs[:2])))


def test_the_wall_time_is_at_least_that_of_the_longest() -> None:
    text = costs_text({"a": 100.0, "bbb": 20.0}, 4)
    assert text.splitlines() == [
        "a    about 1 min 40 s",
        "bbb  about 20 s",
        "together about 2 min 0 s of CPU time, about 1 min 40 s with 4 at a time",
    ]
    assert costs_text({"a": 5.0}, None).splitlines()[-1] == "together about 5.0 s of CPU time"
    assert costs_text({"a": None}, 2) == "a  not measured"


def test_a_tally_in_words() -> None:
    assert tally_text(Tally(200, 50), 0.0) == "50 of 200 runs done"
    assert tally_text(Tally(200, 50, done=30, failed=2), 4.0) == "80 of 200 runs done, 2 failed, 8 per second"
    assert tally_text(Tally(200, 0, done=1), 10.0) == "1 of 200 runs done, 6 per minute"


def test_the_bar_is_silent_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with runs_bar("runs") as show:
        show(Tally(3, 1))
        show(Tally(3, 1, done=1, failed=1))
    assert capfd.readouterr() == ("", "")


ROOF = Pieces([1 / 3], [0.0, 1.0], [0.0, -1 / 3], [1.0, -1.0], low=0.0, high=1.0)
DATA = Dataset([[0.0], [1.0]], [1.0, -1 / 3], name="roof")


def test_the_summary_has_pieces_and_errors() -> None:
    found = fit_summary(ROOF, DATA, 1.23456)
    assert found["loss"] == pytest.approx(0.5)
    assert found["root_mean_square_error"] == pytest.approx(np.sqrt(0.5))
    assert found["largest_error"] == pytest.approx(1.0)
    assert found["pieces"][0] == {"piece": 1, "left": None, "right": 1 / 3, "slope": 1.0, "intercept": 0.0}
    assert found["seconds"] == 1.235
    json.dumps(found, allow_nan=False)
    heads = [line.split()[0] for line in fit_text({**found, "out": "p.csv", "plot": None}).splitlines()]
    assert heads == ["data", "knots", "loss", "errors", "time", "written"]


def test_the_table_is_for_people() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(pieces_table(ROOF))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert ["1", "-∞", "0.333333", "1", "0"] in rows


def test_files_have_all_digits(tmp_path: Path) -> None:
    write_pieces(ROOF, tmp_path / "pieces.csv")
    with (tmp_path / "pieces.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["right"]) for row in rows] == [1 / 3, np.inf]
    assert [float(row["intercept"]) for row in rows] == ROOF.intercepts.tolist()
    write_pieces(ROOF, tmp_path / "pieces.JSON")
    assert json.loads((tmp_path / "pieces.JSON").read_text())[1]["left"] == 1 / 3
