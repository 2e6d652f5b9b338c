"""Many independent runs of one task on a pool of processes.

A task is a module-level function of (parameters, seed) that returns numbers by name; it draws from nothing
but its seed, so that results do not depend on the number of processes or on their order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

Task = Callable[[Mapping[str, Any], np.random.SeedSequence], dict[str, float]]
Progress = Callable[[float], None]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def run_all(
    task: Task,
    runs: Sequence[Mapping[str, Any]],
    root_seed: int,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, float]]:
    """Return the results of `task` for every run, in order; run i gets the i-th child of the root seed."""
    seeds = np.random.SeedSequence(root_seed).spawn(len(runs))
    results: list[dict[str, float]] = []
    for result in _results(task, runs, seeds, jobs):
        results.append(result)
        if progress:
            progress(len(results) / len(runs))
    return results


def _results(
    task: Task, runs: Sequence[Mapping[str, Any]], seeds: list[np.random.SeedSequence], jobs: int
) -> Iterator[dict[str, float]]:
    if jobs == 1:
        yield from map(task, runs, seeds)
        return
    with _one_thread_each(), ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(task, runs, seeds)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let child processes compute on one thread each; the libraries read this when they are loaded."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
