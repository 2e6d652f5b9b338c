"""What is written down of a run, and how far rounding may move it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shallowflow as sf
from tests.contract.cases import Case

Values = dict[str, NDArray[np.float64]]
FLOWS = ("gradient_flow", "population_flow", "two_timescale_limit")
LISTED = 20
"""Events that are written down."""
SCALES = (50.0, 1e3)
"""ln(1/α) at which the jump times of flows are predicted."""


@dataclass(frozen=True)
class Result:
    """Numbers of a run, known up to rounding; its words, known exactly."""

    values: Values
    words: dict[str, Any]


def run(case: Case, progress: Callable[[float], None] | None = None) -> Any:
    """Make the run of a case."""
    watched = {} if case.verb == "saddle_to_saddle" else {"progress": progress}
    return getattr(sf, case.verb)(case.start, case.problem, **case.options, **watched)


def result(case: Case, found: Any) -> Result:
    """Return what is written down of a run; its steps play no part where the integrator chose them."""
    record = case.options.get("record")
    own_steps = case.verb in FLOWS and (record is None or record.interval is not None)
    stopped = own_steps and "stop" in case.options  # at the end of one of those steps
    kept = [0] if stopped else [0, -1] if own_steps else slice(None)
    events = found.events[:LISTED]
    values = {
        "times": np.asarray(found.times)[kept],
        "losses": np.asarray(found.losses)[kept],
        "event times": np.array([event.time for event in events]),
    }
    if not stopped:
        values |= {f"final {name}": array for name, array in found.final.parameters.items()}
    if own_steps and not stopped and (record is None or record.networks):
        middle = found(0.5 * float(found.times[-1]))
        values |= {f"middle {name}": array for name, array in middle.parameters.items()}
    if case.verb == "saddle_to_saddle":
        values |= {f"predicted at {scale:g}": found.predicted_times(scale) for scale in SCALES}
        values["exponents"] = found.exponents(0.5 * float(found.times[-1]))
    words = {
        "status": found.outcome.status,
        "events": len(found.events),
        "listed": [[event.kind, event.neuron, event.point] for event in events],
        "statistics": sorted(found.statistics),
        "engine": found.statistics.get("engine"),
    }
    return Result(values, words)


def operations(case: Case) -> int:
    """Return how many roundings of the largest number a run may make: those of the sums in all its steps.

    A step sums over samples, neurons and coordinates; least squares do so for every neuron.
    """
    steps = case.options.get("steps") or case.options.get("max_iterations") or 20
    size = getattr(case.problem, "size", 10 * case.options.get("batch", 1))
    sums = int(size + case.start.width + case.start.dimension)
    solves = "least_squares" in case.verb
    return int(steps) * sums * (int(case.start.width) if solves else 1)


def bound(case: Case, condition: float, name: str) -> float:
    """Return the error that numbers of a run may have, relative to the largest of them.

    Steps are exact up to rounding. Flows keep to the tolerance of the integrator; so do the predictions of
    jump times, and the two-timescale limit with sharpness 0 (closed forms, or nearly full precision). Either
    is magnified by the run's own `condition`.
    """
    if case.verb in FLOWS:
        sharp = getattr(case.start, "sharpness", 1.0) == 0.0
        return 100.0 * condition * float(1e-12 if sharp else case.options.get("tolerance", 1e-8))
    if name.startswith("predicted"):
        return 100.0 * condition * 1e-11
    kind = np.float32 if case.options.get("precision") == "single" else np.float64
    return float(np.finfo(kind).eps) * condition * operations(case)


def difference(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Return the largest difference relative to the largest number expected."""
    if not np.all(np.isfinite(expected)):
        return 0.0 if np.array_equal(found, expected) else np.inf
    largest = float(np.max(np.abs(expected), initial=0.0))
    apart = float(np.max(np.abs(found - expected), initial=0.0))
    return apart / largest if largest > 0 else (0.0 if apart == 0 else np.inf)


def moved(case: Case, seed: int) -> Case:
    """Return the case from a start that is moved by `shift(case)`, relative to the largest parameter."""
    rng, size = np.random.default_rng(seed), shift(case)
    scaled = isinstance(case.start, sf.LogScaledNetwork)
    parts = {}
    for name, array in case.start.parameters.items():
        noise = size * float(np.max(np.abs(array))) * rng.uniform(-1.0, 1.0, array.shape)
        parts[name] = array if scaled and name != "inner" else array + noise
    if scaled:  # a neuron of any scale must keep ‖w‖ ≤ |a|
        parts["inner"] = parts["inner"] / (1.0 + 4.0 * size)
    return replace(case, start=case.start.moved(parts))


def shift(case: Case) -> float:
    """Return by how much the start is moved: well above rounding, and too little to change what happens."""
    return 1e-4 if case.options.get("precision") == "single" else 1e-9


def condition(case: Case, expected: Result, tries: int = 5) -> float:
    """Return by how much the run magnifies relative changes of its start, at least 1."""
    worst = 1.0
    for seed in range(tries):
        other = result(case, run(moved(case, seed)))
        if any(other.words[word] != expected.words[word] for word in ("status", "events", "listed")):
            return np.inf
        for name, values in expected.values.items():
            if other.values[name].shape != values.shape:
                return np.inf
            worst = max(worst, difference(other.values[name], values) / shift(case))
    return worst
