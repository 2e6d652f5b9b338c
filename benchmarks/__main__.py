"""Run benchmarks: `python -m benchmarks` for all, `python -m benchmarks knot_descent …` for some."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = (
    "compilation",
    "knot_descent",
    "knot_flow",
    "anls",
    "curve_fitting",
    "cone_descent",
    "cone_flow",
    "flows",
    "incremental",
    "weak_interaction",
    "studies",
    "experiment_costs",
    "step_sgd",
    "step_fitting",
    "kink_statistics",
    "kink_coverage",
    "optimum",
    "recording",
    "regret",
    "walks",
    "readings",
    "explorer",
)


def main(names: list[str]) -> None:
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
