import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shallowflow.errors import InvalidInputError
from shallowflow.experiments.experiment import Claim
from shallowflow.experiments.figure import Animation, Panel, Series
from shallowflow.reporting import report
from shallowflow.reporting.report import STORIES, parameters_text, report_page, write_report
from shallowflow.reporting.summary import versions
from tests.reporting.samples import HOSTILE, claim, figure, panel, reproduction

VOID = {"meta", "img", "br"}
WORDS = ("printed", "authors")


class Page(HTMLParser):
    """Reads a page, insists on closed tags, and gathers tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text += data


def one_picture(*_: Any) -> bytes:
    return b"<svg xmlns='http://www.w3.org/2000/svg'/>"


def test_a_page_is_well_formed_and_loads_nothing() -> None:
    page = report_page([reproduction(), reproduction("early_alignment/fig2")])
    read = Page(page)
    for tag, attributes in read.tags:
        assert tag not in ("script", "link", "iframe", "object")
        for name in ("src", "href", "srcset", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import|https?:", page)


def test_pictures_are_inside() -> None:
    (image,) = (a for tag, a in Page(report_page([reproduction()])).tags if tag == "img")
    kind, content = image["src"].split(",", 1)
    assert kind == "data:image/svg+xml;base64"
    assert ElementTree.fromstring(base64.b64decode(content)).tag.endswith("svg")
    assert image["alt"] == "A figure"


def test_links_lead_to_the_experiments() -> None:
    tags = Page(
        report_page([reproduction("plateau/fig 9&<"), reproduction("plateau/fig1")], picture=one_picture)
    ).tags
    targets = [a["href"].removeprefix("#") for tag, a in tags if tag == "a"]
    assert len(targets) == 3
    assert targets == [a["id"] for tag, a in tags if tag in ("section", "article")]


def test_hostile_texts_stay_texts() -> None:
    hostile = reproduction(
        HOSTILE,
        title=HOSTILE,
        source=HOSTILE,
        scale=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        figures=(
            figure(panel(title=HOSTILE), name=HOSTILE, title=HOSTILE, caption=HOSTILE, notes=(HOSTILE,)),
        ),
        claims=(
            claim(False, HOSTILE),
            Claim(HOSTILE, HOSTILE, HOSTILE, True, HOSTILE, HOSTILE, ours=True, setting=HOSTILE),
        ),
    )
    read = Page(report_page([hostile], title=HOSTILE))
    assert "script" not in [tag for tag, _ in read.tags]
    known = {"lang", "charset", "name", "content", "class", "aria-label", "href", "id", "alt", "src", "style"}
    assert {name for _, attributes in read.tags for name in attributes} <= known
    # title twice (tab, heading), name, title twice (contents, heading), source, scale, parameter twice,
    # caption, note, reason, and the six texts of the second claim
    assert read.text.count(HOSTILE) == 18


def test_counts_and_verdicts_are_words() -> None:
    read = Page(
        report_page(
            [
                reproduction("plateau/fig1", claims=(claim(), claim(False, "too few neurons"))),
                reproduction("incremental/fig1", claims=(claim(),)),
                reproduction("incremental/fig2", claims=()),
            ],
            picture=one_picture,
        )
    )
    assert "2 of 3 claims hold, 1 fails" in read.text
    assert "✓ 1 ✗ 1 1 of 2 claims hold, 1 fails." in read.text.replace("\u2002", " ")
    assert read.text.count("✓ holds") == 2
    assert read.text.count("✗ fails") == 1
    assert "too few neurons" in read.text
    assert "makes no claims" in read.text


def test_what_fails_or_is_open_is_seen_and_what_holds_is_folded() -> None:
    claims = (claim(), Claim("it ends", "", "no", False), Claim("it is so", "", "?", None, "too few runs"))
    page = report_page([reproduction(claims=claims)], picture=one_picture)
    shown = re.sub("<details>.*?</details>", "", page, flags=re.DOTALL)
    for expected in ("it ends", "✗ fails", "it is so", "? open", "too few runs"):
        assert expected in shown
    assert "the loss stays positive" in page
    assert "the loss stays positive" not in shown
    assert "<summary>1 claim holds</summary>" in page


def test_settings_stand_side_by_side() -> None:
    both = [Claim("it ends", "soon", f"in {word}", word == "authors", setting=word) for word in WORDS]
    parameters = {"steps": {"printed": 18_000, "authors": 5}, "width": 20}
    page = report_page([reproduction(claims=tuple(both), parameters=parameters)], picture=one_picture)
    assert page.count("it ends") == 1
    assert page.count("soon") == 1
    sides = re.findall(r'<div class="side (.*?)-side">\n<p><strong>(.*?)</strong>', page)
    assert sides == [("no", "printed"), ("yes", "authors")]
    assert "<td>steps</td><td>18,000</td><td>5</td>" in page
    assert "“Printed” settings are those" in page
    assert "“Printed” settings are those" not in report_page([reproduction()], picture=one_picture)


def test_ours_stand_apart_from_the_papers_claims() -> None:
    ours = Claim("one more", "", "1", False, ours=True)
    page = report_page([reproduction(claims=(ours, claim()))], picture=one_picture)
    assert page.index("1 claim holds") < page.index("Asked by us") < page.index("one more")
    assert "1 of 1 claims hold; of ours 0 of 1 claims hold, 1 fails" in page


def test_a_paper_has_a_story_and_only_the_letters_that_occur() -> None:
    told = reproduction("two_timescale/a", claims=(Claim("small ε", "", "", True),))
    page = report_page([told, reproduction("another/b")], picture=one_picture)
    assert "drift to the jumps" in page
    assert "<dt>ε</dt>" in page
    assert "<dt>η</dt>" not in page
    for story in STORIES.values():
        assert len(re.findall(r"[.:] [A-Z]", story.sentences)) == 1
        assert len({letter for letter, _ in story.letters}) == len(story.letters)


def test_animations_are_inside(tmp_path: Path) -> None:
    frames = tuple(small(title=f"{k}") for k in range(3))
    told = reproduction(
        figures=(small(),), animations=(Animation("film", "A film", frames, ("a", "b", "c")),)
    )
    page = write_report([told], tmp_path)
    gif = (tmp_path / "animations" / "plateau-film.gif").read_bytes()
    assert f"data:image/gif;base64,{base64.b64encode(gif).decode()}" in page.read_text()
    assert 'href="animations/plateau-film.html"' in page.read_text()


def test_progress_is_shown_until_the_page_is_written(tmp_path: Path) -> None:
    seen = list[tuple[float, str]]()
    frames = tuple(small() for _ in range(12))
    told = reproduction(figures=(small(),), animations=(Animation("film", "A film", frames, ("t",) * 12),))
    write_report([told], tmp_path, lambda done, doing: seen.append((done, doing)))
    fractions = [done for done, _ in seen]
    assert fractions == sorted(fractions)
    assert seen[0] == (0.0, "figure plateau-fig")
    assert seen[1][1] == "animation plateau-film"
    assert seen[-1] == (1.0, "the page")


def test_papers_come_in_their_usual_order() -> None:
    names = ["plateau/a", "another/b", "two_timescale/c", "plateau/d"]
    page = report_page([reproduction(name) for name in names], picture=one_picture)
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["Two timescales", "Plateaus", "Another"]
    assert re.findall(r"<h3>Title of (.*?)</h3>", page) == [
        "two_timescale/c",
        "plateau/a",
        "plateau/d",
        "another/b",
    ]


def test_parameters_time_and_versions_are_told() -> None:
    parameters = {"width": 200_000, "step": 2e-3, "times": (0.0, 6.0), "labels": "bounded", "bias": True}
    text = Page(report_page([reproduction(parameters=parameters, seconds=4000.0)], picture=one_picture)).text
    for expected in ("200,000", "0.002", "0, 6", "bounded", "True", "1 h 6 min", "numpy", "shallowflow"):
        assert expected in text


@pytest.mark.parametrize("count", [0, 1])
def test_small_reports(count: int) -> None:
    text = Page(report_page([reproduction()] * count, picture=one_picture)).text
    assert ("Nothing was reproduced." in text) == (count == 0)
    assert f"{count} of {count} claims hold" in text


def test_an_experiment_that_failed_is_told_with_its_error() -> None:
    broken = reproduction(figures=(), claims=(), error="ValueError: <b>no</b>\n  File x\n    y < z")
    page = report_page([broken])
    assert "not run to its end</span>: ValueError: &lt;b&gt;no&lt;/b&gt;</p>" in page
    assert "<pre>  File x\n    y &lt; z</pre>" in page
    assert "✗ error" in page
    assert not broken.holds


def test_seeds_and_the_versions_of_an_earlier_result_are_told() -> None:
    older = reproduction(
        parameters={"seed": 7, "width": 3}, versions={"numpy": "0.9", "python": versions()["python"]}
    )
    page = report_page([older])
    assert "1.2 s · seed 7 · computed with numpy 0.9</p>" in page
    assert "computed with" not in report_page([reproduction(versions=versions())])


def test_parameters_are_written_for_people() -> None:
    found = dict(
        parameters_text({"seed": 1000, "steps": {"printed": 18_000, "authors": 5}, "seeds": [1000, 2]})
    )
    assert found == {"seed": "1000", "steps": "printed: 18,000; authors: 5", "seeds": "1000, 2"}


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
    assert read["claims"] == {"total": 1, "hold": 0, "fail": 1, "open": 0}
    (told,) = read["reproductions"]
    assert told["parameters"] == {"width": 3, "rate": None, "shape": [1, 2], "how": "<built-in function len>"}
    assert told["claims"] == [
        {
            "statement": "the loss stays positive",
            "published": "loss > 0",
            "measured": "loss 0.0875",
            "holds": False,
            "reason": "why",
            "fails_if": "",
            "ours": False,
            "setting": "",
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
