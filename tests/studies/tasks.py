"""Tasks for the tests: other processes import them from here."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shallowflow.studies import Cluster, Executor, Processes, Store, Study, run

ROOT = Path(__file__).parents[2]


def draw(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, Any]:
    """A random matrix whose product depends on the order of summation, so on threads, in its last bits."""
    size = parameters["size"]
    matrix = np.random.default_rng(seed).normal(size=(size, size))
    product = matrix @ matrix.T @ matrix
    return {"trace": float(np.trace(product)), "norm": np.linalg.norm(product), "diagonal": np.diag(product)}


def note(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, Any]:
    """Take a moment, then write a line about it: one line per execution that came to its end.

    From the index HELD_FROM of the environment on it does not end, so that the program can be killed in time.
    """
    held = parameters["index"] >= int(os.environ.get("HELD_FROM", sys.maxsize))
    time.sleep(600.0 if held else parameters["seconds"])
    with open(parameters["log"], "a", encoding="utf-8") as log:
        log.write(f"{parameters['index']}\n")
    return {
        "index": parameters["index"],
        "drawn": np.random.default_rng(seed).random(),
        "array": np.arange(3),
    }


def stumble(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, Any]:
    """Go wrong in the way that is asked for."""
    how = parameters["how"]
    if how == "raise":
        raise ValueError("this run cannot be")
    if how == "exit":
        sys.exit(3)
    if how == "text":
        return {"text": "no number"}
    if how == "die" or (how == "die once" and not _seen(parameters["mark"])):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"fine": 1.0}


def _seen(mark: str) -> bool:
    seen = Path(mark).exists()
    Path(mark).touch()
    return seen


def many(log: str, runs: int = 200, seconds: float = 0.02) -> Study:
    """A study of many short runs."""
    points = [{"index": index, "log": log, "seconds": seconds} for index in range(runs)]
    return Study("many", note, points, root_seed=7)


def main() -> None:
    """Run `many` in a store: DIRECTORY LOG [ADDRESS]."""
    directory, log, *address = sys.argv[1:]
    executor: Executor = Cluster(address[0]) if address else Processes(2)
    with Store(directory) as store:
        results = run(many(log), executor, store)
    print(sum(result.done for result in results))


if __name__ == "__main__":
    # The task's module must have its own name, also in the process that was started with it.
    from tests.studies import tasks

    tasks.main()
