"""Tiny starts on orthonormal data: every engine ends with the set of Algorithm 1, or says why not.

Random problems: n ≤ 24 points, m ≤ 40 neurons, labels of both signs, α = 10⁻⁸ … 10⁻³⁰⁰, turned bases.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.dynamics.choice import ENGINES
from shallowflow.readings.phases import jump_agreement

SEPARATED = 16.0
STEP = 0.5
DESCENTS, FLOWS = (
    tuple(row.name for row in ENGINES if row.verb == verb) for verb in ("gradient_descent", "gradient_flow")
)


class Problem(NamedTuple):
    dataset: sf.Dataset
    network: sf.LogScaledNetwork
    limit: sf.SaddleToSaddle
    separation: float
    until: float


def problem(seed: int) -> Problem:
    rng = np.random.default_rng([2, seed])
    size, width = int(rng.integers(3, 25)), int(rng.integers(1, 41))
    dimension, digits = size + int(rng.integers(0, 6)), int(rng.choice([8, 16, 30, 100, 300]))
    labels = rng.standard_normal(size)
    labels = np.sign(labels) * (0.3 + np.abs(labels))
    basis = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0][:size]
    dataset = sf.Dataset(basis, labels)
    network = sf.initialize.log_scaled(width, dimension, log_scale=-digits * np.log(10.0), seed=seed)
    limit = sf.saddle_to_saddle(network, dataset)
    separation = float(np.min(limit.process.gaps, initial=np.inf)) * network.acceleration
    last = float(np.max(limit.predicted_times(network.acceleration), initial=1.0))
    return Problem(dataset, network, limit, separation, 1.5 * network.acceleration * last)


def left(run: sf.Trajectory, dataset: sf.Dataset) -> set[int]:
    """The points that a run leaves."""
    return set(sf.jumps(run, dataset).unfitted.tolist())


def judged(found: Problem, engine: str, *, plain: bool) -> str:
    """Return "right", "wrong", "refused" or "warned" of a descent by an engine."""
    network = found.network.to_relu() if plain else found.network
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            sf.gradient_descent(network, found.dataset, step=STEP, steps=1, engine=engine)
        except sf.InvalidInputError:
            return "refused"
        if any("rounding may revive" in str(one.message) for one in said):
            return "warned"
        steps = int(found.until / STEP)
        run = sf.gradient_descent(network, found.dataset, step=STEP, steps=steps, engine=engine)
    return "right" if left(run, found.dataset) == set(found.limit.process.unfitted.tolist()) else "wrong"


def flowed(found: Problem, engine: str) -> str:
    """Return "right", "wrong", "refused", "warned" or how it ended of a flow of the plain network."""
    network = found.network.to_relu()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            run = sf.gradient_flow(network, found.dataset, until=found.until, tolerance=1e-7, engine=engine)
        except sf.InvalidInputError:
            return "refused"
    if any("rounding may revive" in str(one.message) for one in said):
        return "warned"
    if not run.outcome.ok:
        return run.outcome.status
    return "right" if left(run, found.dataset) == set(found.limit.process.unfitted.tolist()) else "wrong"


def all_right(seeds: range) -> int:
    """Check all problems; return how many of them have jumps that are apart, with owners as predicted."""
    apart = 0
    for seed in seeds:
        found = problem(seed)
        expected = set(found.limit.process.unfitted.tolist())
        flow = sf.gradient_flow(found.network, found.dataset, until=found.until, tolerance=1e-7)
        assert left(flow, found.dataset) == expected, seed
        assert flowed(found, "auto") == "right", seed
        for engine in FLOWS:
            assert flowed(found, engine) not in ("wrong", "completed"), (seed, engine)
        for plain in (True, False):
            assert judged(found, "auto", plain=plain) == "right", seed
            for engine in DESCENTS:
                assert judged(found, engine, plain=plain) != "wrong", (seed, engine)
        if found.separation >= SEPARATED and len(found.limit.neurons):
            apart += 1
            predicted = found.limit.predicted_times(found.network.acceleration)
            assert jump_agreement(sf.jumps(flow, found.dataset), found.limit, predicted).points == 1.0, seed
    return apart


def test_a_sample_of_problems_ends_with_algorithm_1() -> None:
    assert all_right(range(20)) >= 3


@pytest.mark.slow
def test_two_hundred_problems_end_with_algorithm_1() -> None:
    assert all_right(range(200)) >= 30
