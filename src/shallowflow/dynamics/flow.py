"""Gradient flow, dθ/dt = −speed·∇L(θ): on data, against a target, and in the limit of two timescales.

**On data** it is Filippov's, with located events, callable at any time; **against a target** it is the
population flow (1) of [two_timescale], with exact integrals.

With `leap` a small start goes by the clock: the alignment phase in closed form, whatever its scale, then the
flow. While all neurons together have changed the loss by a share δ at most, the forces are those at the start
up to some √δ·δ of their size, and every neuron moves alone in closed form (`landscape.exit_time`). With δ =
10⁻³ later times differ from those of the flow by less than 0.1 % (tested on two data sets), at a cost that
does not grow with ln(1/scale).

**The two-timescale limit** (5) of [two_timescale] has a = a*(u) at once, and du/dτ = −∇_u L(a*(u), u); for
every network, on data or against a target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from shallowflow.arrays import Floats, flag, non_negative, positive, probability, real, shown
from shallowflow.data.dataset import Additive, Dataset, PiecewiseConstant
from shallowflow.dynamics.baselines import dense_outer
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, not_begun, run
from shallowflow.dynamics.clock.paths import Polynomials
from shallowflow.dynamics.clock.problem import (
    DEFAULT_BYTES,
    Record,
    Task,
    check_problem,
    checked_loss,
    checked_record,
)
from shallowflow.dynamics.clock.protocol import flatten, unflatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.heaviside import HeavisideFlow
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.frozen import FrozenFlow, exit_time
from shallowflow.landscape.two_timescale.population import (
    Target,
    best_target_outer,
    check_resolved,
    parts_of,
    population_loss,
    target_gradient,
    well_separated,
)
from shallowflow.landscape.two_timescale.step_classes import (
    checked_target,
)
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import (
    OUTER_LAYER,
    AdditiveStepNetwork,
    KnotNetwork,
    LogScaledNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)

EXPECTED_NODES = 40_000


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
    leap: float = 0.0,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow the gradient flow to time `until`; the inner layer moves epsilon times as fast.

    epsilon = 0 is the limit of small ones, `two_timescale_limit`, in the slow time τ = εt.

    `tolerance` is the relative tolerance of the integrator; crossings are located within it, and a sliding
    neuron is released when it is pulled off faster than some 10 tolerances per unit of time. The run ends
    early, converged, when ‖∇L‖ ≤ `stop`. By default the whole path is kept, one polynomial per step (networks
    too large for that: 200 snapshots). Engines: "walls" for a `ReLUNetwork` in any
    dimension; "cones" for a `ReLUNetwork` on inputs of dimension 2, at a cost that between events does not
    grow with the width; "stages", O(width) per step and fit for stiff problems, for a `KnotNetwork` and the
    square loss, "dense" for its other losses; "auto" takes the faster one. A neuron that starts on the
    hyperplane of a point or at w = 0 follows one rule: it goes where the subgradient of least norm sends it,
    from a hyperplane that repels it to a side drawn by a hash of its number, from w = 0 the steepest way. The
    networks of steps have smooth activations and no events. (Against a target instead of data:
    `population_flow`.)

    A `LogScaledNetwork` on orthonormal inputs (square loss, epsilon 1, ‖w_j‖ ≤ |a_j|) may start at any scale:
    plateaus are leapt over in closed form, the path is read by making steps again, and `tolerance` is
    absolute in ln‖w_j‖ and in directions. `until` is plain t; jump times of `saddle_to_saddle` are t/ln(1/α).
    On each plateau the gradient all but vanishes, so `stop` must be 0.

    `leap` > 0, for a balanced `ReLUNetwork` and epsilon 1: the start is moved in closed form until the loss
    has fallen by this share (10⁻³: later times are right to 0.1 %), at a cost that does not grow with
    ln(1/scale). The trajectory begins there; records count from there.

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
    epsilon, tolerance = non_negative(epsilon, "epsilon"), positive(tolerance, "tolerance")
    stop = non_negative(stop, "stop")
    begin = 0.0
    if real(leap, "leap") != 0:
        share = probability(leap, "leap")
        if epsilon != 1.0:
            raise InvalidInputError(f"leap: needs epsilon = 1, got {epsilon:g}")
        network, begin = leapt(network, dataset, loss, share)
        begin /= speed
        if begin >= until:
            raise InvalidInputError(
                f"until: must lie beyond the leap, which ends at {begin:g}, got {until:g}"
            )
    if epsilon == 0:
        if loss != SquareLoss() or speed != 1 or engine != "auto":
            raise InvalidInputError(
                "epsilon: 0, the two-timescale limit, takes the loss ½·mean of squares, speed 1 and engine "
                f"'auto', got {shown(loss)}, {speed:g} and {engine!r}"
            )
        options: Any = {"record": record, "tolerance": tolerance, "stop": stop, "progress": progress}
        return two_timescale_limit(network, dataset, until=until, **options)
    task = Task(network, dataset, loss, epsilon=epsilon, speed=speed, tolerance=tolerance, stop=stop)
    setting = Setting("gradient_flow", None, dataset, loss, None, speed, epsilon, tolerance)
    if isinstance(network, LogScaledNetwork) and (epsilon, stop) != (1.0, 0.0):
        raise InvalidInputError(
            "network: the flow of a LogScaledNetwork takes epsilon = 1 and stop = 0, "
            f"got {epsilon:g} and {stop:g}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        make = chosen_engine("gradient_flow", engine, task)
        start = task.measure(network)
    if not np.isfinite(start):
        return not_begun(network, start, setting)
    record = checked_record(record, every_step(network, make.func))
    trajectory = run(make, record, until - begin, setting=setting, measure=task.measure, progress=progress)
    return later(trajectory, begin) if leap else trajectory


def every_step(network: Network, engine: object = None) -> Record:
    """Return the default of a flow: every step, or 200 snapshots where that would take too much memory."""
    compact = getattr(getattr(engine, "reads", None), "compact", False)
    if compact or 8 * EXPECTED_NODES * flatten(network).size <= DEFAULT_BYTES:
        return Record.every(1)
    return Record.geometric()


BALANCE = 1e-9
"""‖w_j‖² and a_j² of a balanced start differ by this share at most."""


def leapt(network: Network, dataset: Dataset, loss: Loss, share: float) -> tuple[ReLUNetwork, float]:
    """Return a balanced network when the clock says that the loss has fallen by a share, and when that is."""
    if not isinstance(network, ReLUNetwork) or not _balanced(network):
        raise InvalidInputError("leap: is for a balanced ReLUNetwork, ‖w_j‖ = |a_j|: `initialize.balanced`")
    found = exit_time(network, dataset, fall=share, loss=loss)
    if not found.reached:
        raise InvalidInputError(f"leap: the loss never falls by {share:g} under the forces of the start")
    flow = FrozenFlow(network, dataset, -loss.slopes(network.predict(dataset.inputs), dataset.targets))
    flow.advance(found.time)
    moved = flow.moved()
    assert isinstance(moved, ReLUNetwork)
    return moved, float(found.time)


def _balanced(network: ReLUNetwork) -> bool:
    squares = np.sum(network.inner**2, axis=1)
    return bool(np.all(np.abs(squares - network.outer**2) <= BALANCE * (squares + network.outer**2)))


def later(trajectory: Trajectory, begin: float) -> Trajectory:
    """Return a run whose clock began at 0 as one that began at `begin`."""
    shifted: dict[str, Any] = {
        one.name: _plus(getattr(trajectory.path, one.name), begin)
        for one in fields(trajectory.path)
        if one.name == "times" or one.name.endswith("_times")
    }
    if isinstance(trajectory.path, Polynomials):
        # Steps that are too short for a clock that does not begin at 0 carry nothing.
        longer = np.diff(shifted["times"]) > 0
        shifted["values"] = trajectory.path.values[longer]
        shifted["times"] = np.append(shifted["times"][:-1][longer], shifted["times"][-1])
    events = tuple(replace(event, time=event.time + begin) for event in trajectory.events)
    statistics = {**trajectory.statistics, "start by the clock, until": begin}
    return replace(
        trajectory,
        times=trajectory.times + begin,
        path=replace(trajectory.path, **shifted),
        events=events,
        statistics=statistics,
    )


def _plus(times: Floats | None, begin: float) -> Floats | None:
    return None if times is None else times + begin


FEW = 100
"""Parameters up to which LSODA is as fast as the explicit method or faster, at any length and ratio."""
SHORT, LONG = 1.0, 100.0
"""Of wider networks, in units of the fastest layer: up to `SHORT` LSODA makes steps of Adams' method, cheaper
than explicit ones of order 8; beyond `LONG` stability bounds these. Between them most of its time would go
into Jacobians, one evaluation for every parameter."""


def population_flow(
    network: Network,
    target: Target,
    *,
    until: float,
    epsilon: float = 1.0,
    speed: float = 1.0,
    record: Record | None = None,
    tolerance: float = 1e-8,
    stop: float = 0.0,
    stiff: bool | None = None,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow a' = −speed·∇_a L, u' = −speed·epsilon·∇_u L with L = ½∫(f − f*)² over [0, 1]^d, exactly.

    For a `StepNetwork` and a `PiecewiseConstant`, an `AdditiveStepNetwork` and an `Additive` of those, a
    `KnotNetwork` and a `PiecewiseAffine`.
    The gradient flow (1) of [two_timescale], the limit of `stochastic_descent` for small steps. Slow time is
    τ = epsilon·t. The run ends early, converged, when ‖∇L‖ ≤ `stop`. `stiff` integrates by LSODA instead of
    an explicit method: faster once neurons have settled at jumps, where rates are of order ε s²/η; by default
    but for wide networks over middling times.

    Examples
    --------
    >>> import shallowflow as sf
    >>> target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    >>> net = sf.initialize.uniform_positions(8, sharpness=0.02, seed=1)
    >>> tr = population_flow(net, target, until=500.0, epsilon=1e-2)
    >>> bool(tr.losses[-1] < 0.05 * tr.losses[0])
    True
    """
    from shallowflow.dynamics.engines.smooth_flow import Field, SmoothFlow, layer_rates

    check_trainable(network, target)
    until, tolerance = positive(until, "until"), positive(tolerance, "tolerance")
    speed, epsilon, stop = positive(speed, "speed"), positive(epsilon, "epsilon"), non_negative(stop, "stop")

    def gradient(theta: Floats) -> Floats:
        parts = target_gradient(unflatten(network, theta), target)
        return np.concatenate([np.ravel(parts[name]) for name in network.PARAMETERS])

    measure = partial(population_loss, target=target)
    rates = layer_rates(network, speed, epsilon)
    field = Field(network, flatten(network), rates, gradient, measure)
    length = max(epsilon, 1.0) * speed * until
    faster = field.start.size <= FEW or not SHORT < length <= LONG
    implicit = faster if stiff is None else flag(stiff, "stiff")
    make = partial(SmoothFlow, field, tolerance=tolerance, stop=stop, stiff=implicit)
    record = checked_record(record, every_step(network))
    setting = Setting("population_flow", None, target, SquareLoss(), None, speed, epsilon, tolerance)
    return run(make, record, until, setting=setting, measure=measure, progress=progress)


def check_trainable(network: Network, target: Target) -> None:
    """Refuse pairs that do not fit, jumps outside (0, 1), and steps of no sharpness or an unresolved one."""
    population_loss(network, target)  # refuses what does not fit
    for part in target.components if isinstance(target, Additive) else (target,):
        if isinstance(part, PiecewiseConstant):
            checked_target(part)
    if isinstance(network, StepNetwork | AdditiveStepNetwork):
        if network.sharpness == 0:
            raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")
        check_resolved(network.sharpness)


def two_timescale_limit(
    network: Network,
    target: Target | Dataset,
    *,
    until: float,
    record: Record | None = None,
    tolerance: float = 1e-8,
    stop: float = 0.0,
    stiff: bool | None = None,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow the limit ε → 0 of `gradient_flow` or `population_flow` in the slow time τ = εt.

    The inner layer flows, the outer one is at its optimum (of minimum norm where it is not unique); the given
    outer weights play no part. The loss is ½·mean of squares, or ½∫(f − f*)² over [0, 1]^d.

    **A data set.** Any network but a log-scaled one; for a `ReLUNetwork` and a `KnotNetwork` with events and
    sliding as in `gradient_flow`. Where the rank of the features changes, the optimum may jump.

    **A target.** The pairs of `landscape.population_loss`. Steps with sharpness = 0: from event to event by
    the closed form of (7) where it applies, with hitting times exact to rounding, else integrated at nearly
    full precision; events say which neuron reaches which jump. sharpness > 0: adaptive integration to
    `tolerance` (by an implicit method unless `stiff` is False), early end when ‖∇_u L‖ ≤ `stop`; the
    statistics say when u left 𝒰 (Δ(u) > 2η), where a*(u) is certain to be unique; it is followed beyond. The
    limit of an `AdditiveStepNetwork` is that of its coordinates side by side; in its events neuron j of
    coordinate k has the number j·d + k.

    Examples
    --------
    >>> import shallowflow as sf
    >>> target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    >>> tr = two_timescale_limit(sf.StepNetwork([0.3, 0.6], [0.0, 0.0]), target, until=2.0)
    >>> [(event.kind, event.neuron, round(event.time, 4)) for event in tr.events], tr.losses[-1].item()
    ([('hit', 1, 0.3201)], 0.0)
    >>> curve = sf.data.GENERATORS["curve"]("sin_pi", 20)
    >>> tr = two_timescale_limit(sf.KnotNetwork([-1.2, -0.5, 0.3], [0.0] * 3), curve, until=1.0)
    >>> bool(tr.losses[-1] < tr.losses[0]), tr.final == sf.least_squares_outer(tr.final, curve)
    (True, True)
    """
    until, tolerance = positive(until, "until"), positive(tolerance, "tolerance")
    stop = non_negative(stop, "stop")
    setting = Setting("two_timescale_limit", None, target, SquareLoss(), tolerance=tolerance)
    measure: Callable[[Any], float]
    if isinstance(target, Dataset):
        check_problem(network, target)
        task = Task(network, target, SquareLoss(), tolerance=tolerance, stop=stop)
        make, measure = _on_data(task, stiff is not False), task.measure
    else:
        _check_target(network, target)
        measure = partial(population_loss, target=target)
        make = _on_target(network, target, until, tolerance, stop, stiff is not False)
    record = checked_record(record, every_step(network))
    trajectory = run(make, record, until, setting=setting, measure=measure, progress=progress)
    if not isinstance(network, StepNetwork) or network.sharpness == 0 or isinstance(target, Dataset):
        return trajectory
    statistics = {**trajectory.statistics, "left 𝒰 at": _leaves_domain(trajectory)}
    return replace(trajectory, statistics=statistics)


def _check_target(network: Network, target: Target) -> None:
    """Refuse pairs that do not fit, jumps outside (0, 1), positions outside [0, 1], blurred steps."""
    population_loss(network, target)
    for part in target.components if isinstance(target, Additive) else (target,):
        if isinstance(part, PiecewiseConstant):
            checked_target(part)
    if isinstance(network, StepNetwork | AdditiveStepNetwork):
        check_resolved(network.sharpness)
        if np.any((network.positions < 0) | (network.positions > 1)):
            raise InvalidInputError("network: positions must lie in [0, 1] for the limit, got one outside")


def _on_data(task: Task, stiff: bool) -> Callable[[], Any]:
    """Return what makes the limit on a data set."""
    from shallowflow.dynamics.engines.dense_flow import LimitFlow

    network, dataset = task.network, task.dataset
    if isinstance(network, ReLUNetwork | KnotNetwork):
        return partial(LimitFlow, task)

    def gradient(now: Network) -> Any:
        return now.pullback(dataset.inputs, task.loss.slopes(now.predict(dataset.inputs), dataset.targets))

    def best(now: Network) -> Network:
        return now.moved(dense_outer(now, dataset.inputs, dataset.targets))

    return _smooth(best(network), gradient, best, task.measure, (task.tolerance, task.stop, stiff))


def _on_target(
    network: Network, target: Target, until: float, tolerance: float, stop: float, stiff: bool
) -> Callable[[], Any]:
    """Return what makes the limit against a target."""
    from shallowflow.dynamics.engines.smooth_flow import ProductFlow

    if isinstance(network, AdditiveStepNetwork) and isinstance(target, Additive):

        def follow() -> list[Any]:
            options: Any = {"until": until, "tolerance": tolerance, "stop": stop, "stiff": stiff}
            return [two_timescale_limit(*part, **options) for part in parts_of(network, target)]

        return partial(ProductFlow, network, follow, partial(population_loss, target=target))
    start = best_target_outer(network, target)
    if isinstance(start, StepNetwork) and start.sharpness == 0:
        assert isinstance(target, PiecewiseConstant)
        return partial(HeavisideFlow, start, target)
    gradient, best = partial(target_gradient, target=target), partial(best_target_outer, target=target)
    measure = partial(population_loss, target=target)
    return _smooth(start, gradient, best, measure, (tolerance, stop, stiff))


def _smooth(
    network: Network,
    gradient: Callable[[Any], Any],
    best: Callable[[Any], Any],
    measure: Callable[[Any], float],
    options: tuple[float, float, bool],
) -> Callable[[], Any]:
    """Return what makes the flow of the inner parameters u with a = a*(u), without events."""
    from shallowflow.dynamics.engines.smooth_flow import Field, SmoothFlow

    (inner,) = (name for name in network.PARAMETERS if name not in OUTER_LAYER)
    shape = network.parameters[inner].shape
    tolerance, stop, stiff = options

    def placed(u: Floats) -> Any:
        return best(network.moved({inner: u.reshape(shape)}))

    field: Field[Any] = Field(
        network,
        network.parameters[inner].ravel(),
        np.ones(network.parameters[inner].size),
        lambda u: np.ravel(gradient(placed(u))[inner]),
        measure,
        lambda u: flatten(placed(u)),
    )
    return partial(SmoothFlow, field, tolerance=tolerance, stop=stop, stiff=stiff)


def _leaves_domain(trajectory: Trajectory[Any]) -> float:
    """Return the first recorded time at which u is not in 𝒰; ∞ if there is none."""
    values, template = trajectory.path.recorded(), trajectory.path.template
    for time, theta in zip(trajectory.path.times, values, strict=True):
        if not well_separated(unflatten(template, theta)):
            return float(time)
    return float("inf")
