"""The two-timescale limit (5) of [two_timescale]: a = a*(u) at once, and du/dτ = −∇_u L(a*(u), u).

For every network: on a data set, or against a target with exact integrals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shallowflow.arrays import Floats, non_negative, positive, shown
from shallowflow.data.dataset import Dataset
from shallowflow.data.targets import Additive, PiecewiseConstant
from shallowflow.dynamics.baselines import dense_outer
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import Record, Task, check_problem, checked_record
from shallowflow.dynamics.clock.protocol import flatten, unflatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.engines.heaviside import HeavisideFlow
from shallowflow.dynamics.flow import every_step
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import (
    Target,
    best_target_outer,
    check_resolved,
    check_steps,
    parts_of,
    population_loss,
    target_gradient,
    well_separated,
)
from shallowflow.landscape.two_timescale.step_classes import (
    checked_target,
    fewest_per_piece,
    times_by_neighbours,
)
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import (
    OUTER_LAYER,
    AdditiveStepNetwork,
    KnotNetwork,
    Network,
    ReLUNetwork,
    StepNetwork,
)


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


HORIZON = 100.0
"""Of the event-driven limit, in units of 8/s², the longest that a neuron between two others takes."""


def hitting_times(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return when the two-timescale limit with η = 0 reaches each jump for good (n − 1,), ∞ if it does not.

    By the closed form where at least two neurons lie on every piece, [two_timescale] (7), or there is one
    jump; otherwise by the event-driven limit, followed to τ = 800/s² with s the smallest jump: then ∞ means
    that no neuron is held at the jump by that time. Jumps outside (0, 1) have ∞.

    Examples
    --------
    >>> target = PiecewiseConstant([0.5], [0.0, 1.0])
    >>> hitting_times(StepNetwork([0.3, 0.6], [0.0, 0.0]), target).round(4)
    array([0.3201])
    >>> stuck = PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 0.0])  # all on the last piece: App. D.1
    >>> hitting_times(StepNetwork([0.65, 0.75, 0.85], [0.0] * 3), stuck)
    array([inf, inf])
    """
    check_steps(network, target)
    inside = (target.breakpoints > 0) & (target.breakpoints < 1) & (target.jumps != 0)
    lone = inside.sum() == 1 and np.any((network.positions > 0) & (network.positions < 1))
    if not inside.any():
        return np.full(len(inside), np.inf)
    if lone or (inside.all() and fewest_per_piece(network.positions, target) >= 2):
        return times_by_neighbours(network.positions, target)
    return _by_events(network, target, inside)


def _by_events(network: StepNetwork, target: PiecewiseConstant, inside: Any) -> Floats:
    """Return the last time at which a neuron came to each jump and stayed, by the event-driven limit."""
    if np.any((network.positions < 0) | (network.positions > 1)):
        raise InvalidInputError(
            f"network: positions must lie in [0, 1] for the limit, got {shown(network.positions)}"
        )
    chosen = PiecewiseConstant(
        target.breakpoints[inside],
        target.values[np.append(np.flatnonzero(inside), np.flatnonzero(inside)[-1] + 1)],
    )
    sharp = StepNetwork(network.positions, np.zeros(network.width))
    until = HORIZON * 8.0 / float(np.min(np.abs(chosen.jumps))) ** 2
    run_to = two_timescale_limit(sharp, chosen, until=until)
    held = dict[int, dict[int, float]]()
    # A neuron that starts at a jump is held there from the start, unless an event says otherwise.
    for i, v in enumerate(chosen.breakpoints):
        held[i] = {int(j): 0.0 for j in np.flatnonzero(network.positions == v)}
    for event in run_to.events:
        if event.kind == "hit":
            held[event.point][event.neuron] = event.time
        elif event.kind in ("release", "pass"):
            held[event.point].pop(event.neuron, None)
    times = np.full(len(target.breakpoints), np.inf)
    times[np.flatnonzero(inside)] = [min(held[i].values(), default=np.inf) for i in range(len(chosen.jumps))]
    return times
