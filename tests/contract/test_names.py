"""The public names of version 0.1, their parameters and attributes: more may come, none may go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract import described
from tests.contract.described import Parameter

THEN: dict[str, Any] = described.read("names.json")
POSITIONAL = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
VARIABLE = ("VAR_POSITIONAL", "VAR_KEYWORD")


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return described.names()


def assert_kept(present: list[Parameter] | None, past: list[Parameter] | None) -> None:
    """Assert that every call that was valid is valid and means the same."""
    if past is None:
        return
    assert present is not None
    places = [one[0] for one in present if one[1] in POSITIONAL]
    known = [one[0] for one in past if one[1] in POSITIONAL]
    assert places[: len(known)] == known
    for parameter in past:
        assert parameter in present
    for name, kind, default in present:
        assert name in [one[0] for one in past] or default is not None or kind in VARIABLE, name


@pytest.mark.parametrize("module", THEN["modules"])
def test_every_public_name_is_still_there(module: str, now: dict[str, Any]) -> None:
    assert set(THEN["modules"][module]) <= set(now["modules"][module])


@pytest.mark.parametrize("table", THEN["tables"])
def test_every_key_of_the_public_tables_is_still_there(table: str, now: dict[str, Any]) -> None:
    assert set(THEN["tables"][table]) <= set(now["tables"][table])


REMADE = {"shallowflow.SaddleToSaddle"}
"""Results that only verbs make, whose constructor is no longer theirs: it is now a `Trajectory`."""
CHANGED = {
    f"shallowflow.landscape.{name}": ("loss", "SquareLoss(reduction='sum')", "None")
    for name in ("plateau_level", "rate_bounds", "exit_condition")
}
"""Defaults that mean something else than in version 0.1: levels and rates are those of ½·mean."""
CHANGED |= {
    f"shallowflow.{name}": ("stiff", "False", "None") for name in ("population_flow", "two_timescale_limit")
}
"""None: the flow is stiff or not by itself."""


@pytest.mark.parametrize("function", THEN["functions"])
def test_every_function_takes_what_it_took(function: str, now: dict[str, Any]) -> None:
    past = THEN["functions"][function]
    if function in CHANGED:
        changed, then, default = CHANGED[function]
        assert [one[2] for one in past if one[0] == changed] == [then]
        past = [[name, kind, default if name == changed else old] for name, kind, old in past]
    assert_kept(now["functions"][function], past)


NEW_DEFAULTS = {
    "shallowflow.estimators.ANLSRegressor": (("n_knots", "10", "'auto'"), ("selection", "'cv'", "'bic'"))
}
"""As many knots as the data call for, by a criterion that correlated noise does not deceive."""


@pytest.mark.parametrize("name", THEN["classes"])
def test_every_class_has_what_it_had(name: str, now: dict[str, Any]) -> None:
    present, past = now["classes"][name], THEN["classes"][name]
    constructor = past["constructor"]
    for parameter, then, default in NEW_DEFAULTS.get(name, ()):
        assert [one[2] for one in constructor if one[0] == parameter] == [then]
        constructor = [[one, kind, default if one == parameter else old] for one, kind, old in constructor]
    if name not in REMADE:
        assert_kept(present["constructor"], constructor)
    assert present["errors"] == past["errors"]
    reachable = {*present["fields"], *present["attributes"]}
    assert {*past["fields"], *past["attributes"]} <= reachable
    for method, parameters in past["methods"].items():
        assert_kept(present["methods"][method], parameters)


@pytest.mark.parametrize("estimator", THEN["fitted"])
def test_fitting_sets_what_it_set(estimator: str, now: dict[str, Any]) -> None:
    assert set(THEN["fitted"][estimator]) <= set(now["fitted"][estimator])


@pytest.mark.parametrize(
    "present",
    [
        [["b", "KEYWORD_ONLY", "1"]],
        [["b", "KEYWORD_ONLY", "1"], ["a", "KEYWORD_ONLY", None]],
        [
            ["c", "POSITIONAL_OR_KEYWORD", "0"],
            ["a", "POSITIONAL_OR_KEYWORD", None],
            ["b", "KEYWORD_ONLY", "1"],
        ],
        [["a", "POSITIONAL_OR_KEYWORD", None], ["b", "KEYWORD_ONLY", "2"]],
        [["a", "POSITIONAL_OR_KEYWORD", None], ["b", "KEYWORD_ONLY", "1"], ["c", "KEYWORD_ONLY", None]],
    ],
    ids=["removed", "no longer by position", "moved", "another default", "a new one without default"],
)
def test_the_comparison_sees_what_breaks_a_call(present: list[Parameter]) -> None:
    past: list[Parameter] = [["a", "POSITIONAL_OR_KEYWORD", None], ["b", "KEYWORD_ONLY", "1"]]
    assert_kept([*past, ["c", "KEYWORD_ONLY", "0"]], past)
    with pytest.raises(AssertionError):
        assert_kept(present, past)
