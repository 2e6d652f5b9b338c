"""What each experiment costs: CPU seconds at a scale, as `Experiment.cost` wants them, and the test of speed.

`python -m benchmarks.experiment_costs [quick|paper] [NAME…]`, by default quick and all experiments. Each one
runs in a process of its own that has the compiled kernels loaded from their cache.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from shallowflow.commands.reproduce import REFERENCE, speed_test, study_of
from shallowflow.experiments import EXPERIMENTS
from shallowflow.experiments.experiment import SCALES
from shallowflow.studies import Processes, run


def main(words: list[str] | None = None) -> None:
    words = words or []
    scale = next((word for word in words if word in SCALES), "quick")
    names = [word for word in words if word not in SCALES] or list(EXPERIMENTS)
    table = Table(
        title=f"CPU seconds at {scale} scale; the test of speed takes {speed_test():.3f} s ({REFERENCE})"
    )
    for column in ("experiment", "CPU seconds", "written down"):
        table.add_column(column, justify="left" if column == "experiment" else "right")
    for name in names:
        (result,) = run(study_of(EXPERIMENTS[name], scale), Processes(1))
        known = EXPERIMENTS[name].cost.get(scale)
        table.add_row(
            name,
            result.error.split("\n")[0] or f"{result.cpu_seconds:.1f}",
            "" if known is None else f"{known:g}",
        )
        Console().print(f"{name} {result.cpu_seconds:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
