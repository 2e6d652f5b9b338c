"""How well, and how fast, are piecewise constant functions fitted? `StepRegressor` beside what solves this.

Peers: `ruptures.KernelCPD` (linear kernel: the optimal cuts for a penalty, by dynamic programming with
pruning), with the penalty 3 σ² log n at the true σ, and a decision tree whose leaves are chosen by
five-fold cross-validation. The error is the mean square of f − f* at the data, over several data sets;
processor time.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.tree import DecisionTreeRegressor

from shallowflow.estimators import StepRegressor

FloatArray = NDArray[np.float64]
Fit = Callable[[FloatArray, FloatArray, float], FloatArray]
"""(x sorted (n,), y (n,), σ) → fitted values at x (n,)."""
DATA_SETS, FIRST_SEED = 20, 1000
"""Seeds on which no choice of ours was tried."""
console = Console(width=100)


@dataclass(frozen=True)
class Task:
    name: str
    jumps: FloatArray
    values: FloatArray
    size: int
    noise: float


def tasks() -> list[Task]:
    stairs = np.array([0.2, 0.35, 0.5, 0.65, 0.8]), np.array([1.0, 4.0, 1.0, 2.0, 1.0, 4.0])
    rng = np.random.default_rng(0)
    many = np.sort(rng.permutation(np.arange(1, 50))[:15] / 50), rng.normal(size=16) * 2
    return [
        Task("paper, 500 points, σ = 0.3", *stairs, 500, 0.3),
        Task("paper, 500 points, σ = 1", *stairs, 500, 1.0),
        Task("paper, 5,000 points, σ = 1", *stairs, 5_000, 1.0),
        Task("15 jumps, 2,000 points, σ = 0.5", *many, 2_000, 0.5),
        Task("no jump, 400 points, σ = 1", np.empty(0), np.zeros(1), 400, 1.0),
    ]


def ours(neurons: int) -> Fit:
    def fit(x: FloatArray, y: FloatArray, noise: float) -> FloatArray:
        return StepRegressor(neurons).fit(x[:, None], y).predict(x[:, None])

    return fit


def kernel_cpd(ruptures: ModuleType) -> Fit:
    def fit(x: FloatArray, y: FloatArray, noise: float) -> FloatArray:
        found = ruptures.KernelCPD(kernel="linear", min_size=1).fit(y[:, None])
        cuts = found.predict(pen=3 * noise**2 * np.log(len(y)))[:-1]
        return np.concatenate([np.full(len(part), part.mean()) for part in np.split(y, cuts)])

    return fit


def tree(x: FloatArray, y: FloatArray, noise: float) -> FloatArray:
    leaves = {"max_leaf_nodes": [2, 3, 4, 6, 8, 12, 16, 24]}
    search = GridSearchCV(
        DecisionTreeRegressor(random_state=0), leaves, cv=KFold(5, shuffle=True, random_state=0)
    )
    return np.asarray(search.fit(x[:, None], y).predict(x[:, None]))


def methods() -> dict[str, Fit]:
    found: dict[str, Fit] = {"StepRegressor, 20": ours(20), "StepRegressor, 60": ours(60)}
    try:
        found["ruptures.KernelCPD"] = kernel_cpd(importlib.import_module("ruptures"))
    except ImportError:
        console.print("ruptures is not installed: left out")
    found["decision tree, cv"] = tree
    return found


def main() -> None:
    for task in tasks():
        table = Table(title=f"{task.name} ({DATA_SETS} data sets)")
        for column in ("method", "mean error", "jumps found", "right number", "CPU ms"):
            table.add_column(column, justify="right")
        for name, fit in methods().items():
            errors, jumps, times = [], [], []
            for seed in range(FIRST_SEED, FIRST_SEED + DATA_SETS):
                rng = np.random.default_rng(seed)
                x = np.sort(rng.random(task.size))
                truth = task.values[np.searchsorted(task.jumps, x)]
                y = truth + task.noise * rng.standard_normal(task.size)
                if seed == FIRST_SEED:
                    fit(x, y, task.noise)
                start = time.process_time()
                fitted = fit(x, y, task.noise)
                times.append(time.process_time() - start)
                errors.append(float(np.mean((fitted - truth) ** 2)))
                jumps.append(int(np.sum(np.diff(fitted) != 0)))
            found = f"{np.mean(jumps):.1f} of {len(task.jumps)}"
            right = f"{sum(one == len(task.jumps) for one in jumps)} of {DATA_SETS}"
            table.add_row(name, f"{np.mean(errors):.4f}", found, right, f"{1e3 * min(times):.1f}")
        console.print(table)


if __name__ == "__main__":
    main()
