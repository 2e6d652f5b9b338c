"""Every claim of every experiment is made to hold and to fail by a test, and left open where it is sampled.

The claims are found in the source: calls of what returns a `Claim`, by their statements. The tests of this
folder that feed them are run again while every claim they make is written down.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import shallowflow.experiments as experiments
from shallowflow.experiments.experiment import PAPERS, Claim, Interval

ROOT = Path(experiments.__file__).parent
WHOLE = {
    "test_every_experiment_runs_small_and_its_claims_say_what_would_make_them_fail",
    "test_fig9_and_fig10_run_as_studies",
    "test_claims_end_as_they_should_and_say_what_would_make_them_fail",
    "test_a_small_run_gives_figures_and_claims",
    "test_fig3_covers_all_jumps_as_run_and_three_as_printed",
    "test_fig8_is_judged_by_its_repeats",
    "test_fig3_and_fig4_measure_powers",
    "test_trainings_do_not_depend_on_their_order",
    "test_the_best_fit_is_not_above_the_limit",
    "test_fig1_at_a_small_size_is_far_from_its_limit",
}
"""Tests that run whole experiments: too long to be run twice, and not what makes a claim fail."""
REFUTED_ONLY = {"Data of Assumption 3 with η < 1/6 satisfy Assumptions 4, 5 and 6 (Lemma 8)"}
"""Of all data sets: one refutes it, no number of them shows it."""


def statements() -> dict[str, str]:
    """Return the statements of all claims as patterns, and where they are made."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.glob("*/*.py"))}
    makers = {"Claim", "that"}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and "Claim" in ast.unparse(node.returns or ast.Constant("")):
                makers.add(node.name)
    found: dict[str, str] = {}
    for path, tree in trees.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for call, text in _made(function, makers):
                    found[text] = f"{path.relative_to(ROOT)}:{call.lineno}"
    return found


def _made(function: ast.FunctionDef, makers: set[str]) -> Iterator[tuple[ast.Call, str]]:
    assigned = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).split(".")[-1] in makers:
            first = node.args[0]
            named = assigned.get(first.id, first) if isinstance(first, ast.Name) else first
            yield from ((node, text) for text in _texts(named))


def _texts(node: ast.expr) -> list[str]:
    """Return what a statement can read, as patterns; short strings are other arguments."""
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _texts(node.func.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        return [re.escape(node.value)]
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else None for part in node.values)
        return ["".join(".*" if part is None else re.escape(str(part)) for part in parts)]
    return []


def feeders() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Return the tests of the papers' claims, with every set of their parameters."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if not any(paper in path.stem for paper in PAPERS):
            continue
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_") and name not in WHOLE and "slow" not in _marks(test):
                rows = [_rows(mark.args) for mark in getattr(test, "pytestmark", ()) if mark.args]
                cases = [
                    {key: value for row in chosen for key, value in row.items()} for chosen in product(*rows)
                ]
                if set(inspect.signature(test).parameters) == set(cases[0]):
                    yield from ((test, case) for case in cases)


def _marks(test: Any) -> set[str]:
    return {mark.name for mark in getattr(test, "pytestmark", ())}


def _rows(arguments: tuple[Any, ...]) -> list[dict[str, Any]]:
    names, values = arguments[:2]
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    return [dict(zip(names, value if len(names) > 1 else (value,), strict=True)) for value in values]


def test_none_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: defaultdict[str, set[bool | None]] = defaultdict(set)
    sampled: set[str] = set()
    plain = Claim.__post_init__

    def noted(claim: Claim) -> None:
        plain(claim)
        ends[claim.statement].add(claim.holds)

    def compared(statement: str, published: str, found: Interval, **options: Any) -> Claim:
        if found.low < found.high:
            sampled.add(statement)
        return that(statement, published, found, **options)

    that = Claim.that
    monkeypatch.setattr(Claim, "__post_init__", noted)
    monkeypatch.setattr(Claim, "that", staticmethod(compared))
    for test, case in feeders():
        test(**case)
    missed = list[str]()
    patterns = statements()
    for pattern, place in patterns.items():
        seen = [text for text in ends if re.fullmatch(pattern, text)]
        needed: set[bool | None] = {False} if REFUTED_ONLY & set(seen) else {True, False}
        needed |= {None} if sampled & set(seen) else set()
        if lacking := needed - {end for text in seen for end in ends[text]}:
            missed.append(f"{place}: {pattern}: never {lacking}")
    assert len(patterns) > 200
    assert not missed, "\n".join(missed)
