"""Experiments as runs of studies: side by side, kept in a store, not run again when nothing has changed.

Each experiment at a scale is a study of one run. Its identity is made of its parameters and of the code that
its `run` reaches, so a finished experiment is run again after an edit that can change it, and only then. Its
findings are kept as one JSON text, every array in them as an array of its own beside it. What it costs on a
machine is its CPU time on a reference machine (`Experiment.cost`), scaled by a short test of speed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import FrozenArrays
from shallowflow.errors import FileFormatError
from shallowflow.experiments import experiment, figure
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Reproduction, tally
from shallowflow.studies import Executor, Serial, Store, Study, run_all
from shallowflow.studies.store import Progress as StudyProgress
from shallowflow.studies.study import Outputs

REFERENCE = 0.073
"""CPU seconds of `speed_test` on the machine on which `benchmarks/experiment_costs.py` measured the costs."""


def speed_test(repeats: int = 5) -> float:
    """Return the CPU seconds of a fixed piece of work, like training: small arrays, many steps."""
    best = np.inf
    inputs = np.linspace(-1.0, 1.0, 200)
    for _ in range(repeats):
        start = time.process_time()
        knots = np.linspace(-1.0, 1.0, 20)
        for _ in range(3_000):
            active = np.maximum(inputs[:, None] - knots, 0.0)
            knots = knots - 1e-9 * (active.T @ np.tanh(active.sum(axis=1)))
        best = min(best, time.process_time() - start)
    return float(best)


def estimate(experiment: Experiment, scale: str, slowness: float = 1.0) -> float | None:
    """Return the CPU seconds an experiment takes where work takes `slowness` times as long; None: unknown."""
    seconds = experiment.cost.get(scale)
    return None if seconds is None else slowness * seconds


TEXT = "findings"
KINDS: dict[str, Any] = {
    name: kind
    for module in (experiment, figure)
    for name, kind in vars(module).items()
    if dataclasses.is_dataclass(kind) and isinstance(kind, type)
}


def to_outputs(findings: Findings) -> dict[str, float | NDArray[Any]]:
    """Return what a task returns: the numbers of claims, and everything as arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_encoded(findings, arrays))
    arrays[TEXT] = np.frombuffer(text.encode(), dtype=np.uint8)
    found = tally(findings.claims)
    counts = {"claims": float(len(findings.claims)), "claims_that_hold": float(found["hold"])}
    return {**counts, "claims_open": float(found["open"]), **arrays}


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Findings:
    """Return the findings that `to_outputs` wrote."""
    try:
        findings = _decoded(json.loads(arrays[TEXT].tobytes()), arrays)
    except (LookupError, ValueError, TypeError) as error:
        raise FileFormatError(f"the stored findings cannot be read: {error}") from error
    if not isinstance(findings, Findings):
        raise FileFormatError("the stored arrays are not findings")
    return findings


def _encoded(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in KINDS:
        fields = {name: _encoded(entry, arrays) for name, entry in vars(value).items()}
        return {"kind": type(value).__name__, "fields": fields}
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(k, arrays), _encoded(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_encoded(entry, arrays) for entry in value]
    return value


def _decoded(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(entry, arrays) for entry in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "mapping" in value:
        return {_decoded(k, arrays): _decoded(v, arrays) for k, v in value["mapping"]}
    kind = KINDS[value["kind"]]
    made = kind.__new__(kind)
    # The fields were checked when the value was first made; its arrays become read-only again.
    vars(made).update({name: _decoded(entry, arrays) for name, entry in value["fields"].items()})
    if isinstance(made, FrozenArrays):
        FrozenArrays.__post_init__(made)
    return made


def study_of(experiment: Experiment, scale: str) -> Study:
    """Return an experiment at a scale as a study of one run."""
    subject: Callable[..., Findings] = experiment.run
    while isinstance(subject, functools.partial):
        subject = subject.func
    parameters = _with_text_names(experiment.parameters[scale])
    point = {"experiment": experiment.name, "scale": scale, "parameters": parameters}
    return Study(f"{experiment.name} ({scale})", run_experiment, [point], subject=subject)


def _with_text_names(value: Any) -> Any:
    """Return parameters whose mappings have texts as names, whatever they had: {1.0: 300} is {"1.0": 300}."""
    if isinstance(value, Mapping):
        return {str(name): _with_text_names(entry) for name, entry in value.items()}
    return [_with_text_names(entry) for entry in value] if isinstance(value, list | tuple) else value


def run_experiment(
    parameters: Mapping[str, Any],
    seed: np.random.SeedSequence,
    progress: Progress | None = None,
    executor: Executor | None = None,
    store: Store | None = None,
) -> Outputs:
    """Run an experiment by name, as a task; its random seeds are among its parameters."""
    from shallowflow.experiments import EXPERIMENTS

    experiment = EXPERIMENTS[parameters["experiment"]]
    done = experiment.reproduce(parameters["scale"], progress, executor=executor, store=store)
    return to_outputs(Findings(done.figures, done.claims, done.animations))


def reproduce_together(
    experiments: Sequence[Experiment],
    scale: str,
    store: Store,
    executor: Executor,
    progress: StudyProgress | None = None,
) -> None:
    """Run whole experiments side by side; the store has their findings, or their errors, afterwards."""
    run_all([study_of(experiment, scale) for experiment in experiments], executor, store, progress)


def reproduce_here(
    experiment: Experiment,
    scale: str,
    store: Store,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> None:
    """Run one experiment in this process, its sweeps on the executor; its findings are then in the store."""
    here = Serial(progress=progress, executor=executor, store=store)
    run_all([study_of(experiment, scale)], here, store)


def unfinished(experiments: Sequence[Experiment], scale: str, store: Store) -> list[Experiment]:
    """Return the experiments whose findings the store does not have."""
    return [e for e in experiments if store.missing(study_of(e, scale).runs)]


def recall(experiment: Experiment, scale: str, store: Store) -> Reproduction | None:
    """Return what the store knows of an experiment; None if it has not been run."""
    found = store.find(study_of(experiment, scale).runs[0])
    if found is None or found.status == "planned":
        return None
    known = {name: getattr(found, name) for name in ("seconds", "error", "versions")}
    findings = from_arrays(found.arrays) if found.done else Findings((), ())
    return Reproduction(experiment, scale, experiment.parameters[scale], **known, **vars(findings))
