from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from shallowflow.errors import InvalidInputError
from shallowflow.studies import Store, Study, run
from tests.studies import tasks
from tests.studies.tasks import draw, note


def test_a_grid_is_every_combination_and_points_are_themselves() -> None:
    study = Study("s", draw, {"size": [2, 3], "rate": (0.1, 0.2)}, repeats=2)
    assert [dict(p) for p in study.points] == [
        {"size": size, "rate": rate} for size in (2, 3) for rate in (0.1, 0.2)
    ]
    assert [(run.parameters["size"], run.repeat) for run in study.runs[:3]] == [(2, 0), (2, 1), (2, 0)]
    assert Study("s", draw, [{"size": 2}, {"size": 2}, {"size": 3}]).points == ({"size": 2}, {"size": 3})


def test_what_the_task_sees_is_plain_whatever_was_given() -> None:
    (point,) = Study(
        "s", draw, [{"a": np.float64(0.5), "b": np.arange(2), "c": [1, (2,)], "d": {"e": None}}]
    ).points
    assert point == {"a": 0.5, "b": (0, 1), "c": (1, (2,)), "d": {"e": None}}
    assert type(point["a"]) is float
    assert type(point["b"]) is tuple


def test_seed_and_identity_are_the_documented_functions_of_the_run() -> None:
    run = Study("s", draw, [{"size": 3, "rate": 0.5}], repeats=2, root_seed=11).runs[1]
    key = '["tests.studies.tasks:draw",{"rate":0.5,"size":3},1'
    words = np.frombuffer(hashlib.sha256(f"{key}]".encode()).digest()[:16], dtype="<u4")
    expected = np.random.SeedSequence(11, spawn_key=tuple(words.tolist()))
    assert run.seed.generate_state(4).tolist() == expected.generate_state(4).tolist()
    text = f"{key},11,{json.dumps(run.code)}]"
    assert run.identity == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_seeds_depend_on_the_run_and_not_on_its_place() -> None:
    forwards = Study("one", draw, {"size": [1, 2, 3]}, repeats=2).runs
    backwards = Study("two", draw, {"size": [4, 3, 2, 1]}, repeats=3).runs
    states = {run.identity: run.seed.generate_state(2).tolist() for run in backwards}
    assert all(states[run.identity] == run.seed.generate_state(2).tolist() for run in forwards)
    assert len({tuple(state) for state in states.values()}) == len(backwards)


@pytest.mark.parametrize(
    "changed",
    [
        {"task": note},
        {"grid": [{"size": 4}]},
        {"grid": [{"size": 3.0}]},
        {"grid": [{"size": True}]},
        {"root_seed": 1},
        {"subject": Study},
    ],
)
def test_whatever_determines_the_result_changes_the_identity(changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "s", "task": draw, "grid": [{"size": 3}]}
    assert Study(**{**given, **changed}).runs[0].identity != Study(**given).runs[0].identity
    assert Study(**{**given, "name": "other"}).runs[0].identity == Study(**given).runs[0].identity


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": " "}, "name: must be a text that is not empty, got ' '"),
        (
            {"task": lambda parameters, seed: {}},
            "task: must be a function at the top of a module, got <function",
        ),
        ({"task": "draw"}, "task: must be a function at the top of a module, got 'draw'"),
        ({"grid": {}, "repeats": 0}, "repeats: must be >= 1, got 0"),
        ({"grid": []}, "grid: must be parameters"),
        ({"grid": {"size": 3}}, "grid: size must have a sequence of values, got 3"),
        ({"grid": {"size": "ab"}}, "grid: size must have a sequence of values, got 'ab'"),
        ({"grid": [{"size": object}]}, "grid: size: must be a number, a text, None, or a sequence"),
        ({"grid": [{1: 2}]}, "grid: names must be texts"),
        ({"grid": [3]}, "grid: must be parameters"),
        ({"grid": None}, "grid: must be {name: values} or a sequence of {name: value}, got None"),
        ({"grid": 3}, "grid: must be {name: values} or a sequence of {name: value}, got 3"),
        ({"root_seed": -1}, "root_seed: must be >= 0, got -1"),
        ({"root_seed": 0.5}, "root_seed: must be an integer, got 0.5"),
    ],
)
def test_a_study_that_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Study(**{"name": "s", "task": draw, "grid": [{"size": 3}], **changed})
    assert str(refusal.value).startswith(message)


def test_a_study_without_parameters_has_one_point() -> None:
    assert [dict(run.parameters) for run in Study("s", tasks.draw, {}, repeats=2).runs] == [{}, {}]


def test_only_a_study_runs_and_only_a_path_is_a_store() -> None:
    with pytest.raises(InvalidInputError, match="study: must be a Study, got 'a'"):
        run("a")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="directory: must be the path of a file, got NoneType"):
        Store(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="store: must be a Store, got 'a'"):
        run(Study("s", draw, [{"size": 3}]), store="a")  # type: ignore[arg-type]
