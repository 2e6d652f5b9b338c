"""A study on local processes: how much of the cores' time goes to the runs.

100 runs of about a second each, on 2 processes. The wall time is that of `studies.run`, call to return: it
includes starting the workers and writing every run to a store. It is compared with the ideal, the sum of the
runs' own wall times divided by the number of processes.

`python -m benchmarks.studies sleep` makes runs that mostly sleep: on a busy machine they show the overhead of
the study itself.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shallowflow.studies import Processes, Store, Study, run

RUNS, JOBS, BOUND = 100, 2, 1.25


def train(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, Any]:
    """Train by plain gradient descent for about a second."""
    import shallowflow as sf

    dataset = sf.data.GENERATORS["curve"]("sin_5pi", 300)
    network = sf.initialize.he_knots(60, seed=np.random.default_rng(seed))
    trajectory = sf.gradient_descent(network, dataset, step=1e-3, steps=parameters["steps"], engine="dense")
    return {"loss": trajectory.losses[-1], "losses": trajectory.losses}


def rest(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, Any]:
    """Sleep most of a second, then draw some numbers."""
    time.sleep(1.0)
    return {"mean": np.random.default_rng(seed).normal(size=100_000).mean()}


def steps_of_a_second() -> int:
    """Return how many steps of `train` take a second here."""
    start = time.perf_counter()
    train({"steps": 500}, np.random.SeedSequence(0))
    start, steps = time.perf_counter(), 2_000
    train({"steps": steps}, np.random.SeedSequence(0))
    return max(1, round(steps / (time.perf_counter() - start)))


def main(asleep: bool = False) -> None:
    point = {} if asleep else {"steps": steps_of_a_second()}
    study = Study("efficiency", rest if asleep else train, [point], repeats=RUNS)
    with tempfile.TemporaryDirectory() as directory, Store(directory) as store:
        start = time.perf_counter()
        results = run(study, Processes(JOBS), store)
        wall = time.perf_counter() - start
    assert all(result.done for result in results)
    total = sum(result.seconds for result in results)
    table = Table(title=f"{RUNS} runs {'that sleep ' if asleep else ''}on {JOBS} processes")
    for column in ("mean run", "sum of runs", "ideal", "wall", "wall / ideal", "bound"):
        table.add_column(column, justify="right")
    ideal = total / JOBS
    numbers = [f"{value:.2f} s" for value in (total / RUNS, total, ideal, wall)]
    table.add_row(*numbers, f"{wall / ideal:.3f}", f"{BOUND}")
    Console().print(table)


if __name__ == "__main__":
    # The tasks must belong to a module that the workers can import by its name.
    from benchmarks import studies

    studies.main("sleep" in sys.argv[1:])
