"""Seeded runs of every verb: what version 0.1 computed, up to rounding; engines that go, go with a word."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from tests.contract import results
from tests.contract.cases import Case
from tests.contract.described import FOLDER, read
from tests.contract.flow_cases import CASES

THEN: dict[str, Any] = read("runs.json")

RETIRED: dict[tuple[str, str, str], tuple[str, bool]] = {
    ("gradient_descent", "engine", "sliding"): ("cones", False),
    ("gradient_descent", "engine", "bucketed"): ("patterns", True),
    ("gradient_descent", "engine", "gram"): ("fused", True),
    ("active_neuron_least_squares", "method", "chain"): ("windowed", True),
    ("active_neuron_least_squares", "method", "reference"): ("windowed", True),
}
"""(verb, option, value) that this version no longer takes → what to write instead, and whether it computes
the same up to rounding."""

WALLS = ("gradient_flow", "engine", "dense")
"""Of a ReLU network: "walls" replaces it. Both follow the same flow, each to its own tolerance."""
FLOW_TOLERANCE = 1e-6
MOVED = {"active_neuron_least_squares/few_knots": 1e-8}
"""Runs that changed on purpose, and by how much at most: ANLS's margin goes with the units of x now."""
FEWEST = 10
CHOOSERS = ("engine", "method")


def retired(case: Case) -> tuple[str, str, str] | None:
    """Return the entry of `RETIRED` that a case asks for."""
    asked = [(case.verb, option, str(case.options.get(option))) for option in CHOOSERS]
    return next((entry for entry in asked if entry in RETIRED), None)


def replaced(case: Case) -> tuple[Case, bool]:
    """Return the case as it is asked for today, and whether it computes the same."""
    entry = retired(case)
    if entry is None:
        return case, True
    value, same = RETIRED[entry]
    return replace(case, options={**case.options, entry[1]: value}), same


def by_walls(case: Case) -> bool:
    """Whether a case asks for the plain flow of a ReLU network, which is gone."""
    dense = (case.verb, "engine", case.options.get("engine")) == WALLS
    return dense and isinstance(case.start, sf.ReLUNetwork)


def by_name(case: Case) -> bool:
    """Whether a case asks for an engine by its name, and gets it."""
    return any(case.options.get(option, "auto") != "auto" for option in CHOOSERS) and retired(case) is None


@pytest.fixture(scope="module")
def numbers() -> results.Values:
    with np.load(FOLDER / "runs.npz", allow_pickle=False) as file:
        return dict(file)


def assert_same(case: Case, found: results.Result, numbers: results.Values) -> None:
    """Compare every array of a run with what is written down of it, each by its own size."""
    start = 0
    for name, shape in THEN[case.id]["shapes"].items():
        expected = numbers[case.id][start : start + math.prod(shape)].reshape(shape)
        start += expected.size
        assert found.values[name].shape == expected.shape, name
        apart = results.difference(found.values[name], expected)
        bound = MOVED.get(case.id, results.bound(case, THEN[case.id]["condition"], name))
        assert apart <= bound, (name, apart)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_run_gives_what_it_gave(case: Case, numbers: results.Values) -> None:
    if by_walls(case):
        pytest.skip(f"{case.id}: see the test of its replacement")
    now, same = replaced(case)
    if not same:
        pytest.skip(f"{case.id}: its replacement computes something else")
    found, then = results.result(now, results.run(now)), THEN[case.id]
    for word in ("status", "events", "listed"):
        assert found.words[word] == then[word], word
    assert_same(case, found, numbers)
    if by_name(case):
        assert found.words["engine"] == then["engine"]
        assert set(then["statistics"]) <= set(found.words["statistics"])


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.verb != "saddle_to_saddle"], ids=lambda case: case.id
)
def test_progress_rises_to_one_and_changes_nothing(case: Case, numbers: results.Values) -> None:
    now, same = replaced(case)
    if by_walls(case):
        now, same = replace(case, options={**case.options, "engine": "walls"}), False
    seen: list[float] = []
    run = results.run(now, seen.append)
    assert seen == sorted(seen)
    assert all(0.0 <= share <= 1.0 for share in seen)
    if run.outcome.status == "completed":
        assert seen[-1] == 1.0
    if same:
        assert_same(case, results.result(now, run), numbers)


@pytest.mark.parametrize("case", [case for case in CASES if by_walls(case)], ids=lambda case: case.id)
def test_the_flow_by_walls_is_the_plain_flow_that_it_replaces(case: Case, numbers: results.Values) -> None:
    with pytest.raises(sf.InvalidInputError, match="walls"):
        results.run(case)
    run = results.run(replace(case, options={**case.options, "engine": "walls"}))
    assert run.outcome.status == THEN[case.id]["status"]
    start, then = 0, dict[str, Any]()
    for name, shape in THEN[case.id]["shapes"].items():
        then[name] = numbers[case.id][start : start + math.prod(shape)].reshape(shape)
        start += then[name].size
    loss, data = case.options.get("loss") or sf.SquareLoss(), case.problem
    losses = [loss.value(run(t)(data.inputs), data.targets) for t in then["times"].tolist()]
    np.testing.assert_allclose(losses, then["losses"], rtol=FLOW_TOLERANCE, atol=0)


def test_every_verb_has_its_runs_and_every_run_its_numbers() -> None:
    counts: dict[str, int] = {}
    for case in CASES:
        counts[case.verb] = counts.get(case.verb, 0) + 1
    assert len(counts) == 9
    assert min(counts.values()) >= FEWEST
    assert {case.id for case in CASES} == set(THEN)


def test_events_beyond_the_limit_are_counted_and_not_listed() -> None:
    case = next(case for case in CASES if case.id == "gradient_flow/few_events")
    run = results.run(case)
    assert len(run.events) == case.options["record"].max_events < run.statistics["events"]


@pytest.mark.parametrize("entry", RETIRED, ids=str)
def test_what_is_retired_is_refused_by_naming_its_replacement(entry: tuple[str, str, str]) -> None:
    replacement, _ = RETIRED[entry]
    asking = [case for case in CASES if retired(case) == entry]
    assert asking
    for case in asking:
        with pytest.raises(sf.InvalidInputError, match=replacement):
            results.run(case)
