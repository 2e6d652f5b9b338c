"""Trainings of figures 6, 9 and 10: on batches, in several dimensions or of ReLU networks on the line.

"printed" is SGD on fresh batches with the squared loss and step 1; "authors" is what the public code runs:
descent on one fixed batch with the loss ‖r‖₂/n. (Its networks have no bias a_0; ours keep the printed one.)
"smaller step" is "printed" with steps below 2/λ for both layers. A neuron of weight a at its jump has the
curvature (9/5)a²/η in its position, which moves with ε times the step: at ε = 1, η = 0.01 and a = 1 the step
must stay below 0.011, at ε = 0.01 the weights ask for more than the positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.data import Additive, Dataset, PiecewiseAffine, PiecewiseConstant
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Sweep
from shallowflow.landscape import population_loss
from shallowflow.models import AdditiveStepNetwork, KnotNetwork, NormLoss, initialize
from shallowflow.studies import Study

JUMPS = (0.3, 0.5, 0.7)
STAIRCASE = PiecewiseConstant(JUMPS, (0.0, 1.0, 2.0, 3.0))
KINKS = PiecewiseAffine((0.0, 0.3, 0.5, 0.7, 1.0), (0.0, 0.0, 0.2, 0.0, 0.6))
"""relu(x − 0.3) − 2 relu(x − 0.5) + 3 relu(x − 0.7) on [0, 1]."""
RECORD = Record.geometric(40)
FAST, SLOW = 1.0, 0.01
"""The ratios ε that are compared."""
STEPS = {FAST: 300, SLOW: 5000}
"""Steps of size 1 for every ε."""
STABLE = {FAST: 0.003, SLOW: 0.1}
"""The smaller steps for every ε; there are more of them in turn."""


def plan(parameters: Mapping[str, Any], reading: str, epsilon: float, start: int) -> dict[str, Any]:
    """Return the parameters of one training: step and number of steps follow from reading and ε."""
    step = STABLE[epsilon] if reading == "smaller step" else 1.0
    steps = round(parameters["steps"][epsilon] / step)
    if reading != "authors":
        steps = min(steps, parameters["most_steps"])
    names = ("width", "dimension", "sharpness", "within", "batch")
    fixed = {name: parameters[name] for name in names if name in parameters}
    return {**fixed, "reading": reading, "epsilon": epsilon, "start": start, "step": step, "steps": steps}


def _problem(
    parameters: Mapping[str, Any],
) -> tuple[AdditiveStepNetwork | KnotNetwork, Additive | PiecewiseAffine]:
    """Return the network at a start and the target; dimension 0: ReLU on the line."""
    width, dimension, start = parameters["width"], parameters["dimension"], parameters["start"]
    if dimension == 0:
        return initialize.uniform_knots(width, seed=start), KINKS
    network = initialize.uniform_cuboids(width, dimension, sharpness=parameters["sharpness"], seed=start)
    return network, Additive([STAIRCASE] * dimension)


def train(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Trajectory:
    """Train one network of a `plan`."""
    network, target = _problem(parameters)
    step, steps, epsilon = parameters["step"], parameters["steps"], parameters["epsilon"]
    if parameters["reading"] == "authors":
        inputs = np.random.default_rng(seed).random((parameters["batch"], max(parameters["dimension"], 1)))
        data = Dataset(inputs, target(inputs if isinstance(target, Additive) else inputs[:, 0]))
        return gradient_descent(
            network, data, step=step, steps=steps, epsilon=epsilon, loss=NormLoss(), record=RECORD
        )
    return stochastic_descent(
        network,
        target,
        step=step,
        steps=steps,
        epsilon=epsilon,
        batch=parameters["batch"],
        seed=seed,
        record=RECORD,
    )


def positions(trajectory: Trajectory) -> Floats:
    """Return the positions or knots at the end, (m, d)."""
    final = trajectory.final
    if isinstance(final, KnotNetwork):
        return final.knots[:, None]
    assert isinstance(final, AdditiveStepNetwork)
    return final.positions


def missed(trajectory: Trajectory, within: float) -> int:
    """Return how many jumps (or kinks) of all coordinates have no neuron that near at the end.

    After an overflow that is all of them: what is left is the last network before it, not an end.
    """
    gaps = np.abs(np.array(JUMPS)[:, None, None] - positions(trajectory)).min(axis=1)
    return gaps.size if trajectory.outcome.status == "diverged" else int((gaps >= within).sum())


def inside(trajectory: Trajectory) -> Bools:
    """Return which positions or knots are in [0, 1] at the end, (m, d)."""
    places = positions(trajectory)
    return np.asarray((places >= 0) & (places <= 1))


def outcome_title(run: Trajectory, title: str) -> str:
    """Return the title, with a word on a run that overflowed or lost all its neurons."""
    if run.outcome.status == "diverged":
        return f"{title}: overflowed"
    return title if np.any(inside(run)) else f"{title}: all neurons left [0, 1]"


def task(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, float]:
    """Return the distance at the end and the jumps without a neuron.

    Also whether no neuron is left in [0, 1], and whether the run was judged unstable.
    """
    run = train(parameters, seed)
    _, target = _problem(parameters)
    diverged = run.outcome.status == "diverged"
    return {
        "distance": np.inf if diverged else 2.0 * population_loss(run.final, target),
        "missed": float(missed(run, parameters["within"])),
        "emptied": float(not np.any(inside(run))),
        "unstable": float(not run.outcome.ok),
    }


Repeats = dict[float, list[Mapping[str, float]]]
"""ε → results of the repeats."""


def repeats(name: str, parameters: Mapping[str, Any], reading: str, sweep: Sweep) -> Repeats:
    """Train from the starts 0, 1, … for every ε, as a study; `parameters` are those of one case."""
    starts = range(parameters["repeats"])
    points = [
        plan(parameters, reading, epsilon, start) for epsilon in parameters["steps"] for start in starts
    ]
    found: Repeats = {epsilon: [] for epsilon in parameters["steps"]}
    for one in sweep(Study(name, task, points, root_seed=parameters["seed"])):
        found[one.parameters["epsilon"]].append(one.metrics)
    return found
