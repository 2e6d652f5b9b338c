"""Gradient descent: θ ← θ − step·∇L(θ), by the fastest engine that gives the same iterates.

This file is the border (checks, choice of engine, outcome); an engine in `dynamics.engines` only advances
parameters, and `dynamics.driver` records.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from shallowflow.arrays import count, one_of, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.driver import Engine, Progress, drive, judge_training, plan
from shallowflow.dynamics.engines.cone_descent import ConeDescent
from shallowflow.dynamics.engines.dense_descent import DenseDescent
from shallowflow.dynamics.engines.knot_descent import KnotDescent
from shallowflow.dynamics.engines.step_descent import WindowDescent
from shallowflow.dynamics.outcome import Outcome
from shallowflow.dynamics.path import flatten
from shallowflow.dynamics.problem import check_problem, checked_loss
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)

ENGINES = ("auto", "dense", "blocks", "cones", "windows")
BLOCKS_FROM, CONES_FROM = 2_000_000, 2_000_000_000
"""Work (steps × neurons × samples) from which the compiled engines are worth loading (or compiling once)."""


def gradient_descent(
    network: Network,
    dataset: Dataset,
    *,
    step: float,
    steps: int,
    loss: Loss | None = None,
    epsilon: float = 1.0,
    record: Record | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Trajectory:
    """Run `steps` steps of full-batch gradient descent; time is step × number of steps.

    The inner layer moves with step·epsilon ([two_timescale]'s ratio ε). Whatever the engine, the iterates
    are those of plain gradient descent up to rounding: "dense" is plain NumPy for every network and loss,
    "blocks" costs O(width) per step for a `KnotNetwork` and the square loss; "cones" is for a `ReLUNetwork`
    in the plane, at a cost per step that does not grow with the width; "windows" is for networks of steps, at
    O(samples + width) per step; "auto" takes the faster one.

    Examples
    --------
    >>> import shallowflow as sf
    >>> net = sf.initialize.balanced(50, 2, init_scale=0.1)
    >>> tr = sf.gradient_descent(net, sf.data.GENERATORS["three_points"](), step=0.01, steps=2000)
    >>> bool(tr.losses[-1] < tr.losses[0]), tr.outcome.status
    (True, 'completed')
    """
    check_problem(network, dataset)
    loss = checked_loss(loss, dataset)
    step, steps = positive(step, "step"), count(steps, "steps")
    epsilon = positive(epsilon, "epsilon")
    one_of(engine, "engine", ENGINES)
    chosen = plan(network, record, steps, step)
    runner = _engine(engine, network, dataset, loss, step, epsilon, steps)
    limit = stability(network, dataset, loss, epsilon, step)
    trajectory = drive(runner, dataset, loss, chosen, partial(_outcome, limit=limit), progress)
    if limit is None:
        return trajectory
    return replace(trajectory, statistics={**trajectory.statistics, "step × λ_max at the start": limit})


def _engine(
    name: str, network: Network, dataset: Dataset, loss: Loss, step: float, epsilon: float, steps: int
) -> Engine:
    """Return the engine of that name, or the fastest one that fits."""
    work = steps * network.width * dataset.size
    if isinstance(network, KnotNetwork) and isinstance(loss, SquareLoss):
        if name == "blocks" or (name == "auto" and work >= BLOCKS_FROM):
            return KnotDescent(network, dataset, loss, step, epsilon)
    elif name == "blocks":
        raise InvalidInputError(
            f"engine: 'blocks' needs a KnotNetwork and the square loss, got {type(network).__name__} "
            f"and {type(loss).__name__}"
        )
    if (
        isinstance(network, ReLUNetwork)
        and network.dimension == 2
        and isinstance(loss, SquareLoss | LogisticLoss)
    ):
        if name == "cones" or (name == "auto" and work >= CONES_FROM):
            return ConeDescent(network, dataset, loss, step, epsilon)
    elif name == "cones":
        raise InvalidInputError(
            f"engine: 'cones' needs a ReLUNetwork on inputs of dimension 2, got {type(network).__name__} "
            f"on dimension {dataset.dimension}"
        )
    if isinstance(network, StepNetwork | AdditiveStepNetwork) and isinstance(loss, SquareLoss | NormLoss):
        if name == "windows" or (name == "auto" and work >= BLOCKS_FROM):
            return WindowDescent(network, dataset, loss, step, epsilon)
    elif name == "windows":
        raise InvalidInputError(
            f"engine: 'windows' needs a network of steps and the square or norm loss, got "
            f"{type(network).__name__} and {type(loss).__name__}"
        )
    return DenseDescent(network, dataset, loss, step, epsilon)


def stability(network: Network, dataset: Dataset, loss: Loss, epsilon: float, step: float) -> float | None:
    """Return step·λ_max of the Gauss–Newton matrix at the start (stable below 2), or None if too large.

    For the losses here the Gauss–Newton matrix JᵀWJ has W_k = ∂²L/∂h_k²; its largest eigenvalue is that of
    the n × n matrix W^½ J J^T W^½, with the inner columns of J scaled by √epsilon.
    """
    size = dataset.size
    if size > 2000 or size * flatten(network).size > 4_000_000:
        return None
    gram = network.tangent_kernel(dataset.inputs, epsilon)
    predictions = network.predict(dataset.inputs)
    curvature = loss.curvatures(predictions, dataset.targets)
    root = np.sqrt(curvature)
    return float(step * np.linalg.norm(root[:, None] * gram * root, 2))


def _outcome(losses: list[float], done: int, total: int, limit: float | None) -> Outcome:
    """Judge a finished descent; `limit` is step × λ_max at the start, if it is known."""
    if limit is None or limit <= 2:
        return judge_training(losses, done, total)
    smaller = f"a step {limit / 2:.3g} times smaller (step × λ_max must stay below 2)."
    if done < total:
        return replace(judge_training(losses, done, total), advice=smaller)
    message = (
        f"at the start step × λ_max = {limit:.3g} exceeds the stability limit 2; "
        f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}."
    )
    return Outcome("unstable", message, smaller)
