"""Many runs: the same numbers in one process and in several, in order, decided by the seed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.experiments.weak_interaction.sweep import run_all


def draw(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, float]:
    threads = float(os.environ.get("OMP_NUM_THREADS", "0"))
    return {"value": parameters["shift"] + float(np.random.default_rng(seed).random()), "threads": threads}


def test_processes_do_not_change_the_results() -> None:
    runs = [{"shift": 10.0 * k} for k in range(7)]
    seen: list[float] = []
    alone = run_all(draw, runs, 5, 1, seen.append)
    before = os.environ.get("OMP_NUM_THREADS")
    together = run_all(draw, runs, 5, 2)
    assert os.environ.get("OMP_NUM_THREADS") == before
    values = [result["value"] for result in alone]
    assert values == [result["value"] for result in together]
    assert [int(value // 10) for value in values] == list(range(7))
    assert all(result["threads"] == 1 for result in together)
    assert seen[-1] == 1.0
    assert len(seen) == 7
    assert values != [result["value"] for result in run_all(draw, runs, 6)]
