"""The inventories of the papers: every page accounts for every item, and what it names exists.

`docs/papers/<paper>.md` ends with the section "Inventory", a table of what the paper defines, proves, draws
and states: the item, its statement, where it is in the code, and what verifies it.
"""

from __future__ import annotations

import ast
import dataclasses
import pkgutil
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from shallowflow.certificates import CERTIFICATES
from shallowflow.experiments import EXPERIMENTS, PAPERS

ROOT = Path(__file__).parents[1]
ITEMS = {"two_timescale": 54, "early_alignment": 48, "incremental": 41, "weak_interaction": 47, "plateau": 43}
"""What there is to account for in each paper."""
COLUMNS = "| item | statement | where | verified by |"
NOTHING_TO_COMPUTE = "no computable content: "
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*\Z")


class Row(NamedTuple):
    """An item of a paper."""

    item: str
    statement: str
    where: str
    verified_by: str


def inventory(page: str) -> list[Row] | None:
    """Return the rows of a page's last section, None if that is not an inventory."""
    heading, _, section = page.rpartition("\n## ")[2].partition("\n")
    if heading.strip() != "Inventory":
        return None
    lines = [line.strip() for line in section.splitlines() if line.lstrip().startswith("|")]
    assert lines[0] == COLUMNS, f"the table must be headed {COLUMNS}, got {lines[0]}"
    return [Row(*cells(line)) for line in lines[2:]]


def cells(line: str) -> list[str]:
    """Return the cells of a row; \\| is a stroke inside a cell."""
    found = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    assert len(found) == len(Row._fields), f"a row must have {len(Row._fields)} cells, got {line}"
    return found


def problems(row: Row) -> list[str]:
    """Return what is wrong with a row: a name that does not exist, a cell that says nothing."""
    if row.where.startswith(NOTHING_TO_COMPUTE):
        return [] if len(row.where) > len(NOTHING_TO_COMPUTE) else ["does not say why"]
    named = [word for word in CODE.findall(row.where) if NAME.match(word) or "/" in word]
    wrong = [f"{word} does not exist" for word in named if not is_there(word)]
    wrong += [] if named else ["names no place in the code"]
    tests = [word for word in CODE.findall(row.verified_by) if word.startswith("tests/")]
    wrong += [f"{word} does not exist" for word in tests if not is_test(word)]
    return wrong + ([] if row.verified_by else ["is not verified"])


def is_there(word: str) -> bool:
    """Return whether a name in the package, an experiment or a certificate exists."""
    if "/" in word:
        return word in EXPERIMENTS or word in CERTIFICATES
    parent, _, last = f"shallowflow.{word}".rpartition(".")
    try:
        owner = pkgutil.resolve_name(parent)
        fields = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
        if last not in [field.name for field in fields]:
            pkgutil.resolve_name(f"{parent}.{last}")
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def is_test(word: str) -> bool:
    """Return whether tests/…/test_x.py, or tests/…/test_x.py::test_y, is there."""
    file, _, function = word.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return not function or function in [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]


def test_the_papers_have_233_items() -> None:
    assert tuple(ITEMS) == PAPERS
    assert sum(ITEMS.values()) == 233


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_of_a_paper_is_accounted_for(paper: str) -> None:
    rows = inventory((ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8"))
    assert rows is not None
    assert len(rows) >= ITEMS[paper]
    assert len({row.item for row in rows}) == len(rows)
    assert {row.item: problems(row) for row in rows if problems(row)} == {}


PAGE = "# Paper\n\n## Inventory\n\n| item | statement | where | verified by |\n|---|---|---|---|\n{}\n"


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("| Thm 1 | it | `landscape.separation`, `plateau/fig1` | `tests/test_cli.py` |", []),
        ("| Def. 1 | it | `landscape.StepClass.pieces` | by hand |", []),
        ("| §1 | it | no computable content: history | |", []),
        ("| (1) | \\|a\\| ≤ 1 | `landscape.fly` | by hand |", ["landscape.fly does not exist"]),
        ("| (2) | it | `plateau/fig99` | by hand |", ["plateau/fig99 does not exist"]),
        ("| (3) | it | somewhere | by hand |", ["names no place in the code"]),
        ("| (4) | it | `certify` | |", ["is not verified"]),
        ("| (5) | it | `certify` | `tests/test_x.py` |", ["tests/test_x.py does not exist"]),
        (
            "| (6) | it | `certify` | `tests/test_cli.py::test_x` |",
            ["tests/test_cli.py::test_x does not exist"],
        ),
    ],
)
def test_what_a_row_names_must_exist(row: str, wrong: list[str]) -> None:
    (found,) = inventory(PAGE.format(row)) or []
    assert problems(found) == wrong


def test_an_inventory_is_the_last_section() -> None:
    assert inventory("# Paper\n\n## Inventory\n\n## More\n") is None
    with pytest.raises(AssertionError, match="must be headed"):
        inventory("# Paper\n\n## Inventory\n\n| item | where |\n")
    with pytest.raises(AssertionError, match="must have 4 cells"):
        inventory(PAGE.format("| one | two |"))
