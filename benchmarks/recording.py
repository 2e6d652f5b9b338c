"""What does a record cost? CPU time of runs with a record over that of the same run which keeps its end only.

Three points of [early_alignment] with 200,000 neurons by cones: 2·10⁶ steps, the default record (178 networks
of 4.8 MB) and 200 losses; then 200 losses for every engine of every verb, on runs of about half a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import shallowflow as sf
from shallowflow.data.generators import GENERATORS

REPEATS = 3
WIDTH, STEP, STEPS = 200_000, 1e-6, 2_000_000
Run = Callable[[sf.Record | None], object]


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def best(run: Run, record: sf.Record | None) -> float:
    return min(cpu(lambda: run(record)) for _ in range(REPEATS))


def wide() -> None:
    """Print the overheads of the wide run."""
    data = GENERATORS["three_points"]()
    network = sf.initialize.balanced(WIDTH, 2, init_scale=1e-3, seed=0)

    def run(record: sf.Record | None) -> object:
        return sf.gradient_descent(network, data, step=STEP, steps=STEPS, engine="cones", record=record)

    run(sf.Record.at([STEP], networks=False))
    end = best(run, sf.Record.at([STEP * STEPS], networks=False))
    losses = best(run, sf.Record.geometric(200, networks=False))
    print(f"cones, {WIDTH:,} neurons, {STEPS:,} steps: {end:.2f} s; 200 losses {losses / end:.2f} ×")
    print(f"  default record, networks kept: {best(run, None) / end:.2f} ×")


def descents() -> dict[str, Run]:
    """Return one run of about half a second per engine of descent."""
    rng = np.random.default_rng(0)
    plane = sf.Dataset(rng.standard_normal((20, 2)), rng.standard_normal(20))
    space = sf.Dataset(rng.standard_normal((50, 5)), rng.standard_normal(50))
    curve, orthonormal = GENERATORS["curve"](), GENERATORS["orthonormal"](40, seed=0)
    wide, small = sf.initialize.balanced(2_000, 2, seed=0), sf.initialize.balanced(200, 5, seed=0)
    knots, steps = sf.initialize.he_knots(20, seed=0), sf.initialize.uniform_positions(20, sharpness=0.05)
    line = sf.Dataset(np.linspace(0, 1, 100)[:, None], np.sin(6 * np.linspace(0, 1, 100)))
    scaled = sf.initialize.log_scaled(30, 40, log_scale=-20.0, seed=0)
    problems: dict[str, tuple[Any, sf.Dataset, int]] = {
        "dense": (small, space, 8_000),
        "lanes": (small, space, 30_000),
        "fused": (small, space, 50_000),
        "patterns": (small, space, 5_000),
        "cones": (wide, plane, 100_000),
        "decoupled": (sf.initialize.asymmetric(30, 40, seed=0), orthonormal, 700_000),
        "scaled": (scaled, orthonormal, 500_000),
        "blocks": (knots, curve, 5_000_000),
        "windows": (steps, line, 300_000),
    }

    def of(engine: str) -> Run:
        network, data, count = problems[engine]
        return lambda record: sf.gradient_descent(
            network, data, step=1e-4, steps=count, engine=engine, record=record
        )

    return {f"descent, {engine}": of(engine) for engine in problems}


def others() -> dict[str, Run]:
    """Return runs of the other verbs."""
    target = sf.PiecewiseConstant([0.3, 0.7], [0.0, 1.0, 0.5])
    net = sf.initialize.uniform_positions(20, sharpness=0.02, seed=1)
    knots, curve = sf.initialize.he_knots(60, seed=0), GENERATORS["curve"]("sin_pi", 1000)
    plane = GENERATORS["stewart"]()
    wide = sf.initialize.gaussian(2_000, 2, init_scale=1e-2, seed=5)
    return {
        "stochastic, plateaus": lambda r: sf.stochastic_descent(
            net, target, step=1e-3, steps=20_000_000, engine="plateaus", record=r
        ),
        "adam, sweep": lambda r: sf.adam(knots, curve, steps=120_000, record=r),
        "flow, stages": lambda r: sf.gradient_flow(knots, curve, until=200.0, record=r),
        "flow, cones": lambda r: sf.gradient_flow(wide, plane, until=30.0, engine="cones", record=r),
    }


def main() -> None:
    wide()
    ends = {"stochastic": 2e4, "adam": 1.2e5, "flow, stages": 200.0, "flow, cones": 30.0}
    for name, run in {**descents(), **others()}.items():
        last = next((end for key, end in ends.items() if name.startswith(key)), None)
        run(None)
        only = (
            sf.Record.geometric(2, networks=False) if last is None else sf.Record.at([last], networks=False)
        )
        end, losses = best(run, only), best(run, sf.Record.geometric(200, networks=False))
        print(f"{name:24s} {end:6.2f} s   200 losses {losses / end:.2f} ×")


if __name__ == "__main__":
    main()
