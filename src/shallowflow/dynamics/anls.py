"""Active Neuron Least Squares: train a univariate ReLU network by moving one knot past one data point.

[plateau] §4: every move changes an activation pattern, so no time is spent on plateaus; the outer weights
always solve the least-squares problem (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from shallowflow.arrays import count, one_of, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import Task, check_problem, checked_record, checked_square_loss
from shallowflow.dynamics.clock.protocol import Engine
from shallowflow.dynamics.clock.record import Record
from shallowflow.dynamics.clock.setting import Setting
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.engines.anls import IteratedANLS, WindowedANLS
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork

METHODS = ("windowed", "orthogonal", "orthogonal_stable")
"""How the losses of candidates are computed: by chain elimination, renewing only what a move changed; by
Theorem 4.2 as printed, or a stable variant."""
RETIRED = ("chain", "reference")


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

    [plateau] §4.3 with the candidate rules of §4.2 (`landscape.plateau.moves`). Time is the number of moves,
    and the trajectory can be read after each of them. Every network has the outer weights of least squares
    and minimum norm (4.1), the one at time 0 included: the given outer weights play no part. The paper's loss
    (2.1) is `SquareLoss("sum")`. An event is "on" (the data point became active for the neuron that moved)
    or "off", at the first of equal inputs. All methods follow the same rules; "orthogonal" (Theorem 4.2 as
    printed) is known to misjudge losses.

    Examples
    --------
    >>> import shallowflow as sf
    >>> import numpy as np
    >>> tr = active_neuron_least_squares(sf.initialize.he_knots(10), sf.data.GENERATORS["curve"]())
    >>> tr.outcome.status, bool(np.all(np.diff(tr.losses) < 0))
    ('converged', True)
    """
    if not isinstance(network, KnotNetwork):
        raise InvalidInputError(f"network: must be a KnotNetwork, got {shown(network)}")
    check_problem(network, dataset)
    if method in RETIRED:
        raise InvalidInputError(f"method: {method!r} is gone; 'windowed' makes the same moves, faster")
    one_of(method, "method", METHODS)
    loss = checked_square_loss(loss, SquareLoss())
    until = inf if max_iterations is None else float(count(max_iterations, "max_iterations", at_least=0))
    make = _engine(method, Task(network, dataset, loss))
    setting = Setting("active_neuron_least_squares", None, dataset, loss)
    record = checked_record(record, Record.every(1))
    return run(make, record, until, setting=setting, progress=progress)


def _engine(method: str, task: Task) -> Callable[[], Engine[KnotNetwork]]:
    """Return what makes the engine of a method."""
    if method == "windowed":
        return partial(WindowedANLS, task)
    from shallowflow.landscape.plateau import theorem_4_2  # SciPy's linear algebra takes long to import

    printed = method == "orthogonal"
    losses = theorem_4_2.losses_of_candidates if printed else theorem_4_2.stable_losses_of_candidates
    return partial(IteratedANLS, task, method, losses)
