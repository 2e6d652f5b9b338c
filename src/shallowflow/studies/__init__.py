"""Many runs: what runs (`Study`), where (`Serial`, `Processes`, `Cluster`), and what is kept (`Store`)."""

from shallowflow.studies.executors import Cluster, Executor, Processes, RunOutcome, Serial
from shallowflow.studies.store import Progress, Store, Tally, run, run_all
from shallowflow.studies.study import Result, Run, Study, Task

__all__ = [
    "Cluster",
    "Executor",
    "Processes",
    "Progress",
    "Result",
    "Run",
    "RunOutcome",
    "Serial",
    "Store",
    "Study",
    "Tally",
    "Task",
    "run",
    "run_all",
]
