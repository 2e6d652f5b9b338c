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
from shallowflow.dynamics.engines.pattern_descent import BucketedDescent, PatternDescent
from shallowflow.dynamics.engines.sliding_descent import SlidingDescent
from shallowflow.dynamics.outcome import Outcome
from shallowflow.dynamics.path import flatten
from shallowflow.dynamics.problem import check_problem, checked_loss
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, Network, ReLUNetwork

RELU_ENGINES: dict[str, type[ConeDescent] | type[PatternDescent]] = {
    engine.name: engine for engine in (ConeDescent, SlidingDescent, PatternDescent, BucketedDescent)
}
PLANAR = ("cones", "sliding")
ENGINES = ("auto", "dense", "blocks", *RELU_ENGINES)
BLOCKS_FROM, CONES_FROM = 2_000_000, 2_000_000_000
"""Work (steps × neurons × samples) from which the compiled engines are worth loading (or compiling once)."""
GROUPS_UP_TO, BUCKETS_UP_TO = 4.0, 0.5
"""Groups pay up to so many patterns × samples × dimension per neuron, buckets up to so many patterns per
neuron. Measured at the start of random problems (d = 3 to 10, n = 8 to 40, widths 200 to 10⁶): a step costs
about 8 ns per pattern, sample and dimension in groups; 5 ns, and 12 ns per neuron, in buckets; 3 ns per
neuron, sample and dimension in plain NumPy. The number of patterns falls during a run."""


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

    The inner layer moves with step·epsilon ([two_timescale]'s ratio ε). The iterates are those of plain
    gradient descent up to rounding, whatever the engine but one: "dense" is plain NumPy for every network
    and loss; "blocks" costs O(width) per step for a `KnotNetwork` and the square loss; "cones" is for a
    `ReLUNetwork` in the plane, at a cost per step that does not grow with the width, "patterns" for any
    dimension, at a cost that grows with the number of sign patterns, "bucketed" at O(dimension) per neuron.
    "auto" takes the fastest of these.

    "sliding" is "cones" with an error of the order of the step: neurons that would cross a data point's line
    to and fro slide along it in groups ([early_alignment], the subgradient on a face). On Stewart's data at
    step 10⁻³ the loss stays within 10⁻⁶ of the exact one. Where a sliding neuron's outer weight changes its
    sign the limit of small steps is not unique: one branch is drawn by the neuron's index, and the
    trajectory has a "two-valued" event.

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
    if isinstance(network, ReLUNetwork) and isinstance(loss, SquareLoss | LogisticLoss):
        if name == "auto" and work >= CONES_FROM:
            name = cheapest(network, dataset)
        if name in RELU_ENGINES and (network.dimension == 2 or name not in PLANAR):
            return RELU_ENGINES[name](network, dataset, loss, step, epsilon)
    if name in RELU_ENGINES:
        plane = " on inputs of dimension 2" if name in PLANAR else ""
        raise InvalidInputError(
            f"engine: '{name}' needs a ReLUNetwork{plane}, got {type(network).__name__} "
            f"on dimension {dataset.dimension}"
        )
    return DenseDescent(network, dataset, loss, step, epsilon)


def cheapest(network: ReLUNetwork, dataset: Dataset) -> str:
    """Return the name of the exact engine with the cheapest steps at the start of a long run."""
    if network.dimension == 2:
        return "cones"
    active = np.packbits(network.inner @ dataset.inputs.T > 0, axis=1)
    patterns = len(np.unique(active, axis=0))
    if patterns * dataset.size * network.dimension <= GROUPS_UP_TO * network.width:
        return "patterns"
    return "bucketed" if patterns <= BUCKETS_UP_TO * network.width else "dense"


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
