"""The population flow (1) of [two_timescale]: a `StepNetwork` against a target, with exact integrals."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, non_negative, positive
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.driver import Measure, Progress
from shallowflow.dynamics.flow import integrate
from shallowflow.dynamics.flow_recorder import PathRecorder, dense_record
from shallowflow.dynamics.path import flatten, unflatten
from shallowflow.dynamics.problem import checked_record
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import check_steps, population_gradient, step_loss
from shallowflow.landscape.two_timescale.step_classes import checked_target
from shallowflow.models.networks import Network, StepNetwork


def population_flow(
    network: StepNetwork,
    target: PiecewiseConstant,
    *,
    until: float,
    epsilon: float = 1.0,
    speed: float = 1.0,
    record: Record | None = None,
    tolerance: float = 1e-8,
    stop: float = 0.0,
    stiff: bool = False,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow a' = −speed·∇_a L, u' = −speed·epsilon·∇_u L with L = ½∫(f − f*)² over [0, 1], exactly.

    The gradient flow (1) of [two_timescale], the limit of `stochastic_descent` for small steps. Slow time is
    τ = epsilon·t. The run ends early, converged, when ‖∇L‖ ≤ `stop`. `stiff` integrates by LSODA instead of
    an explicit method: faster once neurons have settled at jumps, where rates are of order ε s²/η.

    Examples
    --------
    >>> import shallowflow as sf
    >>> target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    >>> net = sf.initialize.uniform_positions(8, sharpness=0.02, seed=1)
    >>> tr = population_flow(net, target, until=500.0, epsilon=1e-2)
    >>> bool(tr.losses[-1] < 0.05 * tr.losses[0])
    True
    """
    from shallowflow.dynamics.engines.smooth_flow import SmoothFlow, layer_rates

    check_trainable(network, target)
    checked_target(target)
    until, tolerance = positive(until, "until"), positive(tolerance, "tolerance")
    rates = layer_rates(network, positive(speed, "speed"), positive(epsilon, "epsilon"))

    def gradient(theta: Floats) -> Floats:
        now = unflatten(network, theta)
        assert isinstance(now, StepNetwork)
        parts = population_gradient(now, target)
        return np.concatenate([np.ravel(parts[name]) for name in now.PARAMETERS])

    engine = SmoothFlow(
        flatten(network),
        gradient,
        rates,
        tolerance=tolerance,
        stop=non_negative(stop, "stop"),
        stiff=stiff,
    )
    recorder = PathRecorder(
        network, loss_against(target), checked_record(record, dense_record(network)), until
    )
    outcome = integrate(engine, recorder, until, progress)
    return recorder.trajectory(outcome, {"engine": engine.name, **engine.statistics()})


def check_trainable(network: object, target: object) -> None:
    """Refuse anything but a `StepNetwork` of positive sharpness and a `PiecewiseConstant` target."""
    check_steps(network, target)
    assert isinstance(network, StepNetwork)
    if network.sharpness == 0:
        raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")


def loss_against(target: PiecewiseConstant) -> Measure:
    """Return the function network → ½∫(f − f*)² against a target."""

    def measure(network: Network) -> float:
        assert isinstance(network, StepNetwork)
        return step_loss(network, target)

    return measure
