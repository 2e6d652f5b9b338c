import io

import pytest
from rich.console import Console
from rich.progress import Progress, Task
from rich.table import Table

from shallowflow.experiments.experiment import Claim
from shallowflow.reporting.terminal import (
    TimeLeft,
    claims_table,
    experiments_table,
    generators_table,
    output,
    progress_bar,
    run_text,
)
from tests.reporting.samples import claim, reproduction


def printed(table: Table) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_claims_show_what_was_published_and_what_came_out() -> None:
    text = printed(claims_table(reproduction(claims=(claim(), claim(False, "too few neurons")))))
    for expected in ("plateau/fig1", "loss > 0", "loss 0.0875", "✓ yes", "✗ no", "(too few neurons)"):
        assert expected in text


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
