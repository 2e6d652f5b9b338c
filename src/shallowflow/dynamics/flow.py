"""Gradient flow: dθ/dt = −speed·∇L(θ) (Filippov), with located events; callable at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar

import numpy as np

from shallowflow.arrays import non_negative, one_of, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.driver import Progress
from shallowflow.dynamics.flow_recorder import FlowRecorder, Segments, dense_record
from shallowflow.dynamics.group_recorder import GroupRecorder
from shallowflow.dynamics.outcome import Outcome
from shallowflow.dynamics.path import flatten, snapshots
from shallowflow.dynamics.problem import check_problem, checked_loss, checked_record, checked_square_loss
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    LogScaledNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)

if TYPE_CHECKING:
    from shallowflow.dynamics.engines.log_flow import LogFlow

ENGINES = ("auto", "dense", "stages", "cones")
CONES_ABOVE = 1_000
"""Neurons above which the engine by cones is faster than the dense one, even if it has to be compiled."""

Passed = TypeVar("Passed")
Passed_co = TypeVar("Passed_co", covariant=True)
Passed_contra = TypeVar("Passed_contra", contravariant=True)
"""What an engine hands to its recorder: `Segments`, or `GroupStep`."""


class FlowEngine(Protocol[Passed_co]):
    """What the flow needs: the time reached, and a way to advance."""

    name: str
    time: float

    def advance(self, until: float) -> Passed_co:
        """Advance by some steps, not beyond `until`."""
        ...

    def verdict(self) -> Outcome | None:
        """Return why the run must end here, or None while it can go on."""
        ...

    def statistics(self) -> dict[str, float | int | str]:
        """Return what the engine counted."""
        ...


class FlowRecording(Protocol[Passed_contra]):
    """What the flow needs of a recorder."""

    loss: float

    @property
    def full(self) -> bool:
        """Whether the record's limit is reached."""
        ...

    def target(self, until: float) -> float:
        """Return the time at which the engine must stop at the latest."""
        ...

    def add(self, passed: Passed_contra, /) -> None:
        """Take what an engine has just passed through."""
        ...

    def note_end(self) -> None:
        """Record the loss at the time reached."""
        ...

    def memory_outcome(self) -> Outcome:
        """Return the outcome of a run that was stopped because the record was full."""
        ...


def gradient_flow(
    network: Network,
    dataset: Dataset,
    *,
    until: float,
    loss: Loss | None = None,
    speed: float = 1.0,
    epsilon: float = 1.0,
    record: Record | None = None,
    tolerance: float = 1e-8,
    stop: float = 0.0,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Trajectory:
    """Follow the gradient flow to time `until`; the inner layer moves epsilon times as fast.

    `tolerance` is the relative tolerance of the integrator; crossings are located within it, and a sliding
    neuron is released when it is pulled off faster than some 10 tolerances per unit of time. The run ends
    early, converged, when ‖∇L‖ ≤ `stop`. By default the whole path is kept, one polynomial per step (networks
    too large for that: 200 snapshots). Engines: "dense" for every network and loss; "stages", O(width) per
    step and fit for stiff problems, for a `KnotNetwork` and the square loss; "cones" for a `ReLUNetwork` on
    inputs of dimension 2, at a cost that between events does not grow with the width; "auto" takes the
    faster one. The networks of steps have smooth activations and no events. (Against a target instead of
    data: `population_flow`.)

    A `LogScaledNetwork` on orthonormal inputs (square loss, epsilon 1, ‖w_j‖ ≤ |a_j|) may start at any scale:
    plateaus are leapt over in closed form, the path is read by making steps again, and `tolerance` is
    absolute in ln‖w_j‖ and in directions. `until` is plain t; jump times of `saddle_to_saddle` are t/ln(1/α).
    On each plateau the gradient all but vanishes, so `stop` must be 0.

    Examples
    --------
    >>> import numpy as np
    >>> import shallowflow as sf
    >>> net = sf.initialize.balanced(20, 2, init_scale=0.1)
    >>> tr = sf.gradient_flow(net, sf.data.GENERATORS["three_points"](), until=5.0)
    >>> bool(np.all(np.diff(tr.losses) <= 1e-12)), tr(2.5).width
    (True, 20)
    """
    check_problem(network, dataset, log_scaled=True)
    loss = checked_loss(loss, dataset)
    until, speed = positive(until, "until"), positive(speed, "speed")
    epsilon, tolerance = positive(epsilon, "epsilon"), positive(tolerance, "tolerance")
    stop = non_negative(stop, "stop")
    one_of(engine, "engine", ENGINES)
    with np.errstate(over="ignore", invalid="ignore"):
        start = loss.value(network.predict(dataset.inputs), dataset.targets)
    if not np.isfinite(start):
        path = snapshots(network, [0.0], [flatten(network)], sparse=False)
        return Trajectory(np.zeros(1), np.array([start]), path, (), _overflow(0.0), {"engine": "none"})
    if isinstance(network, LogScaledNetwork):
        if (epsilon, stop, engine) != (1.0, 0.0, "auto"):
            raise InvalidInputError(
                "network: the flow of a LogScaledNetwork takes epsilon = 1, stop = 0 and engine = 'auto', "
                f"got {epsilon:g}, {stop:g} and {engine!r}"
            )
        return _log_flow(network, dataset, loss, speed, tolerance).run(
            until, checked_record(record, Record.every(1)), progress
        )

    options = (speed, epsilon, tolerance, stop)
    if _by_cones(network, loss, engine):
        assert isinstance(loss, SquareLoss | LogisticLoss)
        from shallowflow.dynamics.engines.cone_flow import ConeFlow

        wide = ConeFlow(network, dataset, loss, *options)
        steps = GroupRecorder(network, dataset, loss, checked_record(record, Record.every(1)), until)
        outcome = integrate(wide, steps, until, progress)
        return steps.trajectory(outcome, {"engine": wide.name, **wide.statistics()}, wide.geometry())
    recorder = FlowRecorder(network, dataset, loss, checked_record(record, dense_record(network)), until)
    runner = _engine(engine, network, dataset, loss, options)
    outcome = integrate(runner, recorder, until, progress)
    return recorder.trajectory(outcome, {"engine": runner.name, **runner.statistics()})


def _log_flow(
    network: LogScaledNetwork, dataset: Dataset, loss: Loss, speed: float, tolerance: float
) -> LogFlow:
    """Return the engine for networks of any scale, imported when it is needed."""
    from shallowflow.dynamics.engines.log_flow import LogFlow

    return LogFlow(network, dataset, checked_square_loss(loss, SquareLoss()), speed, tolerance)


def _by_cones(network: Network, loss: Loss, name: str) -> TypeGuard[ReLUNetwork]:
    """Whether the engine by cones is asked for, or fits and pays."""
    fits = (
        isinstance(network, ReLUNetwork)
        and network.dimension == 2
        and isinstance(loss, SquareLoss | LogisticLoss)
    )
    if name == "cones" and not fits:
        raise InvalidInputError(
            "engine: 'cones' needs a ReLUNetwork on inputs of dimension 2 and the square or logistic loss, "
            f"got {type(network).__name__} on dimension {network.dimension} and {type(loss).__name__}"
        )
    return name == "cones" or (name == "auto" and fits and network.width > CONES_ABOVE)


def _engine(
    name: str,
    network: ReLUNetwork | KnotNetwork | StepNetwork | AdditiveStepNetwork,
    dataset: Dataset,
    loss: Loss,
    options: tuple[float, float, float, float],
) -> FlowEngine[Segments]:
    """Return the engine of that name, or the fastest one that fits; each is imported when it is needed."""
    if isinstance(network, KnotNetwork) and isinstance(loss, SquareLoss) and name != "dense":
        from shallowflow.dynamics.engines.knot_flow import KnotFlow

        return KnotFlow(network, dataset, loss, *options)
    if name == "stages":
        raise InvalidInputError(
            f"engine: 'stages' needs a KnotNetwork and the square loss, got {type(network).__name__} "
            f"and {type(loss).__name__}"
        )
    if isinstance(network, StepNetwork | AdditiveStepNetwork):
        from shallowflow.dynamics.engines.smooth_flow import sample_flow

        return sample_flow(network, dataset, loss, *options)
    from shallowflow.dynamics.engines.dense_flow import DenseFlow
    from shallowflow.dynamics.engines.gates import Gates

    gates = Gates(network, dataset.inputs, dataset.targets, loss, tolerance=options[2])
    return DenseFlow(network, gates, *options)


def integrate(
    engine: FlowEngine[Passed],
    recorder: FlowRecording[Passed],
    until: float,
    progress: Progress | None,
) -> Outcome:
    """Let the engine run to `until`, or to the end of its means; a loss beyond all numbers ends it."""
    # Trouble shows in the value: it becomes an outcome.
    with np.errstate(over="ignore", invalid="ignore"):
        return _integrated(engine, recorder, until, progress)


def _integrated(
    engine: FlowEngine[Passed], recorder: FlowRecording[Passed], until: float, progress: Progress | None
) -> Outcome:
    if not np.isfinite(recorder.loss):
        return _overflow(0.0)
    while engine.time < until:
        recorder.add(engine.advance(recorder.target(until)))
        if progress:
            progress(engine.time / until)
        verdict = engine.verdict()
        if verdict is not None:
            return verdict
        if not np.isfinite(recorder.loss):
            return _overflow(engine.time)
        if recorder.full:
            return recorder.memory_outcome()
    recorder.note_end()
    if not np.isfinite(recorder.loss):
        return _overflow(until)
    return Outcome("completed", f"reached t = {until:g}, loss {recorder.loss:.6g}.")


def _overflow(time: float) -> Outcome:
    return Outcome("diverged", f"the loss is beyond the largest number at t = {time:g}.", "rescale the data.")
