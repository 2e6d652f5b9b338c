"""Thresholds that no theorem names, measured by bisection: the critical scale, and the largest small ratio ε.

Below the critical scale of initialisation networks end in the least-squares line, above they fit.
[early_alignment] Theorems 2 and 4 say that there is a λ̃ > 0 below which the flow ends in the line, but give
no number. On one start and its multiples it can be measured: the flow either stays at the line's loss or
leaves it.

[two_timescale] needs a small ratio ε of the layers' speeds, and Theorem 1 one of 10⁻⁴⁰. Start by start the
largest one at which the flow still does what the limit ε → 0 does can be measured: `transition_in_epsilon`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Seed, count, one_of, positive
from shallowflow.data.dataset import Dataset, PiecewiseConstant, checked_dataset
from shallowflow.dynamics.clock.loop import Progress
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow, population_flow, two_timescale_limit
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.ends import least_squares
from shallowflow.landscape.two_timescale.population import Target
from shallowflow.landscape.two_timescale.step_classes import jump_distances
from shallowflow.landscape.two_timescale.timescales import timescales
from shallowflow.models import initialize
from shallowflow.models.networks import Network, ReLUNetwork, StepNetwork

STARTS = ("balanced", "dominated", "gaussian")
SCALES, HALVINGS, UNTIL = (1e-7, 1.0), 6, 400.0
"""Unless the user says: where λ_c is looked for, how often that is halved, and the final time of a flow."""
LEFT = 0.5
"""A flow has left the line when its loss is below this share of the line's."""
FITTED = 1e-12


@dataclass(frozen=True)
class CriticalScale:
    """A threshold in [low, high]: what is asked for (to end in the line, to follow the limit) holds at low,
    and does not at high.

    low = 0: it does not hold even at the smallest number tried; high = ∞: it holds even at the largest.
    """

    low: float
    high: float

    @property
    def value(self) -> float:
        """The geometric mean of the two, or the one that is finite and positive (then only a bound)."""
        if self.low == 0 or np.isinf(self.high):
            return self.high if self.low == 0 else self.low
        return float(np.sqrt(self.low * self.high))

    @property
    def found(self) -> bool:
        """Whether both ends were seen."""
        return self.low > 0 and bool(np.isfinite(self.high))

    def __str__(self) -> str:
        if not self.found:
            return f"below {self.high:.2g}" if self.low == 0 else f"above {self.low:.2g}"
        return f"{self.low:.2g} to {self.high:.2g}"


def critical_scale(
    dataset: Dataset,
    init: str = "balanced",
    *,
    width: int = 50,
    seed: Seed = 0,
    smallest: float = SCALES[0],
    largest: float = SCALES[1],
    halvings: int = HALVINGS,
    until: float = UNTIL,
) -> CriticalScale:
    """Return between which scales the flow from one start changes from the line to a better fit.

    init: "balanced", "dominated" or "gaussian", whose weights are multiplied by λ; halvings: of the interval
    [smallest, largest] of λ, on a logarithmic axis, taking it that there is one change. until: of each flow.

    Examples
    --------
    >>> data = Dataset([[-0.95], [0.0], [0.95]], [1.0, 0.05, 1.0]).with_bias()
    >>> found = critical_scale(data, width=20, halvings=3, until=100.0)
    >>> found.found, found.low < found.high
    (True, True)
    """
    halvings = count(halvings, "halvings")
    low, high = positive(smallest, "smallest"), positive(largest, "largest")
    if low >= high:
        raise InvalidInputError(f"smallest: must be below largest, got {low:g} and {high:g}")
    return bisected(line_test(dataset, init, width=width, seed=seed, until=until), low, high, halvings)


def line_test(
    dataset: Dataset,
    init: str,
    *,
    width: int,
    seed: Seed,
    until: float = UNTIL,
    progress: Progress | None = None,
) -> Callable[[float], bool]:
    """Return a test of λ: whether the flow from one start, times λ, ends in the least-squares line.

    progress: called with how many flows are done, and which share of the present one.
    """
    one_of(init, "init", STARTS)
    width = count(width, "width")
    line = least_squares(checked_dataset(dataset))
    if line.loss <= FITTED * float(np.mean(dataset.targets**2)):
        raise InvalidInputError("dataset: the least-squares line fits it: there is nothing to leave")
    make = getattr(initialize, init)

    flows = 0

    def stays(scale: float) -> bool:
        nonlocal flows
        start: ReLUNetwork = make(width, dataset.dimension, init_scale=scale, seed=seed)
        record, done = Record.geometric(2, networks=False), flows
        shown = None if progress is None else lambda share: progress(done + share)
        run, flows = gradient_flow(start, dataset, until=until, record=record, progress=shown), done + 1
        return bool(run.losses[-1] > LEFT * line.loss)

    return stays


@dataclass(frozen=True)
class Transition:
    """For every start the ratios ε between which a flow stops following its limit: it does at low, not at
    high.

    suggested: the ε of `landscape.timescales` for each.
    """

    starts: tuple[CriticalScale, ...]
    suggested: tuple[float, ...]

    def share(self, epsilon: float) -> tuple[float, float]:
        """Return the least and the largest share of starts that may follow the limit at a ratio."""
        ratio, many = positive(epsilon, "epsilon"), len(self.starts)
        surely = sum(one.low >= ratio for one in self.starts)
        perhaps = sum(one.high > ratio for one in self.starts)
        return surely / many, perhaps / many

    @property
    def median(self) -> CriticalScale:
        """Between which ratios the transition of the middle start lies: half of them follow at low."""
        lows, highs = (np.sort([getattr(one, side) for one in self.starts]) for side in ("low", "high"))
        middle = (len(lows) - 1) // 2
        return CriticalScale(float(lows[middle]), float(highs[middle]))

    def text(self) -> str:
        """Return a line for the whole and one for every start."""
        rows = [f"half of {len(self.starts)} starts follow the limit up to ε = {self.median}"]
        rows += [
            f"  start {i}: ε = {one} (suggested {ratio:.1g})"
            for i, (one, ratio) in enumerate(zip(self.starts, self.suggested, strict=True))
        ]
        return "\n".join(rows)

    __str__ = text


def transition_in_epsilon(
    starts: Sequence[Network],
    target: Target | Dataset,
    *,
    until: float,
    smallest: float = 1e-4,
    largest: float = 1.0,
    halvings: int = 5,
    within: float = 0.05,
    progress: Progress | None = None,
) -> Transition:
    """Return between which ratios ε the flows from some starts stop following the two-timescale limit.

    A flow follows if at the slow time `until` (and ten times the fast phase T₀ more, so that what is
    missing is not late) it has found what the limit has: for steps against a target, a neuron within its
    sharpness of every jump at which the limit has one; for all others a loss that is at most `within` of
    the limit's first loss above the limit's. halvings: of [smallest, largest], on a logarithmic axis,
    taking it that there is one change. [two_timescale] Fig. 8 has three ratios and names ε ≈ 0.1.

    Examples
    --------
    >>> from shallowflow.data.dataset import PiecewiseConstant
    >>> starts = [initialize.uniform_positions(6, sharpness=0.03, seed=seed) for seed in range(3)]
    >>> found = transition_in_epsilon(starts, PiecewiseConstant([0.5], [0.0, 1.0]), until=1.0, halvings=1)
    >>> found.share(1e-4)
    (1.0, 1.0)
    """
    until, halvings = positive(until, "until"), count(halvings, "halvings")
    low, high, part = positive(smallest, "smallest"), positive(largest, "largest"), positive(within, "within")
    if low >= high:
        raise InvalidInputError(f"smallest: must be below largest, got {low:g} and {high:g}")
    if not starts:
        raise InvalidInputError("starts: must be at least one network, got none")
    found, suggested = list[CriticalScale](), list[float]()
    for done, network in enumerate(starts):
        follows, epsilon = _follower(network, target, until, part)
        found.append(bisected(follows, low, high, halvings))
        suggested.append(epsilon)
        if progress is not None:
            progress((done + 1) / len(starts))
    return Transition(tuple(found), tuple(suggested))


def bisected(holds: Callable[[float], bool], low: float, high: float, halvings: int) -> CriticalScale:
    """Return where something that holds for small numbers ceases to, on a logarithmic axis."""
    if not holds(low):
        return CriticalScale(0.0, low)
    if holds(high):
        return CriticalScale(high, np.inf)
    for _ in range(halvings):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return CriticalScale(low, high)


def _follower(
    network: Network, target: Target | Dataset, until: float, within: float
) -> tuple[Callable[[float], bool], float]:
    """Return whether the flow of a ratio has found what the limit has, and the ratio that is suggested."""
    scales = timescales(network, target)
    limit = two_timescale_limit(network, target, until=until)
    options: Any = {"record": Record.geometric(2)}

    def end(epsilon: float) -> Trajectory:
        stop = until / epsilon + 10.0 * scales.fast_time
        if isinstance(target, Dataset):
            return gradient_flow(network, target, until=stop, epsilon=epsilon, **options)
        return population_flow(network, target, until=stop, epsilon=epsilon, stiff=True, **options)

    if isinstance(target, PiecewiseConstant):

        def near(run: Trajectory) -> Bools:
            assert isinstance(run.final, StepNetwork)
            return np.asarray(jump_distances(run.final, target) <= run.final.sharpness)

        covered = near(limit)
        return lambda epsilon: bool(np.all(near(end(epsilon))[covered])), scales.epsilon
    most = float(limit.losses[-1] + within * limit.losses[0])
    return lambda epsilon: bool(end(epsilon).losses[-1] <= most), scales.epsilon
