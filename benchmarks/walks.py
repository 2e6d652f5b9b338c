"""Through how many files does a call go? Files of the package in which a function runs, by walk.

Every walk runs twice in a process of its own: the second time the functions that run are noted (what merely
was imported does not count). Small problems run with their kernels interpreted, so that kernels are seen;
where that would take minutes they are compiled, and only the files that call them count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FrameType

import numpy as np

import shallowflow as sf

PACKAGE = Path(sf.__file__).parent


Walk = Callable[[], object]


def cone_descent() -> Walk:
    data = sf.data.GENERATORS["three_points"]()
    network = sf.initialize.balanced(50, 2, init_scale=0.1)
    return lambda: sf.gradient_descent(network, data, step=1e-3, steps=300, engine="cones")


def knot_flow() -> Walk:
    data = sf.data.GENERATORS["curve"]("sin_pi", size=30)
    network = sf.initialize.he_knots(6, seed=0)
    return lambda: sf.gradient_flow(network, data, until=1.0)


def anls_fit() -> Walk:
    x = np.linspace(-1.0, 1.0, 60)
    return lambda: sf.estimators.ANLSRegressor(5).fit(x[:, None], np.sin(np.pi * x))


def certify() -> Walk:
    file = Path(tempfile.mkdtemp()) / "points.csv"
    x = np.linspace(-1.0, 1.0, 30)
    np.savetxt(file, np.column_stack([x, np.abs(x)]), delimiter=",")
    return lambda: command("certify", str(file))


def reproduce() -> Walk:
    return lambda: command("reproduce", "plateau/fig9", "--jobs", "1", "--out", tempfile.mkdtemp())


def command(*arguments: str) -> None:
    from shallowflow.cli import main

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), suppress(SystemExit):
        main.main([*arguments])


WALKS: dict[str, tuple[Callable[[], Walk], bool]] = {
    "descent by cones": (cone_descent, True),
    "knot flow": (knot_flow, True),
    "ANLS fit": (anls_fit, True),
    "certify": (certify, True),
    "reproduce plateau/fig9": (reproduce, False),
}
"""name → (what prepares the walk, whether its kernels are interpreted)."""


def touched(walk: Walk) -> Counter[str]:
    """Return how many calls of functions each file of the package sees on the second run."""
    walk()
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            calls[str(Path(frame.f_code.co_filename).relative_to(PACKAGE))] += 1

    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Print the table; with --files the files of each walk and their calls too."""
    print(f"{'walk':<24}{'files':>6}{'calls':>11}")
    for name, (_, interpreted) in WALKS.items():
        environment = {**os.environ, "NUMBA_DISABLE_JIT": str(int(interpreted))}
        arguments = [sys.executable, "-m", "benchmarks.walks", name]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
        calls: dict[str, int] = json.loads(done.stdout)
        print(f"{name:<24}{len(calls):>6}{sum(calls.values()):>11,}", flush=True)
        if "--files" in sys.argv:
            print("".join(f"    {count:>9,}  {file}\n" for file, count in calls.items()))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in WALKS:
        print(json.dumps(touched(WALKS[sys.argv[1]][0]())))
    else:
        main()
