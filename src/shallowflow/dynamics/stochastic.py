"""Stochastic gradient descent: one pass over samples of a target, [two_timescale] (9), or batches of data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    Seed,
    count,
    flag,
    non_negative,
    positive,
    seed_sequence,
    shown,
    vector,
)
from shallowflow.data.dataset import Dataset
from shallowflow.data.targets import Additive, PiecewiseConstant, Target
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    BatchTask,
    Record,
    SampledTask,
    Sampling,
    check_problem,
    checked_loss,
    checked_record,
    default_record,
)
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import population_loss
from shallowflow.landscape.two_timescale.step_classes import checked_target
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import NETWORKS, AdditiveStepNetwork, Network, StepNetwork


def stochastic_descent(
    network: Network,
    target: Target | Dataset,
    *,
    step: float,
    steps: int,
    epsilon: float = 1.0,
    batch: int = 1,
    noise: float = 0.0,
    seed: Seed = 0,
    loss: Loss | None = None,
    box_slope: bool = False,
    record: Record | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
    replacement: bool = False,
    schedule: Callable[[int], float] | ArrayLike | None = None,
) -> Trajectory:
    """Run `steps` steps of SGD on batches of a data set, or on fresh samples of a target.

    **A data set.** Each step takes `batch` samples: without replacement (every epoch is a new permutation,
    cut into ⌊n/batch⌋ batches) or with it; labels get noise·U[−1, 1], anew at every step (not for the
    logistic loss). The gradient is an unbiased estimate of the whole one (for a sum, n/batch times that of
    the batch). All networks and losses, by the engine "dense" (NumPy); "lanes" is compiled, for a
    `ReLUNetwork`. A batch of all samples makes the steps of `gradient_descent` with that engine, to the last
    bit. Losses are those of all samples. schedule: factors of the step, one per step, or a function of the
    number of the step, from 0; time is step × number of steps whatever the schedule.

    **A target.** Each step is on `batch` fresh samples x ~ U[0, 1]^d, y = f*(x) + noise·U[−1, 1].

    The inner layer moves with step·epsilon. Losses are exact: ½∫(f − f*)² over [0, 1]^d, without the noise
    (see `landscape.population_loss`, which lists the pairs of network and target); time is step × number of
    steps. For a `StepNetwork` the engines "plain", "plateaus" (O(m), vectorised) and "hats" (nearly O(1))
    make the same steps from the same random stream; the last two take batch 1 only. "dense" is NumPy, for
    every network, with a stream of its own. loss: of a sample, ½·mean of squares by default ("dense" only).
    seed: None (fresh entropy), an integer, a SeedSequence, or a Generator, of which a copy is used: it does
    not advance, and the same run can be made again. box_slope: replace σ' by the indicator of its window, as
    the published script of [two_timescale] does.

    Examples
    --------
    >>> import shallowflow as sf
    >>> target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    >>> net = sf.initialize.uniform_positions(8, sharpness=0.02, seed=1)
    >>> tr = stochastic_descent(net, target, step=1e-2, epsilon=1e-2, steps=100_000, seed=0)
    >>> bool(tr.losses[-1] < 0.1 * tr.losses[0])
    True
    >>> data, start = sf.data.GENERATORS["sphere"](40, 5), sf.initialize.balanced(30, 5, init_scale=0.5)
    >>> slower = lambda k: 1 / (1 + k / 2000)
    >>> run = stochastic_descent(start, data, step=0.1, steps=4000, batch=8, schedule=slower)
    >>> bool(run.losses[-1] < 0.1 * run.losses[0])
    True
    """
    if not isinstance(network, NETWORKS):
        raise InvalidInputError(f"network: must be one of shallowflow's networks, got {shown(network)}")
    record = checked_record(record, default_record(flatten(network).size))
    replacement = flag(replacement, "replacement")
    if isinstance(target, Dataset):
        if flag(box_slope, "box_slope"):
            raise InvalidInputError("box_slope: is for samples of a target, got a Dataset")
        task = replace(
            _batches(network, target, loss, step, steps, epsilon),
            batch=count(batch, "batch", at_most=10**9 if replacement else target.size),
            replacement=replacement,
            noise=non_negative(noise, "noise"),
            factors=_factors(schedule, steps),
            seed=seed_sequence(seed),
        )
        return _on_data(task, record, engine, progress)
    if replacement or schedule is not None:
        raise InvalidInputError("replacement, schedule: are for a Dataset, got a target")
    population_loss(network, target)  # refuses what does not fit
    for part in target.components if isinstance(target, Additive) else (target,):
        if isinstance(part, PiecewiseConstant):
            checked_target(part)
    if isinstance(network, StepNetwork | AdditiveStepNetwork) and network.sharpness == 0:
        raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")
    step, steps = positive(step, "step"), count(steps, "steps")
    epsilon = positive(epsilon, "epsilon")
    sampling = Sampling(
        step,
        step * epsilon,
        non_negative(noise, "noise"),
        count(batch, "batch"),
        seed_sequence(seed),
        flag(box_slope, "box_slope"),
    )
    if loss is not None and not isinstance(loss, SquareLoss | NormLoss):
        raise InvalidInputError(f"loss: must be SquareLoss() or NormLoss(), got {shown(loss)}")
    make = chosen_engine("stochastic_descent", engine, SampledTask(network, target, loss, sampling, steps))
    setting = Setting("stochastic_descent", None, target, loss or SquareLoss(), step=step, epsilon=epsilon)
    return run(make, record, steps * step, setting=setting, progress=progress)


def _batches(
    network: Network, dataset: Dataset, loss: Loss | None, step: float, steps: int, epsilon: float
) -> BatchTask:
    """Return the task of a descent on data, checked, without what is drawn."""
    check_problem(network, dataset, log_scaled=True)
    numbers_of = positive(step, "step"), positive(epsilon, "epsilon"), count(steps, "steps")
    return BatchTask(network, dataset, checked_loss(loss, dataset), *numbers_of)


def _on_data(task: BatchTask, record: Record, engine: str, progress: Progress | None) -> Trajectory:
    if task.noise > 0 and isinstance(task.loss, LogisticLoss):
        raise InvalidInputError(
            f"noise: must be 0 for the logistic loss, whose labels are ±1, got {task.noise:g}"
        )
    make, known = chosen_engine("stochastic_descent on data", engine, task), (task.dataset, task.loss)
    setting = Setting("stochastic_descent", None, *known, step=task.step, epsilon=task.epsilon)
    return run(make, record, task.steps * task.step, setting=setting, progress=progress)


def _factors(schedule: Callable[[int], float] | ArrayLike | None, steps: int) -> Floats | None:
    """Return the factors of the step, (steps,)."""
    if schedule is None:
        return None
    values = vector([schedule(k) for k in range(steps)] if callable(schedule) else schedule, "schedule")
    if len(values) != steps or np.any(values < 0):
        raise InvalidInputError(f"schedule: must be {steps} factors >= 0, one per step, got {shown(values)}")
    return values
