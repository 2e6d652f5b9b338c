"""The population flow (1) of [two_timescale]: a network against a target, with exact integrals."""

from __future__ import annotations

from functools import partial

import numpy as np

from shallowflow.arrays import Floats, flag, non_negative, positive
from shallowflow.data.targets import Additive, PiecewiseConstant
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import Record, checked_record
from shallowflow.dynamics.clock.protocol import flatten, unflatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.flow import every_step
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import (
    Target,
    check_resolved,
    population_loss,
    target_gradient,
)
from shallowflow.landscape.two_timescale.step_classes import checked_target
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import AdditiveStepNetwork, Network, StepNetwork

LONG = 100.0
"""Of longer runs, speed·until, most is near rest, where stability bounds explicit steps."""
STIFF_UP_TO = 0.1
"""Ratio epsilon up to which the implicit method is taken: the smaller it is, the stiffer the flow."""


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
    for small epsilon.

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
    long = max(epsilon, 1.0) * speed * until > LONG
    implicit = epsilon <= STIFF_UP_TO or long if stiff is None else flag(stiff, "stiff")
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
