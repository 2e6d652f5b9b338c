"""Write down what version 0.1 promises: names, options, saved files, seeded runs. Run with version 0.1 only.

From the root of the project: python -m tests.contract.write_files
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import shallowflow as sf
from tests.contract import described, results, saved
from tests.contract.cases import (
    BALL,
    CUBOIDS,
    CURVE,
    GRID,
    JUMPS,
    KNOTS,
    LEAKY,
    LEAKY_PLANE,
    ORTHONORMAL,
    SQUARE,
    STEWART,
)
from tests.contract.described import FOLDER
from tests.contract.flow_cases import CASES, SADDLES

WORST = 1e3
"""Runs that magnify changes of their start by more tell nothing about the code."""


def trajectories() -> dict[str, sf.Trajectory]:
    """Return one small run for every kind of file."""
    every = sf.Record.every
    leaky = sf.ReLUNetwork(LEAKY.inner, LEAKY.outer, slope=0.2, scale=0.5)
    tiny = sf.initialize.log_scaled(6, 6, log_scale=-200.0, seed=18)
    return {
        "snapshots": sf.gradient_descent(leaky, BALL, step=0.05, steps=60, record=every(7)),
        "snapshots_additive": sf.gradient_descent(CUBOIDS, SQUARE, step=0.05, steps=20, record=every(5)),
        "snapshots_sparse": sf.gradient_descent(
            JUMPS, GRID, step=0.1, steps=50, epsilon=0.1, record=every(10, networks=False)
        ),
        "polynomials": sf.gradient_flow(KNOTS, CURVE, until=0.5, engine="dense"),
        "polynomials_knots": sf.gradient_flow(KNOTS, CURVE, until=0.5, engine="stages"),
        "groups": sf.gradient_flow(LEAKY_PLANE, STEWART, until=2.0, epsilon=2.0, engine="cones"),
        "replayed": sf.gradient_flow(tiny, ORTHONORMAL, until=2500.0),
    }


def write(name: str, content: Any) -> None:
    """Write plain data; floating point numbers are written by their repr, which is exact."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")


def pack(name: str, arrays: dict[str, Any]) -> None:
    """Write arrays, compressed and without pickle."""
    np.savez_compressed(FOLDER / name, **arrays)


def write_saved() -> None:
    """Write a file of every kind, and beside it what it holds."""
    for kind, trajectory in trajectories().items():
        trajectory.save(saved.FILES / f"{kind}.trajectory")
        at = saved.reading_times(trajectory, kind.endswith("sparse"))
        arrays = {
            "at": np.array(at),
            "theta": np.array([saved.theta(trajectory(time)) for time in at]),
            **{f"stored {name}": array for name, array in saved.stored_arrays(trajectory).items()},
            **{f"recorded {name}": array for name, array in saved.recorded(trajectory).items()},
        }
        pack(f"files/{kind}.npz", arrays)
        write(f"files/{kind}.json", saved.words(trajectory))
    limit = results.run(SADDLES[0])
    limit.save(saved.FILES / f"{saved.PROCESS}.limit")
    stored, read = saved.process_arrays(limit), saved.process_readings(limit)
    arrays = {f"stored {name}": array for name, array in stored.items()}
    pack(f"files/{saved.PROCESS}.npz", arrays | {f"read {name}": array for name, array in read.items()})
    write(f"files/{saved.PROCESS}.json", saved.words(limit))


def write_runs() -> None:
    """Write the results of the seeded runs; refuse one that rounding could turn elsewhere."""
    told, numbers = {}, {}
    for case in CASES:
        found = results.result(case, results.run(case))
        magnified = results.condition(case, found)
        if magnified > WORST:
            raise SystemExit(f"{case.id}: changes of the start grow {magnified:.3g} times; take another seed")
        shapes = {name: list(values.shape) for name, values in found.values.items()}
        told[case.id] = {**found.words, "condition": float(f"{magnified:.2g}"), "shapes": shapes}
        numbers[case.id] = np.concatenate([values.ravel() for values in found.values.values()])
    write("runs.json", told)
    pack("runs.npz", numbers)


def main() -> None:
    """Write everything."""
    write("names.json", described.names())
    with TemporaryDirectory() as folder:
        answers = described.answers(Path(folder))
    write("commands.json", {"commands": described.commands(), "answers": answers})
    write_saved()
    write_runs()


if __name__ == "__main__":
    main()
