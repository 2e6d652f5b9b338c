from __future__ import annotations

import pytest

from shallowflow import data
from shallowflow.dynamics.choice import ENGINES, expected_seconds
from shallowflow.dynamics.clock.problem import Task
from shallowflow.models import SquareLoss, initialize


def task(width: int, steps: int, size: int = 50, dimension: int = 5) -> Task:
    dataset = data.GENERATORS["sphere"](size, dimension, seed=0)
    return Task(initialize.balanced(width, dimension, seed=0), dataset, SquareLoss(), steps=steps)


def test_steps_count_in_proportion_and_the_cheapest_engine_is_meant() -> None:
    few, many = (expected_seconds(task(100, steps)) for steps in (10**6, 10**8))
    assert many == pytest.approx(100 * few, rel=0.01)
    one = task(100, 10**6)
    rows = {row.name: row for row in ENGINES if row.verb == "gradient_descent"}
    assert few <= min(rows[name].cost(one) for name in ("dense", "lanes", "fused", "patterns"))


def test_few_inputs_of_many_dimensions_are_taken_in_their_span() -> None:
    few = task(500, 10**6, size=5, dimension=1000)
    rows = [row for row in ENGINES if row.verb == "gradient_descent" and row.fits(few)]
    assert expected_seconds(few) < 0.1 * min(row.cost(few) for row in rows)
