"""Experiments as runs of studies: side by side, kept in a store, not run again when nothing has changed.

Each experiment at a scale is a study of one run. Its identity is made of its parameters and of the code that
its `run` reaches, so a finished experiment is run again after an edit that can change it, and only then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.experiments.archive import from_arrays, to_outputs
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Reproduction
from shallowflow.studies import Executor, Result, Serial, Store, Study, run_all
from shallowflow.studies.running import Progress as StudyProgress
from shallowflow.studies.study import Outputs


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
    study = study_of(experiment, scale)
    found: Result | None = store.find(study.runs[0])
    if found is None or found.status == "planned":
        return None
    findings = from_arrays(found.arrays) if found.done else Findings((), ())
    parameters = experiment.parameters[scale]
    return Reproduction(
        experiment,
        scale,
        parameters,
        findings.figures,
        findings.claims,
        found.seconds,
        findings.animations,
        found.error,
        found.versions,
    )
