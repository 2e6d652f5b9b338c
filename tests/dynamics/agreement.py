"""Every engine beside a plain twin on random problems: `python -m tests.dynamics.agreement` prints the table.

Descents make the steps of the twin: the bound is that of `twins`. Flows follow SciPy's solution: N steps of
a tolerance τ each may lead N τ S‖θ‖ away, S the growth of distances along the solution (`flow_twins`).
Where gates tie, or bounds say nothing, a run is compared up to there: "cut". Nothing else is forgiven.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.baselines import adam
from shallowflow.dynamics.clock.problem import BatchTask
from shallowflow.dynamics.engines.sweeps import Batches
from shallowflow.kernels.steps.sgd import Stream, seeded
from tests.dynamics import random_problems as draws
from tests.dynamics.anls_agreement import moves
from tests.dynamics.flow_twins import EXACT, flowed
from tests.dynamics.random_problems import Draw, Rng
from tests.dynamics.twins import Followed, Sample, Twin, adapted, descended
from tests.kernels.steps.step_sgd_runs import draw_number

PROBLEMS, SEED, DRAWN = 1000, 30, 5
TOLERANCE = 1e-8
"""The tolerance of the flows: the default."""


class Compared(NamedTuple):
    """One problem: the difference and its bound, both relative to ‖θ‖, and why it is compared no further."""

    difference: float
    bound: float
    cut: str = ""


@dataclass(frozen=True)
class Agreement:
    """What a number of problems came to."""

    compared: tuple[Compared, ...]

    @property
    def wrong(self) -> list[int]:
        """The numbers of the problems that differ by more than the bound."""
        return [k for k, one in enumerate(self.compared) if not one.difference <= one.bound]

    def line(self) -> str:
        """Return a row of the table."""
        worst = max(one.difference for one in self.compared)
        share = max(one.difference / one.bound for one in self.compared if one.bound)
        middle = float(np.median([one.bound for one in self.compared]))
        cut = Counter(one.cut for one in self.compared if one.cut)
        reasons = "; ".join(f"{n}: {why}" for why, n in cut.items()) or "0"
        cells = len(self.compared), f"{worst:.1e}", f"{middle:.0e}", f"{share:.2g}", reasons, len(self.wrong)
        return " | ".join(map(str, cells))


def _ratio(rng: Rng) -> float:
    return float(rng.choice([1.0, 1.0, 0.1, 3.0]))


def _largest(twin: Twin, sample: Sample, epsilon: float) -> float:
    """Return the norm of the derivative of the gradient at the start, 0.1 at least."""
    curvature = twin.linearised(twin.theta(twin.network), sample)[1]
    return max(float(np.linalg.norm(twin.rates(1.0, epsilon)[:, None] * curvature, 2)), 0.1)


def _beside(twin: Twin, expected: Followed, run: sf.Trajectory, engine: str) -> Compared:
    """Compare the end of a run with that of the twin."""
    assert run.outcome.ok or run.outcome.status == "unstable", run.outcome
    assert engine in ("auto", run.statistics["engine"])
    size = float(np.linalg.norm(expected.theta))
    off = float(np.linalg.norm(twin.theta(run.final) - expected.theta))
    return Compared(off / size, expected.error / size, expected.cut)


def descent(engine: str, draw: Draw, rng: Rng) -> Compared:
    """Gradient descent."""
    network, dataset, loss = draw(rng)
    twin, sample, epsilon = Twin(network, loss), Sample(dataset.inputs, dataset.targets), _ratio(rng)
    step, count = rng.uniform(0.1, 1.0) / _largest(twin, sample, epsilon), int(rng.choice([1, 5, 20, 60]))
    expected = descended(twin, [sample] * count, twin.rates(step, epsilon))
    run = sf.gradient_descent(
        network, dataset, step=step, steps=expected.made, epsilon=epsilon, loss=loss, engine=engine
    )
    return _beside(twin, expected, run, engine)


def batches(engine: str, draw: Draw, rng: Rng) -> Compared:
    """Stochastic descent on data."""
    network, dataset, loss = draw(rng)
    twin, whole, epsilon = Twin(network, loss), Sample(dataset.inputs, dataset.targets), _ratio(rng)
    step, count = (
        0.5 * rng.uniform(0.1, 1.0) / _largest(twin, whole, epsilon),
        int(rng.choice([1, 5, 20, 60])),
    )
    chosen: dict[str, Any] = {
        "batch": int(rng.integers(1, dataset.size + 1)),
        "replacement": bool(rng.random() < 0.5),
        "noise": 0.0 if isinstance(loss, sf.LogisticLoss) else float(rng.choice([0.0, 0.3])),
    }
    factors = rng.uniform(0.2, 1.0, count) if rng.random() < 0.5 else np.ones(count)
    task = BatchTask(network, dataset, loss, seed=np.random.SeedSequence(DRAWN), **chosen)
    weight = dataset.size / chosen["batch"] if loss == sf.SquareLoss("sum") else 1.0
    samples = [
        Sample(dataset.inputs[k], dataset.targets[k] + (more if more.size else 0.0), weight * float(factor))
        for k, more, factor in zip(*Batches(task).take(count), factors, strict=True)
    ]
    expected = descended(twin, samples, twin.rates(step, epsilon))
    rest: dict[str, Any] = {"epsilon": epsilon, "loss": loss, "seed": DRAWN, "engine": engine, **chosen}
    schedule = factors[: expected.made]
    run = sf.stochastic_descent(network, dataset, step=step, steps=expected.made, schedule=schedule, **rest)
    return _beside(twin, expected, run, engine)


def _compiled_samples(count: int, noise: float) -> Floats:
    """Return x and the noise of y (count, 2) as the compiled engines draw them."""
    stream, rows = Stream(*seeded(np.random.SeedSequence(DRAWN))), []
    for _ in range(count):
        x, stream = draw_number(stream)
        more, stream = draw_number(stream) if noise else (0.5, stream)
        rows.append((x, noise * (2.0 * more - 1.0)))
    return np.array(rows)


def _samples(engine: str, count: int, batch: int, noise: float) -> list[Sample]:
    """Return the samples of the target that an engine draws."""
    found, generator = [], np.random.default_rng(np.random.SeedSequence(DRAWN))
    compiled = np.empty((0, 2)) if engine == "dense" else _compiled_samples(count * batch, noise)
    for k in range(count):
        if engine == "dense":
            x = generator.random((batch, 1))
            more = noise * generator.uniform(-1.0, 1.0, batch) if noise else np.zeros(batch)
        else:
            x, more = np.hsplit(compiled[k * batch : (k + 1) * batch], 2)
            more = more[:, 0]
        found.append(Sample(x, draws.TARGET(x[:, 0]) + more))
    return found


def sampled(engine: str, draw: Draw, rng: Rng) -> Compared:
    """Stochastic descent on samples of a target."""
    network = draw(rng).network
    several, boxed = engine in ("dense", "plain") and rng.random() < 0.5, engine != "dense"
    batch, box = int(rng.integers(2, 5)) if several else 1, bool(boxed and rng.random() < 0.3)
    noise, epsilon = float(rng.choice([0.0, 0.5])), _ratio(rng)
    step, count = float(10.0 ** rng.uniform(-4.0, -1.5)), int(rng.choice([1, 5, 20, 100]))
    twin = Twin(network, sf.SquareLoss(), box)
    expected = descended(twin, _samples(engine, count, batch, noise), twin.rates(step, epsilon))
    run = sf.stochastic_descent(
        network, draws.TARGET, step=step, steps=expected.made, epsilon=epsilon, batch=batch, noise=noise,
        seed=DRAWN, box_slope=box, engine=engine,
    )  # fmt: skip
    return _beside(twin, expected, run, engine)


def adaptive(engine: str, draw: Draw, rng: Rng) -> Compared:
    """Adam."""
    network, dataset, loss = draw(rng)
    twin, step, count = Twin(network, loss), 10.0 ** rng.uniform(-4.0, -2.0), int(rng.choice([1, 5, 20, 60]))
    expected = adapted(twin, Sample(dataset.inputs, dataset.targets), step, count)
    run = adam(network, dataset, step=step, steps=expected.made, loss=loss, engine=engine)
    return _beside(twin, expected, run, engine)


def flow(engine: str, draw: Draw, rng: Rng) -> Compared:
    """Gradient flow."""
    network, dataset, loss = draw(rng)
    twin, sample = Twin(network, loss), Sample(dataset.inputs, dataset.targets)
    epsilon = 1.0 if engine == "leaps" else _ratio(rng)
    speed, until = float(rng.choice([1.0, 2.0])), rng.uniform(0.3, 4.0) / _largest(twin, sample, epsilon)
    expected = flowed(twin, sample, twin.rates(speed, epsilon), until)
    run = sf.gradient_flow(
        network, dataset, until=expected.time, loss=loss, speed=speed, epsilon=epsilon, engine=engine
    )
    assert run.outcome.ok, run.outcome
    assert engine in ("auto", run.statistics["engine"])
    size = float(np.linalg.norm(expected.theta))
    off = float(np.linalg.norm(twin.theta(run.final) - expected.theta))
    made = len(run.times) - 1
    error = expected.growth * expected.size * (made * TOLERANCE + expected.steps * EXACT)
    cut = "not a single crossing" if expected.time < until else ""
    same = len(run.events) == expected.crossings
    return Compared(off / size if same else np.inf, error / size, cut)


def least_squares(engine: str, draw: Draw, rng: Rng) -> Compared:
    """Active Neuron Least Squares; relative to the sum of squares of the targets."""
    return Compared(*moves(engine, draw, rng))


Comparison = Callable[[str, Draw, Rng], Compared]
_D, _S, _B = "gradient_descent", "stochastic_descent", "stochastic_descent on data"
_F, _A, _L = "gradient_flow", "adam", "active_neuron_least_squares"
CASES: dict[tuple[str, str], tuple[Comparison, Draw]] = {
    (_D, "auto"): (descent, draws.anything),
    (_D, "dense"): (descent, draws.anything),
    (_D, "lanes"): (descent, draws.relu),
    (_D, "fused"): (descent, draws.relu),
    (_D, "decoupled"): (descent, draws.orthogonal),
    (_D, "cones"): (descent, draws.plane),
    (_D, "patterns"): (descent, draws.relu),
    (_D, "blocks"): (descent, draws.knots),
    (_D, "windows"): (descent, draws.steps),
    (_D, "scaled"): (descent, draws.log_scaled),
    (_S, "dense"): (sampled, draws.on_the_line),
    (_S, "plain"): (sampled, draws.on_the_line),
    (_S, "plateaus"): (sampled, draws.on_the_line),
    (_S, "hats"): (sampled, draws.on_the_line),
    (_B, "dense"): (batches, draws.anything),
    (_B, "lanes"): (batches, draws.relu),
    (_A, "dense"): (adaptive, draws.plain),
    (_A, "sweep"): (adaptive, draws.knots),
    (_F, "dense"): (flow, draws.any_knots),
    (_F, "walls"): (flow, draws.any_relu),
    (_F, "cones"): (flow, draws.plane),
    (_F, "stages"): (flow, draws.knots),
    (_F, "smooth"): (flow, draws.steps),
    (_F, "leaps"): (flow, draws.dominated),
    (_L, "windowed"): (least_squares, draws.curve),
    (_L, "orthogonal_stable"): (least_squares, draws.curve),
}
"""Of every engine how it is compared, and on what."""


def agreement(verb: str, engine: str, problems: range) -> Agreement:
    """Compare an engine on these problems of its own."""
    comparison, draw = CASES[verb, engine]
    own = [SEED, *f"{verb} {engine}".encode()]
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*rounding may revive coordinates", category=RuntimeWarning
        )
        return Agreement(tuple(comparison(engine, draw, np.random.default_rng([*own, k])) for k in problems))


def main(words: list[str]) -> None:
    """Print the table: all engines, or those named; a number is that of the problems."""
    count = next((int(word) for word in words if word.isdigit()), PROBLEMS)
    names = [word for word in words if not word.isdigit()]
    print("| verb | engine | problems | worst | median bound | worst share of its bound | cut | beyond |")
    print("|---|---|---|---|---|---|---|---|")
    for verb, engine in CASES:
        if not names or {verb, engine} & set(names):
            found = agreement(verb, engine, range(count))
            print(f"| `{verb}` | {engine} | {found.line()} |", *found.wrong[:9], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
