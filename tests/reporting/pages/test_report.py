import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow.errors import InvalidInputError
from shallowflow.experiments.figure import Panel, Series
from shallowflow.reporting.pages import report
from shallowflow.reporting.pages.report import write_report
from tests.reporting.samples import claim, figure, reproduction


def small(**changes: Any) -> Any:
    return figure(Panel((Series([1, 2], [3, 4], "curve"),)), **changes)


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_page_figures_and_numbers_are_written(tmp_path: Path) -> None:
    page = write_report([reproduction(figures=(small(),))], tmp_path / "new" / "report")
    assert page == tmp_path / "new" / "report" / "report.html"
    assert files(page.parent) == {
        "report.html",
        "reproductions.json",
        "figures/plateau-fig.svg",
        "figures/plateau-fig.png",
    }
    assert (page.parent / "figures/plateau-fig.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (page.parent / "figures/plateau-fig.svg").read_bytes()


def test_the_numbers_are_those_of_the_reproduction(tmp_path: Path) -> None:
    curve = Panel((Series([1.0, np.nan, np.inf], [3.0, 4.0, -np.inf], "curve"),), x_label="t", y_label="loss")
    done = reproduction(
        figures=(figure(curve),),
        claims=(claim(False, "why"),),
        parameters={"width": np.int64(3), "rate": np.float64(np.nan), "shape": (1, 2), "how": len},
    )
    write_report([done], tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    read = json.loads((tmp_path / "reproductions.json").read_text(), parse_constant=refuse)
    assert read["claims"] == {"total": 1, "hold": 0}
    (told,) = read["reproductions"]
    assert told["parameters"] == {"width": 3, "rate": None, "shape": [1, 2], "how": "<built-in function len>"}
    assert told["claims"] == [
        {
            "statement": "the loss stays positive",
            "published": "loss > 0",
            "measured": "loss 0.0875",
            "holds": False,
            "reason": "why",
        }
    ]
    (series,) = told["figures"][0]["panels"][0]["series"]
    assert series == {"label": "curve", "points": 3, "x": [1.0, None, None], "y": [3.0, 4.0, None]}


def test_figure_names_are_unique_and_stay_inside_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "render_all", lambda *_: [b"<svg/>", b"png"])
    figures = tuple(small(name=name) for name in ("../../away", "../../away", "α/β", "x" * 300))
    write_report([reproduction(figures=figures)], tmp_path / "report")
    written = sorted((tmp_path / "report" / "figures").iterdir())
    assert len(written) == 8
    assert all(set(path.stem) <= set("abcdefghijklmnopqrstuvwxyzAZ0123456789-_") for path in written)
    assert files(tmp_path) == {f"report/{name}" for name in files(tmp_path / "report")}


def test_a_failure_leaves_the_old_page_and_no_scraps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report([], tmp_path)
    old = (tmp_path / "report.html").read_bytes()

    def fail(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "report_page", fail)
    with pytest.raises(KeyboardInterrupt):
        write_report([reproduction(figures=(small(),))], tmp_path)
    assert (tmp_path / "report.html").read_bytes() == old
    assert not [name for name in files(tmp_path) if name.endswith(".part")]


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"directory: must be a writable directory, got .*file"):
        write_report([], tmp_path / "file")
