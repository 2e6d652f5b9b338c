"""The two-timescale limit (5) of [two_timescale]: a = a*(u) at once, and du/dτ = −∇_u L(a*(u), u)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from shallowflow.arrays import Floats, non_negative, positive
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.paths import flatten, unflatten
from shallowflow.dynamics.clock.problem import Record, checked_record
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.engines.heaviside import HeavisideFlow
from shallowflow.dynamics.flow import every_step
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.jump_pair import EdgePair, JumpPair
from shallowflow.landscape.two_timescale.population import (
    best_outer,
    check_steps,
    population_gradient,
    step_loss,
    well_separated,
)
from shallowflow.landscape.two_timescale.step_classes import checked_target
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import StepNetwork

if TYPE_CHECKING:
    from shallowflow.dynamics.engines.smooth_flow import SmoothFlow


def two_timescale_limit(
    network: StepNetwork,
    target: PiecewiseConstant,
    *,
    until: float,
    record: Record | None = None,
    tolerance: float = 1e-8,
    stop: float = 0.0,
    stiff: bool | None = None,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow the limit ε → 0 of `population_flow` in the slow time τ = εt; the given outer weights play no
    part.

    sharpness = 0: from event to event by the closed form of (7) where it applies, with hitting times exact
    to rounding, else integrated at nearly full precision; events say which neuron reaches which jump.
    sharpness > 0: adaptive integration to `tolerance` (by an implicit method unless `stiff` is False), early
    end when ‖∇_u L‖ ≤ `stop`; the statistics say when u left 𝒰 (Δ(u) > 2η), where a*(u) is certain to be
    unique; it is followed beyond.

    Examples
    --------
    >>> import shallowflow as sf
    >>> target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    >>> tr = two_timescale_limit(sf.StepNetwork([0.3, 0.6], [0.0, 0.0]), target, until=2.0)
    >>> [(event.kind, event.neuron, round(event.time, 4)) for event in tr.events], tr.losses[-1].item()
    ([('hit', 1, 0.3201)], 0.0)
    """
    check_steps(network, target)
    checked_target(target)
    until, tolerance = positive(until, "until"), positive(tolerance, "tolerance")
    if np.any((network.positions < 0) | (network.positions > 1)):
        raise InvalidInputError("network: positions must lie in [0, 1] for the limit, got one outside")
    start, stop = best_outer(network, target), non_negative(stop, "stop")
    record = checked_record(record, every_step(start))
    setting = Setting("two_timescale_limit", None, target, SquareLoss(), tolerance=tolerance)
    measure = partial(step_loss, target=target)
    if network.sharpness == 0:
        events = partial(HeavisideFlow, start, target)
        return run(events, record, until, setting=setting, measure=measure, progress=progress)
    smooth = _smooth_limit(start, target, tolerance, stop, stiff is not False)
    trajectory = run(smooth, record, until, setting=setting, measure=measure, progress=progress)
    statistics = {**trajectory.statistics, "left 𝒰 at": _leaves_domain(trajectory)}
    return replace(trajectory, statistics=statistics)


def _smooth_limit(
    network: StepNetwork, target: PiecewiseConstant, tolerance: float, stop: float, stiff: bool
) -> Callable[[], SmoothFlow[StepNetwork]]:
    """Return what makes the flow of the positions u (m,) with a = a*(u)."""
    from shallowflow.dynamics.engines.smooth_flow import Field, SmoothFlow

    def best(u: Floats) -> StepNetwork:
        return best_outer(network.moved({"positions": u}), target)

    field = Field(
        network,
        network.positions,
        np.ones(network.width),
        lambda u: population_gradient(best(u), target)["positions"],
        partial(step_loss, target=target),
        lambda u: flatten(best(u)),
    )
    return partial(SmoothFlow, field, tolerance=tolerance, stop=stop, stiff=stiff)


def _leaves_domain(trajectory: Trajectory[StepNetwork]) -> float:
    """Return the first recorded time at which u is not in 𝒰; ∞ if there is none."""
    values, template = trajectory.path.recorded(), trajectory.path.template
    for time, theta in zip(trajectory.path.times, values, strict=True):
        if not well_separated(unflatten(template, theta)):
            return float(time)
    return float("inf")


def hitting_times(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return when the two-timescale limit with η = 0 reaches each jump (n − 1,), ∞ for jumps outside (0, 1).

    Exact where at least two neurons lie on every piece, [two_timescale] (7), and for a lone jump with neurons
    on one side only, whose partner is the edge of [0, 1]; otherwise an estimate from the neurons next to
    each jump.

    Examples
    --------
    >>> target = PiecewiseConstant([0.5], [0.0, 1.0])
    >>> hitting_times(StepNetwork([0.3, 0.6], [0.0, 0.0]), target).round(4)
    array([0.3201])
    """
    check_steps(network, target)
    times = np.full(len(target.breakpoints), np.inf)
    for i, (v, size) in enumerate(zip(target.breakpoints, target.jumps, strict=True)):
        below, above = network.positions[network.positions <= v], network.positions[network.positions > v]
        if not 0 < v < 1:
            continue
        square = float(size) ** 2
        if below.size and above.size:
            times[i] = JumpPair(float(v - below.max()), float(above.min() - v), square).hitting_time
        elif below.size:
            times[i] = EdgePair(float(1.0 - v), float(v - below.max()), square).hitting_time
        else:
            times[i] = EdgePair(float(v), float(above.min() - v), square).hitting_time
    return times
