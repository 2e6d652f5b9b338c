"""`execute`: one run becomes one `RunOutcome`, whatever happens inside the task."""

from __future__ import annotations

import copy
import os
import pickle
import platform
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.studies.code import MAIN, code_version, versions
from shallowflow.studies.study import Run

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
NUMERIC = "biufc"


@dataclass(frozen=True)
class RunOutcome:
    """What came of a run: "done" with metrics and arrays, or "failed" with an error.

    `seconds` is wall time, `cpu_seconds` the CPU time of the thread that ran it.
    """

    identity: str
    status: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    error: str = ""
    started: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    worker: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the run has a result."""
        return self.status == "done"


def failed(identity: str, error: str) -> RunOutcome:
    """Return the outcome of a run that no worker could finish."""
    return RunOutcome(identity, "failed", error=error, started=_now(), versions=versions())


def execute(run: Run, **extra: Any) -> RunOutcome:
    """Run the task and return its outcome; an exception inside it is an outcome too."""
    started, wall, cpu = _now(), time.perf_counter(), time.thread_time()
    metrics: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    error = ""
    try:
        _check_code(run)
        metrics, arrays = _sorted_out(run.task(copy.deepcopy(run.parameters), run.seed, **extra))
    except ShallowflowError as trouble:
        error = f"{type(trouble).__name__}: {trouble}"
    except (Exception, SystemExit) as trouble:
        where = "".join(traceback.format_tb(trouble.__traceback__)[1:])
        error = f"{type(trouble).__name__}: {trouble}\n{where}".strip()
    return RunOutcome(
        identity=run.identity,
        status="failed" if error else "done",
        metrics=metrics,
        arrays=arrays,
        error=error,
        started=started,
        seconds=time.perf_counter() - wall,
        cpu_seconds=time.thread_time() - cpu,
        worker=f"{platform.node()}:{os.getpid()}",
        versions=versions(),
    )


def execute_elsewhere(identity: str, pickled: bytes) -> RunOutcome:
    """Run in a worker process, with one thread; a task that cannot be imported there is a failed run."""
    pin_threads()
    try:
        run: Run = pickle.loads(pickled)
    except Exception as trouble:
        return failed(identity, f"the worker cannot load the task: {type(trouble).__name__}: {trouble}")
    return execute(run)


@lru_cache(maxsize=1)
def pin_threads() -> None:
    """Hold this process to one thread in BLAS, OpenMP and Numba, for good."""
    from threadpoolctl import threadpool_limits

    os.environ.update(dict.fromkeys(THREADS, "1"))
    threadpool_limits(limits=1)


def _check_code(run: Run) -> None:
    """Refuse to compute under the name of other code: a cluster may have another version installed."""
    if run.subject.__module__ not in MAIN and code_version(run.subject) != run.code:
        raise InvalidInputError(
            f"task: this worker has other code ({code_version(run.subject)}) than the study ({run.code}); "
            "install the same version everywhere, and don't edit the code while a study runs"
        )


def _sorted_out(outputs: Any) -> tuple[dict[str, float], dict[str, NDArray[Any]]]:
    """Return numbers and arrays apart; refuse everything else."""
    if not isinstance(outputs, Mapping):
        raise InvalidInputError(f"task: must return {{name: number or array}}, got {shown(outputs)}")
    metrics: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in outputs.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise InvalidInputError(f"task: names of outputs must be texts without /, got {shown(name)}")
        if isinstance(value, Real | np.generic) and np.asarray(value).dtype.kind in "biuf":
            metrics[name] = float(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind in NUMERIC:
            arrays[name] = value
        else:
            raise InvalidInputError(
                f"task: {name} must be a number or an array of numbers, got {shown(value)}"
            )
    return metrics, arrays


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
