"""The documentation runs: every Python block of every page, and what a page says it prints."""

from __future__ import annotations

import io
import pkgutil
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import shallowflow as sf
from shallowflow.certificates import CERTIFICATES
from shallowflow.experiments import EXPERIMENTS, PAPERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)]

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n+^```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A Python block of a page, the line it starts at, and the output printed below it (None: not shown)."""

    code: str
    line: int
    output: str | None


def blocks_of(text: str) -> list[Block]:
    """Return the ```python blocks of a page, each with the ```text block that follows it directly."""
    return [
        Block(match["code"], text[: match.start("code")].count("\n"), match["output"])
        for match in BLOCK.finditer(text)
    ]


def run_page(text: str, name: str) -> None:
    """Run the blocks of a page in one namespace; compare what they print with the page where it says so."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(text):
        printed = io.StringIO()
        # Empty lines in front make a traceback name the line of the page.
        code = compile("\n" * block.line + block.code, name, "exec")
        with redirect_stdout(printed):
            exec(code, namespace)
        if block.output is not None:
            assert printed.getvalue() == block.output, f"{name}, line {block.line + 1}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_every_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))


def test_the_pages_with_code_are_found() -> None:
    with_code = {page.name for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))}
    assert {"README.md", "index.md", "models.md", "dynamics.md"} <= with_code


def test_a_failing_block_fails_its_page() -> None:
    with pytest.raises(ZeroDivisionError):
        run_page("Text.\n\n```python\nx = 1\n```\n\n```python\nx / 0\n```\n", "page.md")


def test_a_wrong_output_fails_its_page() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n{}\n```\n"
    run_page(page.format(2), "page.md")
    with pytest.raises(AssertionError, match=r"page\.md, line 2"):
        run_page(page.format(3), "page.md")


DIRECTIVE = re.compile(
    r"^\.\. auto(?:\w+):: (?P<name>\S+)\n(?: +:members:(?P<members>[^\n]*)\n)?", re.MULTILINE
)


def documented(reference: str) -> list[str]:
    """Return the full names on a reference page: those in its text, of its directives, of their members."""
    names = re.findall(r"`(shallowflow(?:\.\w+)+)`", reference)
    for found in DIRECTIVE.finditer(reference):
        members = (found["members"] or "").replace(",", " ").split()
        names += [found["name"], *(f"{found['name']}.{member}" for member in members)]
    return names


def exists(name: str) -> bool:
    """Return whether a full name can be imported."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_name_in_the_reference_exists() -> None:
    names = documented((DOCS / "api.md").read_text(encoding="utf-8"))
    assert {"shallowflow.ReLUNetwork", "shallowflow.ReLUNetwork.width", "shallowflow.certify"} <= set(names)
    assert [name for name in names if not exists(name)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    page = ".. autoclass:: shallowflow.Record\n   :members: every, never\n.. autofunction:: shallowflow.fly\n"
    missing = [name for name in documented(page) if not exists(name)]
    assert missing == ["shallowflow.Record.never", "shallowflow.fly"]


def test_every_certificate_is_in_the_reference() -> None:
    names = set(documented((DOCS / "api.md").read_text(encoding="utf-8")))
    functions = [f"{check.__module__}.{check.__name__}" for check in CERTIFICATES.values()]
    assert [name for name in functions if name not in names] == []


def test_every_public_name_is_in_the_reference() -> None:
    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    missing = [name for name in sf.__all__ if not re.search(rf"shallowflow\.{name}\b", reference)]
    assert missing == []


@pytest.mark.parametrize("paper", sorted({experiment.paper for experiment in EXPERIMENTS.values()}))
def test_every_paper_with_experiments_has_a_page(paper: str) -> None:
    page = (DOCS / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    missing = [
        name for name, experiment in EXPERIMENTS.items() if experiment.paper == paper and name not in page
    ]
    assert missing == []


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_is_listed_and_cited(paper: str) -> None:
    assert f"`{paper}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"`{paper}`" in (DOCS / "papers" / "index.md").read_text(encoding="utf-8")
    assert re.search(rf"^@\w+{{{paper},", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)


def test_pictures_shown_by_the_readme_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert pictures
    assert [name for name in pictures if not (ROOT / name).is_file()] == []
