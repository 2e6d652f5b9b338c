"""Active Neuron Least Squares: train a univariate ReLU network by moving one knot past one data point.

[plateau] §4: every move changes an activation pattern, so no time is spent on plateaus; the outer weights
always solve the least-squares problem (4.1). The clock counts moves.

All methods follow one tie rule and one stopping rule (`kernels.fitting.anls` has the same):

* of the candidates whose loss is within 10⁻¹⁰, relatively, of the best one's the first is taken (symmetric
  configurations have candidates of equal loss, which rounding would order); where even the best gain is
  that small, the first with at least half of it;
* a run ends when the best gain is ≤ 10⁻¹² of the loss, or when the loss after the move, computed afresh, is
  not smaller (the move is then undone).

Relative means relative to what a function of x can change: the scatter of targets at equal x is taken off.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from shallowflow.arrays import Floats, Ints, count, one_of, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.baselines import DistinctPoints, distinct_points, minimum_norm_outer
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    Record,
    Task,
    check_problem,
    checked_record,
    checked_square_loss,
)
from shallowflow.dynamics.clock.protocol import (
    Column,
    Engine,
    Event,
    Path,
    Piece,
    Rows,
    Statistics,
    Stop,
    within,
)
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.errors import FileFormatError, InvalidInputError
from shallowflow.landscape.plateau.moves import (
    LEFT,
    Candidate,
    best_loss,
    losses_of_candidates,
    margin_of,
    moved,
    stable_losses_of_candidates,
)
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork

if TYPE_CHECKING:
    from shallowflow.kernels.fitting.anls import Run

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
    if isinstance(method, str) and method in RETIRED:
        raise InvalidInputError(f"method: {method!r} is gone; 'windowed' makes the same moves, faster")
    one_of(method, "method", METHODS)
    loss = checked_square_loss(loss, SquareLoss())
    until = inf if max_iterations is None else float(count(max_iterations, "max_iterations", at_least=0))
    _check_squares(dataset)
    make = _engine(method, Task(network, dataset, loss))
    setting = Setting("active_neuron_least_squares", None, dataset, loss)
    record = checked_record(record, Record.every(1))
    return run(make, record, until, setting=setting, progress=progress)


def _check_squares(dataset: Dataset) -> None:
    """Refuse targets whose squares cannot be added up: every loss of a fit would be infinite."""
    largest = float(np.abs(dataset.targets).max())
    if largest > np.sqrt(np.finfo(np.float64).max / (8 * dataset.size)):
        rule = "targets must be small enough for the sum of their squares; rescale them"
        raise InvalidInputError(f"dataset: {rule}, got one of {largest:g}")


def _engine(method: str, task: Task) -> Callable[[], Engine[KnotNetwork]]:
    """Return what makes the engine of a method."""
    if method == "windowed":
        return partial(WindowedANLS, task)
    losses = losses_of_candidates if method == "orthogonal" else stable_losses_of_candidates
    return partial(IteratedANLS, task, method, losses)


MOST_MOVES = 2**16
"""Moves of one call of the compiled engine."""
TIE = 1e-10
LEAST_GAIN = 1e-12
MISJUDGED = 1e-9
"""A predicted relative gain above this that is not realised is the method's error, not rounding."""

Changes = tuple[Ints, Ints, Floats]
"""Of each move the knot (in sorted order), the side (−1 left, +1 right) and the new place."""
NO_CHANGE: Changes = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
LossesOfCandidates = Callable[[Floats, Floats, Floats], tuple[list[Candidate], Floats]]
"""(sorted knots (n,), x (m,), y (m,)) → the candidates and the sum of squares after each."""


@dataclass(frozen=True, eq=False, repr=False)
class Moves(Path[KnotNetwork]):
    """The moves of a run: at time t the first ⌊t⌋ of them are made, and the outer weights solve (4.1).

    neurons (s,): which knot moved, in sorted order; positions (s,): where to; order (m,): the sorting order
    of the first network; x, y, weights (k,): the data, equal inputs merged.
    """

    kind: ClassVar[str] = "moves"
    neurons: Annotated[Ints, Column(("s",), whole=True, below="m")]
    positions: Annotated[Floats, Column(("s",))]
    order: Annotated[Ints, Column(("m",), "fixed", whole=True, below="m")]
    x: Annotated[Floats, Column(("k",), "fixed", rising=True)]
    y: Annotated[Floats, Column(("k",), "fixed")]
    weights: Annotated[Floats, Column(("k",), "fixed")]

    def __call__(self, time: float) -> KnotNetwork:
        """Return the network after ⌊t⌋ moves."""
        done = int(within(time, self.times))
        knots = self.template.knots[self.order]
        knots[self.neurons[:done]] = self.positions[:done]  # of several moves of a knot the last stays
        points = DistinctPoints(self.x, self.y, self.weights, 0.0, np.empty(0, np.int64))
        found = np.empty((2, len(knots)))
        found[0, self.order], found[1, self.order] = knots, minimum_norm_outer(knots, points)
        return self.template.moved({"knots": found[0], "outer": found[1]})

    def check(self) -> None:
        """Refuse other networks, an order that is none, times that do not count moves, impossible data."""
        if not isinstance(self.template, KnotNetwork) or set(self.order) != set(range(self.template.width)):
            raise FileFormatError("its moves are not those of a KnotNetwork and its order")
        if not np.array_equal(self.times, np.arange(len(self.times))):
            raise FileFormatError("path_times are not the numbers of its moves")
        if len(self.x) == 0 or np.any(np.diff(self.x) <= 0) or np.any(self.weights <= 0):
            raise FileFormatError("path_x must rise, and path_weights be positive")


class _Moving:
    """What the engines share: the data, the present knots, and how moves become a piece."""

    tick = 1.0
    reads: ClassVar[type[Path[Any]] | None] = Moves
    name: str

    def __init__(self, task: Task) -> None:
        assert isinstance(task.network, KnotNetwork)
        self._template, self._points = task.network, distinct_points(task.dataset)
        self._order = np.argsort(task.network.knots, kind="stable")
        self._knots, self._made = task.network.knots[self._order], 0
        self._weight, self._shown = 0.5 * task.weight, 0.0
        self._loss = 0.0

    @abstractmethod
    def advance(self, until: float, rows: bool) -> Piece:
        """Make moves."""

    def _piece(self, moves: Changes, losses: Floats, stop: Stop | None) -> Piece:
        """Return the piece of these moves; losses (k + 1,): sums of squares before and after each."""
        neurons, sides, places = moves
        start, before = self._made, self._knots.copy()
        self._knots[neurons] = places  # of several moves of a knot the last stays
        self._made += len(neurons)
        self._loss = float(losses[-1])

        def events(most: int) -> list[Event]:
            return self._passed(before, neurons[:most], sides[:most], start)

        times = np.arange(start, self._made + 1, dtype=np.float64)
        rows = {"neurons": neurons, "positions": places}
        return Piece(times, self._weight * losses, None, rows, events, stop, self._share(losses))

    def _passed(self, knots: Floats, neurons: Ints, sides: Ints, start: int) -> list[Event]:
        """Return the data points passed, in the numbering of the data set; "on": they became active."""
        inactive, events = np.searchsorted(self._points.x, knots, side="right"), list[Event]()
        for number, (k, side) in enumerate(zip(neurons, sides, strict=True), start + 1):
            passed = inactive[k] - (side == LEFT)
            inactive[k] += side
            kind, point = "on" if side == LEFT else "off", int(self._points.first[passed])
            events.append(Event(float(number), kind, int(self._order[k]), point))
        return events

    def _share(self, losses: Floats) -> float:
        """Return how far the relative gain of a move has fallen to its least: the end is not known."""
        if len(losses) > 1:
            first, last = losses[[0, -1]] - self._points.scatter
            gain = (first - last) / (first * (len(losses) - 1)) if first > 0 else 0.0
            share = log(min(max(float(gain), LEAST_GAIN), 1.0)) / log(LEAST_GAIN)
            self._shown = max(self._shown, min(share, 0.99))
        return self._shown

    def _no_move(self) -> Stop:
        """Return why no move helps: none lowers the loss, or no knot is where it could move anything."""
        x = self._points.x
        if np.all(self._knots >= x[-1]):
            return Stop("no living knot")
        # With one or two inputs a line is all there is to fit.
        inside = np.any((self._knots >= x[0]) & (self._knots < x[-1]))
        return Stop("no move" if inside or len(x) <= 2 else "no knot among the data")

    def loss(self) -> float:
        """Return the present loss."""
        return self._weight * self._loss

    def network(self) -> KnotNetwork:
        """Return the present network, its outer weights those of least squares and minimum norm."""
        knots, outer = np.empty_like(self._knots), np.empty_like(self._knots)
        knots[self._order] = self._knots
        outer[self._order] = minimum_norm_outer(self._knots, self._points)
        return self._template.moved({"knots": knots, "outer": outer})

    def path(self, times: Floats, rows: Rows) -> Moves:
        """Return the path of these moves."""
        points = self._points.x, self._points.y, self._points.weights
        return Moves(self._template, times, rows["neurons"], rows["positions"], self._order, *points)

    def statistics(self) -> Statistics:
        """Return the numbers of moves and of distinct inputs."""
        return {"iterations": self._made, "distinct inputs": len(self._points.x)}


class WindowedANLS(_Moving):
    """Losses of candidates by chain elimination, renewing only what a move changed; compiled."""

    name = "windowed"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._loss = self._followed(0).initial + self._points.scatter

    def _followed(self, most: int) -> Run:
        from shallowflow.kernels.fitting.anls import run_windowed

        points = self._points
        margin = margin_of(points.x)
        return run_windowed(self._knots, points.x, points.y, points.weights, 0, margin, most, most)

    def advance(self, until: float, rows: bool) -> Piece:
        """Make up to 65,536 moves."""
        from shallowflow.kernels.fitting.anls import CONVERGED, ROUNDING

        run = self._followed(int(min(until - self._made, MOST_MOVES)))
        losses = np.append(run.initial, run.losses) + self._points.scatter
        piece = self._piece((run.neurons, run.sides, run.places), losses, None)
        stops = {CONVERGED: self._no_move(), ROUNDING: Stop("rounding")}
        return replace(piece, stop=stops.get(run.status))


class IteratedANLS(_Moving):
    """Any method of computing the losses of candidates, move by move in NumPy."""

    def __init__(self, task: Task, name: str, losses_of_candidates: LossesOfCandidates) -> None:
        super().__init__(task)
        self.name, self._losses_of = name, losses_of_candidates
        self._x, self._y = task.dataset.inputs[:, 0], task.dataset.targets
        self._loss = best_loss(self._knots, self._x, self._y)

    def advance(self, until: float, rows: bool) -> Piece:
        """Make one move."""
        present = self._loss - self._points.scatter
        moves, predicted = self._losses_of(self._knots, self._x, self._y)
        chosen = choose(predicted - self._points.scatter, present)
        before = np.array([self._loss])
        if chosen is None:
            return self._piece(NO_CHANGE, before, self._no_move())
        loss = best_loss(moved(self._knots, moves[chosen]), self._x, self._y)
        if loss < self._loss:
            taken = moves[chosen]
            change = np.array([taken.neuron]), np.array([taken.direction]), np.array([taken.position])
            return self._piece(change, np.append(before, loss), None)
        gain = float(self._loss - predicted[chosen]) / present
        stop = Stop("misjudged", {"gain": gain}) if gain > MISJUDGED else Stop("rounding")
        return self._piece(NO_CHANGE, before, stop)


def choose(losses: Floats, present: float, least_gain: float = LEAST_GAIN) -> int | None:
    """Return the candidate to take by the tie rule, or None if none gains more than least_gain · present."""
    if len(losses) == 0:
        return None
    best = float(losses.min())
    gain = present - best
    if not gain > least_gain * present:
        return None
    slack = min(TIE * max(best, 0.0), 0.5 * gain)
    return int(np.argmax(losses <= best + slack))
