"""Active Neuron Least Squares: train a univariate ReLU network by moving one knot past one data point.

[plateau] §4: every move changes an activation pattern, so no time is spent on plateaus; the outer weights
always solve the least-squares problem (4.1).
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, count, one_of, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.anls import compiled, iteration, reference
from shallowflow.dynamics.anls.candidates import Candidate, candidates
from shallowflow.dynamics.anls.iteration import Moves
from shallowflow.dynamics.anls.recording import Story, trajectory
from shallowflow.dynamics.driver import Progress
from shallowflow.dynamics.outer_weights import DistinctPoints, distinct_points
from shallowflow.dynamics.problem import check_problem, checked_square_loss
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork

__all__ = ["METHODS", "Candidate", "active_neuron_least_squares", "candidates"]

METHODS = ("windowed", "chain", "reference", "orthogonal", "orthogonal_stable")
"""How the losses of candidates are computed: by chain elimination, renewing only what a move changed (the
default) or everything; by one least-squares problem each; by Theorem 4.2 as printed, or a stable variant."""


def active_neuron_least_squares(
    network: KnotNetwork,
    dataset: Dataset,
    *,
    method: str = "windowed",
    max_iterations: int | None = None,
    loss: SquareLoss | None = None,
    record: Record | None = None,
    progress: Progress | None = None,
) -> Trajectory:
    """Move one knot past one data point, the best of all such moves, until none lowers the loss.

    [plateau] §4.3 with the candidate rules of §4.2 (`candidates`). Time is the number of moves; every
    recorded network has the outer weights of least squares and minimum norm (4.1), those at time 0
    included: the given outer weights play no part. Losses: `loss`, by default ½ Σ (2.1), of each move
    unless `record` says else. An event is "on" (the data point became active for the neuron that moved) or
    "off", at the first of equal inputs. All methods follow the same rules (`anls.iteration`); "orthogonal"
    is known to misjudge losses.

    Examples
    --------
    >>> import shallowflow as sf
    >>> from shallowflow.dynamics.anls import active_neuron_least_squares
    >>> tr = active_neuron_least_squares(sf.initialize.he_knots(10), sf.data.GENERATORS["curve"]())
    >>> tr.outcome.status, bool(np.all(np.diff(tr.losses) < 0))
    ('converged', True)
    """
    if not isinstance(network, KnotNetwork):
        raise InvalidInputError(f"network: must be a KnotNetwork, got {shown(network)}")
    check_problem(network, dataset)
    one_of(method, "method", METHODS)
    loss = checked_square_loss(loss, SquareLoss("sum"))
    if max_iterations is not None:
        max_iterations = count(max_iterations, "max_iterations", at_least=0)
        if record is not None:
            record.check_memory(len(record.indices(max(max_iterations, 1), 1.0)), 2 * network.width)
    points = distinct_points(dataset)
    order = np.argsort(network.knots, kind="stable")
    moves = _run(method, network.knots[order], dataset, points, max_iterations, progress)
    story = Story(network, order, points, moves)
    return trajectory(story, record, 0.5 * loss.weight(dataset.size), method)


def _run(
    method: str,
    knots: Floats,
    dataset: Dataset,
    points: DistinctPoints,
    max_iterations: int | None,
    progress: Progress | None,
) -> Moves:
    """Make the moves by the chosen method."""
    if method in ("windowed", "chain"):
        windowed = method == "windowed"
        return compiled.run(windowed, knots, points, max_iterations=max_iterations, progress=progress)
    losses = reference.losses_of_candidates
    if method != "reference":
        from shallowflow.dynamics.anls import orthogonal  # SciPy's linear algebra takes long to import

        printed = method == "orthogonal"
        losses = orthogonal.losses_of_candidates if printed else orthogonal.stable_losses_of_candidates
    return iteration.run(
        losses,
        knots,
        dataset.inputs[:, 0],
        dataset.targets,
        max_iterations=max_iterations,
        scatter=points.scatter,
        progress=progress,
    )
