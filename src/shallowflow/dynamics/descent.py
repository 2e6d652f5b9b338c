"""Gradient descent: θ ← θ − step·∇L(θ), by the fastest engine that gives the same iterates.

This file is the border (checks, choice of engine, outcome); an engine only advances parameters, and the clock
records. `descend_to_rest` goes on until the stopping rule of [plateau] Lemma 3.4 is met.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats, count, non_negative, one_of, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    Record,
    Task,
    check_problem,
    checked_loss,
    checked_record,
    default_record,
)
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Outcome, Setting, Trajectory
from shallowflow.landscape.plateau.stationary import Stationarity, stationarity
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, Network, ReLUNetwork

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
