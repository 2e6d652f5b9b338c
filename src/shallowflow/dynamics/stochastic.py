"""One-pass stochastic gradient descent on samples of a target, [two_timescale] (9)."""

from __future__ import annotations

from shallowflow.arrays import Seed, count, non_negative, positive, seed_sequence, shown
from shallowflow.data.targets import Additive, PiecewiseConstant, Target
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.paths import flatten
from shallowflow.dynamics.clock.problem import Record, SampledTask, Sampling, checked_record, default_record
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import population_loss
from shallowflow.landscape.two_timescale.step_classes import checked_target
from shallowflow.models.loss import Loss, NormLoss, SquareLoss
from shallowflow.models.networks import Network, StepNetwork


def stochastic_descent(
    network: Network,
    target: Target,
    *,
    step: float,
    steps: int,
    epsilon: float = 1.0,
    batch: int = 1,
    noise: float = 0.0,
    seed: Seed = 0,
    loss: Loss | None = None,
    box_slope: bool = False,
    record: Record | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Trajectory:
    """Run `steps` steps of SGD, each on `batch` fresh samples x ~ U[0, 1]^d, y = f*(x) + noise·U[−1, 1].

    The inner layer moves with step·epsilon. Losses are exact: ½∫(f − f*)² over [0, 1]^d, without the noise
    (see `landscape.population_loss`, which lists the pairs of network and target); time is step × number of
    steps. For a `StepNetwork` the engines "plain", "plateaus" (O(m), vectorised) and "hats" (nearly O(1))
    make the same steps from the same random stream; the last two take batch 1 only. "dense" is NumPy, for
    every network, with a stream of its own. loss: of a sample, ½·mean of squares by default ("dense" only).
    seed: None (fresh entropy), an integer, a SeedSequence, or a Generator, of which a copy is used: it does
    not advance, and the same run can be made again. box_slope: replace σ' by the indicator of its window, as
    the published script of [two_timescale] does.

    Examples
    --------
    >>> import shallowflow as sf
    >>> target = sf.PiecewiseConstant([0.5], [0.0, 1.0])
    >>> net = sf.initialize.uniform_positions(8, sharpness=0.02, seed=1)
    >>> tr = stochastic_descent(net, target, step=1e-2, epsilon=1e-2, steps=100_000, seed=0)
    >>> bool(tr.losses[-1] < 0.1 * tr.losses[0])
    True
    """
    population_loss(network, target)  # refuses what does not fit
    for part in target.components if isinstance(target, Additive) else (target,):
        if isinstance(part, PiecewiseConstant):
            checked_target(part)
    if isinstance(network, StepNetwork) and network.sharpness == 0:
        raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")
    step, steps = positive(step, "step"), count(steps, "steps")
    epsilon = positive(epsilon, "epsilon")
    sampling = Sampling(
        step,
        step * epsilon,
        non_negative(noise, "noise"),
        count(batch, "batch"),
        seed_sequence(seed),
        bool(box_slope),
    )
    if loss is not None and not isinstance(loss, SquareLoss | NormLoss):
        raise InvalidInputError(f"loss: must be SquareLoss() or NormLoss(), got {shown(loss)}")
    make = chosen_engine("stochastic_descent", engine, SampledTask(network, target, loss, sampling, steps))
    record = checked_record(record, default_record(flatten(network).size))
    setting = Setting("stochastic_descent", None, target, loss or SquareLoss(), step=step, epsilon=epsilon)
    return run(make, record, steps * step, setting=setting, progress=progress)
