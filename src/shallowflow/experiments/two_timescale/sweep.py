"""Many runs of one task, serially or on several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

Task = Callable[[Mapping[str, Any], np.random.SeedSequence], dict[str, float]]
"""(parameters, seed) → named numbers; a function of a module, so that it can travel to another process."""


def run_all(
    task: Task,
    runs: Sequence[Mapping[str, Any]],
    root_seed: int,
    jobs: int = 1,
    progress: Callable[[float], None] | None = None,
) -> list[dict[str, float]]:
    """Return the results of all runs in their order; run i gets the i-th child of the root seed."""
    seeds = np.random.SeedSequence(root_seed).spawn(len(runs))
    results = list[dict[str, float]]()
    if jobs == 1:
        for parameters, seed in zip(runs, seeds, strict=True):
            results.append(task(parameters, seed))
            if progress:
                progress(len(results) / len(runs))
        return results
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for result in pool.map(task, runs, seeds):
            results.append(result)
            if progress:
                progress(len(results) / len(runs))
    return results
