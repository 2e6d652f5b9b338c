from __future__ import annotations

import pytest

from shallowflow.reporting.tables import LONGEST, costs_text, runs_table, studies_table
from shallowflow.reporting.terminal import runs_bar, tally_text
from shallowflow.studies import Result, Tally
from shallowflow.studies.results import table
from tests.reporting.test_terminal import printed


def test_studies_are_told_with_counts_and_time() -> None:
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
