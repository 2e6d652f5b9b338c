"""Gradient descent: θ ← θ − step·∇L(θ), by the fastest engine that gives the same iterates; and stochastic.

This file is the border (checks, choice of engine, outcome); an engine only advances parameters, and the clock
records. `descend_to_rest` goes on until the stopping rule of [plateau] Lemma 3.4 is met.

**Stochastic** descent makes one pass over samples of a target, [two_timescale] (9), or takes batches of data.
"""

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
    one_of,
    positive,
    seed_sequence,
    shown,
    vector,
)
from shallowflow.data.dataset import Additive, Dataset, PiecewiseConstant, Target
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    BatchTask,
    Record,
    SampledTask,
    Sampling,
    Task,
    check_problem,
    checked_loss,
    checked_record,
    default_record,
)
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Outcome, Setting, Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.plateau.stationary import Stationarity, stationarity
from shallowflow.landscape.two_timescale.population import population_loss
from shallowflow.landscape.two_timescale.step_classes import checked_target
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    NETWORKS,
    AdditiveStepNetwork,
    KnotNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)

PRECISIONS = ("double", "single")
SMALL = 100
"""Rows up to which all eigenvalues of a matrix are computed at once."""


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
    precision: str = "double",
    stop_below: float = 0.0,
    progress: Progress | None = None,
) -> Trajectory:
    """Run `steps` steps of full-batch gradient descent; time is step × number of steps.

    The inner layer moves with step·epsilon ([two_timescale]'s ratio ε). The run ends early, converged, at the
    first recorded loss below `stop_below`.

    The iterates are those of plain gradient descent up to rounding, whatever the engine:

    - "dense": plain NumPy, for every network and loss;
    - "blocks": O(width) per step, for a `KnotNetwork` and the square loss;
    - "cones": a `ReLUNetwork` in the plane, at a cost per step that does not grow with the width; "patterns":
      the same in any dimension, the cost grows with the number of sign patterns and with that of the neurons
      that cross borders often, which are stepped individually;
    - "fused", "lanes" (few samples), "decoupled" (orthogonal inputs, O(width·n)): compiled, for a
      `ReLUNetwork`, also in `precision="single"`, on request only;
    - "scaled": compiled, for a `LogScaledNetwork` on orthonormal inputs and the square loss; its neurons keep
      their own log-scales, so that the start may be as small as you like;
    - "windows": compiled, O(samples + width) per step, for the networks of steps and the square or norm loss.

    "auto" takes the fastest that fits.

    Examples
    --------
    >>> import shallowflow as sf
    >>> net = sf.initialize.balanced(50, 2, init_scale=0.1)
    >>> tr = sf.gradient_descent(net, sf.data.GENERATORS["three_points"](), step=0.01, steps=2000)
    >>> bool(tr.losses[-1] < tr.losses[0]), tr.outcome.status
    (True, 'completed')
    """
    check_problem(network, dataset, log_scaled=True)
    loss = checked_loss(loss, dataset)
    step, steps = positive(step, "step"), count(steps, "steps")
    epsilon = positive(epsilon, "epsilon")
    stop_below = non_negative(stop_below, "stop_below")
    record = checked_record(record, default_record(flatten(network).size))
    task = Task(network, dataset, loss, step, epsilon, steps, precision)
    one_of(precision, "precision", PRECISIONS)
    make = chosen_engine("gradient_descent", engine, task, precision)
    limit = stability(task)
    setting = Setting("gradient_descent", None, dataset, loss, step=step, epsilon=epsilon)
    trajectory = run(make, record, steps * step, setting=setting, progress=progress, stop_below=stop_below)
    if limit is None:
        return trajectory
    statistics = {**trajectory.statistics, "step × λ_max at the start": limit}
    return replace(trajectory, statistics=statistics, outcome=_judged(trajectory, limit))


def stability(task: Task) -> float | None:
    """Return step·λ_max of the Gauss–Newton matrix at the start (stable below 2), None if unknown.

    Unknown where it overflows or is too much work: for a ReLU network, a good part of the run's.
    For the losses here the Gauss–Newton matrix JᵀWJ has W_k = ∂²L/∂h_k²; its largest eigenvalue is that of
    the n × n matrix W^½ J J^T W^½, with the inner columns of J scaled by √epsilon.
    """
    network, dataset = task.network, task.dataset
    work = task.steps * network.width * dataset.dimension / 10
    work = work if isinstance(network, ReLUNetwork) else np.inf
    size = dataset.size
    if size > 2000 or size * flatten(network).size > 4_000_000:
        return None
    if size > SMALL and size * (network.width + dataset.dimension) > work:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        gram = network.tangent_kernel(dataset.inputs, task.epsilon)
        predictions = network.predict(dataset.inputs)
        root = np.sqrt(task.loss.curvatures(predictions, dataset.targets))
        weighted = root[:, None] * gram * root
    return task.step * _largest_eigenvalue(weighted) if np.all(np.isfinite(weighted)) else None


def _largest_eigenvalue(matrix: Floats) -> float:
    """Return λ_max of a symmetric non-negative matrix, by Lanczos for large ones."""
    if len(matrix) <= SMALL:
        return float(np.linalg.eigvalsh(matrix)[-1])
    if not np.trace(matrix) > 0:
        return 0.0
    from scipy.sparse.linalg import eigsh

    start = np.ones(len(matrix))
    return float(eigsh(matrix, 1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])


def _judged(trajectory: Trajectory, limit: float) -> Outcome:
    """Return the outcome of a descent for which step × λ_max at the start is known to be `limit`."""
    outcome, losses = trajectory.outcome, trajectory.losses
    if limit <= 2 or not np.isfinite(losses[0]) or outcome.status == "converged":
        return outcome
    smaller = f"a step {limit / 2:.3g} times smaller (step × λ_max must stay below 2)."
    if outcome.status == "diverged":
        return replace(outcome, advice=smaller)
    message = (
        f"at the start step × λ_max = {limit:.3g} exceeds the stability limit 2; "
        f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}."
    )
    return Outcome("unstable", message, smaller)


GROWTH = 1.5
"""Each stretch of steps is this much longer than the one before."""


def descend_to_rest(
    network: KnotNetwork,
    dataset: Dataset,
    *,
    step: float,
    tolerance: float = 1e-8,
    most: int = 100_000_000,
    loss: SquareLoss | None = None,
) -> tuple[KnotNetwork, int, Stationarity]:
    """Descend until the mean square of (3.4) is at most `tolerance`, or `most` steps are made.

    Returned are the network, the number of steps, and the defects of (3.4) there. The rule is looked at after
    stretches of steps that grow by half: at most half as many steps again are made as needed.

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> network, steps, found = descend_to_rest(KnotNetwork([-0.5], [2.0]), data, step=0.1)
    >>> found.value <= 1e-8, steps < 10_000
    (True, True)
    """
    tolerance, most = positive(tolerance, "tolerance"), count(most, "most")
    made, stretch, found = 0, 100, stationarity(network, dataset)
    while found.value > tolerance and made < most:
        steps = min(stretch, most - made)
        run = gradient_descent(
            network, dataset, step=step, steps=steps, loss=loss, record=Record.geometric(2, networks=False)
        )
        final = run.final
        assert isinstance(final, KnotNetwork)
        network, made, found = final, made + steps, stationarity(final, dataset)
        if not run.outcome.ok:
            break
        stretch = max(100, int((GROWTH - 1) * made))
    return network, made, found


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
